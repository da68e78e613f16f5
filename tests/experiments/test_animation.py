"""Animations of test characters in small: the pairs of characters, scores by hand, figures from the JSON alone."""

import copy
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tests.characters import noise_characters
from visual_dynamics.data import reed as sprites
from visual_dynamics.errors import UserError
from visual_dynamics.experiments import animation
from visual_dynamics.experiments.animation import ACROSS, ALL, WITHIN, AnimationOptions, Score
from visual_dynamics.model.motion_encoder import Posterior
from visual_dynamics.model.network import VisualDynamics
from visual_dynamics.model.presets import TINY
from visual_dynamics.reporting.base import Measured
from visual_dynamics.weights import weights_bytes

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    """A pair of each part in the shortest animation, by a tiny network that has learned nothing."""
    torch.manual_seed(0)
    network = VisualDynamics(replace(TINY, size=64))
    weights = tmp_path_factory.mktemp("weights") / "tiny.safetensors"
    weights.write_bytes(weights_bytes(network, Posterior(*torch.randn(2, 3, 200)), {"step": 0}))
    patch = pytest.MonkeyPatch()
    for name in ("ANIMATIONS", "SHOWN"):
        patch.setattr(animation, name, ("slash",))
    patch.setattr(sprites, "reed_split", lambda: sprites.Split(np.arange(6), np.arange(0), np.arange(6, 14)))
    patch.setattr(sprites, "read_characters", lambda folder, numbers: noise_characters(14).subset(numbers))
    patch.setattr(sprites, "CLIPS", tuple(clip for clip in sprites.CLIPS if clip.view in ("down", "left")))
    shares: list[float] = []
    options = AnimationOptions(model=str(weights), guide=str(weights), sprites=Path("sprites"), samples=2)
    made = animation.compute(options, CPU, lambda step, share: shares.append(share))
    patch.undo()
    assert shares == [0.25, 0.5, 0.75, 1]
    return made


@pytest.fixture(scope="module")
def result(measured: Measured) -> dict:
    return json.loads(json.dumps(measured.numbers))


def test_every_row_and_part_is_there(result: dict) -> None:
    assert set(result["rows"]) == {"copy", "direct", "guided"}
    for parts in result["rows"].values():
        assert set(parts) == {WITHIN, ACROSS, ALL}
        for found in parts.values():
            errors = found["error by frame"]["slash"]
            assert len(errors) == 5 and np.mean(errors) == pytest.approx(found["error"]["slash"])
            assert found["growth"]["slash"] == pytest.approx(max(errors) / errors[0])
            assert 0 <= found["right pose"]["slash"] <= 1 and found["outside palette"] == 0
        both = np.mean([parts[part]["error"]["slash"] for part in (WITHIN, ACROSS)])
        assert parts[ALL]["error"]["slash"] == pytest.approx(both)


def test_only_test_characters_are_measured(result: dict) -> None:
    shown = {pair[role] for pair in result["couples"] for role in ("reference", "target")}
    assert shown <= set(range(6, 14)) and result["protocol"]["characters"] == 8
    assert result["protocol"]["twins"] == 0  # that of 6 is 7, and so on


def test_standing_still_by_hand(result: dict) -> None:
    characters, errors = noise_characters(14), []
    target = result["couples"][0]["target"]
    for clip in sprites.CLIPS:
        if clip.animation == "slash" and clip.view in ("down", "left"):
            colours = characters.palette[characters.frames[target, clip.frames]] / 255  # (6, 60, 60, 3)
            errors.append(((colours[1:] - colours[0]) ** 2).sum(axis=(1, 2, 3)))
    np.testing.assert_allclose(result["rows"]["copy"][WITHIN]["error by frame"]["slash"], np.mean(errors, axis=0))


def test_of_the_target_only_the_first_frame_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[bytes, bytes]] = []

    def kept(predictor: object, reference: np.ndarray, first: np.ndarray, **more: object) -> np.ndarray:
        given.append((reference.tobytes(), first.tobytes()))
        return reference

    monkeypatch.setattr(animation, "animate", kept)
    reference, target = blocks(0, 10, 20), blocks(5, 15, 25)
    for row in animation.ROWS:
        made = animation.make(object(), object(), row, reference, target, blocks(0))
        np.testing.assert_array_equal(made, blocks(5, 5, 5) if row == "copy" else reference)
    assert given == [(reference.tobytes(), target[0].tobytes())] * 2  # direct and guided


