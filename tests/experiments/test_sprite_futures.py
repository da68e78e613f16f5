"""What `sprite-futures` and `characters` measure: unseen characters, Flow that does not know them, numbers by hand."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("cv2")

from tests.sprites.checkout import write_checkout
from visual_dynamics.data.packed import PackedCharacter
from visual_dynamics.errors import UserError
from visual_dynamics.evaluation.carried_motions import CarriedMotions
from visual_dynamics.experiments import EXPERIMENTS, characters, sprite_futures
from visual_dynamics.reporting.base import run_all, run_experiment
from visual_dynamics.sprites import cast, outfits
from visual_dynamics.sprites.cast import draw_cast
from visual_dynamics.sprites.generator import Generator

CPU = torch.device("cpu")
HELD_OUT = frozenset({"legs/trousers"})


def ignore(step: str, share: float) -> None:
    pass


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkout(tmp_path_factory.mktemp("generator"))


@pytest.fixture(autouse=True)
def held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (cast, outfits):
        monkeypatch.setattr(module, "held_out_items", lambda: HELD_OUT)
    monkeypatch.setattr(sprite_futures, "FLOW_CHARACTERS", 2)
    monkeypatch.setattr(sprite_futures, "SAMPLES", 3)


def keys(one: PackedCharacter) -> set[str]:
    return {worn[0] for worn in one.facts["worn"].values()}


def still(frame: Any, z: Any) -> Any:
    return frame


def a_model(asked: list[np.ndarray], seeds: list[int] | None = None) -> Any:
    """It copies, and keeps what it was asked about."""

    def sample(frame: np.ndarray, n: int, seed: int) -> np.ndarray:
        asked.append(frame)
        if seeds is not None:
            seeds.append(seed)
        return np.repeat(frame[None], n, 0)

    predictor = SimpleNamespace(
        encode=lambda before, after: SimpleNamespace(mean=torch.zeros(len(before), 1)), decode_each=still
    )
    return SimpleNamespace(open=lambda frame, check: frame, sample=sample, predictor=predictor)


def test_a_cast_is_distinct_and_of_the_items_asked_for(checkout: Path) -> None:
    generator = Generator(checkout)
    unseen = draw_cast(generator, 6, 0, "held-out", ("male",), whole=True)
    assert all(keys(one) & HELD_OUT for one in unseen)
    assert all({clip.animation for clip in one.clips} == {"walk", "run"} for one in unseen)
    known = draw_cast(generator, 4, 0, "train")
    assert not any(keys(one) & HELD_OUT for one in known)
    assert [one.facts["body"] for one in known] == ["male", "child"] * 2  # of the six, those that there are
    assert len({one.facts["sha256"] for one in (*unseen, *known)}) == 10
    with pytest.raises(UserError, match="make no further child character, after 0"):
        draw_cast(generator, 1, 0, "held-out", ("child",))
    with pytest.raises(UserError, match="no body that is teen"):
        draw_cast(generator, 1, 0, "train", ("teen",))


def test_unseen_characters_are_measured_and_flow_does_not_know_them(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Faults: characters of training items are measured; Flow's library holds those measured; one z for all."""
    asked: list[np.ndarray] = []
    seeds: list[int] = []
    drawn: list[list[PackedCharacter]] = []
    libraries = []
    flow = sprite_futures.FlowTransfer

    def kept_cast(*given: Any, **more: Any) -> list[PackedCharacter]:
        drawn.append(draw_cast(*given, **more))
        return drawn[-1]

    def kept_flow(pairs: Any) -> Any:
        libraries.append(pairs)
        return flow(pairs)

    monkeypatch.setattr(sprite_futures, "load", lambda *_: a_model(asked, seeds))
    monkeypatch.setattr(sprite_futures, "draw_cast", kept_cast)
    monkeypatch.setattr(sprite_futures, "FlowTransfer", kept_flow)
    made = sprite_futures.compute(sprite_futures.DistributionOptions(lpc=checkout, samples=3), CPU, ignore)
    assert seeds[::2] == seeds[1::2] == list(range(18))  # of both models: each frame has samples of its own
    unseen = {frame.tobytes() for one in drawn[0] for frame in one.over_black(range(len(one.index)))}
    assert {frame.tobytes() for frame in asked} <= unseen
    assert all(keys(one) & HELD_OUT for one in drawn[0])
    known = {frame.tobytes() for frame in libraries[0].store.movedim(1, 3).contiguous().numpy()}
    assert len(drawn[0]) == 3 and known and not known & unseen
    rows, protocol = made.numbers["rows"], made.numbers["protocol"]
    assert protocol["standing"] == 6 and protocol["moving"] == 12 and protocol["continuations"] == 2
    for row in (sprite_futures.COPY, sprite_futures.OURS, sprite_futures.POSES):  # copies are never right
        for way in sprite_futures.WAYS:
            for kind in sprite_futures.KINDS:
                assert rows[row][way][kind]["precision"] == {"mean": 0, "interval": (0, 0)}
                assert rows[row][way][kind]["recall"]["mean"] == 0
    assert set(rows["ours"]["snapped"]["standing"]["met"]) == {"walk", "run"}


