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

from tests.footage.scenes import film, list_anew
from visual_dynamics.api import load
from visual_dynamics.data.pairs import Pairs
from visual_dynamics.data.shards import open_pairs, shard_bytes, split_shards, split_takes
from visual_dynamics.errors import UserError
from visual_dynamics.evaluation.video_motion import by_scene, take_regions
from visual_dynamics.experiments import EXPERIMENTS, video
from visual_dynamics.experiments.video import VideoOptions
from visual_dynamics.footage.clips import Settings
from visual_dynamics.footage.measured import Footage, Input, draw_inputs, in_halves, open_footage
from visual_dynamics.footage.prepare import prepare_videos
from visual_dynamics.model.motion_encoder import Posterior
from visual_dynamics.reporting import video_tables
from visual_dynamics.reporting.base import Measured, run_experiment
from visual_dynamics.reporting.report import write_report
from visual_dynamics.reporting.video_tables import CODE, COPY, FLOW, JPEG, JUDGED, SAMPLED, TRUTH
from visual_dynamics.sampling.latents import TrainingPosteriors
from visual_dynamics.training.config import TrainingConfig
from visual_dynamics.training.loop import train

CPU = torch.device("cpu")
ROWS = [COPY, CODE, JPEG, FLOW, SAMPLED, TRUTH]


def ignore(step: str, share: float) -> None:
    pass


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five clips, a scene each: two to learn from, two held out, one to report on; a third of the clips' 96 x 96."""
    clips = tmp_path_factory.mktemp("footage") / "clips"
    table = "scene,split\n0.mp4,train\n1.mp4,held-out\n2.mp4,train\n3.mp4,held-out\n4.mp4,test\n"
    (clips.parent / "scenes.csv").write_text(table)
    for number in range(5):
        film(clips / f"{number}.mp4", 12 + number, seed=number)
    prepare_videos(clips, clips.parent / "data", Settings(size=32, crop="centre"), split=clips.parent / "scenes.csv")
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


def opened(folder: Path, size: int, split: str = "held-out") -> Footage:
    return open_footage(folder, split, size, 1000, 0)


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


@pytest.mark.parametrize("split", ["held-out", "test"])
def test_measured_are_pairs_of_the_part_and_flow_knows_training_pairs(folder: Path, split: str) -> None:
    """Fault: pairs of another part are measured, or Flow knows them."""
    _, pairs, takes, known = opened(folder, 32, split)
    for found, part in ((pairs, split), (known, "train")):
        stored = open_pairs(folder, part)
        assert stored is not None and digests(found) == digests(stored.in_memory())
    assert {take.scene for take in takes} == ({"4.mp4"} if split == "test" else {"1.mp4", "3.mp4"})
    assert not digests(pairs) & digests(known)


