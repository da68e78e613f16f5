"""The public Python API, as the design fixes it."""

import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import visual_dynamics as vd
from visual_dynamics import api
from visual_dynamics.api import find_device
from visual_dynamics.data.shapes import draw_large, draw_scenes
from visual_dynamics.sampling.moves import PART
from visual_dynamics.sampling.palette import palette_of
from visual_dynamics.sampling.poke import Poke
from visual_dynamics.weights import load_weights

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def model(tiny_weights_file: Path) -> vd.Model:
    return vd.load(str(tiny_weights_file))


def scene(height: int = 16, width: int = 16, shift: int = 0) -> np.ndarray:
    frame = np.full((height, width, 3), 40, np.uint8)
    frame[height // 4 : height // 2, width // 4 + shift : width // 2 + shift] = (220, 60, 90)
    return frame


@pytest.mark.filterwarnings("ignore::visual_dynamics.UnfamiliarPicture")
def test_the_five_verbs_on_the_shipped_model() -> None:
    model = vd.load("shapes")
    image, before, after = scene(64, 64), scene(64, 64), scene(64, 64, shift=3)
    frames = model.sample(image, n=2, seed=0)
    assert frames.dtype == np.uint8 and frames.shape == (2, 64, 64, 3)
    motion = model.encode(before, after)
    assert motion.mean.shape == motion.variance.shape == (model.weights.network.config.latent,)
    frame = model.apply(image, motion)
    assert frame.dtype == np.uint8 and frame.shape == (64, 64, 3)
    video = model.extrapolate(image, steps=2, seed=0)
    assert video.dtype == np.uint8 and video.shape == (3, 64, 64, 3)
    np.testing.assert_array_equal(video[0], image)


def test_threads_may_share_a_model(model: vd.Model) -> None:
    """Eight threads, 60 calls, several images and verbs: every picture is that of one thread."""
    images = [scene(16, 12 + shift, shift) for shift in range(5)]
    motion = model.encode(scene(), scene(shift=2))

    def call(model: vd.Model, number: int) -> np.ndarray:
        image, seed = images[number % 5], number // 5
        verbs: tuple[Callable[[], np.ndarray], ...] = (
            lambda: model.sample(image, n=1 + seed % 9, seed=seed),
            lambda: model.extrapolate(image, steps=3, seed=seed),
            lambda: model.apply(image, motion),
            lambda: model.encode(image, image[::-1]).mean,
            lambda: model.traverse(image, n=2)[0].frames,
        )
        return verbs[seed % 5]()

    shared = vd.Model(model.weights)  # what a model makes when it is first used is made by several threads
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda number: call(shared, number), range(60)))
    for number, result in enumerate(found):
        np.testing.assert_array_equal(call(model, number), result)


def test_defaults(model: vd.Model) -> None:
    frames, video = model.sample(scene()), model.extrapolate(scene())
    assert frames.shape == (8, 16, 16, 3) and video.shape == (9, 16, 16, 3)
    np.testing.assert_array_equal(frames, model.sample(scene(), n=8, seed=0))
    np.testing.assert_array_equal(video, model.extrapolate(scene(), steps=8, seed=0))


def test_paths_pillow_images_and_arrays_are_the_same_picture(model: vd.Model, tmp_path: Path) -> None:
    image = Image.fromarray(scene(16, 12))
    image.save(tmp_path / "scene.png")
    sources: list[Any] = [tmp_path / "scene.png", str(tmp_path / "scene.png"), image, scene(16, 12)]
    results = [model.sample(source, n=2) for source in sources]
    assert results[0].shape == (2, 16, 12, 3)
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])
    motions = [model.encode(source, source) for source in sources]
    assert all(np.array_equal(motion.mean, motions[0].mean) for motion in motions)
    for verb in (lambda source: model.apply(source, motions[0]), lambda source: model.extrapolate(source, steps=1)):
        first, *others = [verb(source) for source in sources]
        assert all(np.array_equal(other, first) for other in others)


