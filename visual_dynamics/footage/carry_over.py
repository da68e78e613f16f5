"""Choose the motion codes that carry over to other scenes: a step in the making of the model `people`.

Sampling applies the code of any training pair to any image. With footage of a few scenes, many codes fit their own
scene only: one of a hallway moves the place where people came through, even if it is a wall elsewhere. So every code is
tried on images of the other training scenes, whose footage shows what moves in them. The better half is kept. Held-out
scenes are not used.

The score of a code is the motion that it makes in moving regions, divided by that elsewhere: squared change of a pixel,
mean over either part of the frame, summed over the images.

    weights = with_codes_that_carry_over(load("runs/people/weights.safetensors"), Path("data/people"))
    save_copy(Path("people.safetensors"), weights)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from visual_dynamics.api import Model
from visual_dynamics.data.pairs import Pairs, spread
from visual_dynamics.data.shards import Take, holds_footage, open_pairs, split_takes
from visual_dynamics.errors import UserError
from visual_dynamics.evaluation.video_motion import Regions, take_regions
from visual_dynamics.model.motion_encoder import Posterior
from visual_dynamics.sampling.latents import TrainingPosteriors
from visual_dynamics.sampling.predictor import Predictor
from visual_dynamics.weights import Weights

KEPT = 0.5  # of the codes
CODES = 20_000  # tried at most
IMAGES = 2  # of each scene, on which the codes of all others are tried ...
MOST_IMAGES = 40  # ... and of all scenes
BATCH = 64  # pairs that are read together
ROOM = 2_000_000  # bytes for the codes in the file
LEAST = 1e-8  # motion outside, summed over the images; less does not raise the score any more

Progress = Callable[[int, int], object]  # images done, of how many


def with_codes_that_carry_over(model: Model, folder: Path, seed: int = 0, progress: Progress | None = None) -> Weights:
    """The weights with new posteriors: the better half of those of the training pairs in a folder of footage."""
    if not holds_footage(folder):
        raise UserError(f"{folder} holds no footage that visual-dynamics prepare videos made")
    if not model.weights.encodes_motion:
        raise UserError("this model comes without its motion encoder: it cannot read the motion of footage")
    if model.weights.training.get("config", {}).get("autoencoder"):
        raise UserError("this model is an autoencoder: its codes are points, and it has no posteriors to choose from")
    stored = open_pairs(folder, "train")
    assert stored is not None  # this split is never empty
    pairs, takes = stored.resized(model.size), split_takes(folder, "train")  # pairs stay in their files
    if len({take.scene for take in takes}) < 2:
        raise UserError(f"{folder} has a single training scene: there is no other to try its motions on")
    chosen = spread(len(pairs), CODES, seed).sort().values
    posterior = read_motions(model.predictor, pairs, chosen)
    scores = score_codes(model.predictor, posterior, chosen, pairs, takes, seed, progress or (lambda done, of: None))
    best = scores.argsort(descending=True, stable=True)[: max(1, round(KEPT * len(scores)))]
    best = best[spread(len(best), len(best), seed)]  # in random order: if ROOM is too small, the first stay
    kept = TrainingPosteriors.compress(Posterior(*(values[best] for values in posterior)), ROOM)
    history = {"footage": folder.resolve().name, "kept": len(kept), "of": len(scores), "seed": seed}
    training = model.weights.training | {"carried_over": history}
    return replace(model.weights, posteriors=kept, prior=None, training=training)


def read_motions(predictor: Predictor, pairs: Pairs, chosen: Tensor) -> Posterior:
    """q(z | v, I) of the chosen pairs, int64 (n,): mean and log-variance, (n, latent), on the CPU."""
    parts = []
    for part in chosen.split(BATCH):
        frame, next_frame = (frames.float() / 255 for frames in pairs.read(part))
        parts.append(predictor.encode(frame, next_frame))
    return Posterior(*(torch.cat(values) for values in zip(*parts, strict=True)))


def score_codes(
    predictor: Predictor,
    posterior: Posterior,
    chosen: Tensor,
    pairs: Pairs,
    takes: list[Take],
    seed: int,
    progress: Progress,
) -> Tensor:
    """The scores of the codes of the chosen pairs, (n,): each tried on IMAGES images of every scene but its own."""
    scenes = sorted({take.scene for take in takes})
    scene_of = torch.empty(sum(len(take.places) for take in takes), dtype=torch.long)  # every pair is in one take
    for take in takes:
        scene_of[take.places] = scenes.index(take.scene)
    noise = torch.randn(posterior.mean.shape, generator=torch.Generator().manual_seed(seed))
    codes = posterior.sample(noise)
    motion = torch.zeros(2, len(chosen), dtype=torch.double)  # inside, outside
    images = []
    for scene in range(len(scenes)):
        own = (scene_of == scene).nonzero()[:, 0]
        images += [(scene, int(place)) for place in own[spread(len(own), IMAGES, seed)]]
    images = [images[place] for place in spread(len(images), MOST_IMAGES, seed)]
    for done, (scene, place) in enumerate(images, 1):
        take = next(take for take in takes if (take.places == place).any())
        others = (scene_of[chosen] != scene).nonzero()[:, 0]
        frame = pairs.read(torch.tensor([place]))[0][0].float() / 255
        motion[:, others] += motion_of_codes(predictor, frame, codes[others], take_regions(pairs, take.places))
        progress(done, len(images))
    return motion[0] / motion[1].clamp_min(LEAST)


def motion_of_codes(predictor: Predictor, frame: Tensor, codes: Tensor, where: Regions) -> Tensor:
    """Squared change of a pixel that each of n codes makes in a frame, in its moving region and elsewhere: (2, n)."""
    parts = []
    for frames in predictor.decode_batches(predictor.encode_image(frame), codes):
        change = (frames.cpu() - frame).square().sum(1).double()  # (b, S, S)
        inside, outside = (change[:, part].sum(1) / part.sum().clamp_min(1) for part in (where.moving, ~where.moving))
        parts.append(torch.stack([inside, outside]))
    return torch.cat(parts, dim=1)