def test_pairs_have_one_weapon_and_both_parts() -> None:
    characters = noise_characters(16)
    sexes, weapons = characters.attributes[:, sprites.SEX], characters.attributes[:, sprites.WEAPON]
    pairs = animation.draw_pairs(characters, 9, seed=3)
    assert [pair.part for pair in pairs] == [WITHIN] * 5 + [ACROSS] * 4 and len(set(pairs)) == 9
    for one, other, part in pairs:
        assert one != other and weapons[one] == weapons[other] and (sexes[one] == sexes[other]) == (part == WITHIN)
    assert set(animation.draw_pairs(characters, 4, seed=3)) < set(pairs)  # more only add to fewer
    assert animation.draw_pairs(characters, 9, seed=4) != pairs
    with pytest.raises(UserError, match="need 1 with the same weapon within one sex, but there are 0"):
        animation.draw_pairs(noise_characters(4), 2, seed=0)


def blocks(*columns: int) -> np.ndarray:
    """A red block at the left edge or further to the right, a frame each: (T, 60, 60, 4)."""
    frames = np.zeros((len(columns), 60, 60, 4), np.uint8)
    for frame, column in zip(frames, columns, strict=True):
        frame[20:30, column : column + 10] = (255, 0, 0, 255)
    return frames


def test_equal_looking_frames_are_the_right_pose() -> None:
    truth = blocks(0, 20, 0, 20, 40)
    found = animation.score(blocks(0, 21, 1, 1, 20), truth)
    assert found.right.tolist() == [True, True, False, False]
    assert found.errors.tolist() == [20, 20, 200, 200] and found.outside == 0
    assert animation.score(truth, truth).right.all()
    truth[3, 20, 20, 1] = 200  # a shade apart from frame 1, and the same to the eye
    assert animation.score(blocks(0, 21, 1, 21, 40), truth).right.all()
    truth[3, 20, 20:30, 1] = 200  # no longer the same
    assert animation.score(blocks(0, 21, 1, 21, 40), truth).right.tolist() == [True, True, False, True]


def test_colours_outside_the_palette_are_counted() -> None:
    made = blocks(0, 0, 0)
    made[2, 20:30, :5, 1] = 9
    assert animation.score(made, blocks(0, 0, 0)).outside == 0.25
    made[1:] = 0  # nothing is left of the sprite
    assert animation.score(made, blocks(0, 0, 0)).outside == 0


def test_summary_of_a_made_up_result() -> None:
    def scored(*errors: float) -> Score:
        return Score(np.array(errors), np.array([True, True, False]), 0.5)

    walk = [scored(2, 9, 4), scored(4, 3, 2), scored(30, 30, 30), scored(60, 30, 30)]  # two pairs in two views
    slash = [scored(0, 9, 3), scored(0, 9, 3), scored(0, 9, 3), scored(0, 3, 9)]
    found = animation.summary({"walk": walk, "slash": slash}, views=2)
    assert found["error by frame"] == {"walk": [24, 18, 16.5], "slash": [0, 7.5, 4.5]}
    assert found["error"] == {"walk": 19.5, "slash": 4} and found["growth"] == {"walk": 1, "slash": None}
    assert found["right pose"]["walk"] == pytest.approx(2 / 3) and found["outside palette"] == 0.5
    # pairs have (4 + 4) / 2 and (35 + 4) / 2; of two, one is drawn twice in half of the cases
    np.testing.assert_allclose(found["interval"], (4, 19.5))


def test_intervals_are_over_pairs_of_characters(result: dict) -> None:
    for parts in result["rows"].values():
        one, other = (parts[part]["error"]["slash"] for part in (WITHIN, ACROSS))
        np.testing.assert_allclose(parts[WITHIN]["interval"], (one, one))
        np.testing.assert_allclose(parts[ALL]["interval"], (min(one, other), max(one, other)))