@pytest.mark.parametrize(
    ("given", "result"), [((40, 60), (11, 16)), ((600, 200), (16, 5)), ((2, 900), (1, 16)), ((3, 3), (16, 16))]
)
def test_results_keep_the_aspect_ratio(model: vd.Model, given: tuple[int, int], result: tuple[int, int]) -> None:
    image = np.full((*given, 3), 90, np.uint8)
    assert model.sample(image, n=1).shape[1:3] == result
    assert model.open(image).still().shape[:2] == result


def test_a_motion_is_a_normal_distribution(model: vd.Model) -> None:
    motion = model.encode(scene(), scene(shift=1))
    latent = model.predictor.network.config.latent
    for numbers in (motion.mean, motion.variance):
        assert isinstance(numbers, np.ndarray) and numbers.dtype == np.float32 and numbers.shape == (latent,)
        assert np.isfinite(numbers).all()
    assert (motion.variance > 0).all()
    assert not np.array_equal(motion.mean, model.encode(scene(), scene()).mean)


def test_a_motion_may_be_made_by_hand(model: vd.Model) -> None:
    motion = model.encode(scene(), scene(shift=1))
    same = vd.Motion(motion.mean.astype(np.float64), motion.variance)
    np.testing.assert_array_equal(model.apply(scene(), same), model.apply(scene(), motion))


@pytest.mark.parametrize("source", ["posteriors", "learned", "prior"])
def test_a_sample_does_not_depend_on_how_many_there_are(model: vd.Model, source: Any) -> None:
    many = model.sample(scene(), n=8, seed=4, source=source)
    np.testing.assert_array_equal(model.sample(scene(), n=3, seed=4, source=source), many[:3])
    assert len(np.unique(many.reshape(8, -1), axis=0)) > 1


def test_more_samples_than_are_held_at_a_time(model: vd.Model) -> None:
    many = model.sample(scene(), n=PART + 3, seed=1)
    assert many.shape == (PART + 3, 16, 16, 3)
    np.testing.assert_array_equal(model.sample(scene(), n=PART, seed=1), many[:PART])
    assert not np.array_equal(many[PART:], many[:3])


def test_seeds(model: vd.Model) -> None:
    one = model.sample(scene(), n=4, seed=1)
    np.testing.assert_array_equal(model.sample(scene(), n=4, seed=1), one)
    assert not np.array_equal(model.sample(scene(), n=4, seed=2), one)
    assert not np.array_equal(model.extrapolate(scene(), seed=1), model.extrapolate(scene(), seed=2))


def test_numpy_s_whole_numbers_are_whole_numbers(model: vd.Model) -> None:
    frames = model.sample(scene(), n=np.int64(2), seed=np.uint8(3))  # type: ignore[arg-type]
    np.testing.assert_array_equal(frames, model.sample(scene(), n=2, seed=3))


def test_nothing_global_changes(model: vd.Model) -> None:
    image = scene()
    torch.manual_seed(7)
    np.random.seed(7)
    state, old = torch.random.get_rng_state(), np.random.get_state()[1].copy()  # type: ignore[index, union-attr]
    model.sample(image, n=2)
    model.extrapolate(image, steps=1)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert np.array_equal(np.random.get_state()[1], old)  # type: ignore[index]
    np.testing.assert_array_equal(image, scene())


@pytest.mark.parametrize("n", [0, -3, 10**9, 2.0, "8", None])
def test_wrong_counts(model: vd.Model, n: Any) -> None:
    with pytest.raises(vd.UserError, match=r"n must be a whole number from 1 to 100,000, not"):
        model.sample(scene(), n=n)
    with pytest.raises(vd.UserError, match=r"steps must be a whole number from 1 to 1,000, not"):
        model.extrapolate(scene(), steps=n)


