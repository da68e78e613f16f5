"""Table and plot of the toy world, from its JSON alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from visual_dynamics.files import write_atomically
from visual_dynamics.provenance import short_commit
from visual_dynamics.reporting.base import Headline
from visual_dynamics.reporting.drawing import listed

MODELS = {
    "deterministic": "(b) deterministic prediction",
    "prior": "(c) motion prior",
    "conditional": "(d) conditional model",
}
REFERENCES = {"mixture": "both true laws mixed", "floor": "floor (truth against truth)"}
COLOURS = {"circle": ("Reds", "red"), "square": ("Greens", "green")}  # the paper's


def draw(result: dict[str, Any], folder: Path) -> str:
    """The plot into `folder`; returns table and notes as Markdown."""
    plot(result, folder / "toy.png")
    text = f"### The toy world of circles and squares\n\n{table(result)}\n\n{notes(result)}\n"
    write_atomically(folder / "toy.md", text.encode())
    return text


def headline(result: dict[str, Any]) -> Headline:
    ours, floor = (listed([result["kl"][name][o] for o in COLOURS], 3) for name in ("conditional", "floor"))
    return Headline("KL of motions, nats: circle / square", "no numbers", ours, floor)


def table(result: dict[str, Any]) -> str:
    """A line for each model, then what a perfect prior and a perfect prediction would have."""
    lines = ["| KL(truth \\|\\| prediction), nats | circle | square | deviations of a circle | of a square |"]
    lines.append("|---|---:|---:|---:|---:|")
    true = result["true_deviations"]
    lines.append(f"| (a) truth | | | {_pair(true['circle'])} | {_pair(true['square'])} |")
    for name, title in (MODELS | REFERENCES).items():
        bold = "**" if name == "conditional" else ""
        kl = (f"{bold}{result['kl'][name][o]:.3f}{bold}" for o in COLOURS)
        spread = (_pair(result["deviations"][name][o]) if name in MODELS else "" for o in COLOURS)
        lines.append(f"| {bold}{title}{bold} | {' | '.join((*kl, *spread))} |")
    return "\n".join(lines)


def _pair(values: list[float]) -> str:
    return "({:.2f}, {:.2f})".format(*values)


def notes(result: dict[str, Any]) -> str:
    """What a reader must know to use the numbers."""
    protocol, means = result["protocol"], result["means"]["deterministic"]
    crosses = ", ".join("{} ({:+.3f}, {:+.3f})".format(o, *means[o]) for o in COLOURS)
    return (
        f"{protocol['samples']:,} training pairs, {protocol['steps']:,} steps of {protocol['batch']}; "
        f"{protocol['drawn']:,} motions an object and model against as many true ones; "
        f"{protocol['bins']}x{protocol['bins']} bins on [-{protocol['range']:g}, {protocol['range']:g}]; zero-bin "
        f"epsilon {protocol['epsilon']:g}, which sets the figures of (b): all its motions lie in one bin. "
        f"(b) predicts: {crosses}. (c) is {result['kl_prior_to_mixture']:.3f} from both true laws mixed. "
        f"p(v | z) has a fixed deviation of {protocol['sigma']:g}, drawn with every motion. The paper has no numbers "
        f"here. Seed {result['seed']}, commit {short_commit(result['commit'])}, {result['device']}, "
        f"{result['seconds']:.0f} s."
    )


def plot(result: dict[str, Any], path: Path) -> None:
    """Truth and the three models side by side, a row for each object, as the last row of the paper's figure."""
    import io

    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    limit = result["protocol"]["range"]
    brightest = np.sqrt(max(np.max(result["histograms"]["truth"][o]) for o in COLOURS))
    figure = Figure(figsize=(11, 6), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(2, 1 + len(MODELS), sharex=True, sharey=True)
    for row, (kind, (shades, colour)) in zip(panels, COLOURS.items(), strict=True):
        for axis, (name, title) in zip(row, ({"truth": "(a) truth"} | MODELS).items(), strict=True):
            # histograms are indexed [x, y]; pictures have rows first. Square roots show the tails.
            values = np.zeros((1, 1)) if name == "deterministic" else np.array(result["histograms"][name][kind]).T
            area = (-limit, limit, -limit, limit)
            axis.imshow(np.sqrt(values), cmap=shades, vmin=0, vmax=brightest, extent=area, origin="lower")
            if name == "deterministic":
                axis.plot(*result["means"][name][kind], "x", color=colour, markersize=10, markeredgewidth=2)
            axis.set_title(f"{kind}, {title}", fontsize=9)
            measure, row_name = ("floor", "floor") if name == "truth" else ("KL", name)
            label = f"{measure} {result['kl'][row_name][kind]:.2f}"
            axis.text(0.96, 0.04, label, transform=axis.transAxes, ha="right", fontsize=9)
            axis.tick_params(labelsize=8)
    for axis in panels[-1]:
        axis.set_xlabel("$v_x$", fontsize=9)
    for axis in panels[:, 0]:
        axis.set_ylabel("$v_y$", fontsize=9)
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=110)
    write_atomically(path, stream.getvalue())
