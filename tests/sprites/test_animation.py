"""Animations by a predictor that knows the truth (which frames, from which, in which order), and by a tiny network."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.sprites.pairs import ReadsPairs
from visual_dynamics.errors import UserError
from visual_dynamics.images import Box
from visual_dynamics.sampling.palette import opaque_pixels, over_black, palette_of
from visual_dynamics.sampling.predictor import Predictor
from visual_dynamics.sprites.animation import Method, _remembered, animate, animation_plan
from visual_dynamics.sprites.frames import check_sprites, standing_boxes

RED, GREEN = (220, 40, 60), (30, 200, 90)


def walker(count: int, height: int = 12, width: int = 12, color: tuple[int, int, int] = RED) -> np.ndarray:
    """A block on the ground that grows by a row and moves by a column a frame: uint8 (count, height, width, 4)."""
    frames = np.zeros((count, height, width, 4), np.uint8)
    for t, frame in enumerate(frames):
        frame[height - 4 - t :, t : t + 4] = (*color, 255)
        frame[-2:, t : t + 4] = (*color[::-1], 255)
    return frames


class Oracle(ReadsPairs):
    """Decodes the true frame of the target, if it is asked with the image and the motion that lead there."""

    def __init__(self, reference: np.ndarray, target: np.ndarray, size: int = 16) -> None:
        self.size = size
        boxes = standing_boxes(reference.shape[1:3], target.shape[1:3], size)
        self.known, self.truth = (
            [self._frame(frame, box) for frame in over_black(frames)]
            for frames, box in zip((reference, target), boxes, strict=True)
        )
        self.encoded: list[tuple[int, int]] = []

    def _frame(self, picture: np.ndarray, box: Box) -> torch.Tensor:
        square = np.zeros((self.size, self.size, 3), np.uint8)
        square[box.top : box.top + box.height, box.left : box.left + box.width] = picture
        return torch.from_numpy(square).permute(2, 0, 1).float() / 255

    def _number(self, frame: torch.Tensor, among: list[torch.Tensor]) -> int:
        return next(number for number, known in enumerate(among) if torch.equal(known, frame))

    def code(self, before: torch.Tensor, after: torch.Tensor) -> list[float]:
        pair = self._number(before, self.known), self._number(after, self.known)
        self.encoded.append(pair)
        return list(pair)

    def encode_image(self, frame: torch.Tensor) -> int:
        return self._number(frame, self.truth)

    def preview(self, image: int, z: torch.Tensor) -> torch.Tensor:
        assert all(source == image for source, _ in z.tolist())
        return torch.stack([self.truth[result] for _, result in z.tolist()])


class Guide(Oracle):
    """Knows the way from each frame to the next one, but leaves a hole in what it draws."""

    def code(self, before: torch.Tensor, after: torch.Tensor) -> list[float]:
        source, result = pair = super().code(before, after)
        assert result == (source + 1) % len(self.known)
        return pair

    def preview(self, image: int, z: torch.Tensor) -> torch.Tensor:
        drafts = super().preview(image, z)
        for draft in drafts:
            row, column = draft.sum(0).nonzero()[0]
            draft[:, row, column] = 0
        return drafts


class Poses(Oracle):
    """Takes a drawing for the true frame that is most like it; `known` are frames of the target, too."""

    def _number(self, frame: torch.Tensor, among: list[torch.Tensor]) -> int:
        return int(torch.stack([(known - frame).square().sum() for known in among]).argmin())


class Drift(ReadsPairs):
    """Whatever the motion, the picture stays where it is and grows a little brighter."""

    size, step = 16, 0.02

    def code(self, before: torch.Tensor, after: torch.Tensor) -> list[float]:
        return [0.0]

    def encode_image(self, frame: torch.Tensor) -> torch.Tensor:
        return frame

    def preview(self, image: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return (image + self.step * (image > 0)).clamp(0, 1).expand(len(z), -1, -1, -1)


# --- in which order ---


def test_plans() -> None:
    assert animation_plan(5, 0, "chained") == {0: [1], 1: [2], 2: [3], 3: [4]}
    assert animation_plan(5, 3, "chained") == {3: [4, 2], 2: [1], 1: [0]}
    assert animation_plan(5, 0, "chained", loop=True) == {0: [1, 4], 1: [2], 4: [3]}
    assert animation_plan(4, 3, "chained", loop=True) == {3: [0, 2], 0: [1]}
    assert animation_plan(4, 2) == animation_plan(4, 2, "direct") == {2: [0, 1, 3]}
    assert animation_plan(1, 0, "chained") == animation_plan(1, 0, "chained", loop=True) == {}


@given(st.integers(1, 12).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n - 1))), st.booleans())
def test_a_plan_makes_each_frame_once_from_one_that_is_there(where: tuple[int, int], loop: bool) -> None:
    count, pose = where
    there = [pose]
    for source, results in animation_plan(count, pose, "chained", loop).items():
        assert source in there
        assert all((result - source) % count in (1, count - 1) for result in results)
        assert loop or all(abs(result - source) == 1 for result in results)
        there += results
    assert sorted(there) == list(range(count))


@pytest.mark.parametrize("method", ["chained", "direct"])
@pytest.mark.parametrize("loop", [False, True])
@pytest.mark.parametrize("pose", [0, 2, 5])
@pytest.mark.parametrize("size", [(12, 12), (16, 16), (11, 15), (14, 9)], ids=str)
def test_the_right_frames_in_the_right_order(method: Method, loop: bool, pose: int, size: tuple[int, int]) -> None:
    reference, truth = walker(6), walker(6, *size, GREEN)
    oracle = Oracle(reference, truth)
    result = animate(oracle, reference, truth[pose], pose, method, loop)  # type: ignore[arg-type]
    assert result.shape == (6, *size, 4) and np.array_equal(result, truth)
    plan = animation_plan(6, pose, method, loop)
    assert sorted(oracle.encoded) == sorted((source, frame) for source, frames in plan.items() for frame in frames)


@pytest.mark.parametrize("method", ["chained", "direct"])
def test_each_frame_is_cut_out_once(method: Method, monkeypatch: pytest.MonkeyPatch) -> None:
    cut: list[int] = []
    monkeypatch.setattr(
        "visual_dynamics.sprites.animation.opaque_pixels",
        lambda frames, examples: cut.append(len(frames)) or opaque_pixels(frames, examples),
    )
    reference, truth = walker(6), walker(6, color=GREEN)
    animate(Oracle(reference, truth), reference, truth[0], method=method)  # type: ignore[arg-type]
    assert cut == [1] * 5


@pytest.mark.parametrize("loop", [False, True])
@pytest.mark.parametrize("pose", [0, 2, 5])
def test_a_guide_shows_the_way_and_leaves_no_trace(loop: bool, pose: int) -> None:
    reference, truth = walker(6, 14, 9), walker(6, 14, 9, GREEN)
    guide, poses = Guide(reference, truth), Poses(truth, truth)
    result = animate(poses, reference, truth[pose], pose, loop=loop, guide=guide)  # type: ignore[arg-type]
    assert np.array_equal(result, truth)
    ahead = [(pose + step) % 6 for step in range(5 if loop else 5 - pose)]
    assert guide.encoded == [(frame, (frame + 1) % 6) for frame in ahead]
    assert all(before == pose for before, _ in poses.encoded)


def test_a_guide_repeats_what_the_reference_repeats() -> None:
    order = [0, 1, 1, 2, 1, 0, 0]
    reference, truth = walker(3, 10, 10)[order], walker(3, 10, 10, GREEN)[order]
    guide = Oracle(reference, truth)
    result = animate(Poses(truth, truth), reference, truth[0], guide=guide)  # type: ignore[arg-type]
    assert np.array_equal(result, truth) and guide.encoded == [(0, 1), (1, 3)]
    still = reference[[0, 5]]  # nothing moves
    assert np.array_equal(animate(Poses(truth, truth), still, truth[0], guide=guide), truth[[0, 5]])  # type: ignore[arg-type]


def test_what_was_made_is_remembered_by_the_tensor_itself() -> None:
    asked: list[float] = []
    half = _remembered(lambda number, frame: asked.append(float(frame)) or number * frame / 2)
    one, same = torch.tensor(2.0), torch.tensor(2.0)
    assert half(1, one) is half(1, one) and half(1, same) is not half(1, one) and half(2, one) == 2
    assert asked == [2, 2, 2]


def test_a_guide_that_does_not_fit() -> None:
    reference, truth = walker(3), walker(3)
    poses, small = Poses(truth, truth), Guide(reference, truth, size=12)
    for method, guide in (("chained", small), ("direct", poses)):
        with pytest.raises(ValueError, match="for direct, and a predictor of its own"):
            animate(poses, reference, truth[0], 0, method, guide=guide)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="the guide makes frames of 12 pixels, but the model of 16"):
        animate(poses, reference, truth[0], guide=small)  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["chained", "direct"])
def test_what_the_reference_repeats_is_repeated(method: Method) -> None:
    order = [0, 1, 1, 2, 1, 0, 0]  # a pose held, and a way back
    reference, truth = walker(3)[order], walker(3, 10, 10, GREEN)[order]
    oracle = Oracle(reference, truth)
    assert np.array_equal(animate(oracle, reference, truth[0], 0, method), truth)  # type: ignore[arg-type]
    assert len(oracle.encoded) == 2
    oracle = Oracle(reference, truth)
    assert np.array_equal(animate(oracle, reference, truth[4], 4, method), truth)  # type: ignore[arg-type]
    assert len(oracle.encoded) == 2


# --- colours and alpha ---


def test_snapping_between_steps_stops_drift() -> None:
    reference, target = walker(6), walker(1, color=GREEN)[0]
    body = target[..., 3] == 255

    frames = animate(Drift(), reference, target, method="chained")  # type: ignore[arg-type]
    assert (frames[:, body] == target[body]).all()


@pytest.mark.parametrize("method", ["chained", "direct"])
def test_a_network_s_frames_are_sprites_in_the_target_s_colours(tiny_network, method: Method) -> None:
    generator = np.random.default_rng(0)
    reference = walker(4, 16, 16)
    target = np.zeros((14, 10, 4), np.uint8)
    target[3:14, 2:8] = generator.integers(90, 256, (11, 6, 4), dtype=np.uint8)
    target[3:14, 2:8, 3] = generator.choice([0, 127, 128, 255], (11, 6))
    frames = animate(Predictor(tiny_network), reference, target, 1, method)
    assert frames.dtype == np.uint8 and frames.shape == (4, 14, 10, 4)
    assert set(np.unique(frames[..., 3])) <= {0, 255} and not frames[frames[..., 3] == 0].any()
    allowed = {tuple(color) for color in palette_of(target[None])}
    assert {tuple(color) for color in palette_of(frames)} <= allowed
    assert np.array_equal(frames[1, ..., :3], over_black(target))
    assert np.array_equal(frames[1, ..., 3] == 255, target[..., 3] >= 128)


def test_a_palette_may_hold_colours_that_the_target_does_not_show() -> None:
    reference, target = walker(2), walker(1, color=GREEN)[0]
    brighter = target.copy()
    brighter[..., :3] += np.where(target[..., :3] > 0, round(255 * Drift.step), 0).astype(np.uint8)
    both = np.stack([target, brighter])
    frames = animate(Drift(), reference, target, palette=palette_of(both))  # type: ignore[arg-type]
    assert np.array_equal(frames, both)
    assert np.array_equal(animate(Drift(), reference, target), both[[0, 0]])  # type: ignore[arg-type]


# --- sizes, and errors ---


def test_sprites_stand_in_the_middle_on_the_same_ground() -> None:
    assert standing_boxes((60, 60), (60, 60), 64) == (Box(2, 2, 60, 60), Box(2, 2, 60, 60))  # as in training
    assert standing_boxes((60, 60), (48, 32), 64) == (Box(2, 2, 60, 60), Box(14, 16, 48, 32))
    assert standing_boxes((48, 48), (64, 48), 64) == (Box(16, 8, 48, 48), Box(0, 8, 64, 48))


def test_sprites_that_cannot_be_animated() -> None:
    reference, target = walker(4), walker(1)[0]
    oracle = Oracle(reference, walker(4))

    def message(reference: np.ndarray, target: np.ndarray, pose: int = 0) -> str:
        with pytest.raises(UserError) as caught:
            animate(oracle, reference, target, pose, "chained")  # type: ignore[arg-type]
        return str(caught.value)

    larger = "frames of the reference are 20 x 17 pixels, but the model takes 16 x 16 at most; sprites are not scaled"
    assert larger in message(walker(4, 17, 20), target)
    assert "frames of the target are 12 x 18 pixels" in message(reference, walker(1, 18, 12)[0])
    assert message(reference, target, 4) == "the pose is one of 4 frames, 0 to 3, not 4"
    assert "not -1" in message(reference, target, -1)
    blinking = reference.copy()
    blinking[2, ..., 3] = 127
    assert message(blinking, target) == "frame 2 of the reference is empty: it has no visible pixel"
    assert message(reference, np.zeros_like(target)) == "the target is empty: it has no visible pixel"
    on_white = np.where(target[..., 3:] > 0, target, np.uint8(255))
    assert message(reference, on_white) == (
        "the target has no transparent pixel: sprites need a transparent background, or a black one"
    )
    assert not oracle.encoded


def test_a_black_background_will_do_for_none() -> None:
    reference, truth = walker(3), walker(3, color=GREEN)
    truth[..., 3] = 255
    assert np.array_equal(animate(Oracle(reference, truth), reference, truth[0]), truth)  # type: ignore[arg-type]


def test_wrong_arrays() -> None:
    for frames in (walker(2)[..., :3], walker(2)[0], walker(2).astype(int), walker(2)[:0]):
        with pytest.raises(ValueError, match=r"sprites are uint8 \(T, H, W, 4\)"):
            check_sprites(frames, "the reference")
