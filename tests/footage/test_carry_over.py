"""Which codes carry over: those that move what moves in other scenes, on drawn footage and with a tiny model."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from visual_dynamics.api import Model, load
from visual_dynamics.data.pairs import Pairs
from visual_dynamics.data.shards import Take
from visual_dynamics.errors import UserError
from visual_dynamics.evaluation.video_motion import Regions
from visual_dynamics.footage import carry_over
from visual_dynamics.model.motion_encoder import Posterior
from visual_dynamics.sampling.latents import fit_prior

SIDE = 16


class Halves:
    """Stands for a predictor: a code (left, right) brightens the halves of a frame by so much."""

    batch_size = 3

    def encode_image(self, frame: Tensor) -> Tensor:
        return frame

    def decode_batches(self, image: Tensor, codes: Tensor) -> Iterator[Tensor]:
        for part in codes.split(self.batch_size):
            change = part.repeat_interleave(SIDE // 2, dim=1)  # (b, SIDE)
            yield image + change[:, None, None, :].expand(-1, 3, SIDE, -1)


def footage() -> tuple[Pairs, list[Take]]:
    """Four pairs of scene a, where the left column flickers, and four of scene b, where the right one does."""
    frames = torch.full((16, 3, SIDE, SIDE), 100, dtype=torch.uint8)
    frames[1:8:2, :, :, 0] += 50
    frames[9:16:2, :, :, -1] += 50
    pairs = Pairs(frames, torch.arange(0, 16, 2), torch.arange(1, 16, 2))
    return pairs, [Take("a", "a, take 0", torch.arange(4)), Take("b", "b, take 0", torch.arange(4, 8))]


def test_codes_are_scored_by_what_they_move_in_other_scenes() -> None:
    pairs, takes = footage()
    left, right, both = [0.1, 0.0], [0.0, 0.1], [0.1, 0.1]
    codes = torch.tensor([left, right, both, right, left, right, both, left])  # four of a, tried on b, and of b, on a
    posterior = Posterior(codes, torch.full_like(codes, -80.0))  # points
    seen = []
    halves, every = Halves(), torch.arange(8)
    scores = carry_over.score_codes(halves, posterior, every, pairs, takes, 0, lambda *done: seen.append(done))  # type: ignore[arg-type]
    assert seen[-1] == (2 * carry_over.IMAGES,) * 2
    # b's right column and the next are its moving region: of that, a code for the right half moves all, and 6 of the
    # 14 columns elsewhere; one for the left half moves none of it
    assert scores[[1, 3, 4, 7]] == pytest.approx([14 / 6] * 4, rel=1e-4)
    assert scores[[0, 5]] == pytest.approx([0, 0]) and scores[[2, 6]] == pytest.approx([1, 1], rel=1e-4)


def test_motion_inside_and_outside() -> None:
    moving = torch.zeros(SIDE, SIDE, dtype=torch.bool)
    moving[:, : SIDE // 4] = True
    found = carry_over.motion_of_codes(
        Halves(),  # type: ignore[arg-type]
        torch.full((3, SIDE, SIDE), 0.5),
        torch.tensor([[0.1, 0.0], [0.0, 0.2], [0.0, 0.0], [0.1, 0.2]]),
        Regions(moving, ~moving),
    )
    by_hand = [[0.03, 0, 0, 0.03], [0.03 / 3, 0.12 * 2 / 3, 0, (0.03 + 2 * 0.12) / 3]]
    torch.testing.assert_close(found, torch.tensor(by_hand, dtype=torch.double), rtol=1e-4, atol=1e-9)


@pytest.fixture(scope="module")
def model_and_folder(tmp_path_factory: pytest.TempPathFactory) -> tuple[Model, Path]:
    pytest.importorskip("cv2")
    from tests.footage.scenes import film
    from visual_dynamics.footage.clips import Settings
    from visual_dynamics.footage.prepare import prepare_videos
    from visual_dynamics.training.config import TrainingConfig
    from visual_dynamics.training.loop import train

    clips = tmp_path_factory.mktemp("footage") / "clips"
    for number in range(3):
        film(clips / f"{number}.mp4", 12, seed=number)
    folder = clips.parent / "data"
    prepare_videos(clips, folder, Settings(size=16, crop="centre", held_out=0.3))
    config = TrainingConfig(str(folder), preset="tiny", batch=8, steps=4, log_every=2, kl_warmup=2, warmup=2)
    return load(train(config, clips.parent / "run", torch.device("cpu"))), folder


def test_the_better_half_is_kept(model_and_folder: tuple[Model, Path], tmp_path: Path) -> None:
    model, folder = model_and_folder
    weights = carry_over.with_codes_that_carry_over(model, folder)
    history = weights.training["carried_over"]
    assert history["of"] == len(model.weights.posteriors) and history["footage"] == "data"
    assert len(weights.posteriors) == history["kept"] == round(history["of"] / 2)
    assert weights.prior is None
    again = carry_over.with_codes_that_carry_over(
        Model(replace(model.weights, prior=fit_prior(weights.posteriors))), folder
    )
    assert again.prior is None  # one that was fitted to the codes before would speak for all of them
    assert torch.equal(again.posteriors.mean, weights.posteriors.mean)
    Model(weights).save_copy(tmp_path / "kept.safetensors", eight_bits=True)
    kept = load(tmp_path / "kept.safetensors")
    assert len(kept.weights.posteriors) == history["kept"] and kept.weights.training["carried_over"] == history


def test_the_kept_half_has_the_greatest_scores(
    model_and_folder: tuple[Model, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, folder = model_and_folder
    read: list[Posterior] = []

    def scores(predictor: object, posterior: Posterior, *_: object) -> Tensor:
        read.append(posterior)
        return posterior.mean[:, 0]

    monkeypatch.setattr(carry_over, "score_codes", scores)
    kept = carry_over.with_codes_that_carry_over(model, folder).posteriors
    found = kept.posterior(torch.arange(len(kept))).mean
    every, dimensions = read[0].mean, kept.dimensions.long()
    places = torch.cdist(found[:, dimensions], every[:, dimensions]).argmin(1)  # codes are stored rounded
    assert set(places.tolist()) == set(every[:, 0].argsort(descending=True)[: len(kept)].tolist())


def test_much_footage_is_tried_in_part(model_and_folder: tuple[Model, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    model, folder = model_and_folder
    monkeypatch.setattr(carry_over, "CODES", 6)
    monkeypatch.setattr(carry_over, "MOST_IMAGES", 3)
    seen: list[tuple[int, int]] = []
    weights = carry_over.with_codes_that_carry_over(model, folder, progress=lambda *done: seen.append(done))
    assert weights.training["carried_over"]["of"] == 6 and len(weights.posteriors) == 3 and seen[-1] == (3, 3)


def test_what_cannot_be_tried_is_told(model_and_folder: tuple[Model, Path], tmp_path: Path) -> None:
    model, folder = model_and_folder
    with pytest.raises(UserError, match="holds no footage"):
        carry_over.with_codes_that_carry_over(model, tmp_path)
    points = replace(model.weights, training={"config": {"autoencoder": True}})
    with pytest.raises(UserError, match="is an autoencoder"):
        carry_over.with_codes_that_carry_over(Model(points), folder)
    model.save_copy(tmp_path / "light.safetensors", motion_encoder=False)
    with pytest.raises(UserError, match="without its motion encoder"):
        carry_over.with_codes_that_carry_over(load(tmp_path / "light.safetensors"), folder)
