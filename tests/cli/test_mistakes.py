"""Every mistake is one line and changes nothing."""

import io
import json
import os
import pickle
import re
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.torch import save_file

from tests.cli.conftest import (
    PROGRAM,
    ROOT,
    TINY_RUN,
    Fails,
    Run,
)
from visual_dynamics.cli.main import main


def crafted_png(width: int, height: int) -> bytes:
    """A few bytes that promise a picture of any size."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(10))) + chunk(b"IEND", b"")
    )


def test_pokes_that_nothing_answers(fails: Fails, tiny: list[str]) -> None:
    for poke, words in {
        "99,2:1,0": "lies outside the picture of 30 x 20 pixels",
        "nan,2:1,0": "a poke is a place and a motion",
        "3": "a poke is x,y:dx,dy",
        "14,10:25,0": "by more than 1/4 of the picture",
        "14,10:1,0": "no outline or pattern",
    }.items():
        assert words in fails("sample", "picture.png", *tiny, "--poke", poke, "--codes", 8)


def test_pictures_that_cannot_be_read(fails: Fails, tiny: list[str], place: Path) -> None:
    good = (place / "picture.png").read_bytes()
    (place / "empty.png").touch()
    (place / "cut.png").write_bytes(good[: len(good) // 2])
    (place / "text.png").write_text("this is not a picture\n" * 100)
    (place / "huge.png").write_bytes(crafted_png(20_000, 20_000))
    (place / "short.png").write_bytes(crafted_png(200, 200))
    Image.new("RGB", (1, 1)).save("dot.png")
    reasons = {
        "nowhere.png": "there is no such file",
        "empty.png": "the file is empty",
        "cut.png": "it is (truncated|damaged)",
        "text.png": "it is not a readable PNG",
        "huge.png": "the picture is too large",
        "short.png": "it is (truncated|damaged)",
        "dot.png": "1 x 1 pixels is too small",
        ".": "it is a folder",
        "two\nlines.png": "there is no such file",
    }
    for name, reason in reasons.items():
        assert re.search(f"cannot read .*: {reason}", fails("sample", name, *tiny, "--out", "new")), name
        fails("extrapolate", name, *tiny, "--out", "new")
        for given in ([name, "after.png", "after.png"], ["picture.png", name, "after.png"]):
            fails("analogy", *given, *tiny, "--out", "new")
        fails("analogy", "picture.png", "after.png", name, *tiny, "--out", "new")


def test_a_pair_of_two_sizes(fails: Fails, tiny: list[str]) -> None:
    Image.new("RGB", (40, 40)).save("square.png")
    message = fails("analogy", "picture.png", "square.png", "picture.png", *tiny, "--out", "new")
    assert "differ in size: 30x20 and 40x40" in message


def test_weights_that_cannot_be_loaded(fails: Fails, place: Path, tiny_weights_file: Path) -> None:
    good = tiny_weights_file.read_bytes()
    with safe_open(tiny_weights_file, "pt") as file:
        metadata = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dictionary
    newer = metadata | {"format": json.dumps({"name": "visual-dynamics", "version": 9})}
    save_file(tensors, place / "newer.safetensors", newer)
    save_file({"weight": torch.zeros(3)}, place / "foreign.safetensors")
    tensors.popitem()
    save_file(tensors, place / "part.safetensors", metadata)
    (place / "cut.safetensors").write_bytes(good[: len(good) // 2])
    (place / "empty.safetensors").touch()
    (place / "pickle.safetensors").write_bytes(pickle.dumps({"weight": [1, 2]}))
    stream = io.BytesIO()
    torch.save({"weight": torch.zeros(3)}, stream)
    (place / "torch.pt").write_bytes(stream.getvalue())
    reasons = {
        "newer.safetensors": "has format version 9; this program reads versions 1 and 2",
        "foreign.safetensors": "but not a visual-dynamics model",
        "part.safetensors": "does not hold a whole",
        "cut.safetensors": "is not a complete safetensors file",
        "empty.safetensors": "is not a complete safetensors file",
        "pickle.safetensors": "is not a complete safetensors file",
        "torch.pt": "is not a complete safetensors file",
        ".": "is a folder; a model is a .safetensors file",
        "nowhere.safetensors": "no model 'nowhere.safetensors': there is no such file",
        "spahes": "no model 'spahes': shipped models are ",
        "x" * 5000: "File name too long",
    }
    for name, reason in reasons.items():
        assert reason in fails("sample", "picture.png", "--model", name, "--out", "new")
    fails("analogy", "picture.png", "after.png", "picture.png", "--model", "spahes", "--out", "new")
    fails("extrapolate", "picture.png", "--model", "spahes", "--out", "new")
    fails("demo", "--model", "spahes", "--out", "new")
    fails("reproduce", "shapes", "--model", "spahes", "--out", "new")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("sample", "Missing argument 'IMAGE'; see visual-dynamics sample --help"),
        ("analogy picture.png", "Missing argument"),
        ("sample picture.png other.png", "other.png"),
        ("sample picture.png -n 0", "'-n'"),
        ("sample picture.png -n -3", "'-n'"),
        ("sample picture.png -n 1000000000", "1000"),
        ("sample picture.png -n abc", "integer"),
        ("sample picture.png -n 2.5", "'-n'"),
        ("sample picture.png --seed -1", "--seed"),
        ("sample picture.png --seed 99999999999999999999999", "--seed"),
        ("sample picture.png --scale 0", "--scale"),
        ("sample picture.png --scale 99", "--scale"),
        ("sample picture.png --clip avi", "'avi' is not one of 'gif'"),
        ("sample picture.png --source dreams", "'dreams' is not one of"),
        ("sample picture.png --device warp", "cannot use device 'warp'"),
        ("sample picture.png --device meta", "cannot use device 'meta'"),
        ("sample picture.png --frobnicate", "No such option: --frobnicate"),
        ("sample picture.png --out", "--out"),
        ("sample picture.png --out picture.png", "picture.png is a file; results need a folder"),
        ("sample picture.png --out picture.png/below/it", "picture.png is a file; results need a folder"),
        ("sample picture.png --out .", "is not empty: give --overwrite"),
        (f"sample picture.png --out {'x' * 300}", "File name too long"),
        ("sample picture.png --out /proc/nothing", "/proc/nothing"),
        ("extrapolate picture.png --steps 0", "--steps"),
        ("sample picture.png -n 1000 --scale 16", "choose fewer, or a smaller --scale"),
        ("extrapolate picture.png --steps 1000 --scale 16", "choose fewer, or a smaller --scale"),
        ("extrapolate picture.png --out .", "is not empty"),
        ("analogy picture.png after.png picture.png --out .", "is not empty"),
        ("demo --out .", "is not empty"),
        ("demo --seed -1 --out new", "--seed"),
        ("traverse", "Missing argument 'IMAGE'; see visual-dynamics traverse --help"),
        ("traverse picture.png -n 0", "'-n'"),
        ("traverse picture.png --out .", "is not empty"),
        ("traverse nowhere.png --out new", "there is no such file"),
        ("traverse picture.png --scale 16 --device warp", "cannot use device 'warp'"),
        ("report nowhere", "no such folder: nowhere"),
        ("report . --out page.txt", "written as .md or .html, not page.txt"),
        ("reproduce all", "reproduce all has no option --model"),
        ("reproduce poems", "no experiment 'poems'; there are toy, shapes"),
        ("reproduce shapes --sprites .", "has no option --sprites; it has --samples, "),
        ("reproduce toy --seed 1", "has no option --model; it has --samples, --seed"),
        ("reproduce latents --sprites . --set sprites_model=nowhere", "no model 'nowhere'"),
        (
            "reproduce traversal --set sprites_model=shapes",
            "--set sprites_model=MODEL needs --sprites",
        ),
        ("reproduce shapes --set autoencoder", "--set takes NAME=VALUE, where NAME is sprites_model, guide, "),
        ("reproduce disocclusion --model nowhere", "no model 'nowhere': shipped models are"),
        ("reproduce video", "this is measured on prepared footage: give its folder with --footage"),
        ("reproduce video --footage nowhere", "no such folder or zip: nowhere"),
        ("reproduce video --footage .", "holds no footage that visual-dynamics prepare videos made"),
        ("reproduce sweeps --small", "has no option --model; it has --samples, --seed, --small, --set runs=FOLDER"),
        ("reproduce shapes --samples 0", "samples must be positive"),
        ("reproduce shapes --out picture.png/below", "is a file"),
        ("bench --quick", "run `make bench` in the source tree"),
        ("animate a b --method chained", "leave --method out"),
        ("study make s --consent text", "leave --consent out"),
        ("compact a b --carry-over data", "--carry-over is now the last step of train RUN --recipe people"),
        ("reproduce shapes --pairs nowhere", "no such folder or zip: nowhere"),
        ("reproduce shapes", "makes frames of 16 pixels"),
        ("smaple picture.png", "No such command 'smaple'"),
        ("--frobnicate", "No such option"),
    ],
)
def test_mistakes(fails: Fails, tiny: list[str], arguments: str, words: str) -> None:
    words_given = arguments.split()
    model = tiny if words_given[0] in ("sample", "analogy", "extrapolate", "traverse", "demo", "reproduce") else []
    assert words in fails(*words_given[:1], *model, *words_given[1:])


def test_too_many_large_futures(fails: Fails, tiny: list[str], place: Path) -> None:
    Image.new("RGB", (1500, 1000)).save("large.png")
    for verb, option in (("sample", "-n"), ("extrapolate", "--steps")):
        line = fails(verb, "large.png", *tiny, option, 300, "--full-size", "--out", "new")
        assert "of 1500 x 1000 pixels are too large together (at most 400 million pixels): choose fewer" in line
        assert "there is no such file" in fails(verb, "nowhere.png", *tiny, "--full-size", "--out", "new")


def test_a_folder_in_the_place_of_a_result(fails: Fails, tiny: list[str], place: Path) -> None:
    (place / "out" / "input.png").mkdir(parents=True)
    assert "input.png" in fails("sample", "picture.png", *tiny, "-n", 1, "--out", "out", "--overwrite")


def test_a_folder_without_the_right_to_write(
    fails: Fails, tiny: list[str], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "locked").mkdir(mode=0o555)
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "locked")  # tests may run as root
    assert "locked: permission denied" in fails("sample", "picture.png", *tiny, "--out", "locked/new")
    assert "locked: permission denied" in fails("train", "locked/run", *TINY_RUN)


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (OSError(5, "Input/output error"), 2, "error: [Errno 5] Input/output error\n"),
        (MemoryError(), 2, "error: there is not enough memory for this\n"),
        (torch.OutOfMemoryError("CUDA out of memory.\nTried to"), 2, "error: there is not enough memory for this\n"),
        (KeyboardInterrupt(), 130, "error: interrupted\n"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_happens_on_the_way(
    run: Run, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, line: str
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("visual_dynamics.api.load", fail)
    assert run("sample", "picture.png", "--out", "new") == (code, "", line)
    assert not Path("new").exists()


@pytest.mark.parametrize(("package", "extra"), [("cv2", "video"), ("scipy", "video"), ("h5py", "sprites")])
def test_a_package_of_an_extra_that_is_missing(
    fails: Fails, monkeypatch: pytest.MonkeyPatch, place: Path, package: str, extra: str
) -> None:
    if extra == "video":
        for name in [name for name in sys.modules if name.startswith("visual_dynamics.footage")]:
            monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Without(package), *sys.meta_path])
    (place / "clips").mkdir()
    (place / "sprites_0.mat").touch()
    arguments = ["videos", "clips"] if extra == "video" else ["sprites", "."]
    message = fails("prepare", *arguments, "--out", "new")
    assert f"pip install 'visual-dynamics[{extra}]'" in message and package in message


class Without:
    """As if a package was not installed."""

    def __init__(self, package: str) -> None:
        self.package = package

    def find_spec(self, name: str, *_: object) -> None:
        if name.partition(".")[0] == self.package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def test_a_fault_of_the_program_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr("visual_dynamics.api.load", fail)
    with pytest.raises(KeyError):
        main(["sample", "picture.png"])


@pytest.mark.parametrize("arguments", ["--help", "models"])
def test_a_reader_that_leaves_early(arguments: str) -> None:
    """As in `visual-dynamics models | head -0`: the pipe is closed before anything is written into it."""
    reading, writing = os.pipe()
    os.close(reading)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*PROGRAM, arguments], env=environment, stdout=writing, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writing)
    assert done.stderr == "" and done.returncode in (0, 1)
