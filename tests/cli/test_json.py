"""--json: every verb prints one object, whose keys docs/json.md lists."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest
from PIL import Image

from tests.characters import noise_characters
from tests.cli.conftest import PROGRAM, ROOT, TINY_RUN, Answer, Run
from tests.footage.scenes import film
from tests.golden.freeze import verbs
from tests.poses import bvh, drifting
from tests.sprites.checkout import write_checkout
from tests.sprites.test_complete_command import swapped, write_folder
from tests.study.conftest import CHOICE, write_study
from visual_dynamics.cli.main import divided
from visual_dynamics.cli.results import Result
from visual_dynamics.data.reed import pack_characters

DOCS = ROOT / "docs" / "json.md"
SERVING = {"studio", "study serve"}  # they print their object when they are open, and go on
OTHERS = {"mcp"}  # its stdout is a protocol


def sheets(place: Path) -> None:
    """A sheet of two rows of moving squares, and its first cell in other colours."""
    cells = np.zeros((2, 3, 16, 16, 4), np.uint8)
    for row in range(2):
        for column in range(3):
            cells[row, column, 4 : 8 + row, 3 + column : 8 + column] = (200, 30, 60, 255)
            cells[row, column, 10:13, 5:9] = (30, 200, 60, 255)
    Image.fromarray(cells.swapaxes(1, 2).reshape(32, 48, 4)).save(place / "sheet.png")
    Image.fromarray(np.ascontiguousarray(cells[0, 0][..., [2, 0, 1, 3]])).save(place / "target.png")


def takes(place: Path) -> None:
    for number in range(3):
        (place / "takes" / f"{number:02}").mkdir(parents=True)
        (place / "takes" / f"{number:02}" / f"{number:02}_01.bvh").write_text(bvh(drifting(90 + number)))


def answers(place: Path) -> None:
    study = write_study(place / "study", CHOICE)
    given = [{"trial": n, "answer": study.right_answer(1, n), "milliseconds": 5} for n in range(10)]
    head: dict[str, Any] = {"format": {"name": "visual-dynamics study answers", "version": 1}, "study": study.id}
    (place / "answers.json").write_text(json.dumps(head | {"rater": "ab" * 16, "session": 1, "answers": given}))


def answered(place: Path) -> None:
    from visual_dynamics.cli.main import main

    answers(place)
    with pytest.raises(SystemExit):
        main(["study", "import", "study", "answers.json"])


def trained(place: Path) -> None:
    from visual_dynamics.cli.main import main

    with pytest.raises(SystemExit):
        main(["train", "run", *TINY_RUN, "--steps", "2"])


def nothing(place: Path) -> None:
    pass


STUDY = "--model TINY --method ours --size 16 --inputs 4 --sessions 2"
CASES: dict[str, tuple[str, Callable[[Path], object]]] = {  # verb -> its arguments, and what has to be there before
    "sample": ("picture.png --model TINY -n 2", nothing),
    "analogy": ("picture.png after.png picture.png --model TINY", nothing),
    "extrapolate": ("picture.png --model TINY --steps 2", nothing),
    "traverse": ("picture.png --model TINY -n 2", nothing),
    "demo": ("--model TINY", nothing),
    "animate": ("sheet.png target.png --cell 16x16 --pose 0", sheets),
    "check": ("sheet.png --cell 16x16 --out checked", sheets),
    "complete": (
        "hero --animations climb",
        lambda place: write_folder(place / "hero", swapped("walk", "combat_idle")),
    ),
    "train": (" ".join(["run", *TINY_RUN, "--steps", "2"]), nothing),
    "reproduce": ("", nothing),
    "report": ("results", lambda place: (place / "results").mkdir()),
    "export": ("TINY --format torch", nothing),
    "export-page": ("", nothing),
    "models": ("", nothing),
    "compact": ("TINY small.safetensors", nothing),
    "familiarize": ("run/weights.safetensors", trained),
    "prior": ("run/weights.safetensors --steps 2 --batch 4 --device cpu", trained),
    "push": ("TINY someone/model", nothing),
    "prepare lpc": ("lpc --out out --count 2 --workers 1", lambda place: write_checkout(place / "lpc")),
    "prepare poses": ("takes --out poses.npz", takes),
    "prepare sprites": ("one --out two", lambda place: pack_characters(noise_characters(1), place / "one")),
    "prepare videos": (
        "clips --out data --size 32 --crop centre --workers 1 --held-out 0.4",
        lambda place: [film(place / "clips" / f"{seed}.mp4", seed=seed) for seed in (1, 2)],
    ),
    "study make": (f"new {STUDY}", nothing),
    "study offline": ("study", answers),
    "study import": ("study answers.json", answers),
    "study score": ("study", answered),
    "study report": ("study", answered),
    "study plan": ("--effect 10", nothing),
    "study export": ("study", answered),
}


def documented(verb: str) -> set[str]:
    """The keys of a verb in the table of docs/json.md, but for notes, which all have."""
    (row,) = re.findall(rf"^\| `{verb}` \| (.*?) \|", DOCS.read_text(), re.M)
    return set(re.findall(r"`(\w+)`", row))


def one_object(answer: Answer) -> dict[str, Any]:
    assert answer.out.count("\n") == 1 and answer.out.endswith("}\n"), answer
    found: dict[str, Any] = json.loads(answer.out)
    return found


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the network, and without a minute of exporting."""
    monkeypatch.setattr("visual_dynamics.model_files.push", lambda file, hub_id: f"https://huggingface.co/{hub_id}")
    monkeypatch.setattr("visual_dynamics.export.runtime.runtime_files", lambda *given: {})
    monkeypatch.setattr("visual_dynamics.export.page.page_files", lambda *given: [("index.html", b"page")])


