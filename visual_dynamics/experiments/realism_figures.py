"""Tables and figure of the realism experiment, from its JSON alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from visual_dynamics.files import write_atomically
from visual_dynamics.provenance import short_commit
from visual_dynamics.reporting.base import Headline
from visual_dynamics.reporting.drawing import listed

PEOPLE = "people, paper"
COLOURS = {"Flow": "tab:orange", "ours": "tab:blue"}


def draw(result: dict[str, Any], folder: Path) -> str:
    """The figure into `folder`; returns tables and notes as Markdown."""
    plot(result, folder / "realism.png")
    text = "\n".join(
        [
            "### How often a judge (a small network) takes the synthetic animation for the real one",
            "",
            table(result),
            "",
            "### The same with synthetic colours snapped to the input's",
            "",
            table(result, snapped=True),
            "",
            "### Only of inputs that no training character shares",
            "",
            unseen_table(result),
            "",
            notes(result),
            "",
        ]
    )
    write_atomically(folder / "realism.md", text.encode())
    return text


def headline(result: dict[str, Any]) -> Headline:
    """With the judges that learned from most."""
    last = [_of_size(result, size, snapped=False)[-1]["rows"] for size in _sizes(result)]
    ours, flow = (listed([100 * rows[name]["share"] for rows in last], 1) for name in ("ours", "Flow"))
    paper = listed([result["paper"]["ours"][str(size)] for size in _sizes(result)], 1)
    sizes = " / ".join(f"{size}x{size}" for size in _sizes(result))
    return Headline(
        f"% taken for real: {sizes}", f"{paper} (people)", f"{ours} (a judge)", f"{flow} (Flow), 50 is best"
    )


def table(result: dict[str, Any], snapped: bool = False) -> str:
    """A line for each setting; after those of a size, what people said of the paper's samples at that size."""
    lines = ["| % fooled (95 % interval) | Flow | **ours** | ours - Flow |", "|---|---:|---:|---:|"]
    for size in _sizes(result):
        for setting in _of_size(result, size, snapped):
            more = setting["ours_minus_flow"]
            cells = [*(_cell(setting["rows"][name]) for name in COLOURS), _signed(more["mean"], more["interval"])]
            lines.append(f"| {size}x{size}, {setting['inputs']:,} training inputs | {' | '.join(cells)} |")
        flow, ours = (result["paper"][name][str(size)] for name in COLOURS)
        lines.append(f"| {size}x{size}, {PEOPLE} | {flow:.1f} | {ours:.1f} | {ours - flow:+.1f} |")
    return "\n".join(lines)


def unseen_table(result: dict[str, Any]) -> str:
    lines = ["| % fooled (95 % interval) | Flow | **ours** |", "|---|---:|---:|"]
    for setting in result["settings"]:
        size, rows, colours = setting["size"], setting["rows"], ", snapped" if setting["snapped"] else ""
        cells = [_cell(rows[name]["unseen"]) if "unseen" in rows[name] else "none" for name in COLOURS]
        lines.append(f"| {size}x{size}, {setting['inputs']:,} training inputs{colours} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(row: dict[str, Any]) -> str:
    low, high = row["interval"]
    return f"{100 * row['share']:.1f} ({100 * low:.1f} to {100 * high:.1f})"


def _signed(mean: float, interval: list[float]) -> str:
    low, high = interval
    return f"{100 * mean:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"


def notes(result: dict[str, Any]) -> str:
    """What a reader must know to use the numbers."""
    protocol = result["protocol"]
    return (
        f"The judge is a trained network, not people; near 50 % it finds no difference. {protocol['split']}; "
        f"{protocol['asked']:,} inputs asked about, {protocol['asked_unseen']:,} of them in no training character; "
        f"mean of {protocol['judges']} judges a setting. Intervals are a bootstrap over "
        f"{protocol['families_asked']} families of characters that share frames. Seed {result['seed']}, "
        f"weights {result['weights'][:12]}, commit {short_commit(result['commit'])}, {result['device']}, "
        f"{result['seconds']:.0f} s."
    )


def plot(result: dict[str, Any], path: Path) -> None:
    """A panel for each size and kind of colours: fooled against training inputs, with intervals; people's answers as
    dashed lines."""
    import io

    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 8), layout="constrained")
    FigureCanvasAgg(figure)
    panels = [(size, snapped) for snapped in (False, True) for size in _sizes(result)]
    axes = figure.subplots(2, len(panels) // 2, sharey=True, squeeze=False).flat
    for axis, (size, snapped) in zip(axes, panels, strict=True):
        settings = _of_size(result, size, snapped)
        counts = [setting["inputs"] for setting in settings]
        axis.axhline(50, color="0.6", linewidth=1, label="no difference")
        for name, colour in COLOURS.items():
            rows = [setting["rows"][name] for setting in settings]
            shares = [100 * row["share"] for row in rows]
            below = [share - 100 * row["interval"][0] for share, row in zip(shares, rows, strict=True)]
            above = [100 * row["interval"][1] - share for share, row in zip(shares, rows, strict=True)]
            # a share that its own bootstrap leaves out by a rounding error would make a bar of negative length
            bars = [[max(0.0, x) for x in side] for side in (below, above)]
            axis.errorbar(counts, shares, yerr=bars, color=colour, marker="o", capsize=3, label=f"{name}, judge")
            said = result["paper"][name][str(size)]
            axis.axhline(said, color=colour, linestyle="--", linewidth=1, label=f"{name}, {PEOPLE}")
        axis.set_xscale("log")
        axis.set_xticks(counts, [f"{count:,}" for count in counts])
        axis.minorticks_off()
        axis.set_ylim(0, 60)
        axis.set_title(f"{size}x{size}{', colours snapped' if snapped else ''}", fontsize=10)
        axis.set_xlabel("inputs that the judge learned from", fontsize=9)
    figure.axes[0].set_ylabel("% fooled", fontsize=9)
    figure.axes[-1].legend(fontsize=8)
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=110)
    write_atomically(path, stream.getvalue())


def _sizes(result: dict[str, Any]) -> list[int]:
    return sorted({setting["size"] for setting in result["settings"]})


def _of_size(result: dict[str, Any], size: int, snapped: bool) -> list[dict[str, Any]]:
    return [each for each in result["settings"] if (each["size"], each["snapped"]) == (size, snapped)]
