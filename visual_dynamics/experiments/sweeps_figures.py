"""Tables and figures of the sweeps experiment, from its JSON alone."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from visual_dynamics.experiments.latents import BLUE, ROWS
from visual_dynamics.experiments.shapes import TITLES
from visual_dynamics.files import write_atomically
from visual_dynamics.provenance import short_commit
from visual_dynamics.reporting.base import Headline
from visual_dynamics.reporting.drawing import listed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("tab:red", "tab:orange", "tab:green", BLUE)


def draw(result: dict[str, Any], folder: Path) -> str:
    """Both figures into `folder`; returns tables and notes as Markdown."""
    plot_weights(result, folder / "sweeps_lambda.png")
    plot_sizes(result, folder / "sweeps_size.png")
    commands = "\n".join(run["command"] for run in result["runs"].values())
    text = "\n\n".join(
        [
            "### Weights of the KL term",
            weights_table(result),
            "### Sizes of z",
            sizes_table(result),
            notes(result),
            "### The trainings",
            f"```\n{commands}\n```\n",
        ]
    )
    write_atomically(folder / "sweeps.md", text.encode())
    return text


def headline(result: dict[str, Any]) -> Headline:
    """Of the sizes; the weights of the KL term are a figure without numbers in the paper."""
    runs = [result["runs"][name] for name in result["sizes"]]
    sizes = " / ".join(f"{run['latent']:,}" for run in runs)
    paper = " / ".join(_paper_components(result, run) or "no number" for run in runs)
    ours = " / ".join(str(run["components"]) for run in runs)
    return Headline(f"dominating PCA components with a z of {sizes}", paper, ours, "none")


def _paper_components(result: dict[str, Any], run: dict[str, Any]) -> str:
    return str(result["paper"]["components_by_size"].get(str(run["latent"]), ""))


def sizes_table(result: dict[str, Any]) -> str:
    heads = ["dimensions of z", "PCA components, paper", "**PCA components, ours**", *_heads(result)]
    rows = [
        [f"{run['latent']:,}", _paper_components(result, run), f"**{run['components']}**", *_cells(result, run)]
        for run in (result["runs"][name] for name in result["sizes"])
    ]
    return _table(heads, rows)


def weights_table(result: dict[str, Any]) -> str:
    heads = ["weight of the KL term", "beta", "PCA components", *_heads(result)]
    rows = [
        [f"{run['kl_weight']:g}", f"{run['bottleneck']:g}", str(run["components"]), *_cells(result, run)]
        for run in (result["runs"][name] for name in result["kl_weights"])
    ]
    return _table(heads, rows)


def _heads(result: dict[str, Any]) -> list[str]:
    active = f"active (KL above {result['protocol']['active_nats']:g} nats)"
    names = " / ".join(TITLES[column].lower() for column in result["columns"])
    errors = ["squared error, training", "held out"]
    motion = [f"KL of motions, nats: {names}", "posteriors in the file"]
    return ["non-zero", active, "KL in all, nats", *errors, *motion, "seconds", "pairs a second"]


def _cells(result: dict[str, Any], run: dict[str, Any]) -> list[str]:
    return [
        f"{run['non_zero']:,}",
        f"{run['active']:,}",
        f"{run['nats_in_all']:.1f}",
        f"{run['training_error']:.2f}",
        f"{run['held_out_error']:.2f}",
        listed([run["kl"][column] for column in result["columns"]], 2),
        f"{run['posteriors']:,}",
        f"{run['seconds']:,.0f}",
        f"{run['pairs_per_second']:,.0f}",
    ]


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---:"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def notes(result: dict[str, Any]) -> str:
    """What a reader must know to use the numbers."""
    protocol, runs = result["protocol"], list(result["runs"].values())
    floor = listed([result["floor"][column] for column in result["columns"]], 2)
    makers = sorted({f"{by['device']}, commit {short_commit(by['commit'] or 'unknown')}" for by in _makers(runs)})
    return (
        f"Non-zero: {protocol['non_zero']}; components hold {100 * protocol['share']:g} % of the variance of z_mean; "
        f"both from {protocol['pairs']:,} unseen pairs. Weight of the KL term: at the end, against the squared error. "
        f"Squared errors are summed over pixels and colours; held out: {protocol['held_out']:,} pairs, z is sampled "
        f"as in training, {result['copy_error']:.1f} where nothing is moved; training: the last tenth of the steps. "
        f"Motion: {protocol['samples']:,} futures of {protocol['images']:,} images, z from the posteriors in the file; "
        f"floor (truth against truth) {floor}. {runs[0]['steps']:,} steps each; seconds are of the training, after its "
        f"first step: trainings that run side by side slow each other down. Trained on {'; '.join(makers)}. "
        f"Seed {result['seed']}, measured at commit {short_commit(result['commit'])}, {result['device']}, "
        f"{result['seconds']:.0f} s."
    )


def _makers(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [run["trained_by"] for run in runs]


def plot_weights(result: dict[str, Any], path: Path) -> None:
    """Mean ± deviation of z_mean above and of z_logvar below, a column a weight; at the right, how sparse z is."""
    runs = [result["runs"][name] for name in result["kl_weights"]]
    figure = _new_figure(13.5, 4.4)
    grid = figure.add_gridspec(2, len(runs) + 1, width_ratios=[*([1] * len(runs)), 1.15])
    for row, (part, label) in enumerate(ROWS.items()):
        first = None
        for column, run in enumerate(runs):
            axis = figure.add_subplot(grid[row, column], sharey=first)  # to be compared with one another
            first = first or axis
            _draw_intervals(axis, run[part], result["protocol"]["unit"])
            axis.tick_params(labelsize=7, labelleft=column == 0, labelbottom=row == 1)
            axis.set_ylabel(label if column == 0 else "", fontsize=9)
            if row == 0:
                axis.set_title(f"KL weighs {run['kl_weight']:g}: {run['non_zero']:,} non-zero", fontsize=9)
            else:
                axis.set_xlabel("dimension of z", fontsize=8)
    axis = figure.add_subplot(grid[:, -1])
    places = [run["kl_weight"] for run in runs]
    for key, label, style in (("non_zero", "non-zero in z mean", "o-"), ("active", "active", "s--")):
        axis.plot(places, [run[key] for run in runs], style, label=label, color=BLUE if key == "non_zero" else "0.5")
    axis.set_xscale("log")
    axis.set_xticks(places, [f"{place:g}" for place in places], fontsize=8)
    axis.minorticks_off()
    axis.set_ylim(bottom=0)
    axis.tick_params(labelsize=8)
    axis.set_xlabel("weight of the KL term", fontsize=8)
    axis.set_title(f"elements of {runs[0]['latent']:,}", fontsize=9)
    axis.legend(fontsize=8)
    _save(figure, path)


def _draw_intervals(axis: Any, values: dict[str, list[int]], unit: float) -> None:
    centre, deviation = (unit * np.array(values[part]) for part in ("centre", "deviation"))
    half = np.maximum(deviation, unit)  # an interval of no height is seen as well
    width = float(np.clip(130 / len(centre), 0.5, 9))  # points
    axis.axhline(0, color="0.7", linewidth=0.8, zorder=1)  # the prior's
    axis.vlines(np.arange(len(centre)), centre - half, centre + half, color=BLUE, linewidth=width, zorder=2)
    axis.set_xlim(-0.5, len(centre) - 0.5)


def plot_sizes(result: dict[str, Any], path: Path) -> None:
    """Squared error of the training batches against steps, a curve for each size of z."""
    from matplotlib.ticker import LogLocator, NullLocator

    figure = _new_figure(6.4, 4.2)
    axis = figure.subplots()
    for name, colour in zip(result["sizes"], COLOURS, strict=False):
        run = result["runs"][name]
        said = _paper_components(result, run)
        label = f"z of {run['latent']:,}: {run['components']} components{f' (paper {said})' if said else ''}"
        axis.plot(run["curve"]["step"], run["curve"]["squared_error"], color=colour, linewidth=1.3, label=label)
    axis.set_yscale("log")
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.yaxis.set_minor_locator(NullLocator())
    axis.yaxis.set_major_formatter("{x:g}")
    axis.grid(color="0.9", linewidth=0.6)
    axis.set_xlabel("training steps", fontsize=9)
    axis.set_ylabel("squared error of a pair, mean of a batch", fontsize=9)
    axis.tick_params(labelsize=8)
    axis.legend(fontsize=8)
    _save(figure, path)


def _new_figure(width: float, height: float) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _save(figure: Figure, path: Path) -> None:
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=110)
    write_atomically(path, stream.getvalue())
