"""Predictions of sprites, true frames with noise instead of a network's, become sprites again."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from visual_dynamics.errors import UserError
from visual_dynamics.sampling import palette
from visual_dynamics.sampling.palette import connected, cut_out, opaque_pixels, over_black, palette_of, snap_to_palette

OUTLINE, SKIN, SHIRT = (14, 7, 7), (230, 180, 140), (40, 90, 200)


def figure(step: int = 0, outline: tuple[int, int, int] = OUTLINE, size: int = 32) -> np.ndarray:
    """RGBA (size, size, 4): a head over a body, outlined in near black, one leg `step` pixels ahead of the other."""
    y, x = np.mgrid[:size, :size]
    head = (y - 8) ** 2 + (x - 16) ** 2 <= 20
    body = (abs(x - 16) <= 4) & (y >= 13) & (y <= 20)
    legs = ((abs(x - 14) <= 1) & (y <= 26 - step) | (abs(x - 18) <= 1) & (y <= 23 + step)) & (y > 20)
    inside = head | body | legs
    around = np.pad(inside, 1)
    edge = around[2:, 1:-1] | around[:-2, 1:-1] | around[1:-1, 2:] | around[1:-1, :-2]
    picture = np.zeros((size, size, 4), np.uint8)
    picture[edge] = (*outline, 255)
    picture[head] = (*SKIN, 255)
    picture[body | legs] = (*SHIRT, 255)
    return picture


def predicted(sprite: np.ndarray, deviation: float, seed: int = 0) -> np.ndarray:
    """Floats (1, H, W, 3) in [0, 1]."""
    frames = over_black(sprite[None]) / 255
    return np.clip(frames + np.random.default_rng(seed).normal(0, deviation, frames.shape), 0, 1)


def test_over_black_and_palette_know_only_visible_pixels() -> None:
    frames = np.array([[[[9, 8, 7, 255], [1, 2, 3, 127], [4, 5, 6, 128], [9, 8, 7, 200]]]], np.uint8)
    assert over_black(frames)[0, 0].tolist() == [[9, 8, 7], [0, 0, 0], [4, 5, 6], [9, 8, 7]]
    assert palette_of(frames).tolist() == [[4, 5, 6], [9, 8, 7]]
    with pytest.raises(UserError, match="no visible pixel"):
        palette_of(np.zeros((1, 3, 3, 4), np.uint8))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans(), st.integers(1, 40))
def test_snapping_finds_the_nearest_colour(seed: int, floats: bool, count: int) -> None:
    rng = np.random.default_rng(seed)
    colors = rng.integers(0, 256, (count, 3), dtype=np.uint8)
    frames = rng.integers(0, 256, (2, 5, 6, 3), dtype=np.uint8)
    snapped = snap_to_palette(frames / 255 if floats else frames, colors)
    distances = np.square(frames[..., None, :].astype(int) - colors.astype(int)).sum(axis=-1)  # (2, 5, 6, P)
    reached = np.square(frames.astype(int) - snapped.astype(int)).sum(axis=-1)
    assert snapped.dtype == np.uint8 and np.array_equal(reached, distances.min(axis=-1))
    assert np.array_equal(snap_to_palette(snapped, colors), snapped)


def test_snapping_takes_the_first_of_equals_and_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = np.array([[20, 0, 0], [0, 0, 0], [20, 0, 0]], np.uint8)
    assert snap_to_palette(np.array([[10, 0, 0]], np.uint8), ends).tolist() == [[20, 0, 0]]
    frames = np.random.default_rng(0).random((40, 30, 3))
    whole = snap_to_palette(frames, ends)
    monkeypatch.setattr(palette, "VALUES_AT_A_TIME", 7)
    assert np.array_equal(snap_to_palette(frames, ends), whole)


def test_snapping_keeps_to_its_memory() -> None:
    frames = np.zeros((1, 512, 512, 3), np.uint8)
    colors = np.random.default_rng(0).integers(0, 256, (400, 3), dtype=np.uint8)
    tracemalloc.start()
    try:
        snap_to_palette(frames, colors)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100e6  # all distances at once: 420 MB


@pytest.mark.parametrize("outline", [OUTLINE, (0, 0, 0)], ids=["near black", "black"])
@pytest.mark.parametrize("deviation", [0, 0.02, 0.05])
def test_alpha_of_a_noisy_next_frame(outline: tuple[int, int, int], deviation: float) -> None:
    """A dark outline is distinguished from the background by what the sprite looks like elsewhere."""
    before, after = figure(0, outline), figure(2, outline)
    truth = after[..., 3] == 255
    wrong = opaque_pixels(predicted(after, deviation), before[None])[0] != truth
    assert wrong.mean() < 0.008
    brightness = np.square(predicted(after, deviation)[0] * 255).sum(axis=-1) > palette.BRIGHT**2
    assert (brightness != truth).mean() > 4 * wrong.mean()


def test_a_cut_out_sprite_has_the_colours_of_the_examples() -> None:
    before, after = figure(0), figure(2)
    sprite = cut_out(predicted(after, 0.02), before[None])
    assert sprite.dtype == np.uint8 and sprite.shape == (1, 32, 32, 4)
    assert set(np.unique(sprite[..., 3])) == {0, 255} and not sprite[sprite[..., 3] == 0].any()
    assert {tuple(color) for color in palette_of(sprite)} == {OUTLINE, SKIN, SHIRT}
    assert (sprite[0] != after).any(axis=-1).mean() < 0.008
    eight_bits = np.rint(predicted(after, 0.02) * 255).astype(np.uint8)
    assert (cut_out(eight_bits, before[None]) != sprite).any(axis=-1).mean() < 0.002


def test_holes_stay() -> None:
    """The gap between the legs, and a ring."""
    ring = figure()
    ring[22:27, 2:7] = (*SHIRT, 255)
    ring[24, 4] = 0
    assert not opaque_pixels(predicted(ring, 0.01), ring[None])[0, 24, 4]


def test_specks_are_dropped_unless_the_examples_have_such() -> None:
    frame = predicted(figure(), 0)
    frame[0, 2, 2:5] = frame[0, 29, 29] = 1.0
    assert not opaque_pixels(frame, figure()[None])[0][[2, 2, 2, 29], [2, 3, 4, 29]].any()
    assert opaque_pixels(frame, figure()[None], smallest_island=3)[0, 2, 2:5].all()
    assert opaque_pixels(frame, figure()[None], smallest_island=1)[0, 29, 29]
    with_spark = figure()
    with_spark[3, 28:30] = (255, 255, 255, 255)
    kept = opaque_pixels(frame, with_spark[None])[0]
    assert kept[2, 2:5].all() and not kept[29, 29]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 12), st.floats(0, 1))
def test_sizes_of_islands(seed: int, height: int, width: int, share: float) -> None:
    ndimage = pytest.importorskip("scipy.ndimage")
    mask = np.random.default_rng(seed).random((height, width)) < share
    labels, _ = ndimage.label(mask, np.ones((3, 3)))
    assert np.array_equal(palette._island_sizes(mask), np.where(mask, np.bincount(labels.ravel())[labels], 0))


def test_a_long_winding_island_is_one() -> None:
    mask = np.zeros((41, 41), np.bool_)
    mask[::2] = True
    mask[1::4, -1] = mask[3::4, 0] = True
    assert (palette._island_sizes(mask)[mask] == mask.sum()).all()


def test_pictures_without_alpha_and_sprites_without_dark_pixels() -> None:
    tile = np.full((1, 8, 8, 4), 255, np.uint8)
    tile[0, :4, :, :3] = 5
    assert opaque_pixels(tile[..., :3], tile).all()
    bright = np.zeros((1, 8, 8, 4), np.uint8)
    bright[0, 2:6, 2:6] = 255
    assert np.array_equal(opaque_pixels(over_black(bright), bright), bright[..., 3] == 255)


def test_chunks_and_too_many_patches(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = np.concatenate([predicted(figure(1), 0.02, seed) for seed in (1, 2)])
    examples = np.stack([figure(0), figure(2)])
    whole = opaque_pixels(frames, examples)
    monkeypatch.setattr(palette, "VALUES_AT_A_TIME", 5000)
    assert np.array_equal(opaque_pixels(frames, examples), whole)
    monkeypatch.setattr(palette, "MAX_PATCHES", 150)
    assert (opaque_pixels(frames, examples) != whole).mean() < 0.02


@pytest.mark.parametrize("outline", [OUTLINE, (0, 0, 0), (30, 0, 40)])
@pytest.mark.parametrize("deviation", [0.02, 0.1])
def test_pixels_that_are_surely_background_are_what_the_search_would_say(
    outline: tuple[int, int, int], deviation: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    examples, frames = figure(0, outline)[None], predicted(figure(2, outline), deviation)
    found, real = opaque_pixels(frames, examples), palette._dark_patches
    assert real(examples.tobytes(), examples.shape, palette.MAX_PATCHES).safe > 0
    monkeypatch.setattr(palette, "_dark_patches", lambda *given: real(*given)._replace(safe=0.0))
    assert np.array_equal(opaque_pixels(frames, examples), found)


def test_wrong_arrays() -> None:
    colors = np.zeros((2, 3), np.uint8)
    with pytest.raises(ValueError, match="floats in"):
        snap_to_palette(np.zeros((4, 4, 3), np.int64), colors)
    with pytest.raises(ValueError, match="at least one colour"):
        snap_to_palette(np.zeros((4, 4, 3), np.uint8), colors[:0])
    with pytest.raises(ValueError, match="frames are"):
        opaque_pixels(np.zeros((1, 4, 4, 4), np.uint8), figure()[None])


# --- connected components ---


@pytest.mark.parametrize("links", [0, 20, 60, 300])
def test_components_are_those_of_scipy(links: int) -> None:
    graph = pytest.importorskip("scipy.sparse.csgraph")
    sparse = pytest.importorskip("scipy.sparse")
    first, second = np.random.default_rng(links).integers(0, 80, (2, links))
    _, expected = graph.connected_components(
        sparse.coo_array((np.ones(links), (first, second)), (80, 80)), directed=False
    )
    least = np.array([np.flatnonzero(expected == label).min() for label in expected])
    assert np.array_equal(connected(80, first, second), least)


def test_a_long_chain_is_one() -> None:
    order = np.random.default_rng(0).permutation(500)
    assert not connected(500, order[:-1], order[1:]).any()


def test_things_without_links_stay_alone() -> None:
    none = np.empty(0, np.int64)
    assert connected(3, none, none).tolist() == [0, 1, 2] and len(connected(0, none, none)) == 0
