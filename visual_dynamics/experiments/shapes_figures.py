"""Table and plot of the Shapes experiment, from its JSON alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from visual_dynamics.evaluation import motion_distribution as motion
from visual_dynamics.files import write_atomically
from visual_dynamics.provenance import short_commit
from visual_dynamics.reporting.base import Headline
from visual_dynamics.reporting.drawing import listed

TITLES = {
    "circles": "Circles",
    "squares": "Squares",
    "triangles": "Triangles",
    "circles_triangles": "Circles-Triangles",
}
SETS = {
    "generated": "generated test images",
    "whole_pixels": "generated test images, drawn at whole pixels",
    "authors": "the authors' pairs",
}
MODELS = {"generated": "weights", "whole_pixels": "integer_weights", "authors": "integer_weights"}


def histograms(displacements: Tensor) -> dict[str, list[list[float]]]:
    """The four histograms of the table, rounded, as JSON."""
    found = {name: motion.histogram(displacements[:, index]) for index, name in enumerate(motion.SHAPES)}
    found["circles_triangles"] = motion.joint_histogram(displacements)
    return {name: np.round(values.numpy(), 7).tolist() for name, values in found.items()}


def headline(result: dict[str, Any]) -> Headline:
    rows = result["sets"]["generated"]["rows"]
    ours, floor = (listed([rows[name][column] for column in result["columns"]], 2) for name in ("ours", "floor"))
    names = " / ".join(TITLES[column].lower() for column in result["columns"])
    return Headline(f"KL of motions, nats: {names}", listed(result["paper"]["ours"], 2), ours, floor)


def table(result: dict[str, Any], name: str) -> str:
    """One set of images as a Markdown table: rows of the paper, of this project, and the floor."""
    measured = result["sets"][name]
    lines = ["| KL(truth \\|\\| prediction), nats | " + " | ".join(TITLES[c] for c in result["columns"]) + " |"]
    lines.append("|---|" + "---:|" * len(result["columns"]))
    for method, values in result["paper"].items():
        lines.append(f"| {method}, paper | " + " | ".join(f"{v:.2f}" for v in values) + " |")
    for method, row in measured["rows"].items():
        if method != "floor":
            lines.append(_row(method, row, result["columns"]))
    lines.append(_row("floor (truth against truth)", measured["rows"]["floor"], result["columns"]))
    return "\n".join(lines)


def _row(method: str, row: dict[str, float], columns: list[str]) -> str:
    bold = "**" if method == "ours" else ""
    return f"| {bold}{method}{bold} | " + " | ".join(f"{bold}{row[c]:.2f}{bold}" for c in columns) + " |"


def notes(result: dict[str, Any], name: str) -> str:
    """What a reader must know to use the numbers."""
    measured, protocol = result["sets"][name], result["protocol"]
    found = measured["correlations"]["ours"]
    images = "" if name == "authors" else f"{protocol['images']} "
    return (
        f"{measured['samples']:,} samples on {images}{SETS[name]}; {protocol['bins']}x{protocol['bins']} bins on "
        f"[-{protocol['range']:g}, {protocol['range']:g}] px at {protocol['size']}x{protocol['size']}; "
        f"zero-bin epsilon {protocol['epsilon']:g}; {protocol['meter']}. "
        f"Correlation of sampled motions: circle-triangle {found['circle_triangle']:.3f}, "
        f"circle-square {found['circle_square']:.3f}. Seed {result['seed']}, weights {result[MODELS[name]][:12]}, "
        f"commit {short_commit(result['commit'])}, {result['device']}, {result['seconds']:.0f} s."
    )


def draw(result: dict[str, Any], folder: Path) -> str:
    """Plots into `folder`; returns tables and notes as Markdown."""
    parts = []
    for name in result["sets"]:
        plot(result, name, folder / f"shapes_{name}.png")
        parts.append(f"### {SETS[name].capitalize()}\n\n{table(result, name)}\n\n{notes(result, name)}\n")
    found = result["analogies"]
    parts.append(
        f"Squared error of a frame when one scene's motion code moves another scene: {found['analogy']:.1f}; its own "
        f"scene: {found['reconstruction']:.1f}; nothing moved: {found['copy']:.1f}.\n"
    )
    text = "\n".join(parts)
    write_atomically(folder / "shapes.md", text.encode())
    return text


def plot(result: dict[str, Any], name: str, path: Path) -> None:
    """True and predicted distributions side by side, as in the paper's figure."""
    import io

    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    drawn = result["sets"][name]["histograms"]
    limit = result["protocol"]["range"]
    figure = Figure(figsize=(11, 5.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, 4, sharex=True, sharey=True)
    for row, (source, title) in zip(axes, (("truth", "ground truth"), ("ours", "our samples")), strict=True):
        for axis, column in zip(row, result["columns"], strict=True):
            # histograms are indexed [x, y]; pictures have rows first. y points down, as in the image.
            values = np.array(drawn[source][column]).T
            axis.imshow(np.sqrt(values), cmap="magma", extent=(-limit, limit, limit, -limit), interpolation="nearest")
            axis.set_title(f"{TITLES[column]}, {title}", fontsize=9)
            joint = column == "circles_triangles"
            axis.set_xlabel("circle dy (px)" if joint else "dx (px)", fontsize=8)
            axis.set_ylabel("triangle dx (px)" if joint else "dy (px)", fontsize=8)
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=110)
    write_atomically(path, stream.getvalue())
