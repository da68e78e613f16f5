"""The Python API: a trained model as an object with five verbs.

    model = visual_dynamics.load("shapes")
    frames = model.sample(image, n=8, seed=0)

Pictures go in as paths, PIL images or uint8 arrays of any size, and come out as uint8 arrays whose longer side is the
model's size (64 for the paper's network), in the aspect ratio of the input. Models of sprites, drawn on black, take
pictures up to that size as they are, and give them back in the size they had. With full_size=True results have the size
of the input: its own pixels, moved.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visual_dynamics.catalogue import find_weights
from visual_dynamics.errors import UserError
from visual_dynamics.images import (
    Box,
    ImageSource,
    Pixels,
    crop_from_square,
    fit_to_square,
    pad_to_square,
    read_image,
    read_picture,
)
from visual_dynamics.sampling.analogy import apply_motion
from visual_dynamics.sampling.extrapolation import extrapolate, extrapolation
from visual_dynamics.sampling.full_size import FullSize
from visual_dynamics.sampling.futures import futures
from visual_dynamics.sampling.latents import LatentSource, Prior, TrainingPosteriors, sample_seeds
from visual_dynamics.sampling.learned_prior import LearnedPrior, fit_prior
from visual_dynamics.sampling.palette import OPAQUE, cut_out, over_black
from visual_dynamics.sampling.predictor import Predictor
from visual_dynamics.sampling.traversal import path, path_values, stored_usage, traverse
from visual_dynamics.weights import Weights, load_weights, save_copy

Source = Literal["posteriors", "learned", "prior"]  # where z comes from
Frames = NDArray[np.uint8]  # (..., H, W, 3)
MAX_SAMPLES = 100_000
MAX_STEPS = 1_000
MAX_PIXELS = 400_000_000  # of all frames of a result at full size together: 1.2 GB
PART = 256  # samples in memory as floats at a time


@dataclass(frozen=True)
class Motion:
    """The motion code of a pair: q(z | v, I) = N(mean, variance)."""

    mean: NDArray[np.float32]  # (latent,)
    variance: NDArray[np.float32]  # (latent,)


@dataclass(frozen=True)
class Strip:
    """One image as a dimension of z goes from one end to the other, the others being 0."""

    dimension: int
    nats: float  # how much the dimension tells of a motion: its mean KL divergence to the prior
    values: list[float]  # in units of its deviation over training pairs
    frames: Frames  # (T, H, W, 3), one a value


class Model:
    """A trained network with its stored posteriors or learned prior, on one device."""

    def __init__(self, weights: Weights, device: str = "cpu") -> None:
        self.weights = weights
        self.predictor = Predictor(weights.network, device)
        self.sources: dict[str, LatentSource] = {"prior": Prior(weights.network.config.latent)}
        if len(weights.posteriors):
            self.sources = {"posteriors": TrainingPosteriors(weights.posteriors), **self.sources}

    @property
    def size(self) -> int:
        """Longer side of the frames that come out, in pixels."""
        return self.predictor.size

    def sample(
        self, image: ImageSource, n: int = 8, seed: int = 0, source: Source | None = None, full_size: bool = False
    ) -> Frames:
        """n plausible next frames, uint8 (n, H, W, 3). Frame k of a seed is the same for every n."""
        if full_size:
            return _gathered(self.full_size_futures(image, n, seed, source), n)
        n, seed, latents = _whole("n", n, 1, MAX_SAMPLES), _seed(seed), self.source(source)
        frame, box = self.prepare(image)
        parts = [
            self.finish(futures(self.predictor, frame, latents, min(PART, n - first), seed, first), box)
            for first in range(0, n, PART)
        ]
        return np.concatenate(parts)

    def encode(self, before: ImageSource, after: ImageSource) -> Motion:
        """The motion code of a pair of frames of one size."""
        first, second = read_image(before, self._background), read_image(after, self._background)
        if first.shape != second.shape:
            sizes = " and ".join(f"{shape[1]}x{shape[0]}" for shape in (first.shape, second.shape))
            raise UserError(f"the frames of a pair differ in size: {sizes}")
        posterior = self.predictor.encode(self.prepare(first)[0], self.prepare(second)[0])
        return Motion(posterior.mean.numpy(), posterior.log_variance.exp().numpy())

    def apply(self, image: ImageSource, motion: Motion, full_size: bool = False) -> Frames:
        """Visual analogy: the image moved by that motion, uint8 (H, W, 3)."""
        mean, latent = np.asarray(motion.mean, np.float32), self.predictor.network.config.latent
        if mean.shape != (latent,) or not np.isfinite(mean).all():
            raise UserError(f"the motion code does not belong to this model: it needs {latent:,} finite numbers")
        frame, box = self.prepare(image)
        moved = apply_motion(self.predictor, frame, torch.tensor(mean))
        large = self._full_size(image, 1) if full_size else None
        return large.future(moved) if large else self.finish(moved[None], box)[0]

    def extrapolate(
        self, image: ImageSource, steps: int = 8, seed: int = 0, source: Source | None = None, full_size: bool = False
    ) -> Frames:
        """The image and the frames that follow when one sampled motion repeats, uint8 (steps + 1, H, W, 3).

        A sprite keeps to its colours at every step, which stops drift.
        """
        if full_size:
            return _gathered(self.full_size_clip(image, steps, seed, source), steps + 1)
        steps, seed, latents = _whole("steps", steps, 1, MAX_STEPS), _seed(seed), self.source(source)
        frame, box = self.prepare(image)
        motion = latents.draw(sample_seeds(seed, 1))[0]
        sprite = self._sprite(image)
        between = None if sprite is None else partial(_in_colors_of, sprite)
        return self.finish(extrapolate(self.predictor, frame, motion, steps, between), box)

    def full_size_futures(
        self, image: ImageSource, n: int = 8, seed: int = 0, source: Source | None = None
    ) -> Iterator[Frames]:
        """`sample` at the size of the image, uint8 (H, W, 3) one by one: they may be too many to hold."""
        n, seed, latents = _whole("n", n, 1, MAX_SAMPLES), _seed(seed), self.source(source)
        large = self._full_size(image, n)
        if large is None:
            return iter(self.sample(image, n, seed, source))
        parts = ((first, min(PART, n - first)) for first in range(0, n, PART))
        return (
            large.future(one)
            for first, count in parts
            for one in futures(self.predictor, large.frame, latents, count, seed, first)
        )

    def full_size_clip(
        self, image: ImageSource, steps: int = 8, seed: int = 0, source: Source | None = None
    ) -> Iterator[Frames]:
        """`extrapolate` at the size of the image, uint8 (H, W, 3) one by one; the image itself first."""
        steps, seed, latents = _whole("steps", steps, 1, MAX_STEPS), _seed(seed), self.source(source)
        large = self._full_size(image, steps + 1)
        if large is None:
            return iter(self.extrapolate(image, steps, seed, source))
        motion = latents.draw(sample_seeds(seed, 1))[0]
        return large.clip(extrapolation(self.predictor, large.frame, motion, steps))

    def traverse(self, image: ImageSource, n: int = 5) -> list[Strip]:
        """The n dimensions of z that carry most motion, or all that carry any, each varied alone on the image."""
        n, used, values = _whole("n", n, 1, MAX_SAMPLES), stored_usage(self.weights.posteriors), path_values()
        chosen = used.active[:n]
        if not chosen:
            raise UserError("no dimension of z carries motion in this model")
        frame, box = self.prepare(image)
        moved = traverse(self.predictor, frame, torch.cat([path(used, dimension, values) for dimension in chosen]))
        return [
            Strip(dimension, float(used.nats[dimension]), values.tolist(), self.finish(frames, box))
            for dimension, frames in zip(chosen, moved.split(len(values)), strict=True)
        ]

    def source(self, name: Source | None = None) -> LatentSource:
        """Where z comes from; by default the training posteriors, or the learned prior of a file without them."""
        if name is None:
            name = "posteriors" if "posteriors" in self.sources else "learned"
        if name == "learned":
            return self.learned_prior
        if name not in self.sources:
            raise UserError(f"this model has no latent source {name!r}; there are {', '.join(self.sources)}, learned")
        return self.sources[name]

    @cached_property
    def learned_prior(self) -> LearnedPrior:
        """The file's learned prior, or one that is fitted to its posteriors now, which takes seconds."""
        return LearnedPrior(self.weights.prior) if self.weights.prior else fit_prior(self.weights.posteriors)

    def save_copy(
        self, path: str | Path, eight_bits: bool = False, motion_encoder: bool = True, learned_prior: bool = False
    ) -> None:
        """Write a lighter copy of the model.

        With most weights in eight bits it has six tenths of the size; without its motion encoder, again half, but then
        it cannot read the motion of a pair. With its learned prior it holds no training posteriors.
        """
        prior = self.learned_prior.stored if learned_prior else None
        save_copy(Path(path), self.weights, eight_bits, motion_encoder, prior)

    def picture(self, image: ImageSource, full_size: bool = False) -> Frames:
        """The image as the model sees it, uint8 (H, W, 3): the frame that the results follow."""
        if full_size:
            return read_image(image, self._background)
        frame, box = self.prepare(image)
        return self.finish(frame[None], box)[0]

    def with_alpha(self, frames: Frames, image: ImageSource) -> Frames:
        """Frames (n, H, W, 3) that follow an image: of a sprite with alpha as sprites in its colours, (n, H, W, 4)."""
        sprite = self._sprite(image)
        return frames if sprite is None else cut_out(frames, sprite)

    def prepare(self, image: ImageSource) -> tuple[Tensor, Box]:
        """A picture of any size and kind as a frame of the network, (3, S, S) in [0, 1], and where it lies in it."""
        pixels = read_image(image, self._background)
        fit = pad_to_square if self._as_it_is(pixels) else fit_to_square
        square, box = fit(pixels, self.size)
        return torch.from_numpy(square).permute(2, 0, 1).float() / 255, box

    def finish(self, frames: Tensor, box: Box) -> Frames:
        """Frames of the network, floats (n, 3, S, S), as pictures, uint8 (n, H, W, 3): the other way of `prepare`."""
        pixels = (frames * 255).round().to(torch.uint8).permute(0, 2, 3, 1).cpu().numpy()
        return crop_from_square(pixels, box)

    def keeps_size(self, image: ImageSource) -> bool:
        """Whether results have the size of the image anyway: a sprite that the model takes as it is."""
        return self._as_it_is(read_image(image, self._background))

    def _full_size(self, image: ImageSource, count: int) -> FullSize | None:
        """What moves the image at its own size, so many times; None where results have that size anyway."""
        pixels = read_image(image, self._background)
        if self._as_it_is(pixels):
            return None
        height, width = pixels.shape[:2]
        if count * height * width > MAX_PIXELS:
            raise UserError(
                f"{count:,} frames of {width} x {height} pixels are too large together "
                f"(at most {MAX_PIXELS // 10**6} million pixels): choose fewer, or a smaller picture"
            )
        return FullSize(pixels, *self.prepare(pixels))

    def _as_it_is(self, pixels: Pixels) -> bool:
        """Whether a picture is not scaled: drawn pixels, which a model of sprites knows as they are, would blur."""
        return self.predictor.network.config.background == 0 and max(pixels.shape[:2]) <= self.size

    def _sprite(self, image: ImageSource) -> Pixels | None:
        """A picture with alpha for a model of sprites, uint8 (1, H, W, 4); None for all others."""
        picture = read_picture(image)
        pixels, alpha = picture.over(self._background), picture.alpha
        if alpha is None or not self._as_it_is(pixels):
            return None
        hard = (alpha >= OPAQUE).any() and (alpha < OPAQUE).any()
        return np.concatenate([pixels, alpha[..., None]], axis=-1)[None] if hard else None

    @property
    def _background(self) -> tuple[int, int, int]:
        grey = round(255 * self.predictor.network.config.background)
        return grey, grey, grey


