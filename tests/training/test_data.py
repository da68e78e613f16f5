"""What a run trains on."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tests.characters import noise_characters
from tests.poses import write_waving
from visual_dynamics.data import reed as sprites
from visual_dynamics.data import shapes, sources
from visual_dynamics.data.figures import figure_pairs
from visual_dynamics.data.pairs import Pair, Pairs, spread
from visual_dynamics.data.sources import DataSpec, open_data
from visual_dynamics.errors import UserError
from visual_dynamics.training.augment import draw, shifted
from visual_dynamics.training.config import TrainingConfig
from visual_dynamics.training.distributed import Processes
from visual_dynamics.training.familiar import for_validation
from visual_dynamics.training.loop import train
from visual_dynamics.training.trainer import Trainer, training_pairs, validation_pairs, worn
from visual_dynamics.weights import load_weights

TINY = TrainingConfig(preset="tiny", augment=(), steps=2, batch=8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sprites") / "packed"
    sprites.pack_characters(noise_characters(4), path)
    return path


@pytest.fixture(autouse=True)
def small_split(monkeypatch: pytest.MonkeyPatch) -> None:
    split = sprites.Split(np.arange(3), np.arange(3, 4), np.arange(0))
    monkeypatch.setattr(sources, "sprite_split", lambda name: split)


def test_sprites_are_recognised(folder: Path) -> None:
    config = replace(TINY, data=str(folder))
    assert len(training_pairs(config)) == 3 * 157
    assert len(training_pairs(replace(config, between="any"))) == 3 * 1454
    assert len(training_pairs(replace(config, pairs=100))) == 100
    held_out = validation_pairs(config, count=50)
    assert held_out is not None and len(held_out) == 50
    assert held_out.size == (16, 16)
    whole = training_pairs(replace(config, preset="sprites", latent=None, pairs=1))
    assert whole.size == (64, 64)


def test_a_run_on_sprites(folder: Path, tmp_path: Path) -> None:
    weights = load_weights(train(replace(TINY, data=str(folder)), tmp_path / "run", torch.device("cpu")))
    assert len(weights.posteriors) == 3 * 157


def test_shapes_are_20000_pairs_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    tiny = figure_pairs(1, seed=0, size=16)
    monkeypatch.setattr(sources.shapes, "shapes_pairs", lambda count, *args, **options: asked.append(count) or tiny)
    training_pairs(TINY)
    training_pairs(replace(TINY, pairs=7))
    assert asked == [20_000, 7]


def test_unknown_choices_are_errors() -> None:
    with pytest.raises(UserError, match="neighbours or any"):
        replace(TINY, between="all")
    with pytest.raises(UserError, match="split is reed or paper, not mine"):
        replace(TINY, split="mine")


def test_places_are_spread() -> None:
    places = spread(100, 10, seed=0)
    assert len(set(places.tolist())) == 10 and places.max() < 100 and places.tolist() != sorted(places.tolist())
    assert sorted(spread(5, 10, seed=0).tolist()) == [0, 1, 2, 3, 4]


def test_sheets_are_split_by_character(tmp_path: Path) -> None:
    for number in range(12):
        frames = np.random.default_rng(number).integers(1, 256, (8, 32, 4), dtype=np.uint8)
        Image.fromarray(frames).save(tmp_path / f"{number:02d}.png")
    config = replace(TINY, data=str(tmp_path), sheets="8x8")
    held_out = validation_pairs(config)
    assert len(training_pairs(config)) == 11 * 3 and held_out is not None and len(held_out) == 3
    (tmp_path / "10.png").unlink()
    (tmp_path / "11.png").unlink()
    assert len(training_pairs(config)) == 10 * 3 and validation_pairs(config) is None


def test_the_drawing_of_the_shapes_is_chosen() -> None:
    config = replace(TINY, pairs=4)
    whole, smooth = (training_pairs(replace(config, rendering=name)) for name in ("integer", "smooth"))
    assert torch.equal(smooth.frames, shapes.shapes_pairs(4, 0, "train", "smooth", size=16).frames)
    assert not torch.equal(whole.frames, smooth.frames)
    with pytest.raises(UserError, match="rendering is integer or smooth, not rough"):
        replace(config, rendering="rough")


def test_frames_are_displaced_as_drawn() -> None:
    pair = Pair(torch.rand(3, 3, 12, 12), torch.rand(3, 3, 12, 12))
    offsets = draw("jitter", 2, 5, 3, seed=1)
    moved = shifted(pair, offsets, 12)
    for before, after, by in zip(pair, moved, offsets.unbind(1), strict=True):
        for picture, found, (down, right) in zip(before, after, by.tolist(), strict=True):
            rolled = picture.roll((down, right), (1, 2))
            assert torch.equal(found[:, 2:-2, 2:-2], rolled[:, 2:-2, 2:-2])  # the border shows what is repeated


def test_displacements_are_spread_over_all_directions() -> None:
    for name, reach, alike in (("shift", 2, True), ("jitter", 1, False)):
        offsets = draw(name, reach, 0, 4000, seed=0)
        assert torch.equal(offsets[:, 0], offsets[:, 1]) == alike
        assert offsets.shape == (4000, 2, 2)
        assert offsets.unique().tolist() == list(range(-reach, reach + 1))
        assert offsets.float().mean().abs() < 0.1
        assert torch.equal(draw(name, reach, 0, 4000, seed=0), offsets)


def test_only_the_motion_encoder_sees_displaced_frames() -> None:
    config = replace(TINY, pairs=8, augment=("jitter=3",))
    trainer = Trainer(config, training_pairs(config), torch.device("cpu"), Processes(), compiled=False)
    pair, disguised, _ = trainer.batch(0)
    plain = trainer.pairs.batch(trainer.order.indices(0))
    assert torch.equal(pair.frame, plain.frame) and torch.equal(pair.next_frame, plain.next_frame)
    assert not torch.equal(disguised.frame, pair.frame) and not torch.equal(disguised.next_frame, pair.next_frame)


def test_shifted_pairs_are_shifted_for_the_whole_network() -> None:
    config = replace(TINY, pairs=8, augment=("shift=2",))
    trainer = Trainer(config, training_pairs(config), torch.device("cpu"), Processes(), compiled=False)
    pair, disguised, _ = trainer.batch(0)
    plain = trainer.pairs.batch(trainer.order.indices(0))
    assert not torch.equal(pair.frame, plain.frame)
    assert torch.equal(pair.frame, disguised.frame) and torch.equal(pair.next_frame, disguised.next_frame)


def test_more_data_are_mixed_in(folder: Path) -> None:
    config = replace(TINY, pairs=5, also=str(folder), also_pairs=12)
    pairs = training_pairs(config)
    own, more = (
        training_pairs(replace(TINY, pairs=5)),
        training_pairs(replace(TINY, data=str(folder))),
    )
    assert pairs.own == len(own) == 5 and len(pairs) == 5 + 12
    for start, part in ((0, own), (5, more)):
        picked = torch.arange(min(12, len(part)))
        for found, wanted in zip(pairs.batch(start + picked), part.batch(picked), strict=True):
            assert torch.equal(found, wanted)
    whole = training_pairs(replace(config, also_pairs=None))
    assert len(whole) == 5 * 32 + 3 * 157  # a quarter are own ones, and no more than needed


def test_figures_that_are_mixed_in_wear_a_run_s_own_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    worn = []

    def drawn(*given: object) -> Pairs:
        worn.append(given[-1])
        return figure_pairs(4, seed=0, size=TINY.network.size)

    monkeypatch.setattr(sources, "figure_pairs", drawn)
    own = training_pairs(replace(TINY, pairs=5))
    mixed = training_pairs(replace(TINY, pairs=5, also="figures", also_pairs=4))
    assert len(mixed) == 5 + 4 and len(worn[0]) == 5
    frames = (255 * own.batch(torch.arange(5)).frame).round().byte()
    assert {frame.numpy().tobytes() for frame in worn[0]} == {frame.numpy().tobytes() for frame in frames}
    training_pairs(replace(TINY, data="figures", pairs=4))
    assert worn[1] is None  # alone they have none to wear


@pytest.mark.parametrize("also", ["figures", "the file"])
def test_people_in_recorded_poses_are_mixed_in(also: str, tmp_path: Path) -> None:
    """They wear the run's own pictures, however the file is named."""
    path = str(write_waving(tmp_path / "poses.npz"))
    given = {"also": also, "poses": path} if also == "figures" else {"also": path}
    config = replace(TINY, pairs=5, also_pairs=4, **given)
    mixed = training_pairs(config)
    spec = DataSpec(path, TINY.network.size)
    own = training_pairs(replace(TINY, pairs=5))
    wanted = open_data(spec, "train", 4, wear=worn(config, own))
    assert len(mixed) == 5 + 4 and torch.equal(mixed.frames[5:], wanted.frames)
    assert not torch.equal(wanted.frames, open_data(spec, "train", 4).frames)
    seen = for_validation(config, own, 8)
    assert seen is not None and len(seen) == 8


