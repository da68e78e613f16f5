"""Training from prepared footage: in memory or streamed the same, resumed exactly, damaged files reported."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from tests.footage.scenes import film, list_anew
from visual_dynamics.cli.main import main
from visual_dynamics.data import shards, sources
from visual_dynamics.data.pairs import Pairs
from visual_dynamics.data.shards import CHECKED, check_digests, listed_shards, open_pairs, shard_bytes, split_shards
from visual_dynamics.errors import UserError
from visual_dynamics.footage.clips import Settings
from visual_dynamics.footage.prepare import prepare_videos
from visual_dynamics.training.config import TrainingConfig
from visual_dynamics.training.distributed import Processes
from visual_dynamics.training.loop import train
from visual_dynamics.training.trainer import ReadAhead, Trainer, training_pairs, validation_pairs

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three clips, a scene each; frames of 32 x 32."""
    clips = tmp_path_factory.mktemp("footage") / "clips"
    for number, count in enumerate((20, 13, 9)):
        film(clips / f"{number}.mp4", count, seed=number)
    prepare_videos(clips, clips.parent / "data", Settings(size=32, crop="centre", held_out=0.3))
    return clips.parent / "data"


@pytest.fixture
def spoiled(folder: Path, tmp_path: Path) -> Path:
    return shutil.copytree(folder, tmp_path / "spoiled")


def config(folder: Path, **options: object) -> TrainingConfig:
    tiny = TrainingConfig(
        preset="tiny", augment=(), batch=8, steps=12, log_every=2, checkpoint_every=4, kl_warmup=4, warmup=2
    )
    return replace(tiny, data=str(folder), **options)  # type: ignore[arg-type]


def opened(folder: Path, split: str = "train") -> Pairs:
    pairs = open_pairs(folder, split)
    assert pairs is not None
    return pairs


def test_splits_are_those_of_the_manifest(folder: Path) -> None:
    files = json.loads((folder / "manifest.json").read_text())["files"]
    counts = {side: sum(f["pairs"] for f in files if f["split"] == side) for side in ("train", "held-out")}
    assert len(opened(folder)) == counts["train"] and len(opened(folder, "held-out")) == counts["held-out"] > 0
    pairs = training_pairs(config(folder))
    assert not pairs.mapped and len(pairs) == counts["train"] and pairs.size == (16, 16)
    held_out = validation_pairs(config(folder), count=5)
    assert held_out is not None and len(held_out) == 5 and held_out.size == (16, 16)
    assert len(training_pairs(config(folder, pairs=3))) == 3


@pytest.mark.parametrize("size", [32, 16, 48])
def test_from_files_and_from_memory_pairs_are_the_same(folder: Path, size: int) -> None:
    streamed = opened(folder).resized(size)
    loaded = streamed.in_memory()
    assert len(streamed) == len(loaded) and streamed.size == loaded.size == (size, size)
    assert streamed.nbytes == loaded.nbytes
    order = torch.randperm(len(loaded), generator=torch.Generator().manual_seed(0))
    for one, other in zip(streamed.batch(order), loaded.batch(order), strict=True):
        assert torch.equal(one, other)
    some = order[:5]
    for part in (streamed.subset(some), streamed.subset(some).in_memory(), loaded.subset(some)):
        assert torch.equal(part.batch(torch.arange(5)).difference, loaded.batch(some).difference)


def test_pairs_are_what_was_stored(folder: Path) -> None:
    pairs = opened(folder, "held-out")
    stored = split_shards(folder, "held-out")[0]
    pair = pairs.batch(torch.tensor([2]))
    assert np.array_equal((pair.frame[0] * 255).round().byte().numpy(), stored.frames[stored.first[2]])
    assert np.array_equal((pair.next_frame[0] * 255).round().byte().numpy(), stored.frames[stored.second[2]])


def test_what_does_not_fit_is_streamed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert training_pairs(config(folder, stream=True)).mapped
    monkeypatch.setattr(sources, "free_memory", lambda: 2 * opened(folder).resized(16).nbytes)
    assert not training_pairs(config(folder)).mapped
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")  # each of two processes would hold all of it
    assert training_pairs(config(folder)).mapped
    mixed = training_pairs(config(folder, also=str(folder)))
    assert not mixed.mapped and len(mixed) == 2 * len(opened(folder))


def test_processes_share_each_batch(folder: Path) -> None:
    whole = Trainer(config(folder, stream=True), opened(folder).resized(16), CPU, Processes(), False)
    for step in (0, 3, 4, 7):
        parts = []
        for rank in range(2):
            trainer = object.__new__(Trainer)
            trainer.config, trainer.processes, trainer.order = whole.config, Processes(rank, 2), whole.order
            parts.append(trainer.mine(step))
        assert torch.equal(torch.cat(parts), whole.mine(step))
        expected = whole.pairs.batch(whole.mine(step))
        assert all(
            torch.equal(one, other) for one, other in zip(whole.loaded(whole.stored(step)), expected, strict=True)
        )


def test_streamed_in_memory_and_resumed_runs_are_the_same(folder: Path, tmp_path: Path) -> None:
    train(config(folder), tmp_path / "memory", CPU)
    train(config(folder, stream=True), tmp_path / "streamed", CPU)
    asked = iter([False] * 6 + [True])
    train(config(folder, stream=True), tmp_path / "resumed", CPU, asked_to_stop=lambda: next(asked))
    assert (tmp_path / "resumed" / "pictures" / "step_0000007.png").exists()
    train(None, tmp_path / "resumed", CPU)
    states = [load_file(tmp_path / name / "state.safetensors") for name in ("memory", "streamed", "resumed")]
    for name, values in states[0].items():
        if name != "seconds":
            assert torch.equal(states[1][name], values) and torch.equal(states[2][name], values), name
    logs = [(tmp_path / name / "log.jsonl").read_text().splitlines() for name in ("memory", "streamed", "resumed")]
    curves = [{r["step"]: r["loss"] for r in map(json.loads, log) if "loss" in r} for log in logs]
    assert curves[0] == curves[1] == curves[2]
    assert "held_out_error" in logs[0][-1]