def load(name: str | Path, device: str = "cpu") -> Model:
    """A model by shipped name, path of a .safetensors file, or Hugging Face Hub id."""
    usable = str(find_device(device))
    return Model(load_weights(find_weights(name)), usable)


def find_device(name: str) -> torch.device:
    """A device by PyTorch's name for it; "auto" is the GPU where there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).cpu()
    except (RuntimeError, AssertionError, ImportError) as error:
        unknown = str(error).startswith("Expected one of")  # and a list of twenty kinds follows
        reason = "there is no such kind of device" if unknown else str(error).splitlines()[0].split(". ")[0]
        raise UserError(f"cannot use device {name!r}: {reason}") from error
    return device


def _in_colors_of(sprite: Pixels, frame: Tensor) -> Tensor:
    """A predicted frame, floats (3, S, S), without specks and with no colours but those of a sprite (1, H, W, 4)."""
    (clean,) = over_black(cut_out(frame.permute(1, 2, 0)[None].cpu().numpy(), sprite))
    return torch.from_numpy(clean).permute(2, 0, 1).float() / 255


def _gathered(frames: Iterator[Frames], count: int) -> Frames:
    """So many frames (H, W, 3) as (count, H, W, 3); `np.stack` would hold all of them twice."""
    first = next(frames)
    together = np.empty((count, *first.shape), np.uint8)
    for place, frame in enumerate(itertools.chain([first], frames)):
        together[place] = frame
    return together


def _whole(name: str, value: Any, least: int, most: int) -> int:
    """Python's or NumPy's whole number."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if not least <= number <= most:
        raise UserError(f"{name} must be a whole number from {least} to {most:,}, not {value}")
    return number


def _seed(value: Any) -> int:
    return _whole("seed", value, 0, 2**63 - 1)
