"""The video experiment in small, on drawn clips: takes, what moves in them, oracles, a tiny model, figures."""

import hashlib
import io
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

pytest.importorskip("cv2")

from tests.footage.scenes import film
from visual_dynamics.data.pairs import Pairs
from visual_dynamics.data.shards import open_pairs, shard_bytes, split_shards, split_takes
from visual_dynamics.errors import UserError
from visual_dynamics.evaluation.video_motion import by_scene, take_regions
from visual_dynamics.experiments import EXPERIMENTS, video
from visual_dynamics.experiments.video import CODE, COPY, FLOW, SAMPLED, TRUTH, VideoOptions
from visual_dynamics.footage.clips import Settings
from visual_dynamics.footage.prepare import prepare_videos
from visual_dynamics.reporting import video_tables
from visual_dynamics.reporting.base import Measured, run_experiment
from visual_dynamics.reporting.report import write_report
from visual_dynamics.training.config import TrainingConfig
from visual_dynamics.training.loop import train

CPU = torch.device("cpu")
ROWS = [COPY, FLOW, CODE, SAMPLED, TRUTH]


def ignore(step: str, share: float) -> None:
    pass


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four clips, a scene each, two of them held out; frames of 32 x 32, a third of the clips' 96 x 96."""
    clips = tmp_path_factory.mktemp("footage") / "clips"
    for number in range(4):
        film(clips / f"{number}.mp4", 12 + number, seed=number)
    prepare_videos(clips, clips.parent / "data", Settings(size=32, crop="centre", held_out=0.5))
    return clips.parent / "data"


@pytest.fixture(scope="module")
def model(folder: Path) -> str:
    run = folder.parent / "run"
    config = TrainingConfig(preset="tiny", batch=8, steps=4, log_every=2, checkpoint_every=4, kl_warmup=2, warmup=2)
    train(replace(config, data=str(folder)), run, CPU)
    return str(run / "weights.safetensors")


@pytest.fixture(scope="module")
def measured(folder: Path, model: str) -> Measured:
    return video.compute(VideoOptions(samples=9, seed=3, small=True, model=model, footage=folder), CPU, ignore)


@pytest.fixture(scope="module")
def result(measured: Measured) -> dict:
    return json.loads(json.dumps(measured.numbers))


def opened(folder: Path, size: int) -> video.Footage:
    return video.open_footage(VideoOptions(footage=folder), size)


def test_takes_are_those_of_the_manifest(folder: Path) -> None:
    pairs = open_pairs(folder, "held-out")
    assert pairs is not None
    takes = split_takes(folder, "held-out")
    files = [
        file for file in json.loads((folder / "manifest.json").read_text())["files"] if file["split"] == "held-out"
    ]
    assert [(take.scene, take.name) for take in takes] == [(f["scene"], f"{f['file']}, take 0") for f in files]
    assert [len(take.places) for take in takes] == [file["pairs"] for file in files] and len(files) == 2
    assert torch.equal(torch.cat([take.places for take in takes]), torch.arange(len(pairs)))


def test_measured_are_held_out_pairs_and_flow_knows_training_pairs(folder: Path) -> None:
    """Fault: pairs that are measured are training pairs, or Flow knows them."""
    _, pairs, _, known = opened(folder, 32)
    for found, split in ((pairs, "held-out"), (known, "train")):
        stored = open_pairs(folder, split)
        assert stored is not None and digests(found) == digests(stored.in_memory())
    assert not digests(pairs) & digests(known)


def digests(pairs: Pairs) -> set[str]:
    return {hashlib.sha256(frame.numpy().tobytes()).hexdigest() for frame in (*pairs.frames, *pairs.next_frames)}


def test_the_square_moves_and_the_wall_never_does(folder: Path) -> None:
    """It is at rows 36 to 59 of 96, so at rows 12 to 19 of 32; from columns 4 + 20 - 16 on, of the middle 96."""
    _, pairs, takes, _ = opened(folder, 32)
    for take in takes:
        where = take_regions(pairs, take.places)
        rows, columns = where.moving.any(1).nonzero()[:, 0], where.moving.any(0).nonzero()[:, 0]
        assert rows.tolist() == list(range(11, 21))  # one pixel wider
        first, last = (4 + 20 - 16) // 3, (4 + 20 + 2 * len(take.places) - 16 + 24) // 3
        assert abs(int(columns[0]) - (first - 1)) <= 1 and abs(int(columns[-1]) - (last + 1)) <= 1
        assert where.still[:10].all() and where.still[22:].all() and not (where.still & where.moving).any()


