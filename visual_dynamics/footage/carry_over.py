"""Which motion codes carry over to other scenes.

Sampling takes the code of any training pair for any image. With footage of a few scenes many a code knows its own: one
of a hallway moves what stands where people came through, be it a wall. So every code is tried on images of the other
training scenes, whose films tell what moves in them, and the better half is kept. No held-out scene is asked.

A code's mark is the motion that it makes in moving regions over that elsewhere: squared change of a pixel, mean over
either part of the frame, added up over the images.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from visual_dynamics.api import Model
from visual_dynamics.data.pairs import Pairs, spread
from visual_dynamics.data.shard_files import holds_footage
from visual_dynamics.data.shards import Take, open_pairs, split_takes
from visual_dynamics.errors import UserError
from visual_dynamics.evaluation.video_motion import Regions
from visual_dynamics.experiments.video_table import take_regions
from visual_dynamics.model.motion_encoder import Posterior
from visual_dynamics.posteriors import StoredPosteriors
from visual_dynamics.sampling.predictor import Predictor
from visual_dynamics.weights import Weights

KEPT = 0.5  # of the codes
CODES = 20_000  # that are tried at most
IMAGES = 2  # of each scene, on which those of all others are tried ...
MOST_IMAGES = 40  # ... and of all scenes
BATCH = 64  # pairs that are read together
ROOM = 2_000_000  # bytes for them in the file
LEAST = 1e-8  # motion outside, added up over the images, below which a code's mark does not rise any more

Progress = Callable[[int, int], object]  # images done, of so many


def with_codes_that_carry_over(model: Model, folder: Path, seed: int = 0, progress: Progress | None = None) -> Weights:
    """The weights with new posteriors: of the training pairs in a folder of prepared footage, the better half."""
    if not holds_footage(folder):
        raise UserError(f"{folder} holds no footage that visual-dynamics prepare videos made")
    if not model.weights.encodes_motion:
        raise UserError("this model comes without its motion encoder: it cannot read the motion of footage")
    if model.weights.training.get("config", {}).get("autoencoder"):
        raise UserError("this model is an autoencoder: its codes are points, and it has no posteriors to choose from")
    stored = open_pairs(folder, "train")
    assert stored is not None  # of this split there are always some
    pairs, takes = stored.resized(model.size), split_takes(folder, "train")  # in their files: there may be many
    if len({take.scene for take in takes}) < 2:
        raise UserError(f"{folder} shows a single scene to train on: there is no other to try its motions on")
    chosen = spread(len(pairs), CODES, seed).sort().values
    posterior = read_motions(model.predictor, pairs, chosen)
    marks = tried(model.predictor, posterior, chosen, pairs, takes, seed, progress or (lambda done, of: None))
    best = marks.argsort(descending=True, stable=True)[: max(1, round(KEPT * len(marks)))]
    best = best[spread(len(best), len(best), seed)]  # in any order: should there be no room for all, the first stay
    kept = StoredPosteriors.compress(Posterior(*(values[best] for values in posterior)), ROOM)
    history = {"footage": folder.resolve().name, "kept": len(kept), "of": len(marks), "seed": seed}
    training = model.weights.training | {"carried_over": history}
    return replace(model.weights, posteriors=kept, prior=None, training=training)


def read_motions(predictor: Predictor, pairs: Pairs, chosen: Tensor) -> Posterior:
    """q(z | v, I) of the chosen pairs, int64 (n,): mean and log-variance, (n, latent), on the CPU."""
    parts = []
    for part in chosen.split(BATCH):
        frame, next_frame = (frames.to(predictor.device).float() / 255 for frames in pairs.read(part))
        parts.append(predictor.encode(frame, next_frame))
    mean, log_variance = (torch.cat(values) for values in zip(*parts, strict=True))
    return Posterior(mean, log_variance)


def tried(
    predictor: Predictor,
    posterior: Posterior,
    chosen: Tensor,
    pairs: Pairs,
    takes: list[Take],
    seed: int,
    progress: Progress,
) -> Tensor:
    """The marks of the codes of the chosen pairs, (n,): each tried on IMAGES images of every scene but its own."""
    scenes = sorted({take.scene for take in takes})
    scene_of = torch.empty(len(pairs), dtype=torch.long)
    for take in takes:
        scene_of[take.places] = scenes.index(take.scene)
    noise = torch.randn(posterior.mean.shape, generator=torch.Generator().manual_seed(seed))
    codes = posterior.sample(noise)
    motion = torch.zeros(2, len(chosen), dtype=torch.double)  # inside, outside
    images = [(scene, place) for scene in range(len(scenes)) for place in images_of(scene_of == scene, seed)]
    images = [images[number] for number in spread(len(images), MOST_IMAGES, seed)]
    for done, (scene, place) in enumerate(images):
        take = next(take for take in takes if (take.places == place).any())
        others = (scene_of[chosen] != scene).nonzero()[:, 0]
        frame = pairs.read(torch.tensor([place]))[0][0].float() / 255
        motion[:, others] += moved(predictor, frame, codes[others], take_regions(pairs, take))
        progress(done + 1, len(images))
    return motion[0] / motion[1].clamp_min(LEAST)


def images_of(own: Tensor, seed: int) -> list[int]:
    """Places of some pairs of a scene, of which `own`, bool (N,), says which are."""
    places = own.nonzero()[:, 0]
    return [int(place) for place in places[spread(len(places), IMAGES, seed)]]


def moved(predictor: Predictor, frame: Tensor, codes: Tensor, where: Regions) -> Tensor:
    """Squared change of a pixel that each of n codes makes in a frame, in its moving region and elsewhere: (2, n)."""
    parts = []
    for frames in predictor.decode_batches(predictor.encode_image(frame), codes):
        change = (frames.cpu() - frame).square().sum(1).double()  # (b, S, S)
        parts.append(
            torch.stack([change[:, part].sum(1) / part.sum().clamp_min(1) for part in (where.moving, ~where.moving)])
        )
    return torch.cat(parts, dim=1)
