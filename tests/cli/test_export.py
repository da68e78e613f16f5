"""The verb export on the command line."""

from pathlib import Path

import pytest

from tests.cli.conftest import Fails, Run, names


def test_a_folder_is_written_whole(run: Run, tiny: list[str]) -> None:
    answer = run("export", tiny[1], "--format", "torch", "--weights", "float16", "--out", "made")
    assert answer.code == 0, answer
    assert answer.out == f"{tiny[1]} in made: see README.md\n"
    programs = ["decoder.pt2", "encoder.pt2", "motion_encoder.pt2"]
    assert names("made") == sorted(["README.md", *programs, "mixture.npz", "model.json", "posteriors.npz"])
    assert "# tiny\n" in Path("made/README.md").read_text()


def test_mistakes_are_one_line_and_write_nothing(
    fails: Fails, tiny: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "no model 'cubes'" in fails("export", "cubes", "--format", "torch")
    assert "--format" in fails("export", tiny[1], "--format", "tflite")
    Path("full").mkdir()
    Path("full/notes.txt").write_text("mine")
    assert "full is not empty" in fails("export", tiny[1], "--out", "full")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install 'visual-dynamics[onnx]'" in fails("export", tiny[1], "--out", "new")
