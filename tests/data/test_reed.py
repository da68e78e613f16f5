"""Sprite characters: their clips, colours, splits and pairs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from visual_dynamics.data.reed import (
    CLIPS,
    FRAMES,
    VIEWS,
    Characters,
    Split,
    paper_split,
    reed_split,
    sprite_pairs,
    without_twin,
)
from visual_dynamics.errors import UserError


def test_the_clips_tile_the_frames() -> None:
    assert len(CLIPS) == 21
    assert [frame for clip in CLIPS for frame in range(1000)[clip.frames]] == list(range(FRAMES))
    assert [clip.view for clip in CLIPS] == [*VIEWS] * 5 + ["down"]
    assert [(clip.animation, clip.view) for clip in CLIPS if 100 in range(FRAMES)[clip.frames]] == [("slash", "up")]


class TestCharacters:
    def test_colours_and_alpha(self, made: Characters) -> None:
        rgba = made.rgba(1, CLIPS[5].frames)
        assert rgba.shape == (8, 4, 60, 60)
        assert rgba.dtype == torch.uint8
        assert torch.equal(rgba[:, :3], made.rgb(1)[36:44])
        index = made.frames[1, 38, 7, 50]
        assert rgba[2, :, 7, 50].tolist() == [*made.palette[index].tolist(), 255 * int(index > 0)]
        assert torch.equal(made.rgb(2, [170, 3])[1], made.rgb(2)[3])

    def test_subset(self, made: Characters) -> None:
        chosen = made.subset([2, 0])
        assert chosen.numbers.tolist() == [2, 0]
        assert torch.equal(chosen.rgba(0), made.rgba(2))
        assert made.subset(slice(1, 3)).numbers.tolist() == [1, 2]

    def test_parts_that_do_not_fit_are_an_error(self, made: Characters) -> None:
        with pytest.raises(ValueError, match=re.escape("masks of 3 characters are (3, 178, 450), not (2, 178, 450)")):
            Characters(made.frames, made.palette, made.masks[:2], made.attributes, made.numbers)


class TestSplits:
    @pytest.mark.parametrize(("split", "counts"), [(paper_split, (652, 0, 20)), (reed_split, (500, 72, 100))])
    def test_every_character_once(self, split: Callable[[], tuple[NDArray[np.int64], ...]], counts: object) -> None:
        parts = split()
        assert tuple(map(len, parts)) == counts
        assert sorted(np.concatenate(parts).tolist()) == list(range(672))
        assert all((np.diff(part) > 0).all() for part in parts)

    def test_reeds_split_is_his(self) -> None:
        """A digest of what sprites_splits.mat holds, with numbers from 0: see test_reed_real.py."""
        numbers = " ".join(str(number) for part in reed_split() for number in part.tolist())
        assert hashlib.sha256(numbers.encode()).hexdigest()[:16] == "046038cb16e6490e"

    def test_characters_without_a_twin_in_training(self) -> None:
        split = Split(np.array([0, 3, 6]), np.array([8]), np.array([1, 2, 4, 5, 7, 9]))
        assert without_twin(split).tolist() == [4, 5, 9]
        ours = reed_split()
        alone = without_twin(ours).tolist()
        assert len(alone) == 20 and set(alone) <= set(ours.test.tolist())
        assert sum(number ^ 1 in ours.validation for number in alone) == 12
        assert without_twin(paper_split()).tolist() == paper_split().test.tolist()


class TestPairs:
    def test_neighbours(self, made: Characters) -> None:
        pairs = sprite_pairs(made)
        assert len(pairs) == 3 * 157
        assert pairs.size == (64, 64)
        expected = [frame for clip in CLIPS for frame in range(FRAMES)[clip.frames][:-1]]
        batch = pairs.batch(torch.arange(157, 314))
        frames = made.rgb(1).float() / 255
        assert torch.equal(batch.frame[:, :, 2:62, 2:62], frames[expected])
        assert torch.equal(batch.next_frame[:, :, 2:62, 2:62], frames[[frame + 1 for frame in expected]])
        assert batch.frame.count_nonzero() == frames[expected].count_nonzero()  # black around them

    def test_any_two_frames_of_some_animations(self, made: Characters) -> None:
        pairs = sprite_pairs(made.subset([2]), "any", ["hurt", "slash"], size=60)
        assert len(pairs) == 5 * 6 * 5
        assert len(pairs.store) == 5 * 6
        chosen = [*range(96, 120), *range(172, 178)]
        assert torch.equal(pairs.store, made.rgb(2, chosen))
        both = torch.stack([pairs.first, pairs.second], 1)
        assert len(both.unique(dim=0)) == 150
        assert (both[:, 0] // 6 == both[:, 1] // 6).all()
        assert (both[:, 0] != both[:, 1]).all()
        assert len(sprite_pairs(made.subset([0]), "any")) == 1454

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"animations": ["walk", "jump"]}, "not walk, jump"),
            ({"animations": []}, "not none"),
            ({"between": "all"}, "not 'all'"),
            ({"size": 59}, "do not fit into 59"),
        ],
    )
    def test_mistakes(self, made: Characters, options: dict[str, object], words: str) -> None:
        with pytest.raises(UserError, match=words):
            sprite_pairs(made, **options)  # type: ignore[arg-type]
