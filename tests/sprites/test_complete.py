"""What is drawn for a character that lacks animations: by a palette swap, or by a toy model whose results are known."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from visual_dynamics.errors import UserError
from visual_dynamics.images import Pixels
from visual_dynamics.model.network import VisualDynamics
from visual_dynamics.sampling.predictor import Predictor
from visual_dynamics.sprites.bodies import shipped_bodies
from visual_dynamics.sprites.characters import Character, Clips, Key
from visual_dynamics.sprites.complete import CHECKED, Drafts, check, complete, draw, squared_errors
from visual_dynamics.sprites.completion_files import MARK, contact_sheet, credits_text, marked
from visual_dynamics.sprites.missing import (
    Part,
    Place,
    Step,
    by_likeness,
    colour_map,
    is_layer,
    plan,
    recoloured,
    steps,
)

RED, GREEN, GLASS = (220, 60, 80, 255), (40, 200, 60, 255), (90, 90, 230, 160)
WALK, RUN, CLIMB = ("walk", "down"), ("run", "down"), ("climb", "up")
PLACES = {WALK: (20, 22, 24), RUN: (26, 28, 30), CLIMB: (20, 21)}  # left edge of the body in each frame


class Adding:
    """A model that knows every motion: z is the difference of two frames, and is added."""

    size = 64
    still: ClassVar[bool] = False  # it moves nothing

    def encode(self, before: Tensor, after: Tensor) -> Any:
        return SimpleNamespace(mean=((after - before) * (not self.still)).flatten(-3))

    def encode_image(self, frame: Tensor) -> Tensor:
        return frame

    def decode(self, image: Tensor, z: Tensor) -> Tensor:
        return (image + z.reshape(-1, 3, 64, 64)).clamp(0, 1)

    preview = decode


class Still(Adding):
    still: ClassVar[bool] = True


class Grey(Adding):
    """Of one start it makes all of the frame white, of others black."""

    white: ClassVar[bytes] = b""

    def preview(self, image: Tensor, z: Tensor) -> Tensor:
        return torch.full((len(z), 3, 64, 64), float(image.contiguous().numpy().tobytes() == self.white))


class Counting(Adding):
    """Remembers what it encodes."""

    def __init__(self) -> None:
        self.pictures: list[bytes] = []
        self.motions: list[bytes] = []

    def encode(self, before: Tensor, after: Tensor) -> Any:
        pairs = torch.cat([before, after], dim=-1).reshape(-1, 3, 64, 128)
        self.motions += [pair.numpy().tobytes() for pair in pairs]
        return super().encode(before, after)

    def encode_image(self, frame: Tensor) -> Tensor:
        self.pictures.append(frame.contiguous().numpy().tobytes())
        return super().encode_image(frame)


def body(left: int, colour: tuple[int, ...] = RED) -> Pixels:
    frame = np.zeros((64, 64, 4), np.uint8)
    frame[20:60, left : left + 10] = colour
    frame[30:32, left + 3 : left + 6] = (255, 255, 255, 255)
    return frame


def hat(left: int, colour: tuple[int, ...] = GREEN) -> Pixels:
    """Above the body, and a brim over it."""
    frame = np.zeros((64, 64, 4), np.uint8)
    frame[14:22, left : left + 10] = colour
    return frame


def clips(*keys: Key, colour: tuple[int, ...] = RED) -> dict[Key, Pixels]:
    return {key: np.stack([body(left, colour) for left in PLACES[key]]) for key in keys}


def with_hat(bodies: Clips, colour: tuple[int, ...] = GREEN) -> dict[Key, Pixels]:
    """The hat stays where it is while the body moves, as the toy model has it."""
    hats = {key: hat(20, colour) for key in bodies}
    return {key: np.where(hats[key][..., 3:] > 0, hats[key], frames) for key, frames in bodies.items()}


REFERENCE = Character("the reference", clips(WALK, RUN), credits={"walk": "walk: by A", "run": "run: by B", "sit": "C"})


def drawn(character: Character, model: Any = Adding(), **options: Any) -> tuple[list[Part], Drafts]:  # noqa: B008
    parts = plan(character, [REFERENCE], **options)
    return parts, complete(model, parts)[1]


def test_a_character_in_other_colours_is_recoloured_exactly_and_without_a_model() -> None:
    male = next(each for each in shipped_bodies() if each.body == "male")
    colours = {colour: 0xFF000000 | (colour * 7919 & 0xFFFFFF) for colour in _colours(male.clips) if colour}
    truth = {key: recoloured(frames, colours | {0: 0}) for key, frames in male.clips.items()}
    known = {key: frames for key, frames in truth.items() if key[0] in ("walk", "slash") and frames is not None}
    parts = plan(Character("swapped", known), shipped_bodies(), ["run", "climb"])
    assert [part.reference.body for part in parts] == ["male"] and not parts[0].steps
    _, drafts = complete(None, parts)
    assert set(drafts.clips) == {("climb", "up"), *(("run", view) for view in ("up", "left", "down", "right"))}
    assert all(np.array_equal(frames, truth[key]) for key, frames in drafts.clips.items())
    assert not marked(drafts.doubts) and all((doubts == 0).all() for doubts in drafts.doubts.values())


def _colours(clips: Clips) -> list[int]:
    pixels = np.concatenate([frames.reshape(-1, 4) for frames in clips.values()])
    return np.unique(np.ascontiguousarray(pixels).view(np.uint32)).tolist()


def test_no_swap_where_one_colour_becomes_two_or_silhouettes_differ() -> None:
    one, other = clips(WALK), clips(WALK, colour=GREEN)
    assert colour_map(one, other, [WALK]) is not None
    assert colour_map(one, with_hat(one), [WALK]) is None
    other[WALK][1, 25, 24] = RED
    assert colour_map(one, other, [WALK]) is None
    assert recoloured(body(20), {0: 0}) is None  # a colour of which nothing is known


def test_frames_are_made_by_the_motions_from_the_nearest_known_frames() -> None:
    hero = Character("hero", with_hat(clips(WALK)))
    (part,), drafts = drawn(hero)
    assert {step.starts for step in part.steps} == {tuple((WALK, frame) for frame in (2, 1, 0))}  # the nearest first
    truth = with_hat(clips(RUN))[RUN]
    truth[:, 20:22, 20:24] = hero.clips[WALK][2][20:22, 20:24]  # the body that came out from under the brim
    assert drafts.clips[RUN].shape == (3, 64, 64, 4)
    assert (drafts.clips[RUN][..., 3] == truth[..., 3]).mean() > 0.99
    palette = {tuple(colour) for colour in hero.clips[WALK].reshape(-1, 4) if colour[3]}
    assert {tuple(colour) for colour in drafts.clips[RUN].reshape(-1, 4) if colour[3]} <= palette


def test_a_frame_that_looks_like_a_known_one_is_that_one() -> None:
    reference = Character("it", {WALK: REFERENCE.clips[WALK], RUN: REFERENCE.clips[WALK][1:2]})
    hero = Character("hero", with_hat(clips(WALK)))
    (part,) = plan(hero, [reference])
    for model in (Still(), Grey()):  # whatever the model makes of it
        _, drafts = complete(model, [part], force=True)  # type: ignore[arg-type]
        assert np.array_equal(drafts.clips[RUN][0], hero.clips[WALK][1]) and drafts.doubts[RUN] == [0]


def test_a_frame_is_the_mean_of_what_is_made_of_its_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that makes white of the second start, of three, and black of others: a third of white."""
    hero = Character("hero", with_hat(clips(WALK)))
    (part,) = plan(hero, [REFERENCE])
    start = torch.from_numpy(hero.clips[WALK][1]).permute(2, 0, 1).float() / 255
    monkeypatch.setattr(Grey, "white", (start[:3] * start[3:]).contiguous().numpy().tobytes())
    seen: list[float] = []

    def watched(predicted: Tensor, target: Pixels, palette: Pixels) -> Pixels:
        seen.extend(predicted.unique().tolist())
        return np.zeros((64, 64, 4), np.uint8)

    monkeypatch.setattr("visual_dynamics.sprites.complete.as_sprite", watched)
    complete(Grey(), [part], force=True)  # type: ignore[arg-type]
    assert seen[-3:] == pytest.approx([1 / 3] * 3)


