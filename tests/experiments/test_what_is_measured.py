"""What experiments measure: test data, each image with futures of its own, codes and floors from where they should be.

Each test fails for the fault that it names. Faults of single experiments are in the tests of these as well.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

pytest.importorskip("cv2")

from visual_dynamics.api import load
from visual_dynamics.data import reed as sprites
from visual_dynamics.data import shapes
from visual_dynamics.data.pairs import Pairs
from visual_dynamics.experiments import (
    analogy,
    animation,
    disocclusion,
    full_size,
    futures,
    latents,
    layers,
    relations,
    traversal,
    video,
)
from visual_dynamics.relations import graph

CPU = torch.device("cpu")


class EnoughError(Exception):
    """Raised once an experiment has asked for what a test wants to know."""


def ignore(step: str, share: float) -> None:
    pass


def digests(frames: Tensor) -> set[bytes]:
    return {hashlib.sha256(frame.numpy().tobytes()).digest() for frame in frames}


# --- test data are measured, not training data ---

OF_CHARACTERS: list[tuple[Any, type[Any], bool]] = [  # compute, options, whether training characters are read before
    (analogy.compute, analogy.AnalogyOptions, False),
    (animation.compute, animation.AnimationOptions, False),
    (latents.compute, latents.LatentsOptions, False),
    (traversal.compute, traversal.TraversalOptions, False),
    (futures.compute_sprites, futures.SpriteFuturesOptions, True),
]


@pytest.mark.parametrize(("compute", "options", "trains"), OF_CHARACTERS)
def test_characters_are_test_characters(
    compute: Callable[..., object],
    options: type[Any],
    trains: bool,
    tiny_weights_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fault: training characters are measured as test characters."""
    split, asked = sprites.reed_split(), []

    def read(folder: Path, numbers: sprites.Numbers, *_: object) -> None:
        asked.append(numbers.tolist())
        if set(asked[-1]) & set(split.test.tolist()):
            raise EnoughError

    monkeypatch.setattr(sprites, "read_characters", read)
    models = ("model", "sprites_model", "poses_model", "guide")
    known = {name: str(tiny_weights_file) for name in options.__dataclass_fields__ if name in models}
    with pytest.raises(EnoughError):
        compute(options(samples=2, sprites=tmp_path, **known), CPU, ignore)
    assert asked == [split.train.tolist()] * trains + [split.test.tolist()]


