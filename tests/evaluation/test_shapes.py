"""Shapes found in pictures drawn here, and in the authors' own where they are at hand; motions of their futures."""

import csv
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from visual_dynamics.baselines import Copy
from visual_dynamics.data import shapes
from visual_dynamics.evaluation.motion_distribution import measure_displacement, motion_correlations, motion_table
from visual_dynamics.evaluation.shapes import (
    Enlarged,
    ShapeImages,
    generated_images,
    sampled_motions,
    segment_shapes,
    true_motions,
)

AUTHORS = Path(__file__).parents[2].parent / "shared" / "data" / "shapes"
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


def test_truth_measured_twice_is_close() -> None:
    """The floor of the table is small where there are samples enough."""
    scenes = shapes.draw_scenes(40, 1, "test")
    images = ShapeImages(shapes.images(scenes).float() / 255, shapes.masks(scenes).visible)
    one, two = (true_motions(scenes, "integer", images, 12, seed, lambda share: None) for seed in (1, 2))
    assert motion_table(one, two)["squares"] < 0.6
    assert motion_correlations(one)["circle_triangle"] > 0.97


def test_copies_do_not_move() -> None:
    shares: list[float] = []
    _, images = generated_images(5, "smooth", 1, torch.device("cpu"))
    moved = sampled_motions(Copy(), images, 600, 0, shares.append)  # one image a group
    assert moved.shape == (3000, 3, 2) and moved.nan_to_num(0).abs().max() == 0
    assert shares == [0.2, 0.4, 0.6, 0.8, 1.0]


def test_a_small_network_is_measured_at_the_usual_size() -> None:
    class Copies:
        def sample(self, frame: torch.Tensor, seeds: list[int]) -> torch.Tensor:
            assert frame.shape == (3, 16, 16)
            return frame.expand(len(seeds), -1, -1, -1)

    frame = torch.full((3, 64, 64), 0.25)
    made = Enlarged(Copies(), 16).sample(frame, [1, 2])
    assert made.shape == (2, 3, 64, 64) and torch.allclose(made, frame)


@pytest.fixture(scope="module")
def measured() -> tuple[Tensor, Tensor]:
    """Measured at 64 px and listed displacements of 300 of the authors' pairs, (300, 3, 2) each, pixels at 64."""
    with (AUTHORS / "motion.csv").open() as file:
        rows = [row for row, _ in zip(csv.DictReader(file), range(300), strict=False)]
    pictures = []
    with zipfile.ZipFile(AUTHORS / "pairs.zip") as archive:
        for row in rows:
            for name in (f"{row['id']}_im1.webp", f"{row['id']}_im2.webp"):
                pictures.append(np.asarray(Image.open(io.BytesIO(archive.read(name))).convert("RGB")))
    frames, futures = torch.tensor(np.stack(pictures)).permute(0, 3, 1, 2).unflatten(0, (-1, 2)).unbind(1)

    def halve(x: Tensor) -> Tensor:
        return F.interpolate(x.float(), scale_factor=0.5, mode="area")

    masks = halve(segment_shapes(frames))
    found = measure_displacement(halve(frames).round() / 255, masks, halve(futures).round() / 255)
    listed = torch.zeros(len(rows), 3, 2)
    for k, axis, name in ((0, 1, "circle_dy"), (1, 0, "square_dx"), (2, 0, "triangle_dx"), (2, 1, "triangle_dy")):
        listed[:, k, axis] = torch.tensor([float(row[name]) for row in rows]) / 2
    return found, listed


@pytest.mark.skipif(not AUTHORS.exists(), reason="the authors' pairs are not here")
class TestAuthorsPairs:
    """They are drawn at whole pixels of 128, so what was drawn is what is listed, rounded up or down, halved.

    The three corners of a triangle are rounded each for itself: the triangle as a whole moves by something in between.
    """

    def test_accuracy(self, measured: tuple[Tensor, Tensor]) -> None:
        found, listed = measured
        low, high = (2 * listed).floor() / 2, (2 * listed).ceil() / 2
        error = torch.minimum((found - low).abs(), (found - high).abs()).norm(dim=2)
        error[:, 2] = (torch.relu(low - found) + torch.relu(found - high)).norm(dim=2)[:, 2]
        for k in range(3):
            known = error[:, k][error[:, k].isfinite()]
            assert len(known) > 0.9 * len(error)
            assert known.median() < 0.05
            assert known.quantile(0.95) < 0.13
            assert (known > 0.25).float().mean() < 0.03

    def test_each_kind_moves_by_its_own_law(self, measured: tuple[Tensor, Tensor]) -> None:
        """A mistaken kind would show: circle, square and triangle move in different directions."""
        found, listed = measured
        away = (found - listed).abs().amax(2)
        away = away[away.isfinite()]
        assert (away <= 0.55).float().mean() > 0.98

    def test_correlations(self, measured: tuple[Tensor, Tensor]) -> None:
        found = motion_correlations(measured[0])
        assert found["circle_triangle"] > 0.98
        assert abs(found["circle_square"]) < 0.2
