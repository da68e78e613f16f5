"""The Shapes generator: its promises, and its pictures against the authors' pictures."""

from __future__ import annotations

import csv
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image
from scipy import stats

from visual_dynamics.data import shapes
from visual_dynamics.data.shapes import CIRCLE, SQUARE, TRIANGLE, Scenes, draw_scenes, images, masks, shapes_pairs

SHARED = Path(__file__).parents[2].parent / "shared"
AUTHORS = SHARED / "data" / "shapes"

# --- promises of the generator ---


def render(scenes: Scenes, moved: bool, rendering: shapes.Rendering = "integer") -> tuple[torch.Tensor, shapes.Masks]:
    return images(scenes, moved, rendering, shapes.SIZE), masks(scenes, moved, rendering, shapes.SIZE)


def same(first: Scenes, second: Scenes) -> bool:
    return all(np.array_equal(values, vars(second)[name]) for name, values in vars(first).items())


def one_scene(anchors: list[list[float]], size: float = 30.0, motion: tuple[float, float] = (0.0, 0.0)) -> Scenes:
    """A scene with pure red circle, green square and blue triangle on white; motion (c, s)."""
    c, s = motion
    return Scenes(
        background=np.ones((1, 3)),
        colours=np.eye(3)[None],
        anchors=np.array([anchors]),
        sizes=np.full((1, 3), size),
        motions=np.array([[[0, c], [s, 0], [c, -c]]]),
    )


APART = [[25.0, 25.0], [70.0, 70.0], [95.0, 50.0]]  # circle centre, square corner, triangle apex: nothing hidden


def centroids(mask: torch.Tensor) -> NDArray[np.float64]:
    """(3, H, W) -> (3, 2): x, y of each object."""
    y, x = torch.meshgrid(*(torch.arange(n, dtype=torch.float64) for n in mask.shape[1:]), indexing="ij")
    weight = mask.double()
    total = weight.sum((1, 2))
    return torch.stack([(weight * x).sum((1, 2)) / total, (weight * y).sum((1, 2)) / total], dim=1).numpy()


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**63), count=st.integers(1, 40), more=st.integers(0, 40))
def test_a_scene_depends_on_seed_and_index_only(seed: int, count: int, more: int) -> None:
    few, many = draw_scenes(count, seed), draw_scenes(count + more, seed)
    assert same(few, many.subset(slice(count)))
    assert same(few, draw_scenes(count, seed))
    assert not same(few, draw_scenes(count, seed, "test"))
    assert not same(few, draw_scenes(count, seed + 1))


def test_pairs_are_repeatable_and_chunks_do_not_show() -> None:
    count = shapes._CHUNK + 3
    first, longer = shapes_pairs(count, 7), shapes_pairs(2 * count, 7)
    assert first.frames.shape == (count, 3, 64, 64)
    assert torch.equal(first.frames, longer.frames[:count])
    assert torch.equal(first.next_frames, longer.next_frames[:count])


def test_train_and_test_share_no_scene() -> None:
    train, test = draw_scenes(2000, 0, "train"), draw_scenes(500, 0, "test")
    assert not set(train.sizes.ravel()) & set(test.sizes.ravel())
    assert not set(train.anchors.ravel()) & set(test.anchors.ravel())
    assert abs(np.corrcoef(train.sizes[:500].ravel(), test.sizes.ravel())[0, 1]) < 0.1


def test_motions_follow_the_law() -> None:
    motions = draw_scenes(5000, 3).motions
    c, s = motions[:, CIRCLE, 1], motions[:, SQUARE, 0]
    assert not motions[:, CIRCLE, 0].any()
    assert not motions[:, SQUARE, 1].any()
    assert np.array_equal(motions[:, TRIANGLE], np.stack([c, -c], 1))
    low, high = shapes.MOTION_RANGE
    for motion in (c, s):
        assert stats.kstest(motion, "uniform", (low, high - low)).pvalue > 0.001
    assert stats.pearsonr(c, s).pvalue > 0.001


def test_anchors_follow_the_law() -> None:
    """Around 64, counted from 1, with a deviation of 19.2; x and y apart."""
    anchors = draw_scenes(5000, 3).anchors
    assert stats.kstest(anchors.ravel(), "norm", (63, 19.2)).pvalue > 0.001
    assert stats.pearsonr(anchors[..., 0].ravel(), anchors[..., 1].ravel()).pvalue > 0.001