def test_no_verb_is_forgotten() -> None:
    for verb, command in verbs():
        if verb not in SERVING | OTHERS:
            assert verb in CASES, f"give {verb} a case in tests/cli/test_json.py"
            kinds = get_type_hints(command.callback)["return"]
            assert kinds == Result or kinds == Result | None, f"{verb} returns no Result"


@pytest.mark.parametrize("verb", CASES)
def test_a_verb_prints_one_object(verb: str, run: Run, place: Path, tiny: list[str], elsewhere: None) -> None:
    words, prepare = CASES[verb]
    prepare(place)
    answer = run("--json", *verb.split(), *words.replace("TINY", tiny[1]).split())
    found = one_object(answer)
    assert answer.code == 0, answer
    assert found.keys() - {"notes"} == documented(verb) and isinstance(found["notes"], list)
    for name in found.get("files", ()):
        assert (place / found["folder"] / name).is_file()
    for key in ("weights", "file", "page"):
        assert key not in found or (place / found[key]).is_file()
    assert "see" not in found or found["see"] in found.get("files", [found["see"]])


def test_it_stands_before_or_after_the_verb_and_not_behind_two_dashes(run: Run) -> None:
    assert run("models", "--json").out == run("--json", "models").out
    assert divided(["sample", "--json", "--", "--json", "--device"]) == (
        ["--json"],
        ["sample", "--", "--json", "--device"],
    )
    assert run("models").out.startswith("people")  # and the next run has forgotten it


def test_mistakes_are_an_object_and_exit_code_2(run: Run) -> None:
    for words in ("sample nowhere.png", "sample", "smaple", "sample picture.png --count many"):
        answer = run(*words.split(), "--json")
        assert answer.code == 2 and answer.err == "" and one_object(answer).keys() == {"error"}, words


def test_faults_of_a_sheet_are_a_result_and_exit_code_1(run: Run, place: Path) -> None:
    sheets(place)
    picture = np.array(Image.open("sheet.png"))
    picture[:16, 16:] = np.tile(picture[:16, :16], (1, 2, 1))  # it does not move
    Image.fromarray(picture).save("bad.png")
    answer = run("check", "bad.png", "--cell", "16x16", "--json")
    assert answer.code == 1 and one_object(answer)["findings"]


def test_warnings_are_notes(run: Run) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save("noise.png")
    answer = run("--json", "sample", "noise.png", "-n", 1)
    (warning,) = one_object(answer)["notes"]
    assert warning.startswith("warning: noise.png: the model has not learned") and warning in answer.err
    assert one_object(run("--json", "sample", "noise.png", "-n", 1, "--force", "--overwrite"))["notes"] == []


def test_one_experiment_of_reproduce(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("visual_dynamics.reporting.base.run_experiment", lambda *given: "| a table |\n")
    assert one_object(run("--json", "reproduce", "shapes")).keys() == {"folder", "see", "result", "notes"}


def test_a_csv_file_of_answers(run: Run, place: Path) -> None:
    answered(place)
    found = one_object(run("--json", "study", "export", "study", "--out", "answers.csv"))
    assert found == {"file": "answers.csv", "count": 10, "notes": []}


@pytest.mark.parametrize("verb", sorted(SERVING))
def test_servers_print_their_address(verb: str, place: Path) -> None:
    answers(place)
    words = ["study"] if verb == "study serve" else ["--store", "store", "--study", "study", "--token", "a-token-of-12"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    command = [*PROGRAM, *verb.split(), *words, "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout
            found = json.loads(process.stdout.readline())
        finally:
            process.terminate()
    assert found["address"].startswith("http://127.0.0.1:") and found.keys() - {"notes"} == documented(verb)
    shutil.rmtree(place / "study")