def test_reading_ahead_gives_what_was_asked() -> None:
    read = ReadAhead(lambda step: step * step)
    assert [read(step) for step in (0, 1, 2, 7, 3, 4, 100)] == [0, 1, 4, 49, 9, 16, 10_000]

    def fail(step: int) -> int:
        raise UserError("the disk is gone")

    with pytest.raises(UserError, match="the disk is gone"):
        ReadAhead(fail)(0)


def message(folder: Path) -> str:
    with pytest.raises(UserError) as error:
        training_pairs(config(folder))
    assert "\n" not in str(error.value)
    return str(error.value)


def test_damaged_folders_are_told(spoiled: Path) -> None:
    shard = split_shards(spoiled, "train")[-1].path
    whole = shard.read_bytes()
    middle = len(whole) // 2
    turned = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
    for bad in (turned, whole[:-10], b"\xff" * 8 + whole[8:], b""):
        shard.write_bytes(bad)
        assert f"{shard} is damaged" in message(spoiled) and "prepare videos" in message(spoiled)
        list_anew(shard)
        assert bad is turned or f"cannot read {shard}" in message(spoiled)
    shard.unlink()
    assert "there is no such file" in message(spoiled)
    shard.write_bytes(whole)
    list_anew(shard)
    manifest = spoiled / "manifest.json"
    text = manifest.read_text()
    manifest.write_text(text.replace('"pairs"', '"pears"'))
    assert "it is damaged" in message(spoiled)
    manifest.write_text(text.replace('"file": "shards/', '"file": "../shards/'))
    assert "names files elsewhere" in message(spoiled)
    manifest.write_text(text.replace('"split": "train"', '"split": "held-out"'))
    assert "has no pairs to train on" in message(spoiled)
    manifest.write_text(text[:100])
    assert "not a manifest" in message(spoiled)
    manifest.unlink()
    assert "is not finished: run visual-dynamics prepare videos again" in message(spoiled)


def test_digests_are_compared_once_and_again_where_a_file_has_changed(
    spoiled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    compute = shards.file_digest
    monkeypatch.setattr(shards, "file_digest", lambda path: read.append(path.name) or compute(path))
    (spoiled / CHECKED).unlink(missing_ok=True)
    paths = [shard.path for shard in listed_shards(spoiled)]
    opened(spoiled), opened(spoiled), opened(spoiled, "held-out")
    assert sorted(read) == sorted(path.name for path in paths)
    os.utime(paths[0], ns=(1, 1))
    check_digests(spoiled, listed_shards(spoiled))
    assert read[len(paths) :] == [paths[0].name]
    (spoiled / CHECKED).write_text("[" * 100_000)  # a damaged note is none
    check_digests(spoiled, listed_shards(spoiled))
    assert len(read) == 2 * len(paths) + 1

    def refuse(path: Path, data: bytes) -> None:
        raise UserError("the folder is read-only")

    monkeypatch.setattr(shards, "write_atomically", refuse)
    os.utime(paths[0], ns=(2, 2))
    check_digests(spoiled, listed_shards(spoiled))


def test_damaged_files_are_an_error_of_the_command_before_a_run_begins(
    spoiled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shard = listed_shards(spoiled)[0].path
    shard.write_bytes(shard.read_bytes()[:-1] + b"\xff")
    with pytest.raises(SystemExit, match="2"):
        main(["train", str(tmp_path / "run"), "--data", str(spoiled), "--preset", "tiny"])
    assert f"{shard} is damaged" in capsys.readouterr().err and not (tmp_path / "run").exists()


def test_a_file_that_is_cut_off_while_it_is_mapped_is_an_error_not_the_end_of_the_process(spoiled: Path) -> None:
    pairs = training_pairs(config(spoiled, stream=True))
    path = split_shards(spoiled, "train")[-1].path
    os.truncate(path, 3_000)
    with pytest.raises(UserError, match=f"{path.name} was cut off"):
        pairs.read(torch.arange(len(pairs)))


def test_shards_that_contradict_themselves(spoiled: Path) -> None:
    last = split_shards(spoiled, "train")[-1]
    shard = last.path
    good = {"frames": np.array(last.frames), "first": np.arange(3), "second": np.arange(1, 4)}
    for bad, words in (
        ({"first": np.array([0, 1, 99])}, "name frames that it does not have"),
        ({"second": np.array([0, 1, -1])}, "name frames that it does not have"),
        ({"first": np.arange(2)}, "not two rows of places"),
        ({"first": np.arange(3.0)}, "not two rows of places"),
        ({"frames": np.zeros((5, 3, 8, 9), np.uint8)}, "its frames are U8 of shape"),
        ({"frames": np.zeros((5, 3, 8, 8), np.float32)}, "its frames are F32"),
        ({"frames": np.zeros((5, 3, 8, 8), np.uint8)}, "not the file that the manifest lists"),
    ):
        shard.write_bytes(shard_bytes(good | bad))
        list_anew(shard)
        assert words in message(spoiled)


def test_only_footage_is_streamed(folder: Path) -> None:
    with pytest.raises(UserError, match="shapes cannot be streamed"):
        training_pairs(TrainingConfig(preset="tiny", stream=True))
    with pytest.raises(UserError, match="cannot be mixed"):
        training_pairs(config(folder, stream=True, also="shapes"))
