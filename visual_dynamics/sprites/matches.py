"""Which frames of the reference the target's frames stand for. Without torch: mistakes are found before it is imported.

Each tag of the reference is one clip; a sheet without tags is one clip. A frame of the target has the pose of one frame
of a clip. Another view needs a frame of its own.

H, W: height and width of a frame in pixels; n frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from visual_dynamics.data.aseprite import Tag
from visual_dynamics.data.sheets import DESCRIBED, Sheet, cut_frames, read_frames, read_sheet
from visual_dynamics.errors import UserError
from visual_dynamics.images import Pixels
from visual_dynamics.sampling.palette import OPAQUE
from visual_dynamics.sprites.frames import check_sprites, standing_boxes

GUIDES = {"sprites-poses": "sprites"}  # shipped models, and what guides them
LISTED = 24  # tags in an error message, at most


class ClipMatch(NamedTuple):
    """Frames first ... last of the reference, and the frame of the target that has the pose of one of them."""

    first: int
    last: int
    pose: int  # frame of the reference
    target: int  # frame of the target
    tags: tuple[Tag, ...]  # within these frames

    @property
    def frames(self) -> slice:
        return slice(self.first, self.last + 1)


def other_starts(reference: Sheet, match: ClipMatch) -> Pixels:
    """First frames (n, H, W, 4) of tags that begin outside the clip, other than empty ones: start poses to try."""
    outside = {tag.first for tag in reference.tags} - set(range(match.first, match.last + 1))
    frames = reference.frames[sorted(outside)]
    return frames[(frames[..., 3] >= OPAQUE).any(axis=(1, 2))]


def find_matches(reference: Sheet, target: Sheet, tag: str | None = None, pose: int | None = None) -> list[ClipMatch]:
    """Which clips to animate from which frames. Raises UserError for sprites that cannot be animated.

    A target of one frame: the clip of the tag or, without one, all tags that hold the pose, as one clip. A target of
    several frames: each tag of the reference for which it has a frame, the first of its own tag of that name. If it has
    no tags it needs one frame for each tag of the reference, in order.

    tag: of the reference; pose: the frame that the target stands for, from 0 in the tag, or in the sheet without one.

    What a frame looks like is not used. Of the 21 frames that begin a clip of another of Reed's test characters, the
    one of the nearest silhouette (boxes matched) begins the same clip in only 34 % of cases.
    """
    if len(target.frames) > 1:
        matches = _match_by_name(reference, target, tag, pose)
    else:
        names = {tag.name for tag in reference.tags}
        own = [tag.name for tag in target.tags if tag.name in names]
        matches = [_match_picture(reference, own[0] if tag is None and own else tag, pose)]
    for match in matches:
        check_sprites(reference.frames[match.frames], "the reference", match.first)
        what = "the target" if len(target.frames) == 1 else f"frame {match.target} of the target"
        check_sprites(target.frames[match.target][None], what)
    return matches


def _match_picture(reference: Sheet, name: str | None, pose: int | None) -> ClipMatch:
    if name is None and pose is None and len(reference.tags) > 1 and any(tag.first > 0 for tag in reference.tags):
        found = f"it has {len(reference.tags)} tags, {_names(reference.tags)}"
        raise UserError(f"say with --tag, or --pose, where in the reference the target's frame belongs: {found}")
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
    return ClipMatch(first, last, place, 0, inside)


def _match_by_name(reference: Sheet, target: Sheet, name: str | None, pose: int | None) -> list[ClipMatch]:
    count, tags = len(target.frames), reference.tags
    if target.tags:
        frames = {tag.name: tag.first for tag in reversed(target.tags)}  # of two tags of a name the first
        pairs = [(tag, frames[tag.name]) for tag in tags if tag.name in frames]
    elif count == len(tags):
        pairs = list(zip(tags, range(count), strict=True))
    else:
        more = f", or {len(tags)}, one for each tag of the reference" if len(tags) > 1 else ""
        raise UserError(f"the target has {count} frames without tags, but needs one{more}")
    wanted = "a tag of the reference"
    if name is not None:
        chosen, wanted = _tag_of(reference, name), f"tag {name!r}"
        pairs = [(tag, frame) for tag, frame in pairs if tag == chosen]
    if not pairs:
        raise UserError(f"the target has no frame for {wanted}: it has {_names(target.tags)}")
    return [ClipMatch(tag.first, tag.last, _pose_in(tag, pose, repr(tag.name)), frame, (tag,)) for tag, frame in pairs]


def _tag_of(reference: Sheet, name: str) -> Tag:
    found = [tag for tag in reference.tags if tag.name == name]
    if len(found) != 1:
        problem = "has no tag" if not found else f"has {len(found)} tags"
        raise UserError(f"the reference {problem} {name!r}: it has {_names(reference.tags)}")
    return found[0]


def _pose_in(tag: Tag, pose: int | None, what: str) -> int:
    """A pose counted from the start of the tag (None: the first frame) -> its number in the sheet."""
    length = tag.last - tag.first + 1
    if not 0 <= (pose or 0) < length:
        raise UserError(f"the pose is one of the {length} frames of {what}, 0 to {length - 1}, not {pose}")
    return tag.first + (pose or 0)


def _names(tags: Sequence[Tag]) -> str:
    names = [repr(tag.name) for tag in tags]
    more = [f"{len(names) - LISTED} more"] if len(names) > LISTED else []
    return ", ".join(names[:LISTED] + more) or "no tags"


def read_target(path: Path, cell: tuple[int, int] | None, reference: Sheet, rows_are_animations: bool = True) -> Sheet:
    """A frame, or a sheet with a frame for each tag of the reference; the file is opened once.

    A picture without cells, or no larger than one, is a frame. A picture with as many cells as the reference has tags
    holds a frame for each, in order. In any other the rows are tags.
    """
    if path.is_dir() or path.suffix.lower() in DESCRIBED:
        return read_sheet(path)
    frames, durations = read_frames(path)
    size = frames.shape[2], frames.shape[1]
    whole = cell is None or (size[0] <= cell[0] and size[1] <= cell[1])
    cells = cut_frames(frames, durations, size if cell is None or whole else cell, rows_are_animations, str(path))
    in_order = whole or len(cells.frames) in (1, len(reference.tags))
    return replace(cells, tags=()) if in_order else cells


def check_size(reference: Sheet, target: Sheet, size: int, whole: bool) -> None:
    """Raise UserError for frames that are too large for the model; whole: the target is a picture without cells."""
    sizes = reference.frames.shape[1:3], target.frames.shape[1:3]
    try:
        standing_boxes(*sizes, size)
    except UserError as error:
        if whole and max(sizes[0]) <= size:
            raise UserError(f"{error}; if the target holds several frames, give the size of one with --cell") from error
        raise