def test_a_known_pose_is_recognised_in_art_of_many_colours() -> None:
    """In single precision the distance of such a frame from itself is not zero."""
    art = np.random.default_rng(0).integers(0, 256, (6, 64, 64, 4), np.uint8)
    art[..., 3] = 255
    reference = {WALK: art[:4], RUN: art[[5, 2]]}
    hero = {WALK: np.roll(art[:4], 1, axis=3)}
    found = steps(reference, hero, [RUN], [WALK])
    assert found[1] == Step(Place(RUN, 1), (Place(WALK, 2),)) and len(found[0].starts) == 4


def test_at_most_six_starts_each_of_a_look_of_its_own() -> None:
    lefts = (30, 20, 21, 22, 22, 23, 24, 25, 26)
    slash, standing = ("slash", "down"), ("idle", "down")
    reference = {slash: np.stack([body(left) for left in lefts]), standing: body(20)[None], RUN: body(19)[None]}
    hero = Character("hero", with_hat({key: reference[key] for key in (slash, standing)}))
    (part,) = plan(hero, [Character("it", reference)])
    ((made, starts),) = part.steps
    assert made == (RUN, 0) and starts == ((standing, 0), *((slash, frame) for frame in (2, 3, 5, 6, 7)))


def test_each_picture_and_each_motion_is_encoded_once() -> None:
    run = np.concatenate(
        [clips(RUN)[RUN], clips(RUN)[RUN][1:], clips(WALK)[WALK][2:]]
    )  # with poses held, and a known one
    (part,) = plan(Character("hero", with_hat(clips(WALK))), [Character("it", clips(WALK) | {RUN: run})])
    model = Counting()
    checked = check(model, part)  # type: ignore[arg-type]
    model.pictures, model.motions = [], []
    drafts = draw(model, part, checked)  # type: ignore[arg-type]
    assert len(model.pictures) == len(set(model.pictures)) == 2 * 3  # hero and reference in each start
    assert len(model.motions) == len(set(model.motions)) == 3 * 3 + 1  # and the known pose, from itself
    made, doubts = drafts.clips[RUN], drafts.doubts[RUN]
    assert np.array_equal(made[1:3], made[3:5]) and np.array_equal(doubts[1:3], doubts[3:5])
    assert np.array_equal(made[5], part.target[WALK][2]) and doubts[5] == 0
    assert np.array_equal(made[:3], drawn(Character("hero", with_hat(clips(WALK))))[1].clips[RUN])