def test_new_motions_keep_the_image() -> None:
    scenes = draw_scenes(3, 0).subset([1] * 400)
    futures = scenes.with_new_motions(5)
    assert np.array_equal(futures.anchors, scenes.anchors)
    assert np.array_equal(futures.colours, scenes.colours)
    assert len(np.unique(futures.motions[:, CIRCLE, 1])) == 400
    assert same(futures, scenes.with_new_motions(5))
    assert not same(futures, scenes.with_new_motions(6))
    shift = futures.motions[:, TRIANGLE]
    assert np.array_equal(shift[:, 0], -shift[:, 1])
    assert stats.kstest(futures.motions[:, SQUARE, 0], "uniform", (-10, 20)).pvalue > 0.001


@pytest.mark.parametrize("rendering", ["integer", "smooth"])
@pytest.mark.parametrize("moved", [False, True])
def test_masks_explain_the_image(rendering: shapes.Rendering, moved: bool) -> None:
    """Image = background where no object is seen + each colour where its object is."""
    scenes = draw_scenes(60, 11)
    drawn, (visible, whole) = render(scenes, moved, rendering)
    assert drawn.shape == visible.shape == whole.shape == (60, 3, 128, 128)
    assert drawn.dtype == torch.uint8
    background, colours = torch.from_numpy(scenes.background).float(), torch.from_numpy(scenes.colours).float()
    rest = 1 - visible.sum(1, keepdim=True)
    expected = rest * background[:, :, None, None] + torch.einsum("nohw,noc->nchw", visible, colours)
    assert (drawn - 255 * expected).abs().max() < 0.51  # rounding to 8 bits
    assert visible.min() >= 0
    assert rest.min() > -1e-5
    assert (whole - visible).min() > -1e-5
    assert torch.equal(whole[:, SQUARE], visible[:, SQUARE])  # always on top


def test_draw_order_is_circle_triangle_square() -> None:
    scenes = one_scene([[60.0, 60.0], [60.0, 60.0], [60.0, 75.0]])
    image, (visible, whole) = render(scenes, moved=False)
    assert image[0, :, 70, 70].tolist() == [0, 255, 0]  # all three overlap: square
    assert image[0, :, 55, 60].tolist() == [0, 0, 255]  # circle and triangle: triangle
    assert image[0, :, 60, 50].tolist() == [255, 0, 0]
    assert visible[0, CIRCLE, 55, 60] == 0
    assert whole[0, CIRCLE, 55, 60] == 1


def test_small_masks_are_averages() -> None:
    scenes = draw_scenes(5, 0)
    large, small = masks(scenes, size=128).visible, shapes.masks(scenes).visible
    assert torch.allclose(small, torch.nn.functional.avg_pool2d(large, 2), atol=1e-6)


@settings(max_examples=30, deadline=None)
@given(x=st.floats(40, 41), y=st.floats(60, 61), c=st.floats(-9, 9), s=st.floats(-9, 9))
def test_integer_drawing_shifts_by_whole_pixels(x: float, y: float, c: float, s: float) -> None:
    """The shift of circle and square is round(p + d) - round(p), and the shape stays the same."""
    scenes = one_scene([[x, y], [x + 30, y], [95.0, 50.0]], motion=(c, s))
    before, after = (masks(scenes, moved, "integer", 128).whole[0] for moved in (False, True))
    down = int(np.floor(y + c + 0.5) - np.floor(y + 0.5))
    right = int(np.floor(x + 30 + s + 0.5) - np.floor(x + 30 + 0.5))
    assert torch.equal(after[CIRCLE], before[CIRCLE].roll(down, 0))
    assert torch.equal(after[SQUARE], before[SQUARE].roll(right, 1))
    assert set(before[SQUARE].unique().tolist()) == {0.0, 1.0}


@settings(max_examples=30, deadline=None)
@given(c=st.floats(-9, 9), s=st.floats(-9, 9))
def test_smooth_drawing_moves_by_the_motion_itself(c: float, s: float) -> None:
    scenes = one_scene(APART, motion=(c, s))
    before, after = (centroids(masks(scenes, moved, "smooth", 128).whole[0]) for moved in (False, True))
    assert np.abs(after - before - scenes.motions[0]).max() < 0.01


