"""Every table and figure of the paper, in its order, and the experiment that makes it again."""

from __future__ import annotations

from typing import NamedTuple


class Item(NamedTuple):
    name: str  # in the paper
    shows: str
    experiment: str = ""  # in EXPERIMENTS; empty where there is none
    remark: str = ""  # what is not made, or how else to see it
    numbers: bool = True  # whether the headline of the experiment belongs to it


ITEMS = (
    Item("Figure 1", "the idea: many futures of one snapshot", remark="a drawing, no result"),
    Item("Figure 2", "the toy world: three ways to predict the motion of circles and squares", "toy"),
    Item("Figure 3", "the network and its five components", remark="a drawing; its parts are the files of `model/`"),
    Item("Figure 4", "results on Shapes: input, truth, reconstruction, samples", "futures"),
    Item("Figure 5", "Shapes: true and predicted motion of each shape, plot and table", "shapes"),
    Item("Figure 6, left", "results on Sprites: input, truth, reconstruction, samples", "futures-sprites"),
    Item("Figure 6, right", "Sprites: how often people take a future for real", "realism", "a judge instead of people"),
    Item(
        "Figure 7, left",
        "results on Exercise: input, truth, reconstruction, samples",
        "video",
        "on the footage that is given, not the paper's: pictures compare, numbers do not",
    ),
    Item(
        "Figure 7, right",
        "Exercise: how often people take a future for real",
        remark="not made, as it needs people; `reproduce video` asks a judge, whose answers do not compare",
    ),
    Item("Figure 8", "learned layers on Shapes, Sprites and Exercise", "layers", "Shapes only"),
    Item(
        "Figure 9",
        "results on PennAction: input, truth, reconstruction, samples",
        "video",
        "on PennAction where that is the footage given; other pairs of it than the paper's",
        numbers=False,
    ),
    Item("Figure 10", "z by dimension: mean and log-variance", "latents", "without Exercise", numbers=False),
    Item("Table 1", "z: non-zero elements and dominating PCA components", "latents", "without Exercise"),
    Item("Figure 11", "z by dimension, for several weights of the KL term", "sweeps", numbers=False),
    Item("Figure 12", "sizes of z: 8, 32, 128 and 3,200", "sweeps"),
    Item("Figure 13", "what single dimensions of z move", "traversal", "Shapes and Sprites instead of Exercise"),
    Item("Figure 14", "disocclusion on Shapes+Texture", "disocclusion"),
    Item(
        "Figure 15",
        "pictures of visual analogies on Sprites and Exercise",
        "analogy",
        "without Exercise; where sprites are given",
        numbers=False,
    ),
    Item("Table 2", "squared error of visual analogies on Sprites, by animation", "analogy"),
    Item("Figure 16", "clips on Exercise: a sampled motion repeats", "futures", "on Shapes", numbers=False),
)


class Headline(NamedTuple):
    """The one line of a result that stands in an overview."""

    measure: str
    paper: str
    ours: str
    floor: str  # or what else to compare with


def listed(values: list[float | None] | tuple[float | None, ...], digits: int) -> str:
    """Numbers between slashes; "none" for what could not be measured."""
    return " / ".join("none" if value is None else f"{value:.{digits}f}" for value in values)