@pytest.mark.parametrize("seed", [-1, 1.5, 2**63, "0", None])
def test_wrong_seeds(model: vd.Model, seed: Any) -> None:
    for verb in (model.sample, model.extrapolate):
        with pytest.raises(vd.UserError, match="seed must be a whole number"):
            verb(scene(), seed=seed)


@pytest.mark.parametrize(
    "image",
    [
        np.zeros((16, 16, 3), np.float32),
        np.zeros((16, 16, 3), np.int64),
        np.zeros((16, 16, 2), np.uint8),
        np.zeros((1, 16, 16, 3), np.uint8),
        np.zeros((0, 16, 3), np.uint8),
        np.zeros((1, 1, 3), np.uint8),
        Path("/nowhere/at/all.png"),
        b"bytes",
        None,
    ],
    ids=lambda image: f"{getattr(image, 'dtype', image)}{getattr(image, 'shape', '')}",
)
def test_wrong_images(model: vd.Model, image: Any) -> None:
    motion = model.encode(scene(), scene())
    for verb in (
        lambda: model.sample(image),
        lambda: model.encode(image, scene()),
        lambda: model.encode(scene(), image),
        lambda: model.apply(image, motion),
        lambda: model.extrapolate(image),
    ):
        with pytest.raises(vd.UserError, match="cannot read") as error:
            verb()
        assert "\n" not in str(error.value)


def test_a_pair_of_two_sizes(model: vd.Model) -> None:
    with pytest.raises(vd.UserError, match="the frames of a pair differ in size: 16x16 and 20x18"):
        model.encode(scene(), scene(18, 20))


def test_a_motion_of_another_model(model: vd.Model) -> None:
    for mean in (np.zeros(7, np.float32), np.full(model.predictor.network.config.latent, np.nan, np.float32)):
        with pytest.raises(vd.UserError, match="does not belong to this model"):
            model.apply(scene(), vd.Motion(mean, np.ones_like(mean)))


def test_the_strongest_dimensions_are_traversed(model: vd.Model) -> None:
    """Oracle: KL(N(m, s^2) || N(0, 1)) = (m^2 + s^2 - 1) / 2 - log s, the mean over the stored posteriors."""
    q = model.weights.posteriors.posterior(torch.arange(len(model.weights.posteriors)))
    nats = ((q.mean.square() + q.log_variance.exp() - 1 - q.log_variance) / 2).mean(0)
    strips = model.traverse(scene(), n=3)
    assert [strip.dimension for strip in strips] == nats.topk(3).indices.tolist()
    assert [strip.nats for strip in strips] == pytest.approx(nats.topk(3).values.tolist())


