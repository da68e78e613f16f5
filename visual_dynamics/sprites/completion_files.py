"""The files of a completed character: its own and the new sheets, credits, a sheet of the drafts, and their numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from visual_dynamics.images import Color, Pixels
from visual_dynamics.media import check_area, encode_png, picture_grid
from visual_dynamics.provenance import package_version
from visual_dynamics.sprites.characters import Character, Key
from visual_dynamics.sprites.complete import DOUBTFUL, Check, Drafts
from visual_dynamics.sprites.missing import Part

CREDITS, CONTACT, NUMBERS = "CREDITS.txt", "drafts.png", "drafts.json"  # files beside the character's own
BEHIND: Color = (150, 150, 150)  # sprites: light and dark outlines both show
MARK: Color = (230, 30, 30)


def completion_files(
    character: Character, parts: Sequence[Part], checks: Sequence[Check | None], drafts: Drafts, model: str, scale: int
) -> dict[str, bytes]:
    """File name -> content. What the character has stays as it is."""
    written = character.written(drafts.clips)
    return {
        **character.files,
        **written,
        CREDITS: credits_text(character, parts, model).encode(),
        CONTACT: encode_png(contact_sheet(drafts, scale)),
        NUMBERS: (json.dumps(numbers(parts, checks, drafts, model), indent=1) + "\n").encode(),
    }


def credits_text(character: Character, parts: Sequence[Part], model: str) -> str:
    """Who made the character, the references, and the drafts: what has to go with the pictures."""
    own = character.credits_for(character.animations) or "Its authors are not known: no credits came with it. Add them."
    blocks = [f"CREDITS\n\n{character.name}\n{own}"]
    for part in parts:
        names = ", ".join(part.animations)
        used = {*part.animations, *(animation for animation, _ in part.target)}
        authors = part.reference.credits_for(used) or "Its authors are not known: no credits came with it. Add them."
        how = "in its own colours" if not part.steps else f"drawn by visual-dynamics {package_version()} ({model})"
        blocks.append(
            f"{names}: after {part.reference.name}, {how}. In-between frames drawn by visual-dynamics are drafts to be "
            f"touched up.\n\n{part.reference.name}\n{authors}"
        )
    return "\n\n".join(blocks) + "\n"


def contact_sheet(drafts: Drafts, scale: int) -> Pixels:
    """(H, W, 3): a row for each clip, under each frame its doubt; frames above the limit have a red border."""
    columns = max(len(frames) for frames in drafts.clips.values())
    height, width = next(iter(drafts.clips.values())).shape[1:3]
    check_area(columns * len(drafts.clips), max(height, width), scale)
    pictures: list[Pixels] = []
    labels: list[str] = []
    for (animation, view), frames in drafts.clips.items():
        for number in range(columns):
            if number >= len(frames):
                pictures.append(np.full((1, 1, 3), 255, np.uint8))
                labels.append("")
                continue
            doubt = drafts.doubts[animation, view][number]
            pictures.append(_shown(frames[number], marked=doubt > DOUBTFUL))
            name = f"{animation} {view} " if number == 0 else ""
            labels.append(f"{name}{doubt:.2f}".encode("ascii", "replace").decode())
    return picture_grid(pictures, columns, scale, labels=labels)


def numbers(parts: Sequence[Part], checks: Sequence[Check | None], drafts: Drafts, model: str) -> dict[str, Any]:
    """What is known of each frame; doubts are shares of the error of standing still."""
    return {
        "version": package_version(),
        "model": model,
        "limit": DOUBTFUL,
        "references": [
            {
                "name": part.reference.name,
                "animations": part.animations,
                "recoloured": len(part.recoloured),
                "known frames tried": checked.frames if checked else 0,
                "error on known frames": round(checked.error, 4)
                if checked and checked.error == checked.error
                else None,
            }
            for part, checked in zip(parts, checks, strict=True)
        ],
        "layer": any(part.layer for part in parts),
        "doubts": {
            f"{animation} {view}": doubts.round(4).tolist() for (animation, view), doubts in drafts.doubts.items()
        },
        "marked": marked(drafts.doubts),
    }


def marked(doubts: Mapping[Key, Any]) -> list[str]:
    """The frames above the limit, the most doubtful first."""
    found = [
        (-float(doubt), f"{animation} {view} {number}")
        for (animation, view), each in doubts.items()
        for number, doubt in enumerate(each)
        if doubt > DOUBTFUL
    ]
    return [name for _, name in sorted(found)]


def _shown(frame: Pixels, marked: bool) -> Pixels:
    """(h, w, 4) -> (h, w, 3) over grey, its edge red if it is marked."""
    alpha = frame[..., 3:].astype(np.float32) / 255
    picture: Pixels = np.rint(frame[..., :3] * alpha + np.array(BEHIND) * (1 - alpha)).astype(np.uint8)
    if marked:
        picture[[0, -1]] = picture[:, [0, -1]] = MARK
    return picture
