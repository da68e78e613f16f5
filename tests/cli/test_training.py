"""Training from the command line, and full disks."""

import io
import json
import os
import re
import signal
import subprocess
import time
import zipfile
from pathlib import Path

import pytest
from PIL import Image
from rich.console import Console

from tests.cli.conftest import (
    PROGRAM,
    ROOT,
    TINY_RUN,
    Fails,
    Run,
    listing,
    one_line,
    subprogram,
)
from visual_dynamics.cli.train import TrainingBar, forecast, in_words
from visual_dynamics.data.pairs import Pairs
from visual_dynamics.training.config import TrainingConfig
from visual_dynamics.training.loop import Moment
from visual_dynamics.weights import load_weights


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
    assert re.search(r"held-out \d+\.\d, copying \d+\.\d \(squared error of a frame\)", answer.err)
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
        (pairs_folder / "train.txt").write_text("0 1 2 3 4 5 6 7 8 9\n")
        (pairs_folder / "test.txt").write_text("10\n11\n")
    data = zipped(pairs_folder) if kind == "zip" else pairs_folder
    answer = run("train", "run", *TINY_RUN, "--steps", 2, "--data", data)
    assert answer.code == 0, answer.err
    assert len(load_weights(Path("run/weights.safetensors")).posteriors) == (9 if lists else 11)
    assert f"validation: 1 of {10 if lists else 12} pairs, picked at random" in answer.err
    assert Path("run/pictures").exists()  # of validation pairs: a tenth


def test_data_that_cannot_be_trained_on(fails: Fails, pairs_folder: Path, place: Path) -> None:
    def message(data: object) -> str:
        return fails("train", "run", *TINY_RUN, "--data", data)

    (place / "empty").mkdir()
    (place / "broken.zip").write_bytes(zipped(pairs_folder).read_bytes()[:700])
    assert "no N_im1/N_im2 pairs in" in message("empty")
    assert "no N_im1/N_im2 pairs in" in message(place)
    assert "no data 'nowhere'" in message("nowhere")
    assert "neither a folder nor a readable zip" in message("broken.zip")
    assert "neither a folder nor a readable zip" in message("picture.png")
    (pairs_folder / "test.txt").write_text("3")
    assert "no train.txt" in message(pairs_folder)
    (pairs_folder / "train.txt").write_text("0 99")
    assert "lists 99, but there is no 99_im1" in message(zipped(pairs_folder))
    (pairs_folder / "train.txt").write_text("0 1")
    (pairs_folder / "1_im2.png").unlink()
    assert "no partner 1_im2" in message(pairs_folder)
    (pairs_folder / "1_im2.png").write_bytes(b"\x89PNG, they say")
    assert "cannot read" in message(pairs_folder)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--steps", 0], "steps must be positive, not 0"),
        (["--steps", 3, "--minutes", 1], "either steps or minutes"),
        (["--minutes", "nan"], "minutes must be positive, not nan"),
        (["--minutes", -1], "minutes must be positive, not -1"),
        (["--batch", 0], "batch must be positive"),
        (["--pairs", -5], "pairs must be positive"),
        (["--set", "sigma=nan"], "sigma must be positive"),
        (["--set", "learning_rate=inf"], "learning_rate must be positive"),
        (["--set", "kl_warmup=-1"], "kl_warmup must be from 0 up"),
        (["--set", "seed=-1"], "seed must be from 0 up"),
        (["--preset", "huge"], "unknown preset 'huge'; there are paper"),
        (["--set", "warmth=3"], "no setting 'warmth': did you mean warmup?"),
        (["--set", "warmup"], "--set takes NAME=VALUE, not 'warmup'"),
        (["--set", "warmup=x"], "warmup is a whole number, not 'x'"),
        (["--set", "stream=perhaps"], "stream is true or false, not 'perhaps'"),
        (["--augment", "blur"], "no augmentation 'blur'; there are zoom"),
        (["--augment", "shift"], "give --augment shift=NUMBER (pixels), not shift"),
        (["--augment", "mirror=2"], "give --augment mirror without a number"),
        (["--augment", "jitter=1.5"], "jitter is a whole number of pixels from 0 up"),
        (["--augment", "zoom=far"], "zoom needs a number, not 'far'"),
        (["--recipe", "bread"], "no recipe 'bread'; there are shapes"),
        (["--recipe", "people"], "this recipe needs the clips of docs/people-clips.csv"),
        (["--recipe", "shapes", "--config", "c.json"], "give --recipe or --config, not both"),
        (["--config", "c.json"], "cannot read c.json: there is no such file"),
        (["--resume"], "the run has: leave out --set, --pairs, --preset, --batch"),
        (["--device", "warp"], "cannot use device 'warp'"),
        (["--pairs", 10**13], "memory"),
    ],
    ids=str,
)
def test_training_options_that_make_no_sense(fails: Fails, options: list[object], words: str) -> None:
    assert words in fails("train", "deep/run", *TINY_RUN, *options)


