"""No frame and no scene of one split is in another: train, validation and test of each kind of data, by digest.

Reed's characters are the exception: what his parts share is counted in test_reed_real.py.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tests.characters import noise_characters
from tests.footage.scenes import film
from visual_dynamics.data import figures, reed, shapes, sources
from visual_dynamics.data.packed import Clip, PackedCharacter, pack
from visual_dynamics.data.pairs import Pairs
from visual_dynamics.data.shards import read_manifest
from visual_dynamics.data.sources import DataSpec, DataSplit, open_data
from visual_dynamics.footage.clips import Settings
from visual_dynamics.footage.prepare import prepare_videos

SPLITS: tuple[DataSplit, ...] = ("train", "validation", "test")
Digests = set[bytes]


def digests(pairs: Pairs | None) -> Digests:
    """Of all frames and next frames; they are as many as there are frames."""
    if pairs is None:
        return set()
    frames = pairs.batch(torch.arange(len(pairs)))
    return {hashlib.sha256(frame.numpy().tobytes()).digest() for part in frames for frame in part}


def opened(spec: DataSpec, count: int | None = None) -> dict[DataSplit, Digests]:
    return {split: digests(open_data(spec, split, count)) for split in SPLITS}


def assert_disjoint(found: dict[DataSplit, Digests]) -> None:
    for one, other in combinations(found, 2):
        assert not found[one] & found[other], f"{one} and {other} share frames"


# --- drawn ---

DRAWN = [*product(("shapes", "shapes-texture"), ("smooth", "integer")), ("figures", "smooth")]


@pytest.mark.parametrize(("data", "rendering"), DRAWN)
def test_drawn_frames(data: str, rendering: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "CHUNK", 16)
    found = opened(DataSpec(data, 32, rendering=rendering), 40)
    assert all(len(frames) > 60 for frames in found.values())  # 40 pairs; some do not move
    assert_disjoint(found)


def test_scenes_of_all_seeds() -> None:
    counts = {"train": shapes.TRAIN_PAIRS, "validation": 500, "test": 2_000}
    drawn = {
        (seed, split): {row.tobytes() for row in shapes.draw_scenes(counts[split], seed, split).background}
        for seed, split in product(range(3), SPLITS)
    }
    assert len(set.union(*drawn.values())) == 3 * sum(counts.values())  # a training of one seed, a test of another


def test_drawn_people_of_all_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers that their generators start from: 1.5 million pairs to train on, and three seeds."""
    seeds: list[int] = []

    def started(random: torch.Generator, size: int, device: torch.device, pictures: None, count: int, _: None) -> list:  # type: ignore[type-arg]
        seeds.append(random.initial_seed())
        return [torch.zeros(count, 3, size, size, dtype=torch.uint8)] * 2

    monkeypatch.setattr(figures, "_draw", started)
    monkeypatch.setattr(figures, "CHUNK", 1)  # a pair in place of a chunk of 256
    for seed, (split, count) in product(range(3), (("train", 6_000), ("validation", 10), ("test", 10))):
        figures.figure_pairs(count, seed, split, size=1)
    assert len(set(seeds)) == len(seeds) == 3 * 6_020


def test_the_streams_of_published_results_stay() -> None:
    """What trained and measured the released models; a new stream must not move the old ones."""

    def digest(split: shapes.Split) -> str:
        scenes = shapes.draw_scenes(5, 3, split)
        return hashlib.sha256(scenes.background.tobytes() + scenes.sizes.tobytes()).hexdigest()[:16]

    assert (digest("train"), digest("test")) == ("05d60febc20a01cb", "ba01512ec134b625")
    assert (figures.STREAMS["train"], figures.STREAMS["test"]) == (0, 1)


# --- files ---


def test_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reed.pack_characters(noise_characters(6), tmp_path / "packed")
    split = reed.Split(np.array([0, 5]), np.array([1, 3]), np.array([2, 4]))
    monkeypatch.setattr(sources, "sprite_split", lambda name: split)
    spec = DataSpec(str(tmp_path / "packed"), 64)
    found = opened(spec, 400)  # more than there are
    assert_disjoint(found)
    for name, numbers in zip(SPLITS, split, strict=True):
        own = reed.sprite_pairs(reed.read_characters(tmp_path / "packed", numbers))
        assert len(own) == 2 * 157 and found[name] == digests(own)
    monkeypatch.setattr(sources, "sprite_split", lambda name: split._replace(validation=np.arange(0)))
    assert open_data(spec, "validation") is None
    assert sources.validation_words(spec) == "no characters are for validation: this split has none"


@pytest.mark.parametrize("name", ["reed", "paper"])
def test_numbers_of_characters(name: str) -> None:
    split = sources.sprite_split(name)
    numbers = np.concatenate(split)
    assert len(set(numbers.tolist())) == len(numbers) == 672
    assert len(split.validation) == (72 if name == "reed" else 0)


def noise(seed: int, height: int, width: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8))


def test_packed_characters(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0)
    clips = (Clip("walk", "up", 3),)
    colours = pixels.integers(0, 256, (256, 4), np.uint8)
    pack(tmp_path, (PackedCharacter(pixels.integers(0, 256, (3, 64, 64), np.uint8), colours, clips) for _ in range(31)))
    found = opened(DataSpec(str(tmp_path), 64, background=0.0))
    assert {split: len(frames) for split, frames in found.items()} == {"train": 87, "validation": 6, "test": 6}
    assert not found["train"] & found["validation"]


def test_sheets(tmp_path: Path) -> None:
    """One held-out part: every twentieth sheet."""
    for number in range(31):
        noise(number, 8, 24).save(tmp_path / f"{number:02d}.png")
    found = opened(DataSpec(str(tmp_path), 8, sheets="8x8"))
    assert found["validation"] == found["test"] and len(found["test"]) == 2 * 3
    assert not found["train"] & found["test"] and len(found["train"]) == 29 * 3


@pytest.mark.parametrize("lists", [(), ("train",), ("train", "test"), ("train", "validation", "test")])
def test_pairs(tmp_path: Path, lists: tuple[str, ...]) -> None:
    for number, which in product(range(60), (1, 2)):
        noise(2 * number + which, 8, 8).save(tmp_path / f"{number}_im{which}.png")
    for place, name in enumerate(lists):
        (tmp_path / f"{name}.txt").write_text(" ".join(map(str, range(20 * place, 20 * place + 20))))
    found = opened(DataSpec(str(tmp_path), 8))
    assert_disjoint(found)
    counts = {(): (54, 6, 0), ("train",): (18, 2, 0), ("train", "test"): (18, 2, 20)}.get(lists, (20, 20, 20))
    assert tuple(len(frames) // 2 for frames in found.values()) == counts


@pytest.fixture(scope="module")
def footage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    clips = tmp_path_factory.mktemp("footage") / "clips"
    for number, count in enumerate((20, 13, 9)):
        film(clips / f"{number}.mp4", count, seed=number)
    prepare_videos(clips, clips.parent / "data", Settings(size=32, crop="centre", held_out=0.3))
    yield clips.parent / "data"


def test_footage(footage: Path) -> None:
    """One held-out part: whole scenes."""
    found = opened(DataSpec(str(footage), 32))
    assert found["validation"] == found["test"] and found["train"] and not found["train"] & found["test"]
    scenes = {side: set[str]() for side in ("train", "held-out")}
    for file in read_manifest(footage)["files"]:
        scenes[file["split"]].add(file["scene"])
    assert all(scenes.values()) and not scenes["train"] & scenes["held-out"]
