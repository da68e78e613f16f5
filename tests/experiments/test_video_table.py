"""The video experiment in small, on drawn clips: takes, what moves in them, oracles, a tiny model, figures."""

import base64
import io
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

pytest.importorskip("cv2")

from tests.footage.scenes import film
from visual_dynamics.data.shard_files import shard_bytes, split_shards
from visual_dynamics.data.shards import open_pairs, split_takes
from visual_dynamics.errors import UserError
from visual_dynamics.experiments import EXPERIMENTS, video_figures, video_judge, video_table
from visual_dynamics.experiments.video_table import CODE, COPY, FLOW, SAMPLED, TRUTH, Options
from visual_dynamics.footage.clip import Settings
from visual_dynamics.footage.prepare import prepare_videos
from visual_dynamics.reporting.base import run_all, run_experiment
from visual_dynamics.training.config import TrainingConfig
from visual_dynamics.training.loop import train

CPU = torch.device("cpu")
ROWS = [COPY, FLOW, CODE, SAMPLED, TRUTH]


def ignore(what: str, share: float) -> None:
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
def result(folder: Path, model: str) -> dict:
    made = video_table.compute(Options(model, folder, samples=9, seed=3, small=True), CPU, ignore)
    return json.loads(json.dumps(made))


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


def test_the_square_moves_and_the_wall_never_does(folder: Path) -> None:
    """It is at rows 36 to 59 of 96, so at rows 12 to 19 of 32; from columns 4 + 20 - 16 on, of the middle 96."""
    pairs, takes = video_table.held_out(folder, 32)
    for take in takes:
        where = video_table.take_regions(pairs, take)
        rows, columns = where.moving.any(1).nonzero()[:, 0], where.moving.any(0).nonzero()[:, 0]
        assert rows.tolist() == list(range(11, 21))  # one pixel wider
        first, last = (4 + 20 - 16) // 3, (4 + 20 + 2 * len(take.places) - 16 + 24) // 3
        assert abs(int(columns[0]) - (first - 1)) <= 1 and abs(int(columns[-1]) - (last + 1)) <= 1
        assert where.still[:10].all() and where.still[22:].all() and not (where.still & where.moving).any()


def test_inputs_come_from_every_scene_in_turn(folder: Path) -> None:
    pairs, takes = video_table.held_out(folder, 16)
    inputs = video_table.draw_inputs(pairs, takes, 6, 0)
    assert [one.take.scene for one in inputs] == [takes[0].scene, takes[1].scene] * 3
    assert all(one.place in one.take.places for one in inputs)
    every = video_table.draw_inputs(pairs, takes, 1000, 0)
    assert sorted(one.place for one in every) == list(range(len(pairs)))
    assert [one.place for one in every[:6]] == [one.place for one in inputs]
    assert [one.place for one in video_table.draw_inputs(pairs, takes, 6, 1)] != [one.place for one in inputs]


def test_oracles(folder: Path) -> None:
    """Who returns the truth explains all and moves only what moves; who returns the input explains nothing."""
    pairs, takes = video_table.held_out(folder, 32)
    inputs = video_table.draw_inputs(pairs, takes, 8, 0)

    def copy(frame: torch.Tensor, truth: torch.Tensor, seed: int) -> torch.Tensor:
        return frame.repeat(3, 1, 1, 1)

    def right(frame: torch.Tensor, truth: torch.Tensor, seed: int) -> torch.Tensor:
        return truth.repeat(3, 1, 1, 1)

    methods = {COPY: copy, FLOW: copy, CODE: right, SAMPLED: right, TRUTH: right}
    seen = video_judge.Seen((FLOW, SAMPLED))
    found = video_table.measured(pairs, inputs, methods, 0, 0, ignore, seen)
    assert set(found["scenes"]) == {take.scene for take in takes}
    for rows in (found["rows"], *(scene["rows"] for scene in found["scenes"].values())):
        assert rows[SAMPLED]["explained"] == 1 and rows[SAMPLED]["best"] == 0
        assert rows[SAMPLED]["ratio"] > 100 and rows[SAMPLED]["still"] > 0.99 and rows[SAMPLED]["diversity"] == 0
        assert rows[FLOW]["explained"] == pytest.approx(0) and rows[FLOW]["best"] == pytest.approx(1)
        assert rows[FLOW]["ratio"] is None and rows[FLOW]["inside"] == 0 and rows[FLOW]["still"] == 1
    for one, (frame, truth, flow, sampled) in zip(inputs, seen.shown, strict=True):
        assert torch.equal(frame, pairs.store[pairs.first[one.place]]) and torch.equal(flow, frame)
        assert torch.equal(truth, pairs.store[pairs.second[one.place]]) and torch.equal(sampled, truth)
    assert [take.name for take in seen.takes] == [one.take.name for one in inputs]


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
    assert all(result[name] is not None for name in ("seed", "commit", "weights", "device", "seconds"))
    judge = result["judge"]
    assert list(judge["rows"]) == [FLOW, SAMPLED] and judge["inputs"] == sum(judge["halves"]) == 9
    assert judge["size"] == 16 and judge["split"] == "scene" and judge["takes"] == 2
    assert (judge["judges"], judge["steps"]) == (video_judge.SMALL_JUDGES, video_judge.SMALL_STEPS)
    for row in judge["rows"].values():
        low, high = row["interval"]
        assert 0 <= low <= high <= 1 and low - 1e-9 <= row["share"] <= high + 1e-9 and len(row["judges"]) == 1