def test_results_are_the_same_with_any_number_of_threads(tiny_network: VisualDynamics) -> None:
    small = {key: np.ascontiguousarray(frames[:, 14:62:4, 16:48:3]) for key, frames in clips(WALK, RUN, CLIMB).items()}
    hero = {key: np.ascontiguousarray(frames[..., [1, 0, 2, 3]]) for key, frames in small.items() if key != RUN}
    hero[WALK][:, 1, 3] = GREEN  # no palette swap
    (part,) = plan(Character("hero", hero), [Character("it", small)])
    usual, found = torch.get_num_threads(), []
    for count in (1, 2, 3):
        torch.set_num_threads(count)
        found.append(complete(Predictor(tiny_network), [part], force=True))
    torch.set_num_threads(usual)
    ((first,), drafts), *others = found
    for (checked,), again in others:
        assert checked and first and checked.alignment == first.alignment and checked.scale == first.scale
        assert np.array_equal(again.clips[RUN], drafts.clips[RUN])
        assert np.array_equal(again.doubts[RUN], drafts.doubts[RUN])


def test_progress_ends_with_all_frames() -> None:
    seen: list[tuple[int, int]] = []
    parts = plan(Character("hero", with_hat(clips(WALK))), [REFERENCE])
    complete(Adding(), parts, progress=lambda done, total: seen.append((done, total)))  # type: ignore[arg-type]
    assert seen == sorted(seen) and seen[-1] == (6 * CHECKED + 3 * 3, 6 * CHECKED + 3 * 3)


def test_of_equal_starts_the_standing_one_is_taken() -> None:
    """A character may hold something in other animations; its standing frame has nothing to guess."""
    same = {key: np.stack([body(20)]) for key in (("slash", "down"), ("idle", "down"), RUN)}
    (part,) = plan(Character("hero", with_hat({key: same[key] for key in same if key != RUN})), [Character("it", same)])
    assert [step.starts[0].key for step in part.steps] == [("idle", "down")]


def test_small_sprites_are_no_layers_and_other_sides_cannot_be_drawn() -> None:
    small = Character("cat", {WALK: np.stack([body(left)[44:60, left : left + 16] for left in PLACES[WALK]])})
    assert not is_layer(small, [REFERENCE]) and not plan(small, [REFERENCE])[0].layer
    with pytest.raises(UserError, match="no reference shows what hero lacks from a side that it is known from"):
        plan(Character("hero", with_hat(clips(WALK))), [Character("it", clips(WALK, CLIMB))])


def test_a_layer_is_drawn_on_the_reference_and_taken_off_again() -> None:
    hero = Character("hat", {WALK: np.stack([hat(20)] * 3)})
    assert is_layer(hero, [REFERENCE]) and not is_layer(Character("hero", with_hat(clips(WALK))), [REFERENCE])
    (part,), drafts = drawn(hero)
    assert part.layer and (part.target[WALK][0] == with_hat(clips(WALK))[WALK][0]).all()
    made = drafts.clips[RUN]
    assert {tuple(colour) for colour in made.reshape(-1, 4) if colour[3]} == {GREEN}  # nothing of the body is left
    assert (made[:, 14:20] == hat(20)[14:20]).all() and not made[:, 22:].any() and not made[:, :14].any()
    assert (made[:, 20:22, 20:24] == GREEN).all()  # of the brim, what the body leaves is as it was
    assert not drawn(hero, layer=False)[0][0].layer