def test_a_run_that_never_began_leaves_nothing(run: Run, place: Path) -> None:
    (place / "empty").mkdir()
    for folder in ("deep/run", "empty"):
        assert "not enough memory" in one_line(run("train", folder, *TINY_RUN, "--batch", 10**13))
    assert sorted(listing(place)) == [".", "after.png", "empty", "picture.png"]


def test_run_folders_that_cannot_be_used(fails: Fails, run: Run, place: Path) -> None:
    (place / "empty").mkdir()
    (place / "note.txt").write_text("mine")
    assert "there is no run to resume in" in fails("train", "nowhere", "--resume")
    assert "there is no run to resume in" in fails("train", "empty", "--resume")
    assert "is a file" in fails("train", "note.txt", *TINY_RUN)
    assert "is a file" in fails("train", "note.txt/below/run", *TINY_RUN)
    assert "is not empty" in fails("train", ".", *TINY_RUN)
    assert run("train", "run", *TINY_RUN, "--steps", 2).code == 0
    assert "is not empty: resume the run in it (--resume)" in fails("train", "run", *TINY_RUN)
    state = place / "run" / "state.safetensors"
    state.write_bytes(state.read_bytes()[:3000])
    assert "cannot resume from" in fails("train", "run", "--resume", "--device", "cpu")
    (place / "run" / "config.json").write_text("{}}")
    assert "cannot read run/config.json" in fails("train", "run", "--resume")


def test_a_run_folder_in_use(fails: Fails, place: Path) -> None:
    """While another process trains in it, and after that process was interrupted."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [*PROGRAM, "train", "run", *TINY_RUN, "--steps", "1000000"]
    command += ["--set", "log_every=1000000", "--set", "checkpoint_every=1000000"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as other:
        try:
            deadline = time.monotonic() + 60
            while not (place / "run" / "config.json").exists():
                assert time.monotonic() < deadline and other.poll() is None
                time.sleep(0.05)
            time.sleep(0.2)
            assert "is in use by another process" in fails("train", "run", "--resume", "--device", "cpu")
            assert "is not empty" in fails("train", "run", *TINY_RUN)
        finally:
            other.send_signal(signal.SIGINT)
        _, err = other.communicate(timeout=60)
    assert other.returncode == 130 and err.endswith("error: interrupted\n") and "Traceback" not in err
    assert "go on with: visual-dynamics train run --resume" in err


# --- what is said ---


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (754, "12 min 34 s"),
        (7_500, "2 h 5 min"),
        (86_399, "23 h 59 min"),
        (3 * 86_400 + 4 * 3_600 + 59 * 60, "3 d 4 h"),
    ],
)
def test_times_in_words(seconds: float, words: str) -> None:
    assert in_words(seconds) == words


def test_what_a_budget_reaches() -> None:
    said = forecast(TrainingConfig(minutes=2.5, steps=None, batch=32), step=10, speed=64)
    assert said == "64 pairs a second on this machine: 2.5 minutes reach about 300 steps"
    said = forecast(TrainingConfig(steps=1_000, stop=310, batch=32), step=10, speed=6.4)
    assert said == "6.4 pairs a second on this machine: 300 more steps take about 25 min 0 s"


@pytest.mark.parametrize(("error", "good"), [(9.9, True), (10.0, False), (12.0, False)])
def test_a_model_is_compared_with_copying(error: float, good: bool) -> None:
    said = io.StringIO()
    with TrainingBar(Console(file=said, width=200), TrainingConfig(), lambda: None) as bar:
        bar.show(Moment(1.0, 4, {"held_out_error": error, "held_out_copy_error": 10.0}))
    more = "" if good else ": no better than copying the input, train longer or on more pairs"
    assert said.getvalue().splitlines()[-1] == f"held-out {error}, copying 10.0 (squared error of a frame){more}"


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
    assert answer.err.splitlines()[-1].startswith("error: cannot write run/weights.safetensors: File too large")
    assert {name: (place / "run" / name).read_bytes() for name in kept} == kept
    assert not list(place.rglob("*.part"))
    assert run("train", "run", "--resume", "--device", "cpu").code == 0
    assert steps_of("run") == [2, 4, 6, 8]