def test_a_poke_is_in_pixels_of_a_wide_picture(model: vd.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """A picture of 32 x 16 pixels is seen at half its size, in rows 4 to 11 of 16."""
    asked = []
    monkeypatch.setattr(api, "poked_codes", lambda _, image, source, poke, *more: asked.append(poke))
    model.poke(scene(16, 32), ((29, 5), (6, -2)))
    assert asked == [Poke((14.25, 4 + 2.25), (3.0, -1.0))]


def test_an_unknown_source(model: vd.Model) -> None:
    for verb in (model.sample, model.extrapolate):
        with pytest.raises(vd.UserError, match="no latent source 'dreams'; there are posteriors, prior, learned"):
            verb(scene(), source="dreams")  # type: ignore[arg-type]


def test_a_model_without_posteriors_samples_by_its_learned_prior(model: vd.Model, tmp_path: Path) -> None:
    model.save_copy(tmp_path / "light.safetensors", learned_prior=True)
    light = vd.load(tmp_path / "light.safetensors")
    for frames in (light.sample(scene(), n=3, seed=1), light.sample(scene(), n=3, seed=1, source="learned")):
        np.testing.assert_array_equal(frames, model.sample(scene(), n=3, seed=1, source="learned"))
    assert not np.array_equal(light.sample(scene(), n=3, seed=1), model.sample(scene(), n=3, seed=1))
    np.testing.assert_array_equal(light.extrapolate(scene()), model.extrapolate(scene(), source="learned"))
    with pytest.raises(vd.UserError, match="this model has no latent source 'posteriors'; there are prior, learned"):
        light.sample(scene(), source="posteriors")


def test_models_and_devices_that_do_not_exist(tiny_weights_file: Path) -> None:
    with pytest.raises(vd.UserError, match=r"no model 'spahes': shipped models are .*shapes"):
        vd.load("spahes")
    with pytest.raises(vd.UserError, match="cannot use device 'warp': there is no such kind of device"):
        vd.load(tiny_weights_file, device="warp")
    assert vd.load(tiny_weights_file, device="auto").size == 16


@pytest.mark.parametrize(("cuda", "mps", "chosen"), [(True, True, "cuda"), (False, True, "mps"), (False, False, "cpu")])
def test_auto_is_a_gpu_where_there_is_one(monkeypatch: pytest.MonkeyPatch, cuda: bool, mps: bool, chosen: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    monkeypatch.setattr(torch, "zeros", lambda *_, device: torch.empty(1))
    assert find_device("auto").type == chosen


def test_what_the_package_shows() -> None:
    assert (
        sorted(vd.__all__)
        == dir(vd)
        == ["Model", "Motion", "UnfamiliarPicture", "UserError", "__version__", "load", "show"]
    )
    assert re.match(r"\d+\.\d+", vd.__version__)
    for name in ("Model", "Motion", "UnfamiliarPicture", "UserError", "load", "show"):
        assert getattr(vd, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'lode'"):
        vd.lode  # noqa: B018


def test_importing_the_package_is_instant() -> None:
    code = "import sys, visual_dynamics; print([m for m in ('torch', 'numpy', 'PIL') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# --- at the size of the picture ---


def test_results_at_full_size(model: vd.Model) -> None:
    image = scene(90, 120)
    frames = model.sample(image, n=3, seed=2, full_size=True)
    assert frames.dtype == np.uint8 and frames.shape == (3, 90, 120, 3)
    np.testing.assert_array_equal(model.sample(image, n=2, seed=2, full_size=True), frames[:2])
    np.testing.assert_array_equal(list(model.each_sample(image, n=3, seed=2, full_size=True)), frames)
    assert len({frame.tobytes() for frame in frames}) == 3
    video = model.extrapolate(image, steps=2, seed=2, full_size=True)
    assert video.shape == (3, 90, 120, 3)
    np.testing.assert_array_equal(video[0], image)
    np.testing.assert_array_equal(video[1], frames[0])
    moved = model.apply(image, model.encode(image, scene(90, 120, shift=9)), full_size=True)
    assert moved.dtype == np.uint8 and moved.shape == (90, 120, 3)
    np.testing.assert_array_equal(image, scene(90, 120))


def test_what_never_moves_stays_at_full_size() -> None:
    model, scenes, kept = vd.load("shapes"), draw_scenes(4, 0, "test"), []
    for number in range(4):
        before, after = (draw_large(scenes.subset([number]), 512, moved)[0] for moved in (False, True))
        future = model.apply(before, model.encode(before, after), full_size=True)
        still = (before == after).all(-1)
        kept.append((np.abs(future.astype(int) - before).max(-1) < 4)[still].mean())
        assert np.square(future / 255 - after / 255).sum() < 0.1 * np.square(before / 255 - after / 255).sum()
    assert np.mean(kept) > 0.98 and min(kept) > 0.97


def test_too_much_at_full_size(model: vd.Model) -> None:
    image = np.zeros((2000, 2000, 3), np.uint8)
    for verb in (
        lambda: model.sample(image, n=101, full_size=True),
        lambda: model.each_step(image, steps=100, full_size=True),
    ):
        with pytest.raises(vd.UserError, match=r"101 frames of 2000 x 2000 pixels are too large together"):
            verb()
    for verb in (lambda: model.sample(image, n=0, full_size=True), lambda: model.extrapolate(image, 0, full_size=True)):
        with pytest.raises(vd.UserError, match=r"must be a whole number from 1"):
            verb()


def test_sprites_have_their_size_anyway(sprites: vd.Model) -> None:
    np.testing.assert_array_equal(sprites.sample(sprite(), n=2, full_size=True), sprites.sample(sprite(), n=2))
    np.testing.assert_array_equal(
        sprites.extrapolate(sprite(), steps=2, full_size=True), sprites.extrapolate(sprite(), steps=2)
    )
    assert sprites.sample(sprite(40, 30), n=1, full_size=True).shape == (1, 40, 30, 3)


# --- models of sprites ---


@pytest.fixture(scope="module")
def sprites(tiny_weights_file: Path) -> vd.Model:
    """The tiny model as one of sprites: its background is black."""
    weights = load_weights(tiny_weights_file)
    weights.network.config = replace(weights.network.config, background=0.0)
    return vd.Model(weights)


def sprite(height: int = 12, width: int = 10) -> np.ndarray:
    frame = np.zeros((height, width, 4), np.uint8)
    frame[3:-1, 2:-2] = (220, 60, 90, 255)
    frame[5:7, 3:5] = (30, 20, 140, 255)
    return frame


def test_a_model_of_sprites_pads_what_fits(sprites: vd.Model, model: vd.Model) -> None:
    canvas = sprites.open(sprite())
    frame = canvas.frame
    assert canvas.box == (2, 3, 12, 10) and frame.shape == (3, 16, 16)
    inside = frame[:, 2:14, 3:13]
    np.testing.assert_array_equal((inside.permute(1, 2, 0) * 255).round().numpy(), sprite()[..., :3])
    assert frame.sum() == inside.sum()
    assert sprites.sample(sprite(), n=2).shape == (2, 12, 10, 3)
    motion = sprites.encode(sprite(), np.roll(sprite(), 1, axis=1))
    assert sprites.apply(sprite(9, 16), motion).shape == (9, 16, 3)
    np.testing.assert_array_equal(sprites.open(sprite()).still(), sprite()[..., :3])
    assert sprites.open(sprite(17, 10)).still().shape == (16, 9, 3)  # larger ones are scaled as ever
    assert model.open(sprite()).still().shape == (16, 13, 3)  # and so are all for other models


def test_alpha_comes_back(sprites: vd.Model, model: vd.Model) -> None:
    frames, canvas = sprites.sample(sprite(), n=3), sprites.open(sprite())
    cut = canvas.with_alpha(frames)
    assert cut.shape == (3, 12, 10, 4) and set(np.unique(cut[..., 3])) <= {0, 255}
    assert {tuple(color) for color in palette_of(cut)} <= {(220, 60, 90), (30, 20, 140)}
    np.testing.assert_array_equal(canvas.with_alpha(frames[1]), cut[1])
    np.testing.assert_array_equal(canvas.with_alpha(canvas.still()), sprite())
    empty = np.zeros_like(sprite())
    for other, image in ((sprites, sprite()[..., :3]), (sprites, sprite(20, 20)), (model, sprite()), (sprites, empty)):
        assert other.open(image).with_alpha(frames) is frames
    assert sprites.extrapolate(empty, steps=1).shape == (2, 12, 10, 3)


def test_extrapolation_keeps_to_the_colours_of_a_sprite(sprites: vd.Model) -> None:
    clip = sprites.extrapolate(sprite(), steps=3)
    known = {(0, 0, 0), (220, 60, 90), (30, 20, 140)}
    assert {tuple(color) for color in clip.reshape(-1, 3).tolist()} <= known
    plain = sprites.extrapolate(sprite()[..., :3], steps=3)
    assert not {tuple(color) for color in plain.reshape(-1, 3).tolist()} <= known
