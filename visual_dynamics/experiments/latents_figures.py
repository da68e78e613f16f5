"""Tables and figure of the latents experiment, from its JSON alone."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from visual_dynamics.files import write_atomically
from visual_dynamics.provenance import short_commit
from visual_dynamics.reporting.paper_items import Headline

ROWS = {"z_mean": "z mean", "z_logvar": "z log-variance"}  # of the figure, as in the paper's
LISTED = 32  # dimensions in a table, the strongest
LIMIT = -20.0  # of log-variances: the motion encoder gives no lower ones
BLUE = "#3b6fd4"


def draw(result: dict[str, Any], folder: Path) -> str:
    """The figure into `folder`; returns tables and notes as Markdown."""
    plot(result["sets"], folder / "latents.png")
    parts = ["### How much of z is used", table(result), notes(result)]
    for name, found in result["sets"].items():
        parts += [f"### {name}, by dimension", dimensions(found)]
    text = "\n\n".join(parts) + "\n"
    write_atomically(folder / "latents.md", text.encode())
    return text


def headline(result: dict[str, Any]) -> Headline:
    sets = result["sets"]
    ours = " / ".join(f"{found['components']} (z of {found['latent']:,})" for found in sets.values())
    paper = " / ".join(str(result["paper"]["components"][name]) for name in sets)
    return Headline(f"dominating PCA components: {' / '.join(sets)}", f"{paper} (z of 3,200)", ours, "none")


def table(result: dict[str, Any]) -> str:
    """The paper's table with a column for each of our models."""
    paper, sets = result["paper"], result["sets"]
    names = [f"{name}, paper" for name in paper["non_zero"]] + [f"**{name}, ours**" for name in sets]
    lines = [f"| | {' | '.join(names)} |", f"|---|{'---:|' * len(names)}"]

    def row(words: str, quoted: list[Any], ours: list[Any]) -> None:
        lines.append(f"| {words} | {' | '.join(str(value) for value in quoted + ours)} |")

    unknown = [""] * len(paper["non_zero"])
    row("dimensions of z", [f"{paper['latent']:,}"] * len(unknown), [f"{found['latent']:,}" for found in sets.values()])
    row("non-zero elements in z_mean", [*paper["non_zero"].values()], [found["non_zero"] for found in sets.values()])
    row("dominating PCA components", [*paper["components"].values()], [found["components"] for found in sets.values()])
    row(f"active (KL above {result['protocol']['active_nats']:g} nats)", unknown, [s["active"] for s in sets.values()])
    row("KL in all, nats", unknown, [f"{found['nats_in_all']:.1f}" for found in sets.values()])
    return "\n".join(lines)


def notes(result: dict[str, Any]) -> str:
    """What a reader must know to use the numbers."""
    protocol, small = result["protocol"], result["paper"]["components_by_size"]
    parts = [
        f"Non-zero: {protocol['non_zero']} (the paper names no threshold). "
        f"Dominating: the fewest components that hold {100 * protocol['share']:g} % of the variance of z_mean; "
        f"the paper's ablation has {small['8']} on Shapes with a z of 8, {small['128']} with one of 128."
    ]
    for name, found in result["sets"].items():
        counts = ", ".join(f"{count} above {limit}" for limit, count in found["non_zero_by_threshold"].items())
        shares = ", ".join(f"{100 * share:.0f}" for share in np.cumsum(found["component_shares"])[:LISTED])
        parts.append(
            f"{name}: {found['pairs']:,} unseen pairs, model {found['model']}, weights {found['weights'][:12]}; "
            f"non-zero by threshold: {counts}; components hold together {shares} % of the variance; "
            f"inactive dimensions: {', '.join(map(str, found['inactive'][:LISTED])) or 'none'}."
        )
        if at_limit := sum(centre <= LIMIT + 0.01 for centre in found["z_logvar"]["centre"]):
            parts.append(
                f"{at_limit} of its log-variances lie at the motion encoder's limit of {LIMIT:g}: such a dimension is "
                "as good as certain, and its KL is what that limit makes of it."
            )
    parts.append(
        f"Seed {result['seed']}, commit {short_commit(result['commit'])}, {result['device']}, "
        f"{result['seconds']:.0f} s."
    )
    return " ".join(parts)


def dimensions(found: dict[str, Any]) -> str:
    """Each dimension, the most informative first: mean and deviation over the pairs."""
    order = sorted(range(found["latent"]), key=lambda place: -found["nats"][place])[:LISTED]
    lines = ["| dimension | KL, nats | z_mean | z_logvar |", "|---:|---:|---:|---:|"]
    for place in order:
        mean, log_variance = (
            f"{found[row]['centre'][place]:.2f} ± {found[row]['deviation'][place]:.2f}" for row in ROWS
        )
        lines.append(f"| {place} | {found['nats'][place]:.4f} | {mean} | {log_variance} |")
    return "\n".join(lines)


def plot(sets: dict[str, Any], path: Path) -> None:
    """Mean ± deviation of z_mean above and of z_logvar below, a vertical line a dimension, a column a model."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(0.6 + 4.2 * len(sets), 5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(ROWS), len(sets), sharex="col", squeeze=False)
    for column, (name, found) in enumerate(sets.items()):
        places = np.arange(found["latent"])
        width = float(np.clip(130 / found["latent"], 0.6, 9))  # points
        for axis, (row, label) in zip(axes[:, column], ROWS.items(), strict=True):
            centre, deviation = (np.array(found[row][part]) for part in ("centre", "deviation"))
            axis.axhline(0, color="0.7", linewidth=0.8, zorder=1)  # the prior's
            axis.vlines(places, centre - deviation, centre + deviation, color=BLUE, linewidth=width, zorder=2)
            axis.plot(places, centre, "_", color="black", markersize=width + 3, zorder=3)
            axis.set_ylabel(label if column == 0 else "", fontsize=9)
            axis.set_xlim(-0.7, found["latent"] - 0.3)
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes[0, column].set_title(f"{name}: {found['active']} of {found['latent']:,} dimensions active", fontsize=10)
        axes[-1, column].set_xlabel("dimension of z", fontsize=9)
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=130)
    write_atomically(path, stream.getvalue())
