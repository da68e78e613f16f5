"""The contract of the data."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from visual_dynamics.data.pairs import Between, Cast, Pairs, clip_moves, mix_pairs, resize_frames


def some_pairs(count: int = 5, height: int = 8, width: int = 6) -> Pairs:
    generator = torch.Generator().manual_seed(0)
    shape = (count, 3, height, width)
    frames, next_frames = (torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator) for _ in range(2))
    return Pairs.of(frames, next_frames)


def test_a_batch_is_floats_and_knows_its_difference() -> None:
    pairs = some_pairs()
    batch = pairs.batch(torch.tensor([3, 1]))
    assert batch.frame.shape == batch.next_frame.shape == (2, 3, 8, 6)
    assert torch.equal((batch.frame * 255).round().to(torch.uint8), pairs.frames[[3, 1]])
    assert 0 <= batch.frame.min() <= batch.frame.max() <= 1
    assert torch.allclose(batch.frame + batch.difference, batch.next_frame, atol=1e-6)


def test_size_length_and_subset() -> None:
    pairs = some_pairs()
    assert pairs.size == (8, 6)
    assert len(pairs) == 5
    chosen = pairs.subset(torch.tensor([4, 0, 4]))
    assert torch.equal(chosen.next_frames, pairs.next_frames[[4, 0, 4]])
    assert torch.equal(pairs.to("cpu").frames, pairs.frames)


@pytest.mark.parametrize(
    ("frames", "next_frames", "complaint"),
    [
        (torch.zeros(2, 3, 4, 4, dtype=torch.uint8), torch.zeros(1, 3, 4, 4, dtype=torch.uint8), "differ"),
        (torch.zeros(2, 3, 4, 4), torch.zeros(2, 3, 4, 4), "uint8"),
        (torch.zeros(2, 4, 4, 3, dtype=torch.uint8), torch.zeros(2, 4, 4, 3, dtype=torch.uint8), r"\(M, 3, H, W\)"),
        (torch.zeros(3, 4, 4, dtype=torch.uint8), torch.zeros(3, 4, 4, dtype=torch.uint8), r"\(M, 3, H, W\)"),
    ],
)
def test_bad_tensors_are_an_error(frames: torch.Tensor, next_frames: torch.Tensor, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Pairs.of(frames, next_frames)


@pytest.mark.parametrize("factor", [2, 4])
def test_shrinking_averages_all_pixels(factor: int) -> None:
    """A bilinear sample sees four of them: at a factor of 2 that is all, at 4 a quarter."""
    frames, size = some_pairs(height=8, width=8).frames, 8 // factor
    blocks = frames.float().unflatten(3, (size, factor)).unflatten(2, (size, factor)).mean((3, 5))
    assert (resize_frames(frames, size).float() - blocks).abs().max() <= 0.5


def test_resizing_keeps_what_fits_already() -> None:
    pairs = some_pairs(height=8, width=8)
    assert pairs.resized(8) is pairs
    assert pairs.resized(4).size == (4, 4)
    assert pairs.resized(20).size == (20, 20)


@settings(max_examples=30, deadline=None)
@given(value=st.integers(0, 255), side=st.integers(1, 40), size=st.integers(1, 40), count=st.integers(1, 5))
def test_resizing_keeps_flat_colours_whatever_the_chunks(value: int, side: int, size: int, count: int) -> None:
    frames = torch.full((count, 3, side, side), value, dtype=torch.uint8)
    resized = resize_frames(frames, size, chunk=2)
    assert resized.shape == (count, 3, size, size)
    assert (resized == value).all()


def test_moves_within_a_clip() -> None:
    assert clip_moves(range(3, 6), "neighbours") == [(3, 4), (4, 5)]
    assert sorted(clip_moves(range(3), "any")) == [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]
    assert clip_moves([7], "any") == clip_moves([7], "mixed") == clip_moves([7], "mostly") == []


@pytest.mark.parametrize(("between", "share"), [("mixed", 0.5), ("mostly", 0.9)])
@given(length=st.integers(3, 13))
def test_neighbours_are_repeated_up_to_their_share(between: Between, share: float, length: int) -> None:
    moves = clip_moves(range(length), between)
    assert set(moves) == set(clip_moves(range(length), "any"))
    assert sum(second == first + 1 for first, second in moves) / len(moves) == pytest.approx(share, abs=1e-9)


def test_mixed_pairs_are_those_of_both() -> None:
    one, two = some_pairs(3), some_pairs(4)
    shared = Pairs(two.frames, torch.tensor([3, 0]), torch.tensor([1, 2]))
    both = mix_pairs(one, shared, 0.25).to("cpu")
    assert len(both) == 5 and both.own == 3
    batch = both.batch(torch.arange(5))
    assert torch.equal(batch.frame, torch.cat([one.batch(torch.arange(3)).frame, two.frames[[3, 0]] / 255]))
    assert torch.equal(batch.next_frame, torch.cat([one.batch(torch.arange(3)).next_frame, two.frames[[1, 2]] / 255]))
    with pytest.raises(ValueError, match="cannot be mixed"):
        mix_pairs(one, some_pairs(2, height=4), 0.25)


@given(own=st.integers(1, 9), more=st.integers(1, 50), share=st.sampled_from([0.1, 0.25, 0.5]))
def test_a_data_set_is_repeated_up_to_its_share_of_a_mixture(own: int, more: int, share: float) -> None:
    mixed = mix_pairs(some_pairs(own), some_pairs(more), share)
    repeated = len(mixed) - more
    assert repeated % own == 0 and mixed.own == own
    assert repeated / len(mixed) >= share - 1e-9
    assert repeated == own or (repeated - own) / (len(mixed) - own) < share  # once less would not do
    places = mixed.first[:repeated].reshape(-1, own)
    assert (places == places[0]).all()


@pytest.mark.parametrize(
    ("draws", "places"),
    [([0.3, 0.8], (3, 4)), ([0.6, 0.8], (3, 4)), ([0.3, 0.1], (0, 1)), ([0.3, 0.6], (0, 1)), ([0.8, 0.1], (3, 4))],
)
def test_another_character_has_both_frames_of_a_move(draws: list[float], places: tuple[int, int]) -> None:
    """Of four, the second has no next frame, and the third nothing but that."""
    cast = Cast(torch.tensor([0, 1, 0, 0, 1, 1]), torch.tensor([[0, 1], [2, -1], [-1, 5], [3, 4]]))
    first, second = cast.others(torch.tensor([0]), torch.tensor([1]), torch.tensor([draws]))
    assert (first.tolist(), second.tolist()) == ([places[0]], [places[1]])


class TestSharedFrames:
    @staticmethod
    def some() -> Pairs:
        generator = torch.Generator().manual_seed(0)
        store = torch.randint(0, 256, (5, 3, 8, 6), dtype=torch.uint8, generator=generator)
        return Pairs(store, torch.tensor([0, 1, 1, 4]), torch.tensor([1, 0, 3, 2]))

    def test_are_the_same_as_plain_pairs(self) -> None:
        indexed = self.some()
        plain = Pairs.of(indexed.store[indexed.first], indexed.store[indexed.second])
        assert len(indexed) == len(plain) == 4
        assert indexed.size == plain.size == (8, 6)
        assert plain.nbytes == 2 * 4 * (144 + 8)
        assert torch.equal(torch.stack(indexed[3]), torch.stack([indexed.store[4], indexed.store[2]]))
        assert indexed.nbytes == 5 * 144 + 2 * 4 * 8
        indices = torch.tensor([3, 0, 0])
        for ours, theirs in (
            (indexed, plain),
            (indexed.subset(indices), plain.subset(indices)),
            (indexed.to("cpu"), plain.to("cpu")),
            (indexed.resized(4), plain.resized(4)),
            (indexed.subset(indices).in_memory(), plain.subset(indices)),
        ):
            order = torch.arange(len(theirs)).flip(0)
            for mine, other in zip(ours.batch(order), theirs.batch(order), strict=True):
                assert torch.equal(mine, other)
        assert indexed.resized(4).size == (4, 4)
        assert len(indexed.subset(torch.tensor([0, 1])).in_memory().store) == 2  # frames 0 and 1

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"store": torch.zeros(5, 3, 8, 6)}, "uint8"),
            ({"store": torch.zeros(5, 8, 6, dtype=torch.uint8)}, r"\(M, 3, H, W\)"),
            ({"first": torch.tensor([0, 1])}, r"\(N,\) twice"),
            ({"first": torch.tensor([0, 1, 1, 5])}, "within the 5 frames"),
            ({"second": torch.tensor([0, 1, 1, -1])}, "within the 5 frames"),
            ({"second": torch.zeros(4)}, "int64"),
        ],
    )
    def test_bad_tensors_are_an_error(self, change: dict[str, torch.Tensor], words: str) -> None:
        with pytest.raises(ValueError, match=words):
            Pairs(**{**vars(self.some()), **change})