def test_smooth_shapes_have_their_area_and_place() -> None:
    scenes = one_scene(APART, size=30.3)
    whole = masks(scenes, rendering="smooth", size=128).whole[0]
    assert whole.sum((1, 2)).numpy() == pytest.approx([np.pi * 30.3**2 / 4, 30.3**2, 30.3**2 / 2], rel=1e-3)
    middle = scenes.anchors[0].copy()  # of each bounding box
    middle[SQUARE] += scenes.sizes[0, SQUARE] / 2 - 0.5
    middle[TRIANGLE, 1] -= scenes.sizes[0, TRIANGLE] / 2
    middle[TRIANGLE, 1] -= 30.3 / 6  # the centroid lies a third of the height from the top edge
    assert centroids(whole) == pytest.approx(middle, abs=0.01)


def test_shapes_are_cut_by_the_frame_or_lie_outside() -> None:
    scenes = one_scene([[-10.0, 64.0], [120.0, 120.0], [300.0, -300.0]])
    for rendering in ("integer", "smooth"):
        image, (visible, _) = render(scenes, False, rendering)
        assert visible[0].sum((1, 2)).numpy() == pytest.approx([80, 64, 0], abs=25)
        assert image[0, :, 0, 0].tolist() == [255, 255, 255]
    far = one_scene([[-1e4, 1e4], [1e4, -1e4], [-1e4, -1e4]])
    assert (render(far, False)[0] == 255).all()


# --- pictures against the authors' pictures, both read by the same eye ---