def test_only_snapped_samples_have_the_colours_of_the_input() -> None:
    """A black frame with one white pixel, which goes to the right. The sample shows it there in light grey."""
    frames = np.zeros((2, 4, 4, 3), np.uint8)
    frames[0, 1, 1], frames[1, 1, 2] = 255, 255
    one = SimpleNamespace(over_black=lambda places: frames[list(places)])
    question = SimpleNamespace(frame=0, truths={"walk": [1]})
    made = {"ours": frames[1:] // 255 * 200}
    found = sprite_futures.judge(made, one, question, 0.01)["ours"]  # type: ignore[arg-type]
    assert {way: score.precision for way, score in found.items()} == {"as predicted": 0, "snapped": 1}


def test_standing_and_moving_frames_are_counted_apart() -> None:
    """By hand: two characters; the first is asked twice about a standing frame."""
    questions = [
        SimpleNamespace(character=who, standing=standing)
        for who, standing in ((0, True), (0, True), (1, True), (1, False))
    ]
    scores = [
        sprite_futures.Score(precision, {"walk": walk, "run": run})
        for precision, walk, run in ((0.5, True, False), (0.0, False, False), (1.0, True, True), (0.25, True, False))
    ]
    both = [{"ours": dict.fromkeys(sprite_futures.WAYS, score)} for score in scores]
    found = sprite_futures.summary(questions, both, 0)["ours"]["as predicted"]  # type: ignore[arg-type]
    assert found["standing"]["precision"]["mean"] == pytest.approx(0.5)
    assert found["standing"]["recall"]["mean"] == pytest.approx(0.5)
    assert found["standing"]["precision"]["interval"] == pytest.approx((0.25, 1.0))
    assert found["standing"]["met"] == pytest.approx({"run": 1 / 3, "walk": 2 / 3})
    assert found["moving"]["precision"]["mean"] == 0.25 and found["moving"]["met"] == {"run": 0.0, "walk": 1.0}


def test_a_copying_model_has_the_error_of_copying(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[list[PackedCharacter]] = []

    def kept_cast(generator: Generator, count: int, seed: int, items: Any, progress: Any) -> list[PackedCharacter]:
        drawn.append(draw_cast(generator, count, seed, items, ("male",)))
        return drawn[-1]

    monkeypatch.setattr(characters, "load", lambda *_: a_model([]))
    monkeypatch.setattr(characters, "draw_cast", kept_cast)
    monkeypatch.setattr(characters, "CHARACTERS", 3)
    made = characters.compute(characters.CharactersOptions(lpc=checkout, samples=60), CPU, ignore)
    assert all(keys(one) & HELD_OUT for one in drawn[0])
    for kind in characters.KINDS:
        found = made.numbers["tables"][kind]
        assert set(found["copy"]) == {"walk", "run"} and min(found["copy"].values()) > 0
        whole = found["ours"][characters.ALL]
        assert whole["animations"] == {"walk": 1, "run": 1} and whole["average"] == 1 and whole["interval"] == (1, 1)
        assert found["ours"]["targets"] == [1, 1, 1]
        assert found["ours"][characters.ACROSS]["average"] is None  # all are male


def test_ratios_by_hand() -> None:
    """Two animations count alike; within and across are told apart by body type; targets by their own questions."""
    three = [SimpleNamespace(facts={"body": body}) for body in ("male", "male", "female")]
    walk = CarriedMotions(np.array([1, 2]), np.array([0, 0]), ())
    run = CarriedMotions(np.array([0]), np.array([1]), ())
    errors = {
        "walk": {"copy": torch.tensor([10.0, 30.0]), "ours": torch.tensor([1.0, 9.0])},
        "run": {"copy": torch.tensor([100.0]), "ours": torch.tensor([20.0])},
    }
    found = characters.measure(three, {"walk": walk, "run": run}, errors)["ours"]  # type: ignore[arg-type]
    assert found["all"]["animations"] == pytest.approx({"walk": 10 / 40, "run": 0.2})
    assert found["all"]["average"] == pytest.approx((5 + 20) / (20 + 100))
    assert found["within one body type"]["animations"] == pytest.approx({"walk": 0.1, "run": 0.2})
    assert found["across"]["animations"] == pytest.approx({"walk": 0.3})
    assert found["targets"] == [pytest.approx(0.25), pytest.approx(0.2), None]


@pytest.mark.parametrize("name", ["sprite-futures", "characters"])
def test_without_a_checkout_one_line_says_so(name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="give a checkout of it with --lpc"):
        run_experiment(EXPERIMENTS, name, {}, tmp_path, CPU)
    with pytest.raises(UserError, match="no such folder or zip"):
        run_experiment(EXPERIMENTS, name, {"lpc": tmp_path / "none"}, tmp_path, CPU)
    with pytest.raises(UserError, match="no checkout of the LPC generator"):
        run_experiment(EXPERIMENTS, name, {"lpc": tmp_path}, tmp_path, CPU)
    said: list[str] = []
    assert run_all({name: EXPERIMENTS[name]}, {"small": True}, tmp_path, CPU, said.append)
    assert "not made: " in said[1]
