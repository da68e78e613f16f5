"""What the verbs of the command line do."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.cli.conftest import (
    ROOT,
    TINY_RUN,
    Answer,
    Fails,
    Run,
    names,
    picture,
    subprogram,
)
from visual_dynamics import model_files
from visual_dynamics.api import Model, load
from visual_dynamics.cli import pictures
from visual_dynamics.cli.main import current_names
from visual_dynamics.experiments import EXPERIMENTS
from visual_dynamics.model_files import shipped_models
from visual_dynamics.sampling import poke
from visual_dynamics.weights import load_weights

FRAMES = [f"frame_{k:03d}.png" for k in range(3)]


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


def test_an_unfamiliar_picture_gives_a_warning_and_results_all_the_same(run: Run, place: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save("noise.png")
    sampled = run("sample", "noise.png", "-n", 1)
    assert sampled.code == 0 and names("out/sample")
    assert sampled.err.startswith("warning: noise.png: the model has not learned from pictures like this one")
    assert sampled.err.count("\n") == 1
    assert run("analogy", "noise.png", "noise.png", "noise.png").err.count("warning: noise.png") == 1
    assert run("traverse", "noise.png", "-n", 1, "--force").err == ""


def test_the_same_seed_gives_the_same_bytes(run: Run, tiny: list[str]) -> None:
    for out, seed in (("one", 5), ("two", 5), ("three", 6)):
        assert run("sample", "picture.png", *tiny, "-n", 2, "--seed", seed, "--out", out).code == 0
    one, two, three = (
        {name: (Path(out) / name).read_bytes() for name in names(out)} for out in ("one", "two", "three")
    )
    assert one == two != three


def test_sources_of_z_differ(run: Run, tiny: list[str]) -> None:
    assert run("sample", "picture.png", *tiny, "-n", 1, "--out", "default").code == 0
    for source in ("posteriors", "learned", "prior"):
        assert run("sample", "picture.png", *tiny, "-n", 1, "--source", source, "--out", source).code == 0
    default, posteriors, learned, prior = (
        picture(f"{source}/future_000.png").tobytes() for source in ("default", "posteriors", "learned", "prior")
    )
    assert default == posteriors and len({posteriors, learned, prior}) == 3


def test_a_prior_is_trained_and_sampled_from(run: Run, place: Path) -> None:
    assert run("train", "run", *TINY_RUN, "--steps", 2).code == 0
    answer = run("prior", "run/weights.safetensors", "--steps", 2, "--batch", 4, "--device", "cpu")
    assert re.match(r"run/weights.safetensors: p\(z \| image\) learned. Error of the flow on held-out", answer.out)
    options = ["picture.png", "--model", "run/weights.safetensors", "-n", 1, "--force"]
    for out, more in {"usual": [], "named": ["--latents", "conditional"], "guided": ["--guidance", 1]}.items():
        assert run("sample", *options, *more, "--out", out).code == 0
    assert run("sample", *options, "--guidance", 0, "--out", "free").code == 0
    assert run("sample", *options, "--source", "posteriors", "--out", "stored").code == 0
    usual, named, guided, free, stored = (
        picture(f"{out}/future_000.png").tobytes() for out in ("usual", "named", "guided", "free", "stored")
    )
    assert usual == named == guided and len({usual, free, stored}) == 3


def test_a_poke_chooses_the_futures(run: Run, tiny: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poke, "motion_at", lambda frame, futures, place, reach: futures[:, :2].std((2, 3)))
    options = ("-n", 2, "--poke", "14,10:0.5,0", "--codes", 40, "--seed", 3)
    answer = run("sample", "picture.png", *tiny, *options)
    assert answer.out.startswith("2 futures")
    assert re.fullmatch(r"poked: [34]\d of 40 codes fit, with a kernel of [\d.]+ px of the model's frame\n", answer.err)
    source = load(tiny[1]).poke("picture.png", ((14, 10), (0.5, 0)), seed=3, codes=40)
    for number, future in enumerate(load(tiny[1]).each_sample("picture.png", 2, 3, source)):
        np.testing.assert_array_equal(picture(f"out/sample/future_{number:03d}.png"), future)


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


def test_full_size(run: Run, tiny: list[str]) -> None:
    image = Image.open("picture.png").resize((90, 60), Image.Resampling.NEAREST)
    image.save("large.png")
    answer = run("sample", "large.png", *tiny, "-n", 2, "--full-size", "--out", "futures")
    assert answer == (0, "2 futures of large.png in futures: see futures.png\n", "")
    assert names("futures") == ["future_000.png", "future_001.png", "futures.gif", "futures.png", "input.png"]
    np.testing.assert_array_equal(picture("futures/input.png"), np.array(image))
    for number, future in enumerate(load(tiny[1]).each_sample("large.png", 2, full_size=True)):
        np.testing.assert_array_equal(picture(f"futures/future_{number:03d}.png"), future)
    kinds = [word for kind in ("gif", "webp", "apng", "mp4") for word in ("--clip", kind)]
    assert run("extrapolate", "large.png", *tiny, "--steps", 2, "--full-size", "--out", "clip", *kinds).code == 0
    assert names("clip") == sorted([*(f"clip.{k}" for k in ("apng", "gif", "mp4", "png", "webp")), *FRAMES])
    assert [picture(f"clip/{name}").shape for name in FRAMES] == [(60, 90, 3)] * 3
    np.testing.assert_array_equal(picture("clip/frame_001.png"), picture("futures/future_000.png"))
    with Image.open("clip/clip.webp") as clip:
        assert clip.n_frames == 3 and clip.size == (90, 60)


def test_overviews_of_large_pictures_are_small(run: Run, tiny: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "OVERVIEW_SIDE", 30)
    monkeypatch.setattr(pictures, "CLIP_SIDE", 45)
    Image.open("picture.png").resize((90, 60)).save("large.png")
    assert run("extrapolate", "large.png", *tiny, "--steps", 1, "--full-size", "--out", "clip").code == 0
    assert picture("clip/frame_001.png").shape == (60, 90, 3)
    assert picture("clip/clip.png").shape == (4 + 20 + 16 + 4, 4 + 2 * (30 + 4), 3)
    with Image.open("clip/clip.gif") as clip:
        assert clip.size == (45, 30)


def test_sprites_keep_their_size_and_alpha(run: Run, tiny_weights_file: Path) -> None:
    weights = load_weights(tiny_weights_file)
    weights.network.config = replace(weights.network.config, background=0.0)
    Model(weights).save_copy("black.safetensors", learned_prior=True)
    frame = np.zeros((12, 10, 4), np.uint8)
    frame[3:11, 2:8] = (220, 60, 90, 255)
    Image.fromarray(frame).save("sprite.png")
    Image.fromarray(np.roll(frame, 1, axis=1)).save("next.png")
    options = ["--model", "black.safetensors", "--device", "cpu"]
    assert run("sample", "sprite.png", *options, "-n", 2, "--out", "futures").code == 0
    assert run("extrapolate", "sprite.png", *options, "--steps", 2, "--out", "clip").code == 0
    assert run("analogy", "sprite.png", "next.png", "sprite.png", *options, "--out", "moved").code == 0
    assert run("sample", "sprite.png", *options, "-n", 2, "--full-size", "--out", "large").code == 0
    assert picture("large/future_001.png").tobytes() == picture("futures/future_001.png").tobytes()
    for path in ("futures/future_001.png", "clip/frame_002.png", "moved/result.png"):
        assert picture(path).shape == (12, 10, 4), path
    for path in ("futures/input.png", "clip/frame_000.png"):
        np.testing.assert_array_equal(picture(path), frame)


def test_traverse(run: Run, tiny: list[str]) -> None:
    answer = run("traverse", "picture.png", *tiny, "-n", 2, "--clip", "gif", "--clip", "webp", "--out", "strips")
    used = load(tiny[1]).traverse("picture.png", 2)
    stems = [f"dimension_{place:02d}_z{strip.dimension}" for place, strip in enumerate(used, 1)]
    assert answer.code == 0 and "2 dimensions of z on picture.png in strips, the strongest first: " in answer.out
    assert names("strips") == sorted(["input.png", *(f"{s}.{kind}" for s in stems for kind in ("png", "gif", "webp"))])
    assert picture(f"strips/{stems[0]}.png").shape == (4 + 33 + 16 + 4, 4 + 9 * (48 + 4), 3)
    with Image.open(f"strips/{stems[0]}.gif") as clip:
        assert clip.n_frames == 16 and clip.size == (48, 33)  # there and back


def test_traverse_needs_posteriors(fails: Fails, tiny_weights_file: Path, tmp_path: Path) -> None:
    load(tiny_weights_file).save_copy(tmp_path / "light.safetensors", learned_prior=True)
    message = fails("traverse", "picture.png", "--model", tmp_path / "light.safetensors", "--out", "new")
    assert "holds no training posteriors" in message


def test_compact(run: Run, fails: Fails, tiny: list[str]) -> None:
    assert run("compact", tiny[1], "whole.safetensors", "--float16").code == 0
    answer = run("compact", tiny[1], "small.safetensors", "--no-motion-encoder")
    assert answer.code == 0 and "small.safetensors: 0." in answer.out
    assert Path("small.safetensors").stat().st_size < 0.7 * Path("whole.safetensors").stat().st_size
    assert run("compact", "small.safetensors", "prior.safetensors", "--learned-prior").code == 0
    assert load_weights(Path("prior.safetensors")).prior
    assert run("sample", "picture.png", "--model", "small.safetensors", "-n", 1, "--out", "futures").code == 0
    before = Path("small.safetensors").read_bytes()
    assert "remove it, or give another file" in fails("compact", tiny[1], "small.safetensors")
    assert ".safetensors" in fails("compact", tiny[1], "small.bin")
    assert Path("small.safetensors").read_bytes() == before


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
    lines = answer.out.splitlines()
    assert [line.split()[0] for line in lines[::2]] == shipped_models()
    assert all(line.startswith("    ") for line in lines[1::2]) and all("Apache-2.0" in line for line in lines[::2])


def test_models_says_where_z_comes_from(run: Run, tiny_weights_file: Path, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(model_files, "SHIPPED", tmp_path)
    shutil.copy(tiny_weights_file, tmp_path / "whole.safetensors")
    load(tiny_weights_file).save_copy(tmp_path / "light.safetensors", learned_prior=True)
    light, whole = run("models").out.splitlines()
    assert "  learned prior  " in light and "posteriors" not in light
    assert "  40 posteriors  " in whole and "prior" not in whole


def test_reproduce_lists_what_it_can(run: Run) -> None:
    listed = [line.split()[0] for line in run("reproduce").out.splitlines()]
    assert listed == list(EXPERIMENTS)


def test_help_and_version(run: Run) -> None:
    top = run("--help")
    assert top.code == 0 and run() == top
    for verb in ("sample", "analogy", "extrapolate", "traverse", "demo", "train", "reproduce", "report", "models"):
        assert f"  {verb} " in top.out
        answer = run(verb, "--help")
        assert answer.code == 0 and f"visual-dynamics {verb}" in answer.out and answer.err == ""
    assert re.fullmatch(r"visual-dynamics \d+\.\d+\S*\n", run("--version").out)


QUICK = {  # command -> exit code; none of them needs torch
    "--help": 0,
    "train --help": 0,
    "models": 0,
    "sample missing.png": 2,
    "sample cut.png": 2,
    "sample picture.png --scale 99": 2,
    "sample picture.png --model spahes": 2,
    "sample picture.png --model cut.png": 2,
    "analogy picture.png missing.png picture.png": 2,
    "extrapolate cut.png": 2,
    "traverse missing.png": 2,
    "animate missing.json picture.png": 2,
    "animate picture.png picture.png --model shapes": 2,
    "animate picture.png picture.png --cell 9x9": 2,
    "complete missing.png": 2,
    "check missing.png": 2,
    "demo --model spahes": 2,
    "compact spahes copy.safetensors": 2,
    "familiarize cut.png": 2,
    "push cut.png me/mine": 2,
    "train run --batch 0": 2,
    "train run --data missing": 2,
    "train run --data figures --poses missing": 2,
    "prepare poses missing --out new.npz": 2,
    "export spahes --out new": 2,
    "export-page --model spahes --out new": 2,
    "prepare videos missing --out new": 2,
    "study score missing": 2,
    "studio --token short": 2,
}


def test_help_models_and_mistakes_do_not_wait_for_torch(place: Path) -> None:
    (place / "cut.png").write_bytes((place / "picture.png").read_bytes()[:40])
    code = """if True:
        import json, sys
        from visual_dynamics.cli.main import main
        found = {}
        for command in json.loads(sys.argv[1]):
            try:
                main(command.split())
            except SystemExit as end:
                heavy = ("torch", "numpy", "PIL", "rich", "av") if "--help" in command else ("torch",)
                found[command] = [end.code or 0, [name for name in heavy if name in sys.modules]]
        print("\\n" + json.dumps(found))
    """
    command = [sys.executable, "-c", code, json.dumps(list(QUICK))]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert json.loads(done.stdout.splitlines()[-1]) == {command: [code, []] for command, code in QUICK.items()}


def test_the_module_and_the_command_are_one_program() -> None:
    assert subprogram("--version") == subprocess_answer([Path(sys.executable).parent / "visual-dynamics", "--version"])


def subprocess_answer(command: Sequence[str | Path]) -> Answer:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return Answer(done.returncode, done.stdout, done.stderr)


def test_the_shell_completes_verbs() -> None:
    program = str(Path(sys.executable).parent / "visual-dynamics")
    asked = {"_VISUAL_DYNAMICS_COMPLETE": "complete_bash", "COMP_WORDS": "visual-dynamics extr", "COMP_CWORD": "1"}
    done = subprocess.run([program], env=os.environ | asked | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert done.stdout.strip() == "extrapolate" and done.stderr == ""


def test_the_device_is_chosen_before_or_after_the_verb(fails: Fails) -> None:
    given = ("--device warp sample picture.png", "sample --device=warp picture.png", "sample picture.png --device warp")
    for words in given:
        assert "cannot use device 'warp'" in fails(*words.split(), "--out", "new")
    assert "--device needs a name" in fails("sample", "picture.png", "--device")


def test_old_names_work_with_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    words = "--zoom 2 --recolour --bottleneck=4 --kl-warmup 0 --data x"
    now = "--augment zoom=2 --augment permute-channels --beta 4 --set kl_warmup=0 --data x"
    assert " ".join(current_names(["train", "run", *words.split()])) == f"train run {now}"
    assert capsys.readouterr().err.splitlines()[0] == "note: --zoom is now --augment zoom=2"
    assert current_names(["sample", "--zoom", "2"]) == ["sample", "--zoom", "2"] and current_names([]) == []
