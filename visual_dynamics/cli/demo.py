"""The demonstration: one page of futures, reconstructions, analogies and clips of pictures the model has never seen.

The text and the layout are in demo.html; here are the pictures and their places. Numbers on the page start at 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from visual_dynamics.api import Frames, Model
from visual_dynamics.cli.options import track
from visual_dynamics.cli.pictures import ResultFolder
from visual_dynamics.data.shapes import SIZE, Scenes, clear_scenes, scene_pairs
from visual_dynamics.errors import UserError
from visual_dynamics.media import picture_grid
from visual_dynamics.model_files import digest_of, find_weights, shipped_models

INPUTS, FUTURES, STEPS = 4, 8, 8
PAIR_FPS, CLIP_FPS = 1.5, 4.0
FILE_SCALE = 3  # of animations, which may be opened without the page
GREY = (150, 150, 150)  # between the frames of a sheet, on light pages and dark ones
TEMPLATE = Path(__file__).with_name("demo.html")
STYLE = Path(__file__).parents[1] / "reporting" / "page.css"


@dataclass(frozen=True)
class Exhibit:
    """All pictures of one input, as the model sees them, uint8 (..., H, W, 3)."""

    frame: Frames
    truth: Frames  # the true next frame
    futures: Frames  # (FUTURES, H, W, 3)
    reconstruction: Frames
    analogy: Frames  # the frame moved as its partner moved
    answer: Frames  # what the rules of the world make of that
    clip: Frames  # (STEPS + 1, H, W, 3): the first future, and what follows when its motion repeats


def make_demo(model: Model, seed: int, folder: ResultFolder) -> Path:
    """Draw inputs, show what the model makes of them, and return the path of the page."""
    if seed < 0:
        raise UserError(f"seed must be a whole number from 0 up, not {seed}")
    exhibits = list(track(_exhibits(model, clear_scenes(INPUTS, seed), seed), INPUTS, "making the page"))
    for number, exhibit in enumerate(exhibits, 1):
        _write_pictures(folder, number, exhibit)
    rows = [picture for exhibit in exhibits for picture in (exhibit.frame, *exhibit.futures)]
    folder.write_picture("overview.png", picture_grid(rows, columns=1 + FUTURES, scale=2))
    folder.write("index.html", _page(model, seed, exhibits).encode())
    return folder.path / "index.html"


def input_seed(seed: int, number: int) -> int:
    """Each input is shown with motions of its own; `sample --seed` takes the same number."""
    return seed + number - 1


def partner(number: int) -> int:
    """The input whose motion an input takes over."""
    return number % INPUTS + 1


def _exhibits(model: Model, scenes: Scenes, seed: int) -> Iterator[Exhibit]:
    partners = [partner(number) - 1 for number in range(1, INPUTS + 1)]
    as_partner = scene_pairs(replace(scenes, motions=scenes.motions[partners]), "smooth", SIZE)
    pairs = scene_pairs(scenes, "smooth", SIZE)
    frames, truths, answers = (
        tensor.permute(0, 2, 3, 1).numpy() for tensor in (pairs.frames, pairs.next_frames, as_partner.next_frames)
    )
    # Each motion serves its own reconstruction, and another input's analogy.
    motions = [model.encode(frame, truth) for frame, truth in zip(frames, truths, strict=True)]
    for index in range(INPUTS):
        frame, drawn_with = frames[index], input_seed(seed, index + 1)
        futures = model.sample(frame, FUTURES, drawn_with)
        reconstruction, analogy = (model.apply(frame, motions[source]) for source in (index, partners[index]))
        clip = model.extrapolate(frame, STEPS, drawn_with)
        seen = [model.open(picture).still() for picture in (frame, truths[index], answers[index])]
        yield Exhibit(seen[0], seen[1], futures, reconstruction, analogy, seen[2], clip)


def _write_pictures(folder: ResultFolder, number: int, exhibit: Exhibit) -> None:
    def write(name: str, frames: Sequence[Frames], fps: float = PAIR_FPS) -> None:
        """An animation to take away, and its end, which the page shows."""
        folder.write_clips(name, frames, FILE_SCALE, ["webp"], fps)
        folder.write_picture(f"{name}.png", frames[-1])

    folder.write_picture(f"input_{number}.png", exhibit.frame)
    for k, future in enumerate(exhibit.futures, 1):
        write(f"future_{number}_{k}", [exhibit.frame, future])
    write(f"truth_{number}", [exhibit.frame, exhibit.truth])
    write(f"reconstruction_{number}", [exhibit.frame, exhibit.reconstruction])
    write(f"analogy_{number}", [exhibit.frame, exhibit.analogy])
    write(f"answer_{number}", [exhibit.frame, exhibit.answer])
    first, last = exhibit.clip[0], exhibit.clip[-1]
    write(f"clip_{number}", [first, *exhibit.clip, last, last], CLIP_FPS)  # rests at both ends
    folder.write_picture(f"sheet_{number}.png", picture_grid(exhibit.clip, columns=3, gap=2, background=GREY))


# --- the page: pieces of HTML for the places in the template ---


def _page(model: Model, seed: int, exhibits: Sequence[Exhibit]) -> str:
    name = _shipped_name(model.weights.digest)
    option = f"--model {name or 'WEIGHTS.safetensors'}"
    numbered = list(enumerate(exhibits, 1))
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        style=STYLE.read_text(encoding="utf-8"),
        futures="\n".join(_futures(number, seed, option) for number, _ in numbered),
        reconstructions="\n".join(_reconstruction(number, exhibit) for number, exhibit in numbered),
        analogies="\n".join(_analogy(number, exhibit) for number, exhibit in numbered),
        clips="\n".join(_clip(number) for number, _ in numbered),
        size=model.size,
        period=f"{2 / PAIR_FPS:.3f}s",
        model=escape(name or "a weights file that is not shipped"),
        digest=model.weights.digest,
        seed=seed,
        command=escape(f"visual-dynamics demo {option} --seed {seed}"),
        training=escape(training_line(model.weights.training)),
    )


def _futures(number: int, seed: int, model_option: str) -> str:
    command = f"visual-dynamics sample input_{number}.png {model_option} --seed {input_seed(seed, number)} -n 100"
    tiles = [_still(f"input_{number}.png", f"Picture {number}: a circle, a square and a triangle", f"Picture {number}")]
    for k in range(1, FUTURES + 1):
        tiles.append(_flip(number, f"future_{number}_{k}", f"Future {k} of picture {number}", f"Future {k}"))
    return (
        f'<section class="wall" aria-label="Picture {number}">\n'
        + "\n".join(tiles)
        + f'\n<p class="more">More of picture {number}: <code>{escape(command)}</code></p>\n</section>'
    )


def _reconstruction(number: int, exhibit: Exhibit) -> str:
    return _card(
        f"Picture {number}",
        _flip(number, f"truth_{number}", f"The true next frame of picture {number}", "What truly happened"),
        _flip(number, f"reconstruction_{number}", "That frame as rebuilt by the model", "What the model rebuilt"),
        note=_error(exhibit.reconstruction, exhibit.truth, exhibit.frame),
    )


def _analogy(number: int, exhibit: Exhibit) -> str:
    other = partner(number)
    return _card(
        f"Picture {other} moves, picture {number} follows",
        _flip(other, f"truth_{other}", f"The true motion of picture {other}", f"The motion of picture {other}"),
        _flip(number, f"analogy_{number}", f"Picture {number} moved like picture {other}", f"On picture {number}"),
        _flip(number, f"answer_{number}", f"Picture {number} moved by the rules of its world", "The right answer"),
        note=_error(exhibit.analogy, exhibit.answer, exhibit.frame),
    )


def _clip(number: int) -> str:
    frames = STEPS + 1
    alt = f"A clip of {frames} frames that starts from picture {number}"
    moving = f'<img class="moving" src="clip_{number}.webp" alt="{alt}">'
    still = f'<img class="still" src="clip_{number}.png" alt="{alt}: the last one">'  # where nothing should move
    return _card(
        f"Picture {number}, future 1, {STEPS} steps",
        _figure(f'<a href="clip_{number}.webp">{moving}{still}</a>', "The clip"),
        _still(f"sheet_{number}.png", f"The {frames} frames of the clip, row by row", f"Its {frames} frames"),
    )


def _card(title: str, *figures: str, note: str = "") -> str:
    body = "\n".join(figures)
    end = f'\n<p class="note">{note}</p>' if note else ""
    return f'<section class="card">\n<h3>{title}</h3>\n<div class="row">\n{body}\n</div>{end}\n</section>'


def _flip(number: int, name: str, alt: str, caption: str) -> str:
    """Input and result in turn. The style sheet turns all of them in step, which animated files would not do:
    browsers start each of those when it is first seen."""
    start = f'<img src="input_{number}.png" alt="">'
    end = f'<img class="end" src="{name}.png" alt="{alt}">'
    return _figure(f'<a class="flip" href="{name}.webp">{start}{end}</a>', caption)


def _still(source: str, alt: str, caption: str) -> str:
    return _figure(f'<img src="{source}" alt="{alt}">', caption)


def _figure(content: str, caption: str) -> str:
    return f"<figure>{content}<figcaption>{caption}</figcaption></figure>"


def _error(result: Frames, truth: Frames, frame: Frames) -> str:
    """How far off the result is, and how far the unmoved frame would be."""
    off, unmoved = (np.abs(picture.astype(float) - truth).mean() for picture in (result, frame))
    return f"Off by {off:.1f} of 255 brightness levels on average; the unmoved picture by {unmoved:.1f}."


def training_line(training: dict[str, Any]) -> str:
    """How the weights were made, as far as their file says."""
    step, seconds, device = (training.get(key) for key in ("step", "seconds", "device"))
    if step == 0:
        return "These weights are untrained: expect noise."
    if not isinstance(step, int):
        return "The weights file does not say how it was trained."
    words = f"Trained for {step:,} steps"
    if isinstance(seconds, int | float):
        words += f" in {seconds / 60:,.0f} minutes" if seconds >= 120 else f" in {seconds:,.0f} seconds"
    return words + (f" on {device}." if isinstance(device, str) else ".")


def _shipped_name(digest: str) -> str | None:
    """The name under which exactly these weights are shipped."""
    for name in shipped_models():
        if digest_of(find_weights(name).read_bytes()) == digest:
            return name
    return None
