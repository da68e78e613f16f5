"""Animation between sprite sheets: which frames of the reference a target's frame stands for, and files of the result.

Each tag of the reference is one clip; a sheet without tags is one clip. A frame of the target stands for one frame of a
clip, its pose: other views are out of reach from there, and need a frame of their own.

Letters in shape comments: T frames, H, W height and width of a frame in pixels.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from visual_dynamics.cli.output import GREY, ResultFolder
from visual_dynamics.data.aseprite import Tag
from visual_dynamics.data.sheets import Sheet, read_grid, read_sheet
from visual_dynamics.errors import UserError
from visual_dynamics.images import Color, Pixels, open_image
from visual_dynamics.media import check_area, picture_grid
from visual_dynamics.sampling.palette import OPAQUE, palette_of
from visual_dynamics.sampling.predictor import Predictor
from visual_dynamics.sprites.align import Alignment, Moving, align
from visual_dynamics.sprites.animation import Method, animate, check_sprites, standing_boxes
from visual_dynamics.sprites.files import encode_sprite_clip, sheet_files
from visual_dynamics.weights import find_weights, load_weights, shipped_models

COLUMNS = 13  # frames side by side in the comparison, at most
BEHIND: Color = (150, 150, 150)  # sprites: light and dark outlines both show
GUIDES = {"sprites-poses": "sprites"}  # shipped models and the models that guide them
NAMES_TOLD = 24  # tags that an error message lists


@dataclass(frozen=True)
class Options:
    """What to animate, and how; see `applications.animation.animate` for method to snap_steps."""

    tag: str | None = None  # of the reference
    pose: int | None = None  # the frame of the reference that the target stands for, from 0 in the tag, or in the sheet
    method: Method = "direct"
    loop: bool = False
    snap: bool = True
    snap_steps: bool = True
    align: bool = True  # move sprites to where the network knows them, see `applications.alignment`


class Clip(NamedTuple):
    """Frames of the reference to follow, counted in its sheet, and the frame of the target that they start from."""

    first: int
    last: int
    pose: int
    target: int
    tags: tuple[Tag, ...]  # within these frames

    @property
    def frames(self) -> slice:
        return slice(self.first, self.last + 1)


@dataclass(frozen=True)
class Animation:
    """The sheet of the target, and the frames it follows: as many, in the same order, with the same times and tags."""

    sheet: Sheet
    reference: Sheet
    given: tuple[int, ...]  # frames of the sheet that are the target's own
    alignment: Alignment | None = None


def animate_files(
    predictor: Predictor,
    reference: Sheet,
    target: Sheet,
    options: Options | None = None,
    guide: Predictor | None = None,
) -> Animation:
    """The target, in the poses that it is given in, moved as the reference moves: clip after clip.

    Its palette is that of all its frames that are used. `guide`: see `applications.animation.animate`.
    """
    options = options or Options()
    clips = find_clips(reference, target, options)
    palette = palette_of(target.frames[[clip.target for clip in clips]])
    moving = [
        Moving(reference.frames[clip.frames], clip.pose - clip.first, target.frames[clip.target]) for clip in clips
    ]
    alignment = align(predictor, moving) if options.align else None
    results: list[Pixels] = []
    tags: list[Tag] = []
    given = []
    count = 0
    for clip, given_frames in zip(clips, moving, strict=True):
        length = len(given_frames.reference)
        stances = starts_elsewhere(reference, clip)
        placed = given_frames._replace(reference=np.concatenate([given_frames.reference, stances]))
        placed = alignment.place(placed, predictor.size) if alignment else placed
        frames = animate(
            predictor,
            placed.reference[:length],
            placed.target,
            placed.pose,
            options.method,
            options.loop,
            options.snap,
            options.snap_steps,
            palette,
            guide,
            placed.reference[length:],
        )
        frames = alignment.undo(frames, given_frames) if alignment else frames
        shift = count - clip.first
        tags += [replace(tag, first=tag.first + shift, last=tag.last + shift) for tag in clip.tags]
        given.append(clip.pose + shift)
        results.append(frames)
        count += len(frames)
    followed = np.concatenate([np.arange(clip.first, clip.last + 1) for clip in clips])
    durations = reference.durations[followed]
    return Animation(
        sheet=Sheet(np.concatenate(results), durations, tuple(tags)),
        reference=Sheet(reference.frames[followed], durations, tuple(tags)),
        given=tuple(given),
        alignment=alignment,
    )


def starts_elsewhere(reference: Sheet, clip: Clip) -> Pixels:
    """First frames (n, H, W, 4) of tags that do not begin in the clip, other than empty ones: stances to try."""
    outside = {tag.first for tag in reference.tags} - set(range(clip.first, clip.last + 1))
    frames = reference.frames[sorted(outside)]
    return frames[(frames[..., 3] >= OPAQUE).any(axis=(1, 2))]


def find_clips(reference: Sheet, target: Sheet, options: Options) -> list[Clip]:
    """What is to be animated from which frame; refuses sprites that cannot be.

    A target of one frame animates the tag that is asked for or, unasked, all tags that hold the pose, as one clip. One
    of several frames animates each tag of which it has a frame: the first of its own tag of that name or, where it has
    no tags, the one in the tag's place.

    Nothing is guessed from what a frame looks like. Of the 21 frames that begin a clip of another of Reed's test
    characters, the one of the nearest silhouette (boxes matched) begins the same clip in 34 % of cases.
    """
    if len(target.frames) > 1:
        clips = _clips_by_name(reference, target, options)
    else:
        names = {tag.name for tag in reference.tags}
        own = [tag.name for tag in target.tags if tag.name in names]
        clips = [_clip_of_picture(reference, own[0] if options.tag is None and own else options.tag, options.pose)]
    for clip in clips:
        check_sprites(reference.frames[clip.frames], "the reference", clip.first)
        what = "the target" if len(target.frames) == 1 else f"frame {clip.target} of the target"
        check_sprites(target.frames[clip.target][None], what)
    return clips


def _clip_of_picture(reference: Sheet, name: str | None, pose: int | None) -> Clip:
    if name is None and pose is None and len(reference.tags) > 1 and any(tag.first > 0 for tag in reference.tags):
        told = f"it has {len(reference.tags)} tags, {_names(reference.tags)}"
        raise UserError(f"say with --tag, or --pose, where in the reference the target's frame belongs: {told}")
    whole = Tag("", 0, len(reference.frames) - 1)
    if name is not None:
        around = [_tag_of(reference, name)]
        place = _pose_in(around[0], pose, repr(name))
    else:
        place = _pose_in(whole, pose, "the reference")
        around = [tag for tag in reference.tags or (whole,) if tag.first <= place <= tag.last]
        if not around:
            raise UserError(f"frame {place} of the reference has no tag: choose another --pose, or a --tag")
    first, last = min(tag.first for tag in around), max(tag.last for tag in around)
    inside = tuple(tag for tag in reference.tags if first <= tag.first and tag.last <= last)
    return Clip(first, last, place, 0, inside)


def _clips_by_name(reference: Sheet, target: Sheet, options: Options) -> list[Clip]:
    count, tags = len(target.frames), reference.tags
    if target.tags:
        frames = {tag.name: tag.first for tag in reversed(target.tags)}  # of two tags of a name the first
        pairs = [(tag, frames[tag.name]) for tag in tags if tag.name in frames]
    elif count == len(tags):
        pairs = list(zip(tags, range(count), strict=True))
    else:
        more = f", or {len(tags)}, one for each tag of the reference" if len(tags) > 1 else ""
        raise UserError(f"the target has {count} frames without tags, but needs one{more}")
    asked = "a tag of the reference"
    if options.tag is not None:
        wanted, asked = _tag_of(reference, options.tag), f"tag {options.tag!r}"
        pairs = [(tag, frame) for tag, frame in pairs if tag == wanted]
    if not pairs:
        raise UserError(f"the target has no frame for {asked}: it has {_names(target.tags)}")
    return [
        Clip(tag.first, tag.last, _pose_in(tag, options.pose, repr(tag.name)), frame, (tag,)) for tag, frame in pairs
    ]


def _tag_of(reference: Sheet, name: str) -> Tag:
    found = [tag for tag in reference.tags if tag.name == name]
    if len(found) != 1:
        problem = "has no tag" if not found else f"has {len(found)} tags"
        raise UserError(f"the reference {problem} {name!r}: it has {_names(reference.tags)}")
    return found[0]


def _pose_in(tag: Tag, pose: int | None, what: str) -> int:
    """A pose counted from the start of the tag, the first frame unless given -> its place in the sheet."""
    length = tag.last - tag.first + 1
    if not 0 <= (pose or 0) < length:
        raise UserError(f"the pose is one of the {length} frames of {what}, 0 to {length - 1}, not {pose}")
    return tag.first + (pose or 0)


def _names(tags: Sequence[Tag]) -> str:
    names = [repr(tag.name) for tag in tags]
    more = [f"{len(names) - NAMES_TOLD} more"] if len(names) > NAMES_TOLD else []
    return ", ".join(names[:NAMES_TOLD] + more) or "no tags"


def read_target(path: Path, cell: tuple[int, int] | None, reference: Sheet, rows_are_animations: bool = True) -> Sheet:
    """A frame, or a sheet with a frame for each tag of the reference.

    A picture without cells, or no larger than one, is a frame. One of as many cells as the reference has tags holds a
    frame for each, in order; in another the rows are tags.
    """
    size = _picture_size(path)
    if size is None:
        return read_sheet(path)
    if cell is None or (size[0] <= cell[0] and size[1] <= cell[1]):
        return read_grid(path, size)
    cells = read_grid(path, cell)
    in_order = len(cells.frames) in (1, len(reference.tags))
    return cells if in_order or not rows_are_animations else read_grid(path, cell, rows_are_animations)


def check_model(predictor: Predictor, name: str) -> None:
    """Refuse a model that knows no black background, on which sprites are animated."""
    if predictor.network.config.background > 0:
        fit = [other for other in shipped_models() if not load_weights(find_weights(other)).network.config.background]
        told = f"choose {', '.join(fit)}, or one that was trained with --preset sprites"
        raise UserError(f"{name} was not trained on a black background, on which sprites are animated: {told}")


def is_picture(path: Path) -> bool:
    """What is neither a folder of frames nor a JSON is taken for one."""
    return not path.is_dir() and path.suffix.lower() != ".json"


def check_size(reference: Sheet, target: Sheet, size: int, whole: bool) -> None:
    """Refuse frames that are too large for the model; `whole`: the target is a picture that was not cut into cells."""
    sizes = reference.frames.shape[1:3], target.frames.shape[1:3]
    try:
        standing_boxes(*sizes, size)
    except UserError as error:
        if whole and max(sizes[0]) <= size:
            raise UserError(f"{error}; if the target holds several frames, give the size of one with --cell") from error
        raise


def _picture_size(path: Path) -> tuple[int, int] | None:
    """Width and height; None for what is no picture. Whatever is wrong with one is told when it is read whole."""
    if not is_picture(path):
        return None
    try:
        with open_image(path) as picture:
            return picture.size
    except UserError:
        return 1, 1


def write_animation(folder: ResultFolder, animation: Animation, kinds: Sequence[str], scale: int) -> None:
    """sheet.png and sheet.json, a clip for each tag in each of the kinds (gif, webp, apng), and comparison.png.

    Sheet and clips have the target's own size; in the comparison pixels are enlarged.
    """
    sheet = animation.sheet
    comparison = draw_comparison(animation, scale)
    for name, data in sheet_files("sheet", sheet).items():
        folder.write(name, data)
    tags: list[Tag | None] = [*sheet.tags] or [None]
    for name, tag in zip(file_names([tag.name if tag else "" for tag in tags]), tags, strict=True):
        for kind in dict.fromkeys(kinds):
            folder.write(f"{name}.{kind}", encode_sprite_clip(sheet, f".{kind}", tag))
    folder.write_picture("comparison.png", comparison)


def file_names(names: Sequence[str]) -> list[str]:
    """Names of tags, which may hold anything, as different names of files without a suffix."""
    found: list[str] = []
    for name in names:
        plain = stem = re.sub(r"[^\w-]+", "-", name)[:80].strip("-") or "animation"
        number = 2
        while stem.lower() in map(str.lower, found):
            stem = f"{plain}-{number}"
            number += 1
        found.append(stem)
    return found


def draw_comparison(animation: Animation, scale: int) -> Pixels:
    """Clip by clip a row of the reference above a row of the result, whose given frames are labelled: (H, W, 3)."""
    reference, result = animation.reference, animation.sheet
    count = len(result.frames)
    check_area(2 * count, max(reference.frames.shape[1:3] + result.frames.shape[1:3]), scale)
    starts = {tag.first: tag.name for tag in reversed(result.tags)} | {0: result.tags[0].name if result.tags else ""}
    rows: list[list[int]] = []
    for frame in range(count):
        if frame in starts or len(rows[-1]) == COLUMNS:
            rows.append([])
        rows[-1].append(frame)
    columns = max(map(len, rows))
    blank = np.full((1, 1, 3), GREY, np.uint8)
    pictures: list[Pixels] = []
    labels: list[str] = []
    for row in rows:
        names = [f"{starts.get(frame, '')} {frame}".strip().encode("ascii", "replace").decode() for frame in row]
        results = ["given" if frame in animation.given else f"result {frame}" for frame in row]
        for sheet, words in ((reference, names), (result, results)):
            pictures += [*_over(sheet.frames[row], BEHIND), *[blank] * (columns - len(row))]
            labels += [*words, *[""] * (columns - len(row))]
    return picture_grid(pictures, columns, scale, background=GREY, labels=labels)


def _over(frames: Pixels, background: Color) -> Pixels:
    """RGBA (T, H, W, 4) -> RGB (T, H, W, 3)"""
    alpha = frames[..., 3:].astype(np.float32) / 255
    return np.rint(frames[..., :3] * alpha + np.array(background) * (1 - alpha)).astype(np.uint8)