def test_inputs_come_from_every_scene_in_turn(folder: Path) -> None:
    _, pairs, takes, _ = opened(folder, 16)
    inputs = video.draw_inputs(pairs, takes, 6, 0)
    assert [one.take.scene for one in inputs] == [takes[0].scene, takes[1].scene] * 3
    assert all(one.place in one.take.places for one in inputs)
    every = video.draw_inputs(pairs, takes, 1000, 0)
    assert sorted(one.place for one in every) == list(range(len(pairs)))
    assert [one.place for one in every[:6]] == [one.place for one in inputs]
    assert [one.place for one in video.draw_inputs(pairs, takes, 6, 1)] != [one.place for one in inputs]


def test_oracles(folder: Path) -> None:
    """Who returns the truth explains all and moves only what moves; who returns the input explains nothing."""
    _, pairs, takes, _ = opened(folder, 32)
    inputs = video.draw_inputs(pairs, takes, 8, 0)

    def copy(frame: torch.Tensor, truth: torch.Tensor, seed: int) -> torch.Tensor:
        return frame.repeat(3, 1, 1, 1)

    def right(frame: torch.Tensor, truth: torch.Tensor, seed: int) -> torch.Tensor:
        return truth.repeat(3, 1, 1, 1)

    methods = {COPY: copy, FLOW: copy, CODE: right, SAMPLED: right, TRUTH: right}
    sums, seen, _ = video.measure(pairs, inputs, methods, 0, ignore)
    found = by_scene([one.take.scene for one in inputs], sums, [one.where for one in inputs])
    assert set(found["scenes"]) == {take.scene for take in takes}
    for rows in (found["rows"], *(scene["rows"] for scene in found["scenes"].values())):
        assert rows[SAMPLED]["explained"] == 1 and rows[SAMPLED]["best"] == 0
        assert rows[SAMPLED]["ratio"] > 100 and rows[SAMPLED]["still"] > 0.99 and rows[SAMPLED]["diversity"] == 0
        assert rows[FLOW]["explained"] == pytest.approx(0) and rows[FLOW]["best"] == pytest.approx(1)
        assert rows[FLOW]["ratio"] is None and rows[FLOW]["inside"] == 0 and rows[FLOW]["still"] == 1
    for one, (frame, truth, flow, sampled) in zip(inputs, seen, strict=True):
        assert torch.equal(frame, pairs.store[pairs.first[one.place]]) and torch.equal(flow, frame)
        assert torch.equal(truth, pairs.store[pairs.second[one.place]]) and torch.equal(sampled, truth)


def test_every_row_is_measured(result: dict) -> None:
    assert list(result["rows"]) == ROWS and result["protocol"]["size"] == 16
    assert sum(scene["pairs"] for scene in result["scenes"].values()) == result["protocol"]["pairs"] == 9
    assert len(result["scenes"]) == result["protocol"]["takes"] == 2
    rows = result["rows"]
    assert rows[COPY]["explained"] == 0 and rows[TRUTH]["explained"] == 1 and rows[CODE]["explained"] != 0
    for row in (FLOW, SAMPLED):
        assert rows[row]["diversity"] > 0 and 0 <= rows[row]["inside_share"] <= 1
        assert rows[row]["best"] <= 1 - rows[row]["explained"]
    assert 0 < result["regions"]["moving"] < 1 and 0 < result["regions"]["still"] < 1
    answers = result["judge"]
    assert list(answers["rows"]) == [FLOW, SAMPLED] and answers["inputs"] == sum(answers["halves"]) == 9
    assert answers["size"] == 16 and answers["split"] == "scene" and answers["takes"] == 2
    assert (answers["judges"], answers["steps"]) == (video.SMALL_JUDGES, video.SMALL_STEPS)
    for row in answers["rows"].values():
        low, high = row["interval"]
        assert 0 <= low <= high <= 1 and low - 1e-9 <= row["share"] <= high + 1e-9 and len(row["judges"]) == 1


def test_shown_are_pairs_of_every_scene(measured: Measured, result: dict, folder: Path) -> None:
    shown = result["pictures"]
    assert len(shown) == video.SMALL_SHOWN and {one["scene"] for one in shown} == set(result["scenes"])
    assert sorted(one["seed"] for one in shown) == [3, 4, 5]
    figure = Image.open(io.BytesIO(measured.pictures["video.png"]))
    assert figure.width > 11 * 192 and figure.height > len(shown) * 192


def test_rows_of_the_figure_are_what_the_methods_made(folder: Path) -> None:
    _, pairs, takes, _ = opened(folder, 16)
    inputs = video.draw_inputs(pairs, takes, 2, 3)
    methods = dict.fromkeys(ROWS, lambda frame, truth, seed: truth[None])
    _, _, rows = video.measure(pairs, inputs, methods, 0, ignore)
    for one, row in zip(inputs, rows, strict=True):
        assert np.array_equal(row.truth, pairs.store[pairs.second[one.place]].permute(1, 2, 0).numpy())
        assert np.array_equal(row.samples[0], row.truth) and len(row.samples) == 1