def test_flow_that_knows_measured_scenes_is_an_error(
    folder: Path, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault: Flow is given test scenes."""
    given: list[Pairs] = []

    def flow(pairs: Pairs) -> None:
        given.append(pairs)
        raise RuntimeError

    monkeypatch.setattr(video, "FlowTransfer", flow)
    options = VideoOptions(samples=2, small=True, model=model, footage=folder)
    with pytest.raises(RuntimeError):
        video.compute(options, CPU, ignore)
    train = open_pairs(folder, "train")
    assert train is not None and digests(given[0]) == digests(train.resized(16).in_memory())
    mixed = shutil.copytree(folder, tmp_path / "mixed")
    manifest = json.loads((mixed / "manifest.json").read_text())
    manifest["files"].append(dict(manifest["files"][1], split="train"))  # a held-out clip once more
    (mixed / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UserError, match="frames are in training and in measured scenes"):
        video.compute(replace(options, footage=mixed), CPU, ignore)


def test_stored_codes_of_measured_pairs_are_an_error(folder: Path, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: a model is measured on scenes whose codes it keeps."""
    loaded = load(model)
    _, pairs, _, _ = opened(folder, 16)
    some = loaded.predictor.encode(*pairs.batch(torch.arange(3)))
    noise = torch.randn(40, loaded.predictor.network.config.latent, generator=torch.Generator().manual_seed(0))
    codes = Posterior(torch.cat([noise, some.mean]), torch.cat([noise * 0 - 3, some.log_variance]))
    for stored, leaks in ((codes, True), (Posterior(*(x[:40] for x in codes)), False)):
        loaded.weights = replace(loaded.weights, posteriors=TrainingPosteriors.compress(stored, 10**6))
        monkeypatch.setattr(video, "load", lambda *_: loaded)
        options = VideoOptions(samples=20, small=True, model=model, footage=folder)
        monkeypatch.setattr(video, "FlowTransfer", lambda pairs: 1 / 0)
        expected = (UserError, "codes of 3 measured pairs") if leaks else (ZeroDivisionError, "division")
        with pytest.raises(expected[0], match=expected[1]):
            video.compute(options, CPU, ignore)


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
    inputs = draw_inputs(pairs, takes, 6, 0)
    assert [one.take.scene for one in inputs] == [takes[0].scene, takes[1].scene] * 3
    assert all(one.place in one.take.places for one in inputs)
    every = draw_inputs(pairs, takes, 1000, 0)
    assert sorted(one.place for one in every) == list(range(len(pairs)))
    assert [one.place for one in every[:6]] == [one.place for one in inputs]
    assert [one.place for one in draw_inputs(pairs, takes, 6, 1)] != [one.place for one in inputs]


seeds: list[int] = []  # of the predictions of the ruler below


class Known(video.Ruler):
    """The methods return what a test wants."""

    def predictions(self, one: Input, seed: int, many: int) -> dict[str, torch.Tensor]:
        seeds.append(seed)
        _, (frame, truth) = self.pair(one)
        copies, truths = (x.repeat(many, 1, 1, 1) for x in (frame, truth))
        return {
            COPY: frame[None],
            CODE: truth[None],
            JPEG: truth[None],
            FLOW: copies,
            SAMPLED: truths,
            TRUTH: truth[None],
        }

    def shifted_sums(self, one: Input) -> dict[str, float]:
        return {"shift_error": 1.0, "shift_motion": 4.0}


def test_half_of_each_scene_is_left_to_compare_with(folder: Path) -> None:
    _, pairs, takes, _ = opened(folder, 16)
    every = draw_inputs(pairs, takes, 1000, 0)
    first, second = in_halves(every)
    for take in takes:
        sizes = [sum(one.take.scene == take.scene for one in half) for half in (first, second)]
        assert sum(sizes) == len(take.places) and sizes[0] - sizes[1] in (0, 1)
    places, others = ({one.place for one in half} for half in (first, second))
    assert not places & others and first[:2] == every[:2]
    assert [one.place for one in first] == [one.place for one in every if one.place in places]


def test_pairs_to_compare_with_keep_their_own_scenes(folder: Path, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: scenes of the judged pairs are taken for theirs. They come in another order here."""
    kept: list[tuple[list[str], list[str]]] = []

    def halves(inputs: list[Input]) -> tuple[list[Input], list[Input]]:
        first, second = in_halves(inputs)
        return first, sorted(second, key=lambda one: one.take.scene)

    def distances(seen: object, scenes: list[str], others: object, other_scenes: list[str], rows: object) -> None:
        kept.append((scenes[:4], other_scenes[:4]))
        raise RuntimeError

    monkeypatch.setattr(video, "in_halves", halves)
    monkeypatch.setattr(video, "set_distances", distances)
    with pytest.raises(RuntimeError):
        video.compute(VideoOptions(samples=2, small=True, model=model, footage=folder), CPU, ignore)
    assert kept == [(["1.mp4", "3.mp4"] * 2, ["1.mp4"] * 4)]


@pytest.mark.parametrize("times", [1, 2])
def test_oracles(folder: Path, times: int) -> None:
    """Who returns the truth explains all and moves only what moves; who returns the input explains nothing.

    With a network that warps frames twice as large as its own, what is measured is as large as its own.
    """
    _, pairs, takes, _ = opened(folder, 16 * times)
    small = pairs.resized(16)
    inputs = draw_inputs(small, takes, 8, 0)
    ruler = Known(None, None, pairs, times, 5)  # type: ignore[arg-type]
    seeds.clear()
    sums, seen, rows = ruler.measure(inputs, 12, ignore)
    assert seeds == list(range(5, 13))  # each input has futures of its own
    found = by_scene([one.take.scene for one in inputs], sums, [one.where for one in inputs])
    assert set(found["scenes"]) == {take.scene for take in takes}
    for each in (found["rows"], *(scene["rows"] for scene in found["scenes"].values())):
        ours, flow = each[SAMPLED], each[FLOW]
        assert ours["energy_score"] == ours["best_10"] == ours["diversity"] == 0 and each[CODE]["explained"] == 1
        assert ours["energy"] == pytest.approx(1) and ours["ratio"] > 20 and ours["still"] > 0.95
        assert flow["energy_score"] == pytest.approx(1) and flow["best_10"] == pytest.approx(1)
        assert flow["ratio"] is None and flow["inside"] == 0 and flow["still"] == 1
        assert each[CODE]["shifted"] == 0.75 and "explained" not in ours and "explained" not in flow
    for one, own, row in zip(inputs, seen, rows, strict=True):
        frame, truth, copied, *_, flowed, sampled = own.plain
        assert torch.equal(frame, small.store[small.first[one.place]]) or times == 2  # averaged before it is rounded
        assert (frame.int() - small.store[small.first[one.place]].int()).abs().max() <= 1
        assert torch.equal(copied, frame) and torch.equal(flowed, frame) and torch.equal(sampled, truth)
        assert np.array_equal(row.truth, truth.permute(1, 2, 0).numpy()) and len(row.samples) == video.SAMPLES
    assert len(ruler.look(inputs, 5, ignore)) == 3 and seeds[8:] == [10, 11, 12]
    assert torch.equal(ruler.look(inputs, 7, ignore)[0].plain, seen[7].plain)


def test_a_code_is_read_where_the_pair_is_and_applied_where_it_is_shifted(
    folder: Path, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault: the code is read from the shifted pair."""
    _, pairs, takes, _ = opened(folder, 16)
    one, loaded = draw_inputs(pairs, takes, 1, 0)[0], load(model)
    ruler = video.Ruler(loaded, None, pairs, 1, 0)  # type: ignore[arg-type]
    _, (frame, truth) = ruler.pair(one)
    applied: list[torch.Tensor] = []

    def decode_each(frames: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        assert torch.equal(z, loaded.predictor.encode(frame, truth).mean.expand(4, -1))
        applied.append(frames)
        return frames

    monkeypatch.setattr(loaded.predictor, "decode_each", decode_each)
    sums = ruler.shifted_sums(one)
    right, left, down, up = applied[0]
    assert torch.equal(right[:, :, 2:], frame[:, :, :-2]) and torch.equal(left[:, :, :-2], frame[:, :, 2:])
    assert torch.equal(down[:, 2:], frame[:, :-2]) and torch.equal(up[:, :-2], frame[:, 2:])
    assert sums["shift_error"] == pytest.approx(sums["shift_motion"]) and sums["shift_motion"] > 0


def test_every_row_is_measured(result: dict) -> None:
    assert list(result["rows"]) == ROWS and result["protocol"]["size"] == 16
    assert sum(scene["pairs"] for scene in result["scenes"].values()) == result["protocol"]["pairs"] == 9
    assert len(result["scenes"]) == result["protocol"]["takes"] == 2 and result["protocol"]["split"] == "held-out"
    rows = result["rows"]
    assert rows[COPY]["energy_score"] == 1 and rows[TRUTH]["energy_score"] == 0
    assert rows[CODE]["explained"] not in (0, 1)  # neither the input nor the truth itself
    assert rows[CODE]["shifted"] < 1 and "shifted" not in rows[COPY]
    for row in (FLOW, SAMPLED):
        assert rows[row]["diversity"] > 0 and 0 <= rows[row]["inside_share"] <= 1
        assert rows[row]["best_3"] <= rows[row]["best_1"] and "explained" not in rows[row]
        assert list(result["best_within"]["seconds"][row]) == ["0.3"]
    assert result["differences"]["energy_score"]["scenes"] == 2
    assert 0 < result["regions"]["moving"] < 1 and 0 < result["regions"]["still"] < 1
    assert set(result["sets"]["flow histogram"]) == {TRUTH, *JUDGED}
    answers = result["judge"]
    assert answers["inputs"] == 12 and answers["size"] == 16 and answers["groups"] == answers["folds"] == 2
    assert (answers["judges"], answers["steps"]) == video.SMALL.judging[1:]
    for name in ("plain", "blind"):
        assert list(answers[name]["rows"]) == list(JUDGED)
        assert all(0 <= row["interval"][0] <= row["interval"][1] <= 1 for row in answers[name]["rows"].values())


def test_shown_are_pairs_of_every_scene(measured: Measured, result: dict, folder: Path) -> None:
    shown = result["pictures"]
    assert len(shown) == video.SMALL.shown and {one["scene"] for one in shown} == set(result["scenes"])
    assert sorted(one["seed"] for one in shown) == [3, 4, 5]
    figure = Image.open(io.BytesIO(measured.pictures["video.png"]))
    assert figure.width > 11 * 192 and figure.height > len(shown) * 192


def test_tables_come_from_the_json_alone(result: dict, tmp_path: Path) -> None:
    text = video_tables.draw(result, tmp_path)
    assert all(f"| {row} |" in text for row in (COPY, CODE, FLOW, SAMPLED, TRUTH)) and "**" not in text
    assert all(f"| {scene} |" in text for scene in result["scenes"])
    assert (
        text.index("### Scenes of footage to look at: not fresh") < text.index("### Judge") < text.index("### By scene")
    )
    assert "not comparable |  |  |  | 31.3 | 36.7 |" in text and "not people" in text
    test = video_tables.draw(result | {"protocol": result["protocol"] | {"split": "test"}}, tmp_path)
    assert "### Scenes of footage to report on" in test and "not fresh" not in test
    single = video_tables.draw(result | {"judge": None}, tmp_path)
    assert "### Judge" not in single and "Judge: none, as all pairs are from one take." in single


def test_fewer_judges_can_be_chosen() -> None:
    found = video.sizes_of(VideoOptions(judges="300,1,200"))
    assert (found.judged, *found.judging) == (300, 6, 1, 200) and found.pairs == video.FULL.pairs
    for bad in ("300", "a,b,c", "300,0,200"):
        with pytest.raises(UserError, match="judges are PAIRS,JUDGES,STEPS"):
            video.sizes_of(VideoOptions(judges=bad))


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
    assert "training scenes are not measured" in message(footage=folder, model=model, split="train")
    manifest.write_text(text)
    shard = split_shards(spoiled, "held-out")[0]
    parts = {"frames": np.array(shard.frames), "first": shard.first, "second": shard.second}
    for bad in ({}, {"take": np.zeros(3, np.int64)}, {"take": np.zeros(len(shard.frames))}):
        shard.path.write_bytes(shard_bytes(parts | bad))
        list_anew(shard.path)
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
    assert made["protocol"]["takes"] == made["protocol"]["pairs"] == video.SMALL.pairs
    assert made["rows"][TRUTH]["explained"] == 1 and made["rows"][TRUTH]["still"] > 0.9
    assert "to look at" not in text and made["protocol"]["judged_by"] == "take"