@pytest.mark.parametrize("experiment", [disocclusion, full_size, futures, latents, relations, traversal])
def test_scenes_are_test_scenes(experiment: Any, tiny_weights_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: training scenes are measured as test scenes. The first that are drawn are those."""

    def draw(count: int, seed: int, split: str = "train") -> None:
        raise EnoughError(split)

    monkeypatch.setattr(shapes, "draw_scenes", draw)
    options = next(value for name, value in vars(experiment).items() if name.endswith("Options") and name[0] != "E")
    with pytest.raises(EnoughError, match="test"):
        experiment.compute(options(model=str(tiny_weights_file), samples=2), CPU, ignore)


def test_layers_are_chosen_on_training_scenes(tiny_weights_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: map and threshold are chosen on the images that they are measured on."""
    seen: dict[str, Tensor] = {}

    def measure(network: object, choosing: layers.MaskedImages, test: layers.MaskedImages, *_: object) -> None:
        seen.update(choosing=choosing.frames, test=test.frames)
        raise EnoughError

    monkeypatch.setattr(layers, "measure", measure)
    with pytest.raises(EnoughError):
        layers.compute(layers.LayersOptions(model=str(tiny_weights_file), small=True), CPU, ignore)
    for name, split in (("choosing", "train"), ("test", "test")):
        scenes = shapes.draw_scenes(len(seen[name]), 0, split)  # type: ignore[arg-type]
        assert torch.equal(seen[name], shapes.images(scenes, rendering="smooth", size=16) / 255)
    assert not digests(seen["choosing"]) & digests(seen["test"])


# --- Flow knows training pairs ---


def known_to_flow(experiment: Any, options: Any, monkeypatch: pytest.MonkeyPatch) -> Pairs:
    kept: list[Pairs] = []

    def flow(pairs: Pairs) -> None:
        kept.append(pairs)
        raise EnoughError

    monkeypatch.setattr(experiment, "FlowTransfer", flow)
    with pytest.raises(EnoughError):
        experiment.compute(options, CPU, ignore)
    return kept[0]


def test_flow_knows_training_scenes(tiny_weights_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: Flow takes its motions from the pairs that are measured."""
    monkeypatch.setattr(disocclusion, "FLOW_SCENES", 12)
    monkeypatch.setattr(futures, "FLOW_SCENES", 12)
    tiny = str(tiny_weights_file)
    of_textures = known_to_flow(disocclusion, disocclusion.DisocclusionOptions(model=tiny, samples=3), monkeypatch)
    of_futures = known_to_flow(futures, futures.FuturesOptions(model=tiny, samples=3), monkeypatch)
    for known, textured in ((of_textures, True), (of_futures, False)):
        expected = shapes.shapes_pairs(12, 0, "train", "smooth", 16, textured=textured)
        assert torch.equal(known.frames, expected.frames) and torch.equal(known.next_frames, expected.next_frames)


def test_flow_of_video_knows_training_pairs() -> None:
    """Fault: pairs that are measured are training pairs, or Flow knows them. In test_video.py: of footage."""
    found = video.find_footage(video.VideoOptions(small=True), 16, 20)
    assert torch.equal(found.pairs.frames, video.figure_pairs(video.DRAWN, 0, "test", 16).frames)
    assert not digests(found.pairs.frames) & digests(found.known.frames)


# --- every image has futures of its own ---


def test_every_row_of_futures_has_samples_of_its_own(tiny_weights_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: the same z for all images."""
    monkeypatch.setattr(futures, "FLOW_SCENES", 12)
    rows, show = [], futures.show

    def kept(*given: Any) -> Any:
        rows.append(show(*given))
        return rows[-1]

    monkeypatch.setattr(futures, "show", kept)
    futures.compute(futures.FuturesOptions(model=str(tiny_weights_file), samples=3, seed=4), CPU, ignore)
    model = load(tiny_weights_file)
    for place, row in enumerate(rows):
        assert np.array_equal(row.samples, model.sample(row.input, futures.SAMPLES, seed=4 + place))
    changes = [np.stack(row.samples).astype(int) - row.input for row in rows]
    assert all(not np.array_equal(one, other) for one, other in combinations(changes, 2))


def test_every_scene_at_full_size_has_samples_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: the same z for all images."""
    asked: list[int] = []

    def each_sample(image: np.ndarray, n: int, seed: int, full_size: bool) -> list[np.ndarray]:
        assert full_size
        asked.append(seed)
        return [image] * n

    model = SimpleNamespace(size=16, each_sample=each_sample)
    monkeypatch.setattr(full_size, "SIZE", 64)
    monkeypatch.setattr(full_size, "load", lambda *_: model)
    monkeypatch.setattr(full_size, "methods", lambda model, before, after: {"copy": before, "ours": after})
    full_size.compute(full_size.FullSizeOptions(samples=3, seed=5), CPU, ignore)
    assert asked == [5, 6, 7] * len(full_size.GRAINS)


class SeedsOfFlow:
    """In the place of Flow: keeps the seeds, and copies."""

    seeds: tuple[int, ...] = ()

    def __init__(self, pairs: Pairs) -> None:
        pass

    def sample_each(self, frames: Tensor, seeds: tuple[int, ...]) -> Tensor:
        type(self).seeds = tuple(seeds)
        return frames


def test_disocclusion_by_hand(tiny_weights_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults: the same z for all images; the "code of another scene" is read from the scene itself."""
    monkeypatch.setattr(disocclusion, "FLOW_SCENES", 2)
    monkeypatch.setattr(disocclusion, "FlowTransfer", SeedsOfFlow)
    options = disocclusion.DisocclusionOptions(model=str(tiny_weights_file), samples=4, seed=2)
    rows = disocclusion.compute(options, CPU, ignore).numbers["rows"]
    assert len(set(SeedsOfFlow.seeds)) == 4
    own = shapes.draw_scenes(4, 2, "test")
    other = shapes.draw_scenes(4, 3, "test")  # they look different, and are moved as the first
    object.__setattr__(other, "motions", own.motions)
    predictor = load(tiny_weights_file).predictor
    frames, truths = (shapes.images(own, moved, "smooth", 16, textured=True).float() / 255 for moved in (False, True))
    for name, scenes in (("ours", own), ("ours, code of another scene", other)):
        errors = []
        for place in range(4):
            pair = (shapes.images(scenes, moved, "smooth", 16, textured=True) / 255 for moved in (False, True))
            z = predictor.encode(*(picture[place] for picture in pair)).mean
            made = predictor.decode_each(frames[place : place + 1], z[None])
            errors.append(float((made - truths[place]).square().sum()))
        assert rows[name]["frame"]["sum"] == pytest.approx(np.mean(errors), rel=1e-3)
    assert rows["ours"]["frame"]["sum"] != pytest.approx(rows["ours, code of another scene"]["frame"]["sum"], rel=1e-3)


# --- floor and ceiling of relations ---

SEED, IMAGES, MANY = 0, 2, 24


@pytest.mark.parametrize("model", ["knows nothing", "knows the world"])
def test_floor_and_ceiling_of_relations(model: str, tiny_weights_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults: they are swapped; the ceiling comes from sampled futures; the floor's motions are not shuffled."""
    scenes = shapes.draw_scenes(IMAGES, SEED, "test")
    frames = shapes.images(scenes, rendering="smooth", size=64) / 255

    def sampled(predictor: object, frame: Tensor, source: object, many: int, seed: int) -> Tensor:
        if model == "knows nothing":
            return frame.expand(many, -1, -1, -1)
        place = next(place for place, one in enumerate(frames) if torch.equal(one, frame))
        moved = scenes.subset([place] * many).with_new_motions(seed + 100)
        return shapes.images(moved, True, "smooth", 64) / 255

    loaded = SimpleNamespace(size=64, predictor=None, source=lambda: None)
    monkeypatch.setattr(relations, "load", lambda *_: loaded)
    monkeypatch.setattr(relations, "SAMPLES", MANY)
    monkeypatch.setattr(graph, "futures", sampled)
    options = relations.RelationsOptions(samples=IMAGES, seed=SEED)
    rows = relations.compute(options, CPU, ignore).numbers["rows"]
    strength = {name: row["strengths"]["circle-triangle"] for name, row in rows.items()}
    assert strength["true futures"] > 0.9
    if model == "knows nothing":
        assert strength["ours"] is None and strength["shuffled"] is None
    else:
        assert strength["ours"] > 0.9 and strength["shuffled"] < 0.5
