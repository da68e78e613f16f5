"""A whole animation from one frame: the motions of a reference character, carried over to another one.

Frames are sprites: uint8 RGBA, colours not multiplied by alpha, a pixel there from half alpha on. The network sees
them over black, unscaled, in squares of its own size; what it predicts is cut out again (see `palette`).

Letters in shape comments: T frames of the reference, H, W their height and width; h, w those of the target; P
colours, n frames at a time, S the side of the network's frames; sizes in pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from visual_dynamics.errors import UserError
from visual_dynamics.images import Box, Pixels, crop_from_square
from visual_dynamics.sampling.palette import BRIGHT, OPAQUE, opaque_pixels, over_black, palette_of, snap_to_palette
from visual_dynamics.sampling.predictor import Predictor
from visual_dynamics.sprites.guide import find_way
from visual_dynamics.sprites.stances import find_stance

Method = Literal["chained", "direct"]


def animate(
    predictor: Predictor,
    reference: Pixels,
    target: Pixels,
    pose: int = 0,
    method: Method = "direct",
    loop: bool = False,
    snap: bool = True,
    snap_steps: bool = True,
    palette: Pixels | None = None,
    guide: Predictor | None = None,
    stances: Pixels | None = None,
) -> Pixels:
    """The target (h, w, 4), in the pose of frame `pose` of the reference (T, H, W, 4), moves alike: (T, h, w, 4).

    Frame `pose` is the target itself; see `animation_plan` for the others. What the reference repeats is repeated, so
    that held poses stand still and cycles close. Alpha is 0 or 255, and transparent pixels are black.

    snap: colours become the nearest ones of the palette (P, 3), which is the target's own unless given.
    snap_steps: "chained" goes on from snapped frames, which stops drift, whether or not the results are snapped.
    guide: a model of what comes next, for "direct": frames after the pose, with `loop` all of them, are drafted by it
    one after the other (see `guidance`), and then made by the motion from the target to the draft.
    stances: with a guide, further frames (n, H, W, 4) of the reference, outside the clip. Motions are measured from one
    of them where the target stands so, and not as the reference does in frame `pose` (see `stances`).
    """
    plan = animation_plan(len(reference), pose, method, loop)
    if guide and (method != "direct" or guide is predictor):
        raise ValueError("a guide is for direct, and a predictor of its own")
    if guide and guide.size != predictor.size:
        raise UserError(f"the guide makes frames of {guide.size} pixels, but the model of {predictor.size}")
    check_sprites(reference, "the reference")
    check_sprites(target[None], "the target")
    size = predictor.size
    reference_box, box = standing_boxes(reference.shape[1:3], target.shape[:2], size)
    palette = palette_of(target[None]) if palette is None else palette
    clip, others = (
        [_as_frame(frame) for frame in _in_squares(over_black(frames), reference_box, size)]
        for frames in (reference, reference[:0] if stances is None else stances)
    )
    sprites = np.empty((len(clip), size, size, 4), np.uint8)
    sprites[pose] = _in_squares(with_hard_edges(target[None]), box, size)[0]
    start, colored = _as_frame(sprites[pose]), partial(_snapped, target=target, palette=palette)
    twins = _twins(clip, [pose, *chain.from_iterable(plan.values())])

    stance = clip[pose]
    if guide and others:
        stance = find_stance(predictor, guide, clip, pose, others, start, colored)
    predicted, seen = _planned(predictor, clip, stance, start, plan, twins, colored if snap_steps else Tensor.cpu)
    if guide and predicted:
        order = [(pose + step) % len(clip) for step in range(len(clip) if loop else len(clip) - pose)]
        predicted = _guided(predictor, guide, clip, seen, order, twins, colored)
    if predicted:
        snapped, plain = _as_sprites(torch.stack(list(predicted.values())), target, palette)
        sprites[list(predicted)] = snapped if snap else plain
    for frame, twin in enumerate(twins):
        if frame not in predicted:
            sprites[frame] = sprites[twin]
    return crop_from_square(sprites, box)


def _twins(clip: Sequence[Tensor], order: Sequence[int]) -> list[int]:
    """Of each frame the first one, in the order in which they are made, that looks the same."""
    firsts: dict[bytes, int] = {}
    looks = [frame.numpy().tobytes() for frame in clip]
    for frame in order:
        firsts.setdefault(looks[frame], frame)
    return [firsts[look] for look in looks]


def _planned(
    predictor: Predictor,
    clip: Sequence[Tensor],
    stance: Tensor,
    target: Tensor,
    plan: dict[int, list[int]],
    twins: Sequence[int],
    as_step: Callable[[Tensor], Tensor],
) -> tuple[dict[int, Tensor], dict[int, Tensor]]:
    """Frames (3, S, S) by number: as predicted, twins left out; and all of them as the plan goes on from.

    stance: where motions from the target are measured from. as_step: from the first to the second.
    """
    pose = next(iter(plan), 0)
    seen, predicted = {pose: target}, dict[int, Tensor]()
    for source, results in plan.items():
        new = [frame for frame in results if twins[frame] == frame]
        if new:
            before = stance if source == pose else clip[source]
            made = _carry_over(predictor, before, [clip[frame] for frame in new], seen[source])
            predicted |= zip(new, made, strict=True)
            seen |= zip(new, map(as_step, made), strict=True)
        seen |= {frame: seen[twins[frame]] for frame in results}
    return predicted, seen


def _guided(
    predictor: Predictor,
    guide: Predictor,
    clip: Sequence[Tensor],
    direct: dict[int, Tensor],
    order: Sequence[int],
    twins: Sequence[int],
    snapped: Callable[[Tensor], Tensor],
) -> dict[int, Tensor]:
    """All frames but those that look like the first in `order`, as predicted from it by the motion to a draft.

    The guide drafts frames in that order; drafts of others are those that were made directly.
    """
    pose = order[0]
    target = direct[pose]
    image = predictor.encode_image(target)

    def again(draft: Tensor) -> Tensor:
        return predictor.decode(image, predictor.encode(target, draft).mean[None])[0].cpu()

    def follow(before: int, after: int, frame: Tensor) -> tuple[Tensor, float]:
        code = guide.encode(clip[before], clip[after]).mean
        draft = snapped(guide.decode(guide.encode_image(snapped(frame)), code[None])[0])
        made = again(draft)
        return made, float((snapped(made) - draft).square().sum())

    clean = {frame: again(direct[frame]) for frame in set(twins) - {pose}} | {pose: target}
    made = {frame: clean[twin] for frame, twin in enumerate(twins)}
    made |= find_way(order, made, follow, twins, clip)
    return {frame: picture for frame, picture in made.items() if twins[frame] != pose}


def animation_plan(count: int, pose: int, method: Method = "direct", loop: bool = False) -> dict[int, list[int]]:
    """Frame of the clip -> those made from it by the reference's motion between the two; made before it is used.

    "direct": all from the pose, so that errors do not add up; for models that know motions between any two frames.
    "chained": each from its neighbour, forwards and backwards from the pose. With `loop` the first frame is a neighbour
    of the last, and each frame is reached the shorter way round.
    """
    if not 0 <= pose < count:
        raise UserError(f"the pose is one of {count} frames, 0 to {count - 1}, not {pose}")
    if method == "direct":
        return {pose: [frame for frame in range(count) if frame != pose]}
    if method != "chained":
        raise UserError(f"no method {method!r}; there are chained, direct")
    ahead, behind = (count // 2, (count - 1) // 2) if loop else (count - 1 - pose, pose)
    plan: dict[int, list[int]] = {}
    for way, steps in ((1, ahead), (-1, behind)):
        for step in range(steps):
            plan.setdefault((pose + way * step) % count, []).append((pose + way * (step + 1)) % count)
    return plan


def standing_boxes(reference: tuple[int, ...], target: tuple[int, ...], size: int) -> tuple[Box, Box]:
    """Where frames (H, W) and (h, w) lie in the network's squares: in the middle, on the same ground line.

    Nothing is scaled. The taller one is in the middle of the height as well, as in training.
    """
    for (height, width), what in ((reference, "the reference"), (target, "the target")):
        if max(height, width) > size:
            told = f"{width} x {height} pixels, but the model takes {size} x {size} at most"
            raise UserError(f"the frames of {what} are {told}; sprites are not scaled")
    taller = max(reference[0], target[0])
    ground = (size - taller) // 2 + taller
    first, second = (Box(ground - height, (size - width) // 2, height, width) for height, width in (reference, target))
    return first, second


def check_sprites(frames: Pixels, what: str, first: int = 0) -> None:
    """Refuse frames (T, H, W, 4) of which one is empty or has a background; `first` is the number of the first one."""
    if frames.dtype != np.uint8 or frames.ndim != 4 or frames.shape[-1] != 4 or 0 in frames.shape:
        raise ValueError(f"sprites are uint8 (T, H, W, 4), not {frames.dtype} {frames.shape}")
    for number, frame in enumerate(frames, first):
        where = f"frame {number} of {what}" if len(frames) > 1 else what
        opaque = frame[..., 3] >= OPAQUE
        if not opaque.any():
            raise UserError(f"{where} is empty: it has no visible pixel")
        edge = np.concatenate([frame[0], frame[-1], frame[:, 0], frame[:, -1]])[:, :3].astype(np.float32)
        if opaque.all() and np.median(np.square(edge).sum(axis=1)) > BRIGHT**2:
            raise UserError(f"{where} has no transparent pixel: sprites need a transparent background, or a black one")


def with_hard_edges(frames: Pixels) -> Pixels:
    """(n, h, w, 4) -> the same with pixels that are either there or not."""
    alpha = np.where(frames[..., 3:] >= OPAQUE, np.uint8(255), np.uint8(0))
    return np.concatenate([over_black(frames), alpha], axis=-1)


def _in_squares(frames: Pixels, box: Box, size: int) -> Pixels:
    """(n, h, w, C) -> (n, S, S, C), 0 around them."""
    below, right = size - box.top - box.height, size - box.left - box.width
    return np.pad(frames, ((0, 0), (box.top, below), (box.left, right), (0, 0)))


def _as_frame(picture: Pixels) -> Tensor:
    """(S, S, 3), or with alpha and black where it is 0 -> floats (3, S, S) in [0, 1]"""
    return torch.from_numpy(picture[..., :3].copy()).permute(2, 0, 1).float() / 255


def _carry_over(predictor: Predictor, before: Tensor, after: list[Tensor], frame: Tensor) -> Tensor:
    """The motions from one frame (3, S, S) to each of n others, seen on a further one: (n, 3, S, S)."""
    codes = [predictor.encode(before, each).mean for each in after]
    return predictor.decode(predictor.encode_image(frame), torch.stack(codes))


def _snapped(predicted: Tensor, target: Pixels, palette: Pixels) -> Tensor:
    """(3, S, S), as the network sees the sprite that it becomes."""
    return _as_frame(_as_sprites(predicted[None], target, palette)[0][0])


def _as_sprites(predicted: Tensor, target: Pixels, palette: Pixels) -> tuple[Pixels, Pixels]:
    """(n, 3, S, S) -> (n, S, S, 4) in the colours of the palette, and the same in those that were predicted."""
    colors = predicted.permute(0, 2, 3, 1).cpu().numpy()
    opaque = opaque_pixels(colors, target[None])[..., None]
    alpha = np.where(opaque, np.uint8(255), np.uint8(0))
    both = snap_to_palette(colors, palette), np.rint(colors * 255).astype(np.uint8)
    snapped, plain = (np.concatenate([np.where(opaque, rgb, np.uint8(0)), alpha], axis=-1) for rgb in both)
    return snapped, plain
