"""The 672 real sprite characters: what the code and the documentation say of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.io import loadmat

from tests.data.conftest import assert_same
from visual_dynamics.data.reed import (
    ANIMATIONS,
    CLIPS,
    SEX,
    WEAPON,
    Characters,
    paper_split,
    read_characters,
    reed_split,
    sprite_pairs,
    without_twin,
)

SHARED = Path(__file__).parents[2].parent / "shared" / "data" / "sprites"
pytestmark = pytest.mark.skipif(not (SHARED / "frames.u16.xz").exists(), reason="the 672 characters are not here")


@pytest.fixture(scope="module")
def real() -> Characters:
    return read_characters(SHARED)


def test_the_real_ones_are_the_packed_ones(real: Characters, tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    for number in (0, 1):
        (tmp_path / f"sprites_{number}.mat").symlink_to(SHARED / f"sprites_{number}.mat")
    assert_same(read_characters(tmp_path), real.subset([0, 1]))


def test_reeds_split_is_as_published() -> None:
    published = loadmat(SHARED / "sprites_splits.mat")
    for name, part in zip(("trainidx", "validx", "testidx"), reed_split(), strict=True):
        assert sorted(published[name].ravel() - 1) == part.tolist()


def test_what_characters_share(real: Characters) -> None:
    """What the head of sprites.py says, and why the paper's 20 test characters are chosen as they are."""
    frames = np.array([[hash(frame.tobytes()) for frame in character] for character in real.frames])
    owners: dict[int, set[int]] = {}
    for number, own in enumerate(frames):
        for frame in own:
            owners.setdefault(frame, set()).add(number // 4)
    assert max(map(len, owners.values())) == 1
    equal = frames[0::2] == frames[1::2]  # (336, 178): those who differ in the weapon only
    assert (equal.all(0) == equal.any(0)).all()
    shared = dict.fromkeys(ANIMATIONS, 0)
    for clip in CLIPS:
        shared[clip.animation] += int(equal[0, clip.frames].sum())
    assert shared == {"spellcast": 27, "thrust": 0, "walk": 36, "slash": 24, "shoot": 0, "hurt": 6}
    assert (real.attributes[1::2] - real.attributes[0::2] == np.eye(7, dtype=int)[WEAPON]).all()
    hurt = CLIPS[-1].frames
    assert (real.palette[real.frames[:, hurt, -5:]] == 255).all()
    assert not np.unpackbits(real.masks[:, hurt], axis=-1)[..., -5 * 60 :].any()
    split = paper_split()
    assert not np.isin(frames[split.test], frames[split.train]).any()
    assert set(real.attributes[split.test, SEX]) == set(real.attributes[split.test, WEAPON]) == {0, 1}


def test_frames_that_reed_s_parts_share(real: Characters) -> None:
    """How many frames a character of one part shares with the characters of another: number of frames -> characters."""
    frames = np.array([[hash(frame.tobytes()) for frame in character] for character in real.frames])
    train, validation, test = reed_split()

    def shared(some: NDArray[np.int64], others: NDArray[np.int64]) -> dict[int, int]:
        return dict(Counter(np.isin(frames[some], frames[others]).sum(1).tolist()))

    assert shared(test, train) == {93: 62, 94: 12, 95: 6, 1: 20}
    assert shared(validation, train) == {93: 41, 94: 7, 95: 8, 1: 16}
    assert shared(test, validation) == {0: 73, 1: 15, 93: 8, 94: 3, 95: 1}
    alone = without_twin(reed_split())
    places = np.isin(frames[alone], frames[train])  # (20, 178)
    assert places[:, 176].all() and places.sum() == 20
    assert shared(alone, validation) == {0: 8, 93: 8, 94: 3, 95: 1}


def test_the_papers_counts(real: Characters) -> None:
    split = paper_split()
    pairs = sprite_pairs(real.subset(split.test))
    assert len(pairs) == 3_140
    assert len(pairs) // len(split.test) * len(split.train) == 102_364
    moving = pairs.store[pairs.first] != pairs.store[pairs.second]
    assert moving.flatten(1).any(1).all()
