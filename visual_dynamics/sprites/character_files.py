"""Characters as artists keep them: read into clips, and written back with more clips in the same layout.

1. A folder in the LPC generator's layout, a sheet for each animation (walk.png, idle.png, ...), or its ZIP export.
2. A universal sheet: 13 cells wide, 21 rows of cells or more.
3. An Aseprite file or JSON, whose tags are named "walk down", "walk/down" or just "walk".
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np

from visual_dynamics.data.aseprite import USUAL_DURATION, Tag
from visual_dynamics.data.aseprite_file import SUFFIXES, aseprite_file, parse_aseprite_file
from visual_dynamics.data.sheets import DESCRIBED, Sheet, read_frames, read_sheet
from visual_dynamics.errors import UserError
from visual_dynamics.images import MAX_PIXELS, MAX_SIDE, Pixels, decode, open_image
from visual_dynamics.media import encode_png
from visual_dynamics.sprites.characters import ALL_ROWS, COLUMNS, ROWS, Character, Clips, Key, cut_sheet, lay_sheet
from visual_dynamics.sprites.files import sheet_files
from visual_dynamics.sprites.generator import ANIMATIONS, BODY_TYPES, CELL, ONE_VIEW, views_of

CLASSIC_ROWS = 21  # of universal sheets before climb, idle, ... were added
EXPORTED = {"combat_idle": "combat", "backslash": "1h_backslash", "halfslash": "1h_halfslash"}  # names in a ZIP export
FOLDERS = ("", "standard/", "custom/", "credits/")  # of an export
CREDITS = ("credits.txt", "credits.csv", "authors.txt", "attribution.txt")
VIEW_NAMES = {"up": "up north n back", "left": "left west w", "down": "down south s front", "right": "right east e"}
VIEW_OF = {word: view for view, words in VIEW_NAMES.items() for word in words.split()}
SIDE = "down"  # the view of a tag that names none
ENTRY = b"PK\1\2"  # with it begins what a ZIP says of each file


class Bounds(NamedTuple):
    """What one character may hold, at most."""

    files: int = 500  # of a folder or ZIP
    unpacked: int = 2**27  # bytes of these files
    pixels: int = MAX_PIXELS  # of a universal sheet, or of all frames of an Aseprite file
    side: int = MAX_SIDE  # pixels of a frame of an Aseprite file

    def check(self, name: str, files: int, size: int) -> None:
        if files > self.files or size > self.unpacked:
            limits = f"at most {self.files} files and {self.unpacked // 2**20} MiB"
            raise UserError(f"{name} holds too much for one character ({limits})")


@dataclass(frozen=True)
class _Source:
    """Where a character comes from."""

    name: str  # in messages
    stem: str  # name of the character, and of the files that are written
    suffix: str = ""
    parts: Sequence[str] = ()  # of its path: they may name the body type
    beside: Mapping[str, bytes] = field(default_factory=dict)  # files with credits


def read_character(path: Path) -> Character:
    """Any of the layouts, told apart by what the path holds."""
    if not path.exists():
        raise UserError(f"cannot read {path}: there is no such file or folder")
    suffix = path.suffix.lower()
    source = _Source(str(path), path.stem, suffix, path.absolute().parts)
    if path.is_dir() or suffix == ".zip":
        return _of_sheets(_folder_files(path) if path.is_dir() else _unpacked(path, source.name), source)
    source = replace(source, beside=_beside(path))
    if suffix in DESCRIBED:
        return _of_tags(read_sheet(path), source)
    return _of_rows(read_frames(path)[0], source)


def parse_character(data: bytes, name: str, bounds: Bounds = Bounds()) -> Character:  # noqa: B008
    """The same for a file that is in memory, by its name: a ZIP, an Aseprite file, or the PNG of a universal sheet."""
    path = PurePosixPath(name)
    source = _Source(name, path.stem, path.suffix.lower(), (path.stem,))
    if source.suffix == ".zip":
        return _of_sheets(_unpacked(io.BytesIO(data), name, bounds), source)
    if source.suffix in SUFFIXES:
        frames, durations, tags = parse_aseprite_file(data, name, bounds.pixels, bounds.side)
        return _of_tags(Sheet(frames, np.array(durations, np.int64), tags), source)
    if source.suffix == ".json":
        raise UserError(f"{name} needs its picture: save the sprite as an .aseprite file")
    return _of_rows(read_frames(data, name, ["PNG"], bounds.pixels)[0], source)


# --- a sheet for each animation ---


def _of_sheets(files: dict[str, bytes], source: _Source) -> Character:
    own = {exported: name for name, exported in EXPORTED.items()} | {name: name for name in ANIMATIONS}
    pngs = {name: PurePosixPath(name).stem for name in files if name.lower().endswith(".png")}
    sheets = {name: own[stem] for name, stem in pngs.items() if stem in own}
    clips: dict[Key, Pixels] = {}
    wide, unread, remarks = set[bool](), set[str](), []
    for name, animation in sorted(sheets.items(), key=lambda one: ROWS[one[1]]):
        frames, views = ANIMATIONS[animation]
        picture, size = _decoded(files[name], f"{name} in {source.name}", frames, views)
        if picture is None:
            unread.add(animation)
            remarks.append(f"{name} is kept, but not used: {_wrong_size(size, frames, views)}")
        elif not picture[..., 3].any():
            remarks.append(f"{name} is empty: {animation} counts as missing")
        else:
            clips |= cut_sheet(animation, picture)
            wide |= {picture.shape[1] == CELL * COLUMNS} if frames < COLUMNS else set()
    if others := sorted(pngs.keys() - sheets.keys()):
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        remarks.append(f"kept, but not used, as no animation has such a name: {', '.join(others[:3])}{more}")
    if not clips:
        known = ", ".join([f"{name}.png" for name in list(ANIMATIONS)[:3]])
        problem = "all its sheets are empty" if sheets and not unread else f"none of {known} ... can be read"
        problem += "; export it split by animation" * any(name.startswith("items/") for name in files)
        raise UserError(f"nothing can be drawn from {source.name}: " + "; ".join([problem, *remarks][:2]))
    exported = any(name.startswith("standard/") for name in sheets)

    def written(made: Clips) -> dict[str, bytes]:
        new = {}
        for animation in dict.fromkeys(animation for animation, _ in made):
            name = f"standard/{EXPORTED.get(animation, animation)}" if exported else animation
            width = CELL * (COLUMNS if wide == {True} else ANIMATIONS[animation][0])
            new[f"{name}.png"] = encode_png(lay_sheet(animation, made, width))
        return new

    body = _body(source, files)
    return Character(source.stem, clips, written, files, frozenset(unread), _credits(files), body, tuple(remarks))


def _decoded(data: bytes, name: str, frames: int, views: int) -> tuple[Pixels | None, tuple[int, int]]:
    """A sheet and its width and height; None in place of its pixels where these do not fit the animation."""
    sizes = [(CELL * columns, CELL * views) for columns in (frames, COLUMNS)]
    with open_image(data, name, formats=["PNG"]) as image:
        if image.size not in sizes:  # nothing of it is decoded
            return None, image.size
        picture = decode(image).rgba
    height, width = picture.shape[:2]
    return (picture if (width, height) in sizes else None), (width, height)  # it may have been turned upright


def _wrong_size(size: tuple[int, int], frames: int, views: int) -> str:
    width, height = size
    cell = next((f"; cells of {side} px?" for side in (128, 192) if height == views * side), "")
    return f"it is {width} x {height} pixels, not {frames * CELL} x {views * CELL}{cell}"


def _folder_files(path: Path) -> dict[str, bytes]:
    """The files of a folder and of those that an export has in it."""
    found: dict[str, bytes] = {}
    try:
        for below in FOLDERS:
            inside = sorted((path / below).iterdir()) if (path / below).is_dir() else []
            for file in inside:
                if file.is_file() and not file.name.startswith("."):
                    Bounds().check(str(path), len(found) + 1, sum(map(len, found.values())) + file.stat().st_size)
                    found[f"{below}{file.name}"] = file.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error
    return found


def _unpacked(source: Path | io.BytesIO, path: str, bounds: Bounds = Bounds()) -> dict[str, bytes]:  # noqa: B008
    """The files of a ZIP, by their paths below the one folder that may hold them all."""
    found: dict[str, bytes] = {}
    try:
        if isinstance(source, io.BytesIO):  # before its list of files is read
            bounds.check(path, source.getvalue().count(ENTRY) // 2, 0)
        with zipfile.ZipFile(source) as archive:
            entries = [each for each in archive.infolist() if not each.is_dir() and "__MACOSX" not in each.filename]
            tops = {each.filename.split("/")[0] for each in entries}
            top = f"{tops.pop()}/" if len(tops) == 1 and f"{min(tops)}/" not in (*FOLDERS, "items/") else ""
            for entry in entries:
                name = entry.filename.removeprefix(top)
                if name.startswith("/") or "\\" in name or ".." in PurePosixPath(name).parts:
                    raise UserError(f"{path} holds a file outside of itself: {name!a}")
                if not name.isprintable():
                    raise UserError(f"{path} holds a file with signs in its name that cannot be shown: {name!a}")
                bounds.check(path, len(found) + 1, sum(map(len, found.values())) + entry.file_size)
                if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise UserError(f"cannot read {path}: it is compressed in a way that may unpack without end")
                with archive.open(entry) as stream:  # no more than it says of itself
                    found[name] = stream.read(entry.file_size + 1)
    except UserError:
        raise
    except Exception as error:  # zipfile raises many kinds of error for a damaged or encrypted file
        raise UserError(f"{path} is no readable ZIP: {error}") from error
    return found


def _credits(files: Mapping[str, bytes]) -> dict[str, str]:
    texts = {PurePosixPath(name).name.lower(): data for name, data in files.items()}
    known = next((texts[name] for name in CREDITS if name in texts), b"")
    return {"": known.decode(errors="replace").strip()} if known.strip() else {}


def _body(source: _Source, files: Mapping[str, bytes]) -> str:
    """The body type, where an export or the path of a layer names it."""
    named = re.search(rb'"bodyType":\s*"([a-z]+)"', files.get("character.json", b""))
    words = [named[1].decode()] if named else [part.lower() for part in reversed(source.parts)]
    return next((word for word in words if word in BODY_TYPES), "")


# --- a universal sheet ---


def _of_rows(pictures: Pixels, source: _Source) -> Character:
    picture, path = pictures[0], source.name
    height, width = picture.shape[:2]
    rows = height // CELL
    if len(pictures) > 1 or width < COLUMNS * CELL or rows < CLASSIC_ROWS or width % CELL or height % CELL:
        wanted = f"{COLUMNS * CELL} pixels wide and at least {CLASSIC_ROWS * CELL} high"
        raise UserError(
            f"{path} is no universal sheet, which is {wanted}, but {width} x {height}: "
            "give a folder with a sheet for each animation, a ZIP export, or an Aseprite file"
        )
    if width > COLUMNS * CELL and rows < ALL_ROWS:
        raise UserError(f"{path} is wider than {COLUMNS} cells: below row {CLASSIC_ROWS} its cells are larger ones")
    clips: dict[Key, Pixels] = {}
    for animation, start in ROWS.items():
        part = picture[CELL * start : CELL * (start + ANIMATIONS[animation][1])]
        if part.shape[0] == CELL * ANIMATIONS[animation][1] and part[:, : COLUMNS * CELL, 3].any():
            clips |= cut_sheet(animation, part)
    if not clips:
        raise UserError(f"{path} is empty, so nothing can be drawn")

    def written(made: Clips) -> dict[str, bytes]:
        animations = dict.fromkeys(animation for animation, _ in made)
        ends = [ROWS[animation] + ANIMATIONS[animation][1] for animation in animations]
        tall = max(rows, ALL_ROWS) if max(ends, default=0) > rows else rows
        sheet = np.pad(picture, ((0, CELL * tall - height), (0, 0), (0, 0)))
        for animation in animations:
            laid = lay_sheet(animation, made, COLUMNS * CELL)
            sheet[CELL * ROWS[animation] :][: len(laid), : COLUMNS * CELL] = laid
        return {f"{source.stem}.png": encode_png(sheet)}

    return Character(source.stem, clips, written, credits=_credits(source.beside), body=_body(source, {}))


# --- tags ---


def _of_tags(sheet: Sheet, source: _Source) -> Character:
    if not sheet.tags:
        raise UserError(f"{source.name} has no tags: name its animations, 'walk down' or 'walk', in Aseprite")
    clips: dict[Key, Pixels] = {}
    patterns: dict[str, str] = {}
    for tag in sheet.tags:
        frames = sheet.frames[tag.first : tag.last + 1]
        for key, part in _clips_of(tag, frames):
            clips.setdefault(key, part)
        _, view, pattern = read_tag(tag.name)
        patterns.setdefault(view or SIDE, pattern)
    usual = next(iter(patterns.values()))

    def written(made: Clips) -> dict[str, bytes]:
        tags, count = list(sheet.tags), len(sheet.frames)
        for (animation, view), frames in made.items():
            name = patterns.get(view, usual if len(patterns) == 1 else "{} " + view).format(animation)
            tags.append(Tag(name, count, count + len(frames) - 1))
            count += len(frames)
        frames = np.concatenate([sheet.frames, *made.values()])
        more = np.full(count - len(sheet.frames), USUAL_DURATION, sheet.durations.dtype)
        whole = Sheet(frames, np.concatenate([sheet.durations, more]), tuple(tags))
        if source.suffix in SUFFIXES:
            data = aseprite_file(whole.frames, whole.durations.tolist(), whole.tags, source.stem)
            return {f"{source.stem}{source.suffix}": data}
        return sheet_files(source.stem, whole)

    return Character(source.stem, clips, written, credits=_credits(source.beside), body=_body(source, {}))


def read_tag(name: str) -> tuple[str, str, str]:
    """ "Walk/Down" -> ("walk", "down", "{}/Down"): animation, view or "", and the form of such names."""
    words = list(re.finditer(r"[A-Za-z0-9_]*[A-Za-z0-9]", name.replace("_", " ")))
    found = [word for word in words if word[0].lower() in VIEW_OF]
    if not found or len(words) < 2:
        return _animation(name), "", "{}"
    last = found[-1]
    rest = (name[: last.start()] + name[last.end() :]).strip(" _-/.:")
    start = name.index(rest) if rest in name else 0
    pattern = "{}".join(part.replace("{", "").replace("}", "") for part in (name[:start], name[start + len(rest) :]))
    return _animation(rest), VIEW_OF[last[0].lower()], pattern


def _animation(name: str) -> str:
    plain = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or (name if name.isprintable() else ascii(name))
    return next((own for own, exported in EXPORTED.items() if plain == exported), plain)


def _clips_of(tag: Tag, frames: Pixels) -> Iterator[tuple[Key, Pixels]]:
    """A tag without a view may hold all four, one after the other."""
    animation, view, _ = read_tag(tag.name)
    if not view and ANIMATIONS.get(animation) == (len(frames) // 4, 4) and len(frames) % 4 == 0:
        yield from (
            ((animation, each), part) for each, part in zip(views_of(animation), np.split(frames, 4), strict=True)
        )
    else:
        yield (animation, view or ONE_VIEW.get(animation, SIDE)), frames


def _beside(path: Path) -> dict[str, bytes]:
    """Credits in the folder of a file."""
    try:
        names = [each for each in path.parent.iterdir() if each.name.lower() in CREDITS and each.is_file()]
        return {each.name: each.read_bytes()[: Bounds().unpacked] for each in names}
    except OSError:
        return {}