def test_tables_and_figures(measured: Measured, result: dict, tmp_path: Path) -> None:
    text = animation.draw(result, tmp_path)
    assert "### Whole animations carried over to test characters" in text
    assert "(Reed's 8 test characters; same weapon)" in text and "0 of the 2 targets have a twin" in text
    assert text.count("| guided, across |") == 3 and "Pairs of characters: 1 within one sex, 1 across" in text
    assert Image.open(tmp_path / "animation.png").size[1] > 300
    assert [(strip["part"], strip["view"]) for strip in result["strips"]] == [(WITHIN, "down"), (ACROSS, "down")]
    sheet = Image.open(io.BytesIO(measured.pictures["animation_strips.png"]))
    assert sheet.width > 6 * 60 * animation.SCALE and sheet.height > 6 * 60 * animation.SCALE


def test_a_line_of_each_table(result: dict) -> None:
    known = copy.deepcopy(result)
    known["rows"]["direct"][ACROSS] |= {
        "error": {"slash": 12.34},
        "interval": [10.0, 15.0],
        "growth": {"slash": None},
        "right pose": {"slash": 0.9},
    }
    cells = {"error": "12.3 | 12.3 (10.0 to 15.0)", "growth": "none | none", "right pose": "90.0 | 90.0"}
    for what, words in cells.items():
        assert f"| direct, across | {words} |" in animation.animation_table(known, what)


def test_the_headline_says_what_the_rules_were_shaped_on(result: dict) -> None:
    known = copy.deepcopy(result)
    known["rows"]["guided"][ALL] |= {"error": {"slash": 12.34}, "interval": [10.0, 15.0]}
    known["protocol"]["twins"] = 1
    line = animation.headline(known)
    assert line.ours == "12.3 (10.0 to 15.0)" and line.measure.endswith("; 1 of 2 targets have a twin in training")
    assert "on test characters whose failures shaped the rules" in line.measure
    del known["rows"]["guided"][ALL]["interval"]  # as in results of older versions
    assert animation.headline(known).ours == "12.3"
    fresh = animation.headline(on_validation_characters(known))
    assert "on validation characters which did not shape the rules" in fresh.measure and "test" not in fresh.measure


def on_validation_characters(result: dict) -> dict:
    """As if measured there: of the targets 24 has its twin (25) among the test characters, 20 (21) has not."""
    couples = [{"reference": 24, "target": 20, "part": WITHIN}, {"reference": 20, "target": 24, "part": ACROSS}]
    protocol = result["protocol"] | {"split": "Reed's 72 validation characters"}
    return result | {"protocol": protocol, "couples": couples}


def test_notes_say_how_the_characters_stand_to_the_rules(result: dict, tmp_path: Path) -> None:
    of_test, fresh = animation.notes(result | {"seed": 3}), on_validation_characters(result)
    assert "made while looking at failures on test characters. " in of_test and "validation" not in of_test
    assert "some later dropped or kept by errors on clips of this seed." in animation.notes(result | {"seed": 7})
    words = animation.notes(fresh | {"seed": 7})
    assert (
        "were made on test characters; 1 of the targets have a twin among these." in words and "this seed" not in words
    )
    assert "Of all 72 validation characters 12 have one there, 56 one in training." in words
    assert "### Whole animations carried over to validation characters" in animation.draw(fresh, tmp_path)


def test_one_pair_is_drawn_too(result: dict, tmp_path: Path) -> None:
    known = copy.deepcopy(result)
    for parts in known["rows"].values():
        del parts[ACROSS]
    assert ", across |" not in animation.draw(known, tmp_path)


@pytest.mark.parametrize("part", ["test", "validation"])
def test_the_split_of_the_characters_is_chosen(
    part: str, tiny_weights_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(
        sprites, "read_characters", lambda folder, numbers: asked.append(numbers) or noise_characters(1)
    )
    tiny = str(tiny_weights_file)
    with pytest.raises(UserError, match="but there are 0"):  # too few characters to go on
        given = AnimationOptions(samples=2, model=tiny, guide=tiny, sprites=Path("sprites"), characters=part)
        animation.compute(given, CPU, lambda step, share: None)
    assert asked[0].tolist() == getattr(sprites.reed_split(), part).tolist()
    with pytest.raises(UserError, match="on test or validation characters, not 'train'"):
        animation.compute(replace(given, characters="train"), CPU, lambda step, share: None)


def test_without_sprites_it_says_what_it_needs() -> None:
    with pytest.raises(UserError, match="--sprites"):
        animation.compute(AnimationOptions(), CPU, lambda step, share: None)
