"""Where sprites are put for the network: by one that knows them in one place only, and by the shipped one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.sprites.pairs import ReadsPairs
from visual_dynamics.sampling.predictor import Predictor
from visual_dynamics.sprites.align import Alignment, Moving, Place, align, put, take
from visual_dynamics.sprites.animation import animate

SPRITES = Path(__file__).parents[2].parent / "shared" / "data" / "sprites"
RED, GREEN = (220, 40, 60), (30, 200, 90)


def walker(color: tuple[int, int, int] = RED, count: int = 4) -> np.ndarray:
    """A figure as high as Reed's, in the place of his, that stretches out an arm: (count, 60, 60, 4)."""
    frames = np.zeros((count, 60, 60, 4), np.uint8)
    for t, frame in enumerate(frames):
        frame[5:54, 22:38] = (*color, 255)
        frame[5:15, 22:38] = (*color[::-1], 255)
        frame[20:30, 38 : 38 + 3 * t] = (*color, 255)
    return frames


class Narrow(ReadsPairs):
    """Moves a figure that stands in its place, lowest row 55 and middle column 31.5; all others fall to pieces.

    A motion code is the length of the arm before and after, and whether the figure stood in its place.
    """

    def __init__(self, size: int = 64, height: int = 49) -> None:
        self.size, self.height = size, height
        self.decoded = 0

    def _arm(self, frame: torch.Tensor) -> tuple[int, bool]:
        seen = frame.sum(0) > 0
        if not seen.any():
            return 0, False
        rows, columns = seen.any(1).nonzero().flatten(), seen.any(0).nonzero().flatten()
        there = (int(rows[0]), int(rows[-1]), int(columns[0])) == (56 - self.height, 55, 24)
        return int(columns[-1]) - 39, there

    def code(self, before: torch.Tensor, after: torch.Tensor) -> list[float]:
        (first, known), (second, also) = self._arm(before), self._arm(after)
        return [float(first), float(second), float(known and also)]

    def encode_image(self, frame: torch.Tensor) -> torch.Tensor:
        return frame

    def preview(self, image: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        self.decoded += 1
        return torch.stack([self._decode(image, code) for code in z])

    def _decode(self, frame: torch.Tensor, code: torch.Tensor) -> torch.Tensor:
        result = frame.clone()
        if not (code[2] and self._arm(frame)[1]):
            return result.roll(5, 1) * 0.5
        result[:, 22:32, 40:] = 0
        result[:, 22:32, 40 : 40 + int(code[1])] = frame[:, 25, 30][:, None, None]
        return result


def found(clip: Moving, model: Narrow | None = None) -> Alignment:
    return align(model or Narrow(), [clip])  # type: ignore[arg-type]


def moved(frames: np.ndarray, down: int, right: int, height: int = 60, width: int = 60) -> np.ndarray:
    """The middle of the frames, moved, in other cells."""
    corner = Place(1, (height - 60) // 2 + down, (width - 60) // 2 + right)
    return take(put(frames, Place(1, 40, 40), 140), Place(1, 40 - corner.top, 40 - corner.left), (height, width))


def test_put_and_take() -> None:
    frames = np.random.default_rng(0).integers(0, 256, (2, 5, 4, 4), dtype=np.uint8)
    for place in (Place(1, 0, 0), Place(1, 3, 5), Place(2, 1, 2), Place(3, 0, 1)):
        square = put(frames, place, 16)
        assert square.shape == (2, 16, 16, 4)
        np.testing.assert_array_equal(take(square, place, (5, 4)), frames)
    cut = take(put(frames, Place(1, -2, 14), 16), Place(1, -2, 14), (5, 4))
    np.testing.assert_array_equal(cut[:, 2:, :2], frames[:, 2:, :2])
    assert not cut[:, :2].any() and not cut[:, :, 2:].any()
    assert not put(frames, Place(1, 90, -40), 16).any()
    opaque = np.maximum(frames, np.array([0, 0, 0, 128], np.uint8))
    around = put(opaque, Place(1, 3, 3), 16)
    assert around[0, 0, 0].tolist() == [0, 0, 0, 255]  # the background of opaque sprites is black


def test_sprites_in_their_place_stay_there_and_nothing_is_searched() -> None:
    model = Narrow()
    alignment = found(Moving(walker(), 0, walker(GREEN)[0]), model)
    assert alignment.as_given and not alignment.unlike and alignment.error == 0
    assert alignment.reference == alignment.target == Place(1, 2, 2)
    assert model.decoded == 3  # rebuilt once, there, and back
    clip = Moving(walker(), 0, walker(GREEN)[0])
    assert alignment.place(clip, 64) is clip
    frames = walker(GREEN)
    assert alignment.undo(frames, clip) is frames


@pytest.mark.parametrize("shift", [(1, 0), (-1, 1), (5, -3), (-3, 8)], ids=str)
@pytest.mark.parametrize("pose", [0, 2])
def test_sprites_elsewhere_are_moved_and_brought_back(shift: tuple[int, int], pose: int) -> None:
    reference, truth = moved(walker(), *shift), moved(walker(GREEN), *shift)
    clip = Moving(reference, pose, truth[pose])
    alignment = found(clip)
    assert alignment.reference_shift == alignment.target_shift == (-shift[0], -shift[1])
    placed = alignment.place(clip, 64)
    frames = animate(Narrow(), placed.reference, placed.target, placed.pose)  # type: ignore[arg-type]
    np.testing.assert_array_equal(alignment.undo(frames, clip), truth)


@pytest.mark.parametrize("size", [(60, 48), (64, 64), (55, 50)], ids=str)
def test_a_target_in_cells_of_its_own(size: tuple[int, int]) -> None:
    truth = moved(walker(GREEN), -2, 1, *size)
    alignment = found(Moving(walker(), 0, truth[0]))
    assert alignment.reference == Place(1, 2, 2)  # as trained, however high the target's cells
    expected = moved(walker(GREEN)[:1], 0, 0, 64, 64)
    np.testing.assert_array_equal(put(truth[:1], alignment.target, 64), expected)


def test_a_target_of_another_outline_stands_where_the_reference_does() -> None:
    truth = walker(GREEN)
    truth[:, 31:54, 38:58] = (*GREEN, 255)  # a bundle, which moves the middle of the sprite by some columns
    clip = Moving(moved(walker(), 5, -3), 0, moved(truth, 5, -3)[0])
    alignment = found(clip)
    assert alignment.reference_shift == alignment.target_shift == (-5, 3)
    assert alignment.reference == alignment.target == Place(1, -3, 5)


def test_sprites_are_not_moved_where_an_arm_would_leave_the_frame() -> None:
    """In its place the network would know the figure: but part of the arm would be cut off."""
    frames = np.zeros((2, 64, 64, 4), np.uint8)
    frames[:, 7:56, 8:24] = (*RED, 255)
    frames[1, 22:32, 24:64] = (*RED, 255)
    inside = frames.copy()
    inside[:, :, 48:] = 0  # this arm ends at the edge once the figure is 16 columns further
    for reference, shift in ((frames, (0, 0)), (inside, (0, 16))):
        assert found(Moving(reference, 0, reference[0])).reference_shift == shift


def test_small_sprites_are_enlarged() -> None:
    reference, truth = walker()[:, 1::2, ::2], walker(GREEN)[:, 1::2, ::2]
    clip = Moving(reference, 0, truth[0])
    alignment = found(clip, Narrow(height=50))
    assert alignment.reference.factor == alignment.target.factor == 2 and not alignment.as_given
    placed = alignment.place(clip, 64)
    assert placed.reference.shape == (4, 64, 64, 4) and placed.target.shape == (64, 64, 4)
    assert alignment.undo(put(truth, alignment.target, 64), clip).shape == truth.shape
    np.testing.assert_array_equal(alignment.undo(put(truth, alignment.target, 64), clip), truth)


def test_what_the_model_does_not_know_anywhere_stays_and_is_told() -> None:
    low = moved(walker(), 0, 0)
    low[:, 30:] = 0  # half a figure: it fits nowhere
    alignment = found(Moving(low, 0, low[0]))
    assert alignment.as_given and alignment.unlike


def test_a_target_far_off_is_moved_even_if_the_model_does_not_know_the_sprites() -> None:
    low = walker()
    low[:, 30:] = 0
    far = moved(low, 9, -6)[0]
    alignment = found(Moving(low, 0, far))
    assert alignment.reference_shift == (0, 0) and alignment.target_shift == (-9, 6)


def test_nothing_moves() -> None:
    model = Narrow()
    still = np.repeat(moved(walker()[:1], 4, 4), 3, axis=0)
    assert found(Moving(still, 0, still[0]), model).as_given and model.decoded == 0


def test_a_model_too_small_for_the_trained_place_moves_no_reference(tiny_network) -> None:
    frames = walker()[:, ::5, ::5]
    alignment = align(Predictor(tiny_network), [Moving(frames, 0, frames[0])])
    assert alignment.reference_shift == (0, 0)


@pytest.mark.skipif(not (SPRITES / "frames.u16.xz").exists(), reason="the 672 characters are not here")
def test_reed_s_characters_moved() -> None:
    import visual_dynamics
    from visual_dynamics.data.reed import CLIPS, read_characters

    predictor = visual_dynamics.load("sprites-poses").predictor
    characters = read_characters(SPRITES, [32, 178])
    walk = next(clip for clip in CLIPS if (clip.animation, clip.view) == ("walk", "left"))
    reference, truth = (characters.rgba(place, walk.frames).permute(0, 2, 3, 1).numpy() for place in (0, 1))
    assert align(predictor, [Moving(reference, 0, truth[0])]).as_given
    moved_reference, moved_truth = moved(reference, 5, -3), moved(truth, 1, 0)
    clip = Moving(moved_reference, 0, moved_truth[0])
    alignment = align(predictor, [clip])
    assert alignment.reference_shift == (-5, 3) and alignment.target_shift == (-1, 0) and not alignment.unlike
    placed = alignment.place(clip, 64)
    frames = alignment.undo(animate(predictor, placed.reference, placed.target), clip)
    seen, expected = (np.where(each[..., 3:] > 0, each[..., :3], 0) / 255 for each in (frames, moved_truth))
    assert np.square(seen - expected).sum() / len(frames) < 15
