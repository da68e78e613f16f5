"""Motions of true and sampled futures; of the authors' own pairs where they are at hand."""

import csv
import io
import itertools
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
from visual_dynamics.evaluation.shape_masks import segment_shapes
from visual_dynamics.evaluation.shapes import (
    Enlarged,
    Extent,
    Remembering,
    ShapeImages,
    generated_bench,
    generated_images,
    pairs_bench,
    sampled_motions,
    true_motions,
)
from visual_dynamics.model.network import VisualDynamics
from visual_dynamics.sampling.predictor import Predictor

AUTHORS = Path(__file__).parents[2].parent / "shared" / "data" / "shapes"
CPU = torch.device("cpu")


def quiet(share: float) -> None:
    pass


def test_true_motions_come_image_by_image() -> None:
    scenes, images = generated_images(6, "smooth", 1, CPU)
    found = true_motions(scenes, "smooth", images, 3, 7, quiet).view(6, 3, 3, 2)
    for number in range(3):
        drawn = torch.tensor(scenes.with_new_motions(70_000 + number).motions).float() / 2  # pixels at 64
        error = (found[:, number] - drawn).abs()
        assert error[error.isfinite()].median() < 0.1 and error.isfinite().float().mean() > 0.8


@pytest.mark.parametrize("rendering", ["smooth", "integer"])
def test_the_floor_of_generated_images_has_the_sizes_of_a_row(rendering: shapes.Rendering) -> None:
    bench = generated_bench(rendering, Extent(images=4, samples=12, seed=2), CPU, quiet)
    sampled = sampled_motions(Copy(), bench.images, bench.floor.each, 0, quiet)
    assert bench.sizes == {"truth": 12, "floor_truth": 12, "floor": len(sampled)} and bench.floor.images == 4
    assert not torch.equal(bench.floor.displacements.nan_to_num(), bench.floor_truths[0].displacements.nan_to_num())
    more = generated_bench(rendering, Extent(images=4, samples=12, seed=2, truths=5), CPU, quiet)
    assert more.sizes == {"truth": 20, "floor_truth": 20, "floor": 12} and more.truth.images == 4


def test_the_floor_of_pairs_has_the_sizes_of_a_row_and_none_of_their_motions() -> None:
    pairs = shapes.shapes_pairs(9, seed=3, split="test", size=128)
    bench = pairs_bench("pairs", pairs, Extent(images=4, samples=12, seed=2), CPU, quiet)
    sampled = sampled_motions(Copy(), bench.images, bench.floor.each, 0, quiet)
    assert bench.sizes == {"truth": 9, "floor_truth": 9, "floor": 12} and len(sampled) == 12
    assert (bench.truth.images, bench.floor.images) == (9, 4)
    assert [each.images for each in bench.floor_truths] == [9] * 8
    sets = [
        {tuple(row) for row in each.displacements[:, 1:].flatten(1).nan_to_num().tolist()}
        for each in (bench.truth, bench.floor, *bench.floor_truths)
    ]
    assert all(len(one & other) <= 2 for one, other in itertools.combinations(sets, 2))  # on a grid some are alike
    halved = pairs.resized(64).batch(torch.arange(9))
    assert torch.equal(bench.images.frames, halved.frame[:4])


def test_each_image_and_each_future_has_a_seed_of_its_own() -> None:
    """The same z for all images would make one image's luck that of all."""

    class Spy:
        def __init__(self) -> None:
            self.seeds: list[int] = []

        def sample(self, frame: Tensor, seeds: list[int]) -> Tensor:
            self.seeds += seeds
            return frame.repeat(len(seeds), 1, 1, 1)

    _, images = generated_images(5, "smooth", 1, CPU)
    spy = Spy()
    sampled_motions(spy, images, 4, 3, quiet)
    assert len(spy.seeds) == len(set(spy.seeds)) == 20


def test_truth_measured_twice_is_close() -> None:
    """The floor of the table is small where there are samples enough."""
    scenes = shapes.draw_scenes(40, 1, "test")
    images = ShapeImages(shapes.images(scenes).float() / 255, shapes.masks(scenes).visible)
    one, two = (true_motions(scenes, "integer", images, 12, seed, quiet) for seed in (1, 2))
    assert motion_table(one, two)["squares"] < 0.6
    assert motion_correlations(one)["circle_triangle"] > 0.97


def test_copies_do_not_move() -> None:
    shares: list[float] = []
    _, images = generated_images(5, "smooth", 1, CPU)
    moved = sampled_motions(Copy(), images, 600, 0, shares.append)  # one image a group
    assert moved.shape == (3000, 3, 2) and moved.nan_to_num(0).abs().max() == 0
    assert shares == [0.2, 0.4, 0.6, 0.8, 1.0]


def test_an_image_is_encoded_once_for_several_sources(tiny_network: VisualDynamics) -> None:
    plain, frames = Predictor(tiny_network), torch.rand(3, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    kept, z = Remembering(plain, 2), torch.randn(2, tiny_network.config.latent, generator=torch.Generator())
    first = kept.encode_image(frames[0])
    assert torch.equal(kept.decode(first, z), plain.decode(plain.encode_image(frames[0]), z))
    assert kept.encode_image(frames[0].clone()) is first and kept.encode_image(frames[1]) is not first
    kept.encode_image(frames[2])  # the first is the oldest: it goes
    assert len(kept.encoded) == 2 and kept.encode_image(frames[0]) is not first


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