def test_colours_that_are_half_transparent_stay_so() -> None:
    hero = Character("hero", with_hat(clips(WALK), GLASS))
    _, drafts = drawn(hero)
    seen = drafts.clips[RUN][drafts.clips[RUN][..., 3] > 0]
    glassy = (seen[:, :3] == GLASS[:3]).all(axis=1)
    assert glassy.any() and set(seen[glassy, 3]) == {160} and set(seen[~glassy, 3]) == {255}
    hero.clips[WALK][:2][hero.clips[WALK][:2] == 160] = 255  # in two of three frames it is opaque
    assert set(np.unique(drawn(hero)[1].clips[RUN][..., 3])) == {0, 255}


def test_errors_are_squares_of_shares_of_white_over_black() -> None:
    frame, empty = np.zeros((2, 2, 4), np.uint8), np.zeros((2, 2, 4), np.uint8)
    frame[0, 0], frame[1, 1], frame[1, 0] = (255, 0, 0, 255), (0, 51, 102, 255), (255, 255, 255, 0)  # the last: unseen
    assert squared_errors([(frame, empty), (empty, frame), (frame, frame)]).tolist() == pytest.approx([1.2, 1.2, 0])


def test_what_the_model_cannot_do_is_said_before_it_draws() -> None:
    hero = Character("hero", with_hat(clips(WALK)))
    with pytest.raises(UserError, match=r"2 known frames the error is 1\.00 of that of standing still: train a model"):
        drawn(hero, Still())
    said: list[str] = []
    parts = plan(hero, [REFERENCE])
    (checked,), drafts = complete(Still(), parts, force=True, report=said.append)  # type: ignore[arg-type]
    assert checked and checked.error == pytest.approx(1) and checked.frames == 2
    assert len(said) == 1 and said[0].startswith("run, after the reference: on 2 known frames")
    assert marked(drafts.doubts) == ["run down 2", "run down 1", "run down 0"]  # farther from the start, more doubtful
    assert marked(drawn(hero)[1].doubts) == []  # the toy model that knows every motion


def test_each_animation_is_made_after_the_reference_that_fits_best_of_those_that_have_it() -> None:
    child, *others = [Character(name, clips(*keys), body=name) for name, keys in (
        ("child", (WALK, RUN)), ("male", (WALK, RUN, CLIMB)))]  # fmt: skip
    child.clips[WALK][:] = np.roll(child.clips[WALK], 3, axis=1)  # type: ignore[index]
    small = Character("small", clips(WALK, colour=GREEN))
    assert [each.body for each in by_likeness(small, [child, *others])] == ["male", "child"]
    assert [each.body for each in by_likeness(small, [child, *others], "child")] == ["child", "male"]
    with pytest.raises(UserError, match="no reference is of body type 'teen': child, male"):
        plan(small, [child, *others], body="teen")
    hero = Character("hero", {WALK: np.roll(clips(WALK, colour=GREEN)[WALK], 3, axis=1)})
    parts = plan(hero, [child, *others])
    assert [(part.reference.name, part.animations) for part in parts] == [
        ("child", ["run"])
    ]  # no view of climb is known


def test_body_types_are_recognised_by_their_silhouettes() -> None:
    for each in shipped_bodies():
        walk = {key: frames for key, frames in each.clips.items() if key[0] == "walk"}
        assert by_likeness(Character("it", walk), shipped_bodies())[0].body == each.body


def test_credits_are_of_exactly_what_was_used() -> None:
    hero = Character("hero", with_hat(clips(WALK)), credits={"": "drawn by me"})
    text = credits_text(hero, drawn(hero)[0], "toy")
    assert "drawn by me" in text and "walk: by A" in text and "run: by B" in text and "\nC" not in text
    assert "drafts to be touched up" in text and "(toy)" in text
    male = next(each for each in shipped_bodies() if each.body == "male")
    known = {key: frames for key, frames in male.clips.items() if key[0] == "walk"}
    text = credits_text(hero, plan(Character("nobody", known), shipped_bodies(), ["run"]), "toy")
    files = sorted(line.split(":")[0] for line in text.splitlines() if ".png: by " in line)
    assert files == [
        f"{base}/{name}.png" for base in ("body/bodies/male", "head/heads/human/male") for name in ("run", "walk")
    ]
    assert "OGA-BY 3.0,CC-BY-SA 3.0,GPL 3.0" in text


def test_the_contact_sheet_marks_frames_above_the_limit() -> None:
    frames = np.stack([body(20)] * 3)
    picture = contact_sheet(Drafts({RUN: frames}, {RUN: np.array([0.1, 0.25, 0.26])}), scale=1)
    corners = [tuple(picture[4, 4 + number * 68]) for number in range(3)]
    assert [corner == MARK for corner in corners] == [False, False, True]
    assert tuple(picture[4 + 40, 4 + 25]) == RED[:3]
