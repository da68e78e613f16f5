"""Faults that are put into animations are what they say, and nothing more."""

import numpy as np
import pytest

from tests.sprites.test_critic import WAVE, figure
from visual_dynamics.evaluation.sheet_faults import (
    COLOURED,
    cut_cycle,
    dirty_pixel,
    doubled_cycle,
    drifting_feet,
    exchanged_frames,
    exchanged_neighbours,
    frozen,
    moved_frame,
    slid_feet,
    stopped,
    stray_colour,
)

FRAMES = figure(WAVE)
SEEDS = range(12)


def changed(made: np.ndarray) -> set[int]:
    return {k for k in range(len(FRAMES)) if (made[k] != FRAMES[k]).any()}


@pytest.mark.parametrize("seed", SEEDS)
def test_moved_frames_and_feet(seed: int) -> None:
    made = moved_frame(FRAMES, np.random.default_rng(seed))
    assert made and changed(made.frames) == {*made.places} <= {1, 2, 3, 4}
    found = [np.roll(FRAMES[made.places[0]], s, (0, 1)) for s in ((2, 0), (-2, 0), (0, 2), (0, -2))]
    assert sum((frame == made.frames[made.places[0]]).all() for frame in found) == 1
    slid = slid_feet(FRAMES, np.random.default_rng(seed))
    assert (
        slid and changed(slid.frames) == set(range(slid.places[0], 6)) and (slid.frames[:, :25] == FRAMES[:, :25]).all()
    )
    drift = drifting_feet(FRAMES, np.random.default_rng(seed))
    assert drift and changed(drift.frames) == {*drift.places} == {1, 2, 3, 4, 5}
    middles = [np.nonzero(frame[26, :, 3])[0].mean() for frame in drift.frames]
    assert abs(middles[5] - middles[0]) == 5


def test_cycles() -> None:
    draws = np.random.default_rng(0)
    cut = cut_cycle(figure((18, 15, 12, 9, 8, 12, 15)), draws)
    assert cut and cut.places == (0, 3) and len(cut.frames) == 4  # 9 and 8 are as unlike 18; the first of them
    doubled = doubled_cycle(FRAMES, draws)
    assert doubled and len(doubled.frames) == 7 and (doubled.frames[6] == FRAMES[0]).all()
    assert cut_cycle(FRAMES[:4], draws) is None and doubled_cycle(FRAMES[:2], draws) is None


@pytest.mark.parametrize("seed", SEEDS)
def test_exchanged_frames(seed: int) -> None:
    for put in (exchanged_frames, exchanged_neighbours):
        made = put(FRAMES, np.random.default_rng(seed))
        assert made and changed(made.frames) == {*made.places}
        first, second = made.places
        assert (made.frames[first] == FRAMES[second]).all() and (made.frames[second] == FRAMES[first]).all()
        assert put is exchanged_frames or second - first == 1
        assert put(FRAMES[[0] * 6], np.random.default_rng(seed)) is None  # nobody would see it


def test_frozen_and_stopped() -> None:
    draws = np.random.default_rng(0)
    made, half = frozen(FRAMES, draws), stopped(FRAMES, draws)
    assert made and (made.frames == FRAMES[:1]).all() and made.places == (0, 1, 2, 3, 4, 5)
    assert half and (half.frames[3:] == FRAMES[3]).all() and changed(half.frames) == {4, 5}
    assert frozen(FRAMES[:1], draws) is None and stopped(FRAMES[:4], draws) is None


@pytest.mark.parametrize("seed", SEEDS)
def test_colours_and_dirt(seed: int) -> None:
    made = stray_colour(FRAMES, np.random.default_rng(seed))
    assert made and changed(made.frames) == {*made.places}
    differs = (made.frames != FRAMES).any(axis=-1)
    assert differs.sum() == COLOURED and len(np.unique(made.frames[differs], axis=0)) == 1
    assert (FRAMES[differs][:, 3] == 255).all()
    dirty = dirty_pixel(FRAMES, np.random.default_rng(seed))
    assert dirty and (dirty.frames != FRAMES).sum() == 1 and (dirty.frames[..., :3] == FRAMES[..., :3]).all()
    (alpha,) = dirty.frames[dirty.frames != FRAMES]
    assert 1 <= alpha <= 254