def test_poses_are_for_drawn_people() -> None:
    assert replace(TINY, data="figures", poses="poses.npz").poses == "poses.npz"
    with pytest.raises(UserError, match="poses are for drawn people: give --data figures or --also figures"):
        replace(TINY, poses="poses.npz")


def test_stored_posteriors_are_of_a_run_s_own_data(folder: Path) -> None:
    config = replace(TINY, pairs=5, also=str(folder), also_pairs=12)
    trainer = Trainer(config, training_pairs(config), torch.device("cpu"), Processes(), compiled=False)
    alone = Trainer(config, training_pairs(replace(TINY, pairs=5)), torch.device("cpu"), Processes(), False)
    for found, wanted in zip(trainer.posteriors(100), alone.posteriors(100), strict=True):
        assert torch.equal(found, wanted) and len(found) == 5


def test_mistakes_in_what_is_mixed_in_are_errors() -> None:
    with pytest.raises(UserError, match="also_pairs is a number of pairs of other data"):
        replace(TINY, also_pairs=3)
    with pytest.raises(UserError, match="also_pairs must be positive"):
        replace(TINY, also="figures", also_pairs=0)
    with pytest.raises(UserError, match="no data 'nowhere'"):
        training_pairs(replace(TINY, pairs=5, also="nowhere"))