def look(images: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """(N, 128, 128, 3) -> background (N, 3) and objects (N, 3, 8) as columns below.

    An object is the commonest colour with its dominant channel. The square is the one that fills its box best; of the
    other two the triangle is the one that grows upwards. What is not seen is nan.
    """
    backgrounds = np.zeros((len(images), 3), np.int64)
    objects = np.full((len(images), 3, 8), np.nan)
    for i, image in enumerate(images):
        codes = image.reshape(-1, 3).astype(np.int64) @ [65536, 256, 1]
        values, counts = np.unique(codes, return_counts=True)
        rgb = np.stack([values >> 16, (values >> 8) & 255, values & 255], axis=1)
        strong, weak = rgb >= 178, rgb <= 77
        backgrounds[i] = rgb[np.argmax(counts * strong.all(1))]
        found = []
        for channel in range(3):
            others = [(channel + 1) % 3, (channel + 2) % 3]
            count = counts * (strong[:, channel] & weak[:, others].all(1))
            best = int(np.argmax(count))
            if count[best] < 12:
                continue
            y, x = np.divmod(np.flatnonzero(codes == values[best]), 128)
            left, right, top, bottom = x.min(), x.max(), y.min(), y.max()
            full = len(x) / ((right - left + 1) * (bottom - top + 1))
            lean = ((top + bottom) / 2 - y.mean()) / (bottom - top + 1)  # positive: more pixels above the middle
            row = [len(x), left, right, top, bottom, rgb[best, channel], *rgb[best, others]]
            found.append((full, lean, row))
        found.sort(key=lambda item: -item[0])
        if len(found) < 3:
            continue
        rest = sorted(found[1:], key=lambda item: item[1])
        for index, item in zip((SQUARE, CIRCLE, TRIANGLE), (found[0], *rest), strict=True):
            objects[i, index] = item[2]
    return backgrounds, objects


Eyes = dict[str, NDArray[np.float64]]


def quantities(frames: NDArray[np.uint8], next_frames: NDArray[np.uint8]) -> Eyes:
    """Named samples, measured on pictures alone."""
    backgrounds, before = look(frames)
    _, after = look(next_frames)
    result: Eyes = {f"background {channel}": backgrounds[:, channel].astype(float) for channel in range(3)}
    result["objects seen"] = np.isfinite(before[:, 0, 0]).astype(float)
    for index, name in enumerate(shapes.OBJECTS):
        pixels, left, right, top, bottom, dominant, weak, weak_too = before[:, index].T
        inside = (left > 1) & (right < 126) & (top > 1) & (bottom < 126)
        result |= {
            f"{name} dominant": dominant,
            f"{name} weak": np.concatenate([weak, weak_too]),
            f"{name} size": np.where(inside, np.maximum(right - left, bottom - top), np.nan),
            f"{name} left": left,
            f"{name} right": right,
            f"{name} top": top,
            f"{name} bottom": bottom,
            f"{name} pixels": pixels,
        }
        # Shift of the sides of the box, where neither frame cuts the object
        box = after[:, index]
        whole = inside & (box[:, 1] > 1) & (box[:, 2] < 126) & (box[:, 3] > 1) & (box[:, 4] < 126)
        result[f"{name} dx"] = np.where(whole, (box[:, 1] + box[:, 2] - left - right) / 2, np.nan)
        result[f"{name} dy"] = np.where(whole, (box[:, 3] + box[:, 4] - top - bottom) / 2, np.nan)
    return {name: values[np.isfinite(values)] for name, values in result.items()}


def two_sample(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """p-value of "both come from one law": chi-square for few distinct values, Kolmogorov-Smirnov otherwise."""
    values = np.unique(np.concatenate([first, second]))
    if len(values) > 60:
        return float(stats.ks_2samp(first, second).pvalue)
    table = np.array([[(sample == value).sum() for value in values] for sample in (first, second)])
    rare = table.sum(0) < 10  # lumped together, as the chi-square approximation asks
    table = np.column_stack([table[:, ~rare], table[:, rare].sum(1)])
    table = table[:, table.sum(0) > 0]
    return 1.0 if table.shape[1] < 2 else float(stats.chi2_contingency(table).pvalue)


def channels_last(images: torch.Tensor) -> NDArray[np.uint8]:
    return images.permute(0, 2, 3, 1).numpy()


COMPARED = 5000  # pairs a side; a deviation of positions wrong by a tenth then fails


@pytest.fixture(scope="module")
def authors() -> Eyes:
    def read(archive: zipfile.ZipFile, name: str) -> NDArray[np.uint8]:
        return np.asarray(Image.open(io.BytesIO(archive.read(name))).convert("RGB"))

    with zipfile.ZipFile(AUTHORS / "pairs.zip") as archive:
        numbers = sorted(int(name.split("_")[0]) for name in archive.namelist() if "_im1." in name)[:COMPARED]
        return quantities(*(np.stack([read(archive, f"{n}_im{k}.webp") for n in numbers]) for k in (1, 2)))


@pytest.fixture(scope="module")
def generated() -> Eyes:
    pairs = shapes_pairs(COMPARED, seed=1, size=128)
    return quantities(channels_last(pairs.frames), channels_last(pairs.next_frames))


needs_authors = pytest.mark.skipif(not (AUTHORS / "pairs.zip").exists(), reason="the authors' pairs are not here")


@needs_authors
def test_pictures_follow_the_authors_law(authors: Eyes, generated: Eyes) -> None:
    p_values = {name: two_sample(authors[name], generated[name]) for name in authors}
    assert len(p_values) == 34
    assert {name: p for name, p in p_values.items() if p <= 0.001} == {}


@needs_authors
def test_motions_follow_the_authors_table() -> None:
    with (AUTHORS / "motion.csv").open() as file:
        rows = list(csv.DictReader(file))
    table = {name: np.array([float(row[name]) for row in rows]) for name in rows[0] if "_d" in name}
    motions = draw_scenes(6908, seed=2).motions
    ours = {"circle_dy": motions[:, CIRCLE, 1], "square_dx": motions[:, SQUARE, 0]}
    ours |= {"triangle_dx": motions[:, TRIANGLE, 0], "triangle_dy": motions[:, TRIANGLE, 1]}
    for name, values in ours.items():
        assert stats.ks_2samp(values, table[name][np.isfinite(table[name])]).pvalue > 0.001, name
    # The ties: the triangle goes with the circle, the square with nobody.
    circle, square, triangle = table["circle_dy"], table["square_dx"], table["triangle_dx"]
    seen = np.isfinite(circle) & np.isfinite(square) & np.isfinite(triangle)
    assert np.median(np.abs(triangle - circle)[seen]) < 0.01
    assert stats.pearsonr(circle[seen], square[seen]).pvalue > 0.001


@needs_authors
def test_edges_are_drawn_as_the_authors_draw_them() -> None:
    """Pair 4: circle, triangle and square whole and nearly apart; every pixel of our drawing of it is theirs."""
    with zipfile.ZipFile(AUTHORS / "pairs.zip") as archive:
        theirs = np.asarray(Image.open(io.BytesIO(archive.read("4_im1.webp"))).convert("RGB")).astype(int)
    scenes = Scenes(
        background=np.array([[218, 229, 182]]) / 255,
        colours=np.array([[[185, 4, 56], [21, 223, 42], [72, 32, 180]]]) / 255,
        anchors=np.array([[[65.0, 80.0], [65.0, 74.0], [28.0, 99.0]]]),
        sizes=np.array([[34.0, 34.0, 26.0]]),
        motions=np.zeros((1, 3, 2)),
    )
    ours = channels_last(render(scenes, moved=False)[0])[0].astype(int)
    assert np.abs(ours - theirs).max() <= 1  # colours are known to 8 bits only
