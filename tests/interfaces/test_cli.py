"""The command line as people use it: what it writes, and that every mistake is one line and changes nothing."""

import io
import json
import os
import pickle
import re
import signal
import struct
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.torch import save_file

from visual_dynamics.catalogue import shipped_models
from visual_dynamics.data.pair import Pairs
from visual_dynamics.interfaces.cli import main
from visual_dynamics.weights import load_weights

ROOT = Path(__file__).parents[2]
PROGRAM = [sys.executable, "-m", "visual_dynamics"]
TINY_OPTIONS = "--preset tiny --pairs 32 --batch 8 --log-every 2 --checkpoint-every 2 --kl-warmup 4 --device cpu"
TINY_RUN = TINY_OPTIONS.split()


class Answer(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Answer]
Refused = Callable[..., str]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test starts in a folder of its own that holds a picture and the frame after it."""
    folder = tmp_path / "place"
    folder.mkdir()
    monkeypatch.chdir(folder)
    frame = np.full((20, 30, 3), 40, np.uint8)
    frame[5:13, 6:14] = (220, 60, 90)
    Image.fromarray(frame).save("picture.png")
    Image.fromarray(np.roll(frame, 2, axis=1)).save("after.png")
    return folder


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: object) -> Answer:
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit_:
            main([str(argument) for argument in arguments])
        code = exit_.value.code
        return Answer(code if isinstance(code, int) else 0 if code is None else 1, *capsys.readouterr())

    return run


@pytest.fixture
def tiny(tiny_weights_file: Path) -> list[str]:
    return ["--model", str(tiny_weights_file)]


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    """All that lies in a folder, with sizes and times."""
    paths = [folder, *folder.rglob("*")]
    return {str(path.relative_to(folder)): (path.lstat().st_size, path.lstat().st_mtime_ns) for path in paths}


def one_line(answer: Answer) -> str:
    assert answer.code == 2, answer
    assert re.fullmatch(r"error: [^\n]+\n", answer.err), answer.err
    assert "Traceback" not in answer.err and answer.out == ""
    return answer.err


@pytest.fixture
def refused(run: Run, place: Path) -> Refused:
    def refused(*arguments: object) -> str:
        before = listing(place)
        line = one_line(run(*arguments))
        assert listing(place) == before
        return line

    return refused


def subprogram(*arguments: object, limit: int | None = None, **options: object) -> Answer:
    """A process of its own; with `limit`, any file larger than so many bytes fails as on a full disk."""
    command = [*PROGRAM, *(str(argument) for argument in arguments)]
    if limit is not None:
        code = (
            "import resource, signal, sys\nfrom visual_dynamics.interfaces.cli import main\n"
            "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\nmain(sys.argv[1:])"
        )
        command = [sys.executable, "-c", code, *command[3:]]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return Answer(done.returncode, done.stdout, done.stderr)


def names(folder: str) -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir())


def picture(path: str) -> np.ndarray:
    return np.array(Image.open(path))


# --- what it does ---


def test_sample_writes_the_input_futures_a_grid_and_a_clip(run: Run, tiny: list[str]) -> None:
    answer = run("sample", "picture.png", *tiny, "-n", 3, "--out", "deep/results")
    assert answer == (0, "3 futures of picture.png in deep/results: see futures.png\n", "")
    futures = [f"future_{k:03d}.png" for k in range(3)]
    assert names("deep/results") == sorted(["input.png", "futures.png", "futures.gif", *futures])
    for name in ("input.png", *futures):
        assert picture(f"deep/results/{name}").shape == (11, 16, 3)  # 20 x 30 with the longer side 16
    assert picture("deep/results/futures.png").shape == (4 + 33 + 16 + 4, 4 + 4 * (48 + 4), 3)
    with Image.open("deep/results/futures.gif") as clip:
        assert clip.n_frames == 2 and clip.size == (4 + 3 * 52, 4 + 33 + 4)


def test_the_same_seed_gives_the_same_bytes(run: Run, tiny: list[str]) -> None:
    for out, seed in (("one", 5), ("two", 5), ("three", 6)):
        assert run("sample", "picture.png", *tiny, "-n", 2, "--seed", seed, "--out", out).code == 0
    one, two, three = (
        {name: (Path(out) / name).read_bytes() for name in names(out)} for out in ("one", "two", "three")
    )
    assert one == two != three


def test_sources_of_z_differ(run: Run, tiny: list[str]) -> None:
    for source in ("posteriors", "prior"):
        assert run("sample", "picture.png", *tiny, "-n", 1, "--source", source, "--out", source).code == 0
    assert not np.array_equal(picture("prior/future_000.png"), picture("posteriors/future_000.png"))


def test_analogy(run: Run, tiny: list[str]) -> None:
    Image.new("RGB", (8, 24), "green").save("tall.png")
    answer = run("analogy", "picture.png", "after.png", "tall.png", *tiny, "--out", "moved", "--scale", 1)
    assert answer.code == 0 and answer.err == ""
    assert names("moved") == ["analogy.gif", "analogy.png", "result.png"]
    assert picture("moved/result.png").shape == (16, 5, 3)


def test_extrapolate(run: Run, tiny: list[str]) -> None:
    assert run("extrapolate", "picture.png", *tiny, "--steps", 3, "--out", "clip").code == 0
    assert names("clip") == ["clip.gif", "clip.png", *(f"frame_{k:03d}.png" for k in range(4))]
    assert not np.array_equal(picture("clip/frame_003.png"), picture("clip/frame_000.png"))


def test_every_kind_of_clip_can_be_read_back(run: Run, tiny: list[str]) -> None:
    import av

    kinds = ["gif", "webp", "apng", "mp4"]
    options = [word for kind in [*kinds, "gif"] for word in ("--clip", kind)]
    assert run("extrapolate", "picture.png", *tiny, "--steps", 2, "--out", "clips", *options).code == 0
    for kind in kinds[:3]:
        with Image.open(f"clips/clip.{kind}") as clip:
            assert clip.n_frames == 3 and clip.size == (48, 33), kind
    with av.open("clips/clip.mp4") as container:
        assert len(list(container.decode(video=0))) == 3


def test_pictures_of_every_kind(run: Run, tiny: list[str], place: Path) -> None:
    rgb = Image.open("picture.png")
    turned = Image.Exif()
    turned[0x0112] = 6
    rgb.convert("RGBA").save("rgba.png")
    rgb.convert("L").save("grey.png")
    rgb.convert("P").save("palette.png")
    rgb.convert("LA").save("grey_alpha.png")
    rgb.convert("1").save("bits.png")
    rgb.save("frame.gif")
    rgb.save("photo with space.JPG")
    rgb.convert("CMYK").save("print.jpg")
    rgb.save("turned.jpg", exif=turned)
    Image.fromarray(np.full((20, 30), 40_000, np.uint16)).save("deep.png")
    for path in sorted(place.glob("*.*")):
        answer = run("sample", path.name, *tiny, "-n", 1, "--out", f"of {path.name}")
        assert answer.code == 0 and answer.err == "", path
        shape = (16, 11, 3) if path.name == "turned.jpg" else (11, 16, 3)
        assert picture(f"of {path.name}/future_000.png").shape == shape, path
    np.testing.assert_array_equal(picture("of rgba.png/input.png"), picture("of picture.png/input.png"))
    assert picture("of deep.png/input.png")[0, 0, 0] == round(40_000 / 257)


def test_many_futures_make_a_square(run: Run, tiny: list[str]) -> None:
    assert run("sample", "picture.png", *tiny, "-n", 300, "--scale", 1, "--out", "many").code == 0
    assert len(names("many")) == 303
    height, width = picture("many/futures.png").shape[:2]
    assert width == 4 + 18 * 20 and height < 2.5 * width


def test_overwrite_keeps_what_is_not_its_own(run: Run, tiny: list[str]) -> None:
    Path("out").mkdir()
    Path("out/note.txt").write_text("mine")
    Path("out/input.png").write_text("old")
    assert run("sample", "picture.png", *tiny, "-n", 1, "--out", "out", "--overwrite").code == 0
    assert Path("out/note.txt").read_text() == "mine"
    assert picture("out/input.png").shape == (11, 16, 3)


def test_models_lists_what_is_shipped(run: Run) -> None:
    answer = run("models")
    assert answer.code == 0 and answer.err == ""
    assert [line.split()[0] for line in answer.out.splitlines()] == shipped_models()


def test_reproduce_lists_what_it_can(run: Run) -> None:
    assert run("reproduce", "--list").out.startswith("shapes ")


def test_help_and_version(run: Run) -> None:
    top = run("--help")
    assert top.code == 0 and run() == top
    for verb in ("sample", "analogy", "extrapolate", "demo", "train", "reproduce", "models"):
        assert f"  {verb} " in top.out
        answer = run(verb, "--help")
        assert answer.code == 0 and f"visual-dynamics {verb}" in answer.out and answer.err == ""
    assert re.fullmatch(r"visual-dynamics \d+\.\d+\S*\n", run("--version").out)


def test_help_does_not_wait_for_torch() -> None:
    code = (
        "import sys, time\nstart = time.perf_counter()\nfrom visual_dynamics.interfaces.cli import main\n"
        "try:\n    main(['sample', '--help'])\nexcept SystemExit:\n    pass\n"
        "print([name for name in ('torch', 'numpy', 'PIL', 'rich', 'av') if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"


def test_the_module_and_the_command_are_one_program() -> None:
    assert subprogram("--version") == subprocess_answer([Path(sys.executable).parent / "visual-dynamics", "--version"])


def subprocess_answer(command: Sequence[str | Path]) -> Answer:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return Answer(done.returncode, done.stdout, done.stderr)


# --- training ---


@pytest.fixture
def pairs_folder(tiny_pairs: Pairs, place: Path) -> Path:
    folder = place / "pairs"
    folder.mkdir()
    for number in range(12):
        for which, frames in (("1", tiny_pairs.frames), ("2", tiny_pairs.next_frames)):
            Image.fromarray(frames[number].permute(1, 2, 0).numpy()).save(folder / f"{number}_im{which}.png")
    return folder


def zipped(folder: Path) -> Path:
    path = folder.with_suffix(".zip")
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(folder.iterdir()):
            archive.write(file, f"inside/{file.name}")
    return path


def steps_of(folder: str) -> list[int]:
    records = [json.loads(line) for line in (Path(folder) / "log.jsonl").read_text().splitlines()]
    return [record["step"] for record in records if "loss" in record]


def test_train_sample_and_resume(run: Run) -> None:
    answer = run("train", "a run", *TINY_RUN, "--steps", 4)
    assert answer.code == 0 and answer.out == ""
    assert '"preset": "tiny"' in answer.err and "step 4  100%  loss" in answer.err
    assert answer.err.endswith("weights in a run/weights.safetensors\n")
    assert steps_of("a run") == [2, 4]
    assert run("sample", "picture.png", "--model", "a run/weights.safetensors", "-n", 1, "--out", "o").code == 0

    config = json.loads(Path("a run/config.json").read_text()) | {"steps": 8}
    Path("a run/config.json").write_text(json.dumps(config))
    assert run("train", "a run", "--resume", "--device", "cpu").code == 0
    assert steps_of("a run") == [2, 4, 6, 8]


@pytest.mark.parametrize("kind", ["folder", "zip"])
@pytest.mark.parametrize("lists", [True, False], ids=["lists", "no lists"])
def test_train_on_a_folder_or_zip_of_pairs(run: Run, pairs_folder: Path, kind: str, lists: bool) -> None:
    if lists:
        (pairs_folder / "train.txt").write_text("0 1 2 3 4 5 6 7\n")
        (pairs_folder / "test.txt").write_text("8\n9\n10\n")
    data = zipped(pairs_folder) if kind == "zip" else pairs_folder
    answer = run("train", "run", *TINY_RUN, "--steps", 2, "--data", data)
    assert answer.code == 0, answer.err
    assert len(load_weights(Path("run/weights.safetensors")).posteriors) == (8 if lists else 12)
    assert Path("run/pictures").exists() == lists  # held-out pairs to look at


def test_data_that_cannot_be_trained_on(refused: Refused, pairs_folder: Path, place: Path) -> None:
    def told(data: object) -> str:
        return refused("train", "run", *TINY_RUN, "--data", data)

    (place / "empty").mkdir()
    (place / "broken.zip").write_bytes(zipped(pairs_folder).read_bytes()[:700])
    assert "no N_im1/N_im2 pairs in" in told("empty")
    assert "no N_im1/N_im2 pairs in" in told(place)
    assert "no data 'nowhere'" in told("nowhere")
    assert "neither a folder nor a readable zip" in told("broken.zip")
    assert "neither a folder nor a readable zip" in told("picture.png")
    (pairs_folder / "test.txt").write_text("3")
    assert "no train.txt" in told(pairs_folder)
    (pairs_folder / "train.txt").write_text("0 99")
    assert "lists 99, but there is no 99_im1" in told(zipped(pairs_folder))
    (pairs_folder / "train.txt").write_text("0 1")
    (pairs_folder / "1_im2.png").unlink()
    assert "no partner 1_im2" in told(pairs_folder)
    (pairs_folder / "1_im2.png").write_bytes(b"\x89PNG, they say")
    assert "not a readable image" in told(pairs_folder)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--steps", 0], "--steps"),
        (["--steps", 3, "--minutes", 1], "either steps or minutes"),
        (["--minutes", "nan"], "--minutes"),
        (["--minutes", -1], "--minutes"),
        (["--batch", 0], "batch must be positive"),
        (["--pairs", -5], "pairs must be positive"),
        (["--sigma", "nan"], "sigma must be positive"),
        (["--learning-rate", "inf"], "learning_rate must be positive"),
        (["--kl-warmup", -1], "--kl-warmup"),
        (["--seed", -1], "--seed"),
        (["--preset", "huge"], "unknown preset 'huge'; there are paper"),
        (["--device", "warp"], "cannot use device 'warp'"),
        (["--pairs", 10**13], "memory"),
    ],
    ids=str,
)
def test_training_options_that_make_no_sense(refused: Refused, options: list[object], words: str) -> None:
    assert words in refused("train", "deep/run", *TINY_RUN, *options)


def test_a_run_that_never_began_leaves_nothing(run: Run, place: Path) -> None:
    (place / "empty").mkdir()
    for folder in ("deep/run", "empty"):
        assert "not enough memory" in one_line(run("train", folder, *TINY_RUN, "--batch", 10**13))
    assert sorted(listing(place)) == [".", "after.png", "empty", "picture.png"]


def test_run_folders_that_cannot_be_used(refused: Refused, run: Run, place: Path) -> None:
    (place / "empty").mkdir()
    (place / "note.txt").write_text("mine")
    assert "there is no run to resume in" in refused("train", "nowhere", "--resume")
    assert "there is no run to resume in" in refused("train", "empty", "--resume")
    assert "is a file" in refused("train", "note.txt", *TINY_RUN)
    assert "is a file" in refused("train", "note.txt/below/run", *TINY_RUN)
    assert "is not empty" in refused("train", ".", *TINY_RUN)
    assert run("train", "run", *TINY_RUN, "--steps", 2).code == 0
    assert "is not empty: resume the run in it (--resume)" in refused("train", "run", *TINY_RUN)
    state = place / "run" / "state.safetensors"
    state.write_bytes(state.read_bytes()[:3000])
    assert "cannot resume from" in refused("train", "run", "--resume", "--device", "cpu")
    (place / "run" / "config.json").write_text("{}}")
    assert "cannot read run/config.json" in refused("train", "run", "--resume")


def test_a_run_folder_in_use(refused: Refused, place: Path) -> None:
    """While another process trains in it, and after that process was interrupted."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [*PROGRAM, "train", "run", *TINY_RUN, "--steps", "1000000", "--log-every", "1000000"]
    command += ["--checkpoint-every", "1000000"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as other:
        try:
            deadline = time.monotonic() + 60
            while not (place / "run" / "config.json").exists():
                assert time.monotonic() < deadline and other.poll() is None
                time.sleep(0.05)
            time.sleep(0.2)
            assert "is in use by another process" in refused("train", "run", "--resume", "--device", "cpu")
            assert "is not empty" in refused("train", "run", *TINY_RUN)
        finally:
            other.send_signal(signal.SIGINT)
        _, err = other.communicate(timeout=60)
    assert (other.returncode, err) == (130, "error: interrupted\n")


# --- a full disk ---


def test_a_full_disk_while_results_are_saved(place: Path, tiny: list[str]) -> None:
    (place / "old").mkdir()
    (place / "old" / "input.png").write_bytes(b"old")
    for out in ("new/results", "old"):
        before = listing(place)
        answer = subprogram("sample", "picture.png", *tiny, "--out", out, "--overwrite", limit=2000)
        assert re.search(rf"cannot write {out}/\S+: File too large; nothing was changed", one_line(answer))
        after = listing(place)
        assert {name: entry[0] for name, entry in after.items()} == {name: entry[0] for name, entry in before.items()}
        assert (place / "old" / "input.png").read_bytes() == b"old"


def test_a_full_disk_while_a_checkpoint_is_saved(run: Run, place: Path) -> None:
    assert run("train", "run", *TINY_RUN, "--steps", 4).code == 0
    config = json.loads(Path("run/config.json").read_text()) | {"steps": 8}
    Path("run/config.json").write_text(json.dumps(config))
    kept = {name: (place / "run" / name).read_bytes() for name in ("state.safetensors", "weights.safetensors")}
    answer = subprogram("train", "run", "--resume", "--device", "cpu", limit=50_000)
    assert answer.code == 2 and "Traceback" not in answer.err
    assert answer.err.splitlines()[-1].startswith("error: cannot write run/state.safetensors: File too large")
    assert {name: (place / "run" / name).read_bytes() for name in kept} == kept
    assert not list(place.rglob("*.part"))
    assert run("train", "run", "--resume", "--device", "cpu").code == 0
    assert steps_of("run") == [2, 4, 6, 8]


# --- mistakes ---


def crafted_png(width: int, height: int) -> bytes:
    """A few bytes that promise a picture of any size."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(10))) + chunk(b"IEND", b"")
    )


def test_pictures_that_cannot_be_read(refused: Refused, tiny: list[str], place: Path) -> None:
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
        assert re.search(f"cannot read .*: {reason}", refused("sample", name, *tiny, "--out", "new")), name
        refused("extrapolate", name, *tiny, "--out", "new")
        for given in ([name, "after.png", "after.png"], ["picture.png", name, "after.png"]):
            refused("analogy", *given, *tiny, "--out", "new")
        refused("analogy", "picture.png", "after.png", name, *tiny, "--out", "new")


def test_a_pair_of_two_sizes(refused: Refused, tiny: list[str]) -> None:
    Image.new("RGB", (40, 40)).save("square.png")
    told = refused("analogy", "picture.png", "square.png", "picture.png", *tiny, "--out", "new")
    assert "differ in size: 30x20 and 40x40" in told


def test_weights_that_cannot_be_loaded(refused: Refused, place: Path, tiny_weights_file: Path) -> None:
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
        "newer.safetensors": "has format version 9; this program reads version 1",
        "foreign.safetensors": "but not a visual-dynamics model",
        "part.safetensors": "does not hold a whole",
        "cut.safetensors": "is not a complete safetensors file",
        "empty.safetensors": "is not a complete safetensors file",
        "pickle.safetensors": "is not a complete safetensors file",
        "torch.pt": "is not a complete safetensors file",
        ".": "is a folder; a model is a .safetensors file",
        "nowhere.safetensors": "no model 'nowhere.safetensors': shipped models are shapes",
        "spahes": "no model 'spahes': shipped models are shapes",
        "x" * 5000: "File name too long",
    }
    for name, reason in reasons.items():
        assert reason in refused("sample", "picture.png", "--model", name, "--out", "new")
    refused("analogy", "picture.png", "after.png", "picture.png", "--model", "spahes", "--out", "new")
    refused("extrapolate", "picture.png", "--model", "spahes", "--out", "new")
    refused("demo", "--model", "spahes", "--out", "new")
    refused("reproduce", "shapes", "--model", "spahes", "--out", "new")


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
        ("reproduce poems", "no experiment 'poems'; there are shapes"),
        ("reproduce shapes --samples 0", "samples must be positive"),
        ("reproduce shapes --out picture.png/below", "is a file"),
        ("bench --quick --out picture.png/below", "is a file"),
        ("reproduce shapes --pairs nowhere", "no such folder or zip: nowhere"),
        ("reproduce shapes", "makes frames of 16 pixels"),
        ("smaple picture.png", "No such command 'smaple'"),
        ("--frobnicate", "No such option"),
    ],
)
def test_mistakes(refused: Refused, tiny: list[str], arguments: str, words: str) -> None:
    words_given = arguments.split()
    model = tiny if words_given[0] in ("sample", "analogy", "extrapolate", "demo", "reproduce") else []
    assert words in refused(*words_given[:1], *model, *words_given[1:])


def test_a_folder_in_the_place_of_a_result(refused: Refused, tiny: list[str], place: Path) -> None:
    (place / "out" / "input.png").mkdir(parents=True)
    assert "input.png" in refused("sample", "picture.png", *tiny, "-n", 1, "--out", "out", "--overwrite")


def test_a_folder_without_the_right_to_write(
    refused: Refused, tiny: list[str], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "locked").mkdir(mode=0o555)
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "locked")  # tests may run as root
    assert "locked: permission denied" in refused("sample", "picture.png", *tiny, "--out", "locked/new")
    assert "locked: permission denied" in refused("train", "locked/run", *TINY_RUN)


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