def test_tables_come_from_the_json_alone(result: dict, tmp_path: Path) -> None:
    text = video.draw(result, tmp_path)
    assert all(f"| {row} |" in text for row in ROWS) and "**" not in text
    assert all(f"| {scene} |" in text for scene in result["scenes"])
    assert text.index("### Held-out") < text.index("### Judge") < text.index("### By scene")
    assert "not comparable | 31.3 | 36.7 |" in text and "not people" in text
    assert "(the part that training watches)" in text
    made = video.headline(result)
    assert made.ours.count(" / ") == made.measure.count(" / ") == 2 and made.floor.startswith("0.0; ")
    assert f"; {video_tables.interval_cell(result, SAMPLED, 'explained')} / " in made.ours
    assert f"; {video_tables.interval_cell(result, FLOW, 'explained')} / " in made.floor
    low, high = result["intervals"][CODE]["explained"]
    explained = f"{video_tables.cell('explained', result['rows'][CODE])} ({100 * low:.1f} to {100 * high:.1f})"
    assert made.ours.startswith(explained) and f"| {explained} |" in text
    older = {name: part for name, part in result.items() if name != "intervals"}
    assert video.headline(older).ours.startswith(f"{video_tables.cell('explained', result['rows'][CODE])}; ")
    single = video.draw(result | {"judge": None}, tmp_path)
    assert "### Judge" not in single and "Judge: none, as all pairs are from one take." in single


def test_judges_see_averages_of_8_bit_colours() -> None:
    frame = torch.zeros(3, 64, 64)
    frame[:, ::2, ::2] = 100.4 / 255  # one of four pixels: 100 as 8-bit, 25 on average
    seen = video.as_judged(frame, 2 + frame)
    assert seen.shape == (2, 3, 32, 32) and seen.dtype == torch.uint8
    assert (seen[0] == 25).all() and (seen[1] == 255).all()


def test_a_perfect_model_explains_all(folder: Path, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(video, "reconstruct", lambda predictor, frame, truth: truth)
    monkeypatch.setattr(video, "futures", lambda predictor, frame, source, many, seed: frame.repeat(many, 1, 1, 1))
    options = VideoOptions(samples=4, small=True, model=model, footage=folder)
    rows = video.compute(options, CPU, ignore).numbers["rows"]
    assert rows[CODE]["explained"] == 1 and rows[SAMPLED]["explained"] == pytest.approx(0)
    assert rows[SAMPLED]["still"] == 1


def test_mistakes_are_reported(folder: Path, model: str, tmp_path: Path) -> None:
    def message(**given: object) -> str:
        with pytest.raises(UserError) as error:
            run_experiment(EXPERIMENTS, "video", given, tmp_path / "out", CPU)
        assert "\n" not in str(error.value)
        return str(error.value)

    assert "measured on prepared footage: give its folder with --footage" in message()
    assert "measured on prepared footage" in message(model=model)
    assert "no such folder" in message(footage=tmp_path / "nowhere", model=model)
    assert "holds no footage" in message(footage=tmp_path, model=model)
    spoiled = shutil.copytree(folder, tmp_path / "spoiled")
    manifest = spoiled / "manifest.json"
    text = manifest.read_text()
    manifest.write_text(text.replace('"scene"', '"place"'))
    assert "manifest.json: it is damaged" in message(footage=spoiled, model=model)
    manifest.write_text(text.replace('"held-out"', '"train"'))
    assert "has no held-out scenes" in message(footage=spoiled, model=model)
    manifest.write_text(text)
    shard = split_shards(spoiled, "held-out")[0]
    parts = {"frames": np.array(shard.frames), "first": shard.first, "second": shard.second}
    for bad in ({}, {"take": np.zeros(3, np.int64)}, {"take": np.zeros(len(shard.frames))}):
        shard.path.write_bytes(shard_bytes(parts | bad))
        assert "does not say which take a frame is from" in message(footage=spoiled, model=model)
    assert not (tmp_path / "out").exists() or not any((tmp_path / "out").iterdir())


def test_a_quick_look_measures_drawn_people_and_says_so(model: str, tmp_path: Path) -> None:
    text = run_experiment(EXPERIMENTS, "video", {"small": True, "model": model}, tmp_path, CPU)
    write_report(EXPERIMENTS, tmp_path, tmp_path / "index.md")
    page = (tmp_path / "index.md").read_text()
    for words in (text, page[page.index("## video") :]):
        assert "### Drawn people" in words and "eal video" not in words.replace("Movement in Real Videos", "")
    made = json.loads((tmp_path / "video.json").read_text())
    assert made["protocol"]["footage"] == "drawn people" and list(made["scenes"]) == ["drawn people"]
    assert made["protocol"]["takes"] == made["protocol"]["pairs"] == video.SMALL_PAIRS
    assert made["rows"][TRUTH]["explained"] == 1 and made["rows"][TRUTH]["still"] > 0.9
    assert "that training watches" not in text
