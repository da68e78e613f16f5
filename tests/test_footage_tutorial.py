"""The tutorial on own footage is done as it is written, on tiny clips and with a tiny network."""

import re
import shlex
from pathlib import Path

import pytest
from PIL import Image

from tests.footage.scenes import film, moving_square
from tests.test_documentation import ROOT, blocks
from visual_dynamics.cli.main import main


def test_every_command_of_the_tutorial_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs" / "footage.md"
    film(tmp_path / "clips" / "gym_left.mp4", 14, seed=1)
    film(tmp_path / "clips" / "gym_right.mp4", 14, seed=2)
    film(tmp_path / "clips" / "park.mp4", 9, seed=3)
    film(tmp_path / "clips" / "beach.mp4", 9, seed=4)
    (table,) = blocks(page, "csv")
    (tmp_path / "clips" / "manifest.csv").write_text(table)
    Image.fromarray(moving_square(1)[0]).save(tmp_path / "photo.jpg")
    lines = [line for block in blocks(page, "") for line in block.splitlines()]
    commands = [line for line in lines if line.startswith("visual-dynamics ")]
    assert [command.split()[1] for command in commands] == [
        *("prepare", "train", "train", "train", "sample", "reproduce")
    ]
    for command in commands:
        quick = "--preset tiny --steps 3 --batch 4 --device cpu"
        quick += " --set also_pairs=24" if "--recipe people" in command else ""
        command = re.sub(r"--minutes \S+", quick, command)
        with pytest.raises(SystemExit) as exit_:
            main(shlex.split(command)[1:])
        assert not exit_.value.code, command
    assert len(list((tmp_path / "out" / "mine").glob("*.png"))) >= 8
    assert (tmp_path / "runs" / "few" / "people.safetensors").exists()
    assert (tmp_path / "out" / "measured" / "video.png").exists()