def test_shown_are_pairs_of_every_scene(result: dict, folder: Path) -> None:
    shown = result["pictures"]
    assert len(shown) == video_table.SMALL_PICTURES and {one["scene"] for one in shown} == set(result["scenes"])
    pairs, takes = video_table.held_out(folder, 16)
    first = video_table.draw_inputs(pairs, takes, 1, 3)[0]
    truth = (pairs.batch(torch.tensor([first.place])).next_frame[0] * 255).round().byte().permute(1, 2, 0).numpy()
    assert np.array_equal(np.array(Image.open(io.BytesIO(base64.b64decode(shown[0]["pictures"]["truth"])))), truth)
    assert shown[0]["seed"] == 3 and len(shown[0]["pictures"]["samples"]) == 3


def test_figures_come_from_the_json_alone(result: dict, tmp_path: Path) -> None:
    text = video_table.draw(result, tmp_path)
    assert (tmp_path / "video.md").read_text() == text and result["weights"][:12] in text
    assert all(f"| {row} |" in text or f"| **{row}** |" in text for row in ROWS)
    assert all(f"| {scene} |" in text for scene in result["scenes"])
    assert text.index("### Held-out") < text.index("### Judge") < text.index("### By scene")
    assert "not comparable | 31.3 | 36.7 |" in text and "people are not asked" in text
    picture = Image.open(tmp_path / "video.png")
    assert picture.width > 11 * 192 and picture.height > len(result["pictures"]) * 192
    made = video_figures.headline(result)
    assert made.ours.count(" / ") == made.measure.count(" / ") == 2 and made.floor.startswith("0.0 / ")


def test_results_without_a_judge_are_drawn(result: dict, tmp_path: Path) -> None:
    """Older ones do not know it; newer ones of a single take say why there is none."""
    older = video_table.draw({name: value for name, value in result.items() if name != "judge"}, tmp_path)
    assert "judge" not in older.lower() and "### By scene" in older
    single = video_table.draw(result | {"judge": None}, tmp_path)
    assert "### Judge" not in single and "Judge: none, as all pairs are of one take." in single


def test_cells() -> None:
    assert video_figures.cell("ratio", {"ratio": None, "inside": 0.1}) == "all inside"
    assert video_figures.cell("ratio", {"ratio": None, "inside": 0.0}) == "none"
    assert video_figures.cell("explained", {"explained": -0.123}) == "-12.3"
    assert video_figures.cell("explained", {"explained": -1e-16}) == "0.0"
    assert video_figures.cell("best", {"best": 0.756}) == "0.76"
    many = {
        str(number): {"pairs": 1, "rows": {row: dict.fromkeys(video_figures.COLUMNS) for row in ROWS}}
        for number in range(25)
    }
    assert "\n\nThe JSON has the other 5 scenes." in video_figures.scenes(many)


def test_a_perfect_model_explains_all(folder: Path, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(video_table, "reconstruct", lambda predictor, frame, truth: truth)
    monkeypatch.setattr(
        video_table, "futures", lambda predictor, frame, source, many, seed: frame.repeat(many, 1, 1, 1)
    )
    rows = video_table.compute(Options(model, folder, samples=4, small=True), CPU, ignore)["rows"]
    assert rows[CODE]["explained"] == 1 and rows[SAMPLED]["explained"] == pytest.approx(0)
    assert rows[SAMPLED]["still"] == 1


def refused(make: Callable[[], object]) -> str:
    with pytest.raises(UserError) as error:
        make()
    assert "\n" not in str(error.value)
    return str(error.value)


def test_mistakes_are_told(folder: Path, model: str, tmp_path: Path) -> None:
    def told(**given: object) -> str:
        return refused(lambda: run_experiment(EXPERIMENTS, "video", given, tmp_path / "out", CPU))

    assert "measured on prepared footage: give its folder with --footage" in told()
    assert "measured on prepared footage" in told(model=model)
    assert "no such folder" in told(footage=tmp_path / "nowhere", model=model)
    assert "holds no footage" in told(footage=tmp_path, model=model)
    spoiled = shutil.copytree(folder, tmp_path / "spoiled")
    manifest = spoiled / "manifest.json"
    text = manifest.read_text()
    manifest.write_text(text.replace('"scene"', '"place"'))
    assert "manifest.json: it is damaged" in told(footage=spoiled, model=model)
    manifest.write_text(text.replace('"held-out"', '"train"'))
    assert "has no held-out scenes" in told(footage=spoiled, model=model)
    manifest.write_text(text)
    shard = split_shards(spoiled, "held-out")[0]
    parts = {"frames": np.array(shard.frames), "first": shard.first, "second": shard.second}
    for bad in ({}, {"take": np.zeros(3, np.int64)}, {"take": np.zeros(len(shard.frames))}):
        shard.path.write_bytes(shard_bytes(parts | bad))
        assert "does not say which take a frame is from" in told(footage=spoiled, model=model)
    assert not (tmp_path / "out").exists() or not any((tmp_path / "out").iterdir())


def test_a_quick_look_does_without_footage(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only = {"video": EXPERIMENTS["video"]}
    monkeypatch.setattr(video_table, "PEOPLE", model)
    told: list[str] = []
    assert run_all(only, {"seed": 0, "small": True, "footage": None}, tmp_path, CPU, told.append)
    assert told[1].startswith("    done")
    made = json.loads((tmp_path / "video.json").read_text())
    assert made["protocol"]["footage"] == "drawn people" and list(made["scenes"]) == ["drawn people"]
    assert made["protocol"]["takes"] == made["protocol"]["pairs"] == video_table.SMALL_PAIRS
    assert made["rows"][TRUTH]["explained"] == 1 and made["rows"][TRUTH]["still"] > 0.9
    with pytest.raises(UserError, match="no such folder"):
        run_all(only, {"footage": tmp_path / "nowhere"}, tmp_path, CPU, told.append)
