"""Shapes found in pictures drawn here."""

import numpy as np
import pytest
import torch
from torch import Tensor

from visual_dynamics.evaluation.shape_masks import segment_shapes

COLOURS = np.array([[0.8, 0.1, 0.2], [0.15, 0.9, 0.05], [0.2, 0.25, 0.75]])
BACKGROUND = np.array([0.95, 0.75, 0.85])
Spot = tuple[float, float]


def draw(
    circle: Spot | None, square: Spot | None, triangle: Spot | None, colours: np.ndarray = COLOURS, size: int = 128
) -> tuple[Tensor, Tensor]:
    """Picture uint8 (3, H, W) and true visible masks (3, H, W); objects 30 wide, the square on top; None: not there."""
    fine = 4
    place = (np.arange(size * fine) + 0.5) / fine
    x, y = place[None, :], place[:, None]
    nothing = np.zeros((size * fine, size * fine), dtype=bool)
    half = 15 * size / 128
    disc = nothing if circle is None else (x - circle[0]) ** 2 + (y - circle[1]) ** 2 < half**2
    box = nothing if square is None else np.maximum(abs(x - square[0]), abs(y - square[1])) < half
    apex = nothing
    if triangle is not None:
        depth = (y - triangle[1]) / half  # -1 at the wide top, 1 at the apex
        apex = (abs(depth) < 1) & (abs(x - triangle[0]) < half * (1 - depth) / 2)
    seen = np.stack([disc & ~apex & ~box, box, apex & ~box])
    masks = seen.reshape(3, size, fine, size, fine).mean((2, 4))
    picture = BACKGROUND[:, None, None] + np.einsum("kc,khw->chw", colours - BACKGROUND, masks)
    return torch.tensor(np.round(picture * 255)).to(torch.uint8), torch.tensor(masks).float()


SCENES: dict[str, tuple[Spot | None, Spot | None, Spot | None]] = {
    "apart": ((30.2, 30.7), (90.5, 40.1), (60.3, 95.4)),
    "overlapping": ((50.2, 60.7), (64.5, 70.1), (40.3, 45.4)),
    "cut by the frame": ((5.0, 60.0), (124.0, 30.0), (60.0, 4.0)),
    "no circle": (None, (90.5, 40.1), (60.3, 95.4)),
    "no triangle": ((30.2, 30.7), (90.5, 40.1), None),
    "circle behind the square": ((90.5, 40.1), (90.5, 40.1), (60.3, 95.4)),
}


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1], [1, 0, 2]])
def test_masks_of_drawn_scenes(scene: str, order: list[int]) -> None:
    picture, masks = draw(*SCENES[scene], colours=COLOURS[order])
    assert (segment_shapes(picture[None])[0] - masks).abs().max() < 0.03


def test_half_the_size() -> None:
    picture, masks = draw((15.2, 15.7), (45.5, 20.1), (30.3, 47.4), size=64)
    assert (segment_shapes(picture[None])[0] - masks).abs().max() < 0.03


def test_undecidable_gives_empty_masks() -> None:
    """One edge that faces up is the top of a square or of a triangle."""
    picture = torch.full((3, 128, 128), 0.9)
    picture[:, 110:] = torch.tensor([0.9, 0.1, 0.1]).view(3, 1, 1)
    assert segment_shapes(picture[None]).sum() == 0
    picture[:, 110:, 90:] = 0.9  # now it has a right side too
    assert segment_shapes(picture[None])[0].sum((1, 2)).tolist() == pytest.approx([0, 18 * 90, 0], rel=1e-3)


def test_empty_picture_and_no_picture() -> None:
    assert segment_shapes(torch.full((2, 3, 32, 32), 0.8)).sum() == 0
    assert segment_shapes(torch.zeros(0, 3, 32, 32)).shape == (0, 3, 32, 32)
    with pytest.raises(ValueError, match="frames"):
        segment_shapes(torch.zeros(3, 32, 32))


def test_chunk_and_value_range_do_not_matter() -> None:
    pictures = torch.stack([draw(*scene)[0] for scene in SCENES.values()])
    masks = segment_shapes(pictures)
    assert torch.equal(masks, segment_shapes(pictures, chunk=1))
    assert torch.equal(masks, segment_shapes(pictures.float() / 255))
