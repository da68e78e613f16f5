"""The Python API: a trained model as an object with five verbs.

    model = visual_dynamics.load("shapes")
    frames = model.sample(image, n=8, seed=0)

An image is a path, a PIL image or a uint8 array of any size, or a canvas: `model.open(image)` decodes it once for
several verbs. An image unlike those of the training gives the warning `UnfamiliarPicture`. Results are uint8 arrays.
Their longer side is the model's size (64 for the paper's network), and they keep the aspect ratio of the image. Models
of sprites do not scale pictures up to that size. With full_size=True results have the size of the image: its own
pixels, moved.
"""

from __future__ import annotations

import itertools
import operator
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from visual_dynamics.display import code_html, facts_html, show
from visual_dynamics.errors import UnfamiliarPicture, UserError
from visual_dynamics.images import ImageSource
from visual_dynamics.model.motion_encoder import Posterior
from visual_dynamics.model_files import find_weights, shipped_models
from visual_dynamics.objective import kl_per_dimension
from visual_dynamics.sampling.canvas import Canvas, open_canvas
from visual_dynamics.sampling.familiarity import describe
from visual_dynamics.sampling.latents import (
    LatentSource,
    LearnedPrior,
    Prior,
    fit_prior,
    sample_seeds,
)
from visual_dynamics.sampling.moves import (
    apply_motion,
    each_future,
    extrapolation,
    path,
    path_values,
    stored_usage,
    traverse,
)
from visual_dynamics.sampling.poke import CODES, Pair, PokedCodes, Progress, in_frame, poked_codes
from visual_dynamics.sampling.predictor import Predictor
from visual_dynamics.weights import Weights, load_weights, save_copy

LatentName = Literal["conditional", "posteriors", "learned", "prior"]  # where z comes from
AnySource: TypeAlias = LatentName | LatentSource
PokeLike: TypeAlias = tuple[Pair, Pair]  # ((x, y), (dx, dy))
Frames = NDArray[np.uint8]  # (..., H, W, 3)
AnyImage: TypeAlias = ImageSource | Canvas
MAX_SAMPLES = 100_000
MAX_STEPS = 1_000
MAX_GUIDANCE = 10
MAX_PIXELS = 400_000_000  # of all frames of a result at full size together: 1.2 GB


@dataclass(frozen=True)
class Motion:
    """The motion code of a pair: q(z | v, I) = N(mean, variance)."""

    mean: NDArray[np.float32]  # (latent,)
    variance: NDArray[np.float32]  # (latent,)

    def _repr_html_(self) -> str:
        mean, variance = torch.tensor(self.mean), torch.tensor(self.variance)
        nats = kl_per_dimension(Posterior(mean, variance.log()))
        title = f"motion code of {len(mean):,} dimensions, {float(nats.sum()):.1f} nats from the prior"
        return code_html(title, mean, variance.sqrt(), nats)


@dataclass(frozen=True)
class Strip:
    """One image as a dimension of z goes from one end to the other; the other dimensions stay."""

    dimension: int
    nats: float  # how much motion the dimension carries: its mean KL divergence to the prior
    values: list[float]  # in units of its deviation over training pairs
    frames: Frames  # (T, H, W, 3), one for each value

    def _repr_html_(self) -> str:
        return show(self, labels=[f"{value:+.2g}" for value in self.values])._repr_html_()


class Model:
    """A trained network with its stored posteriors or learned prior, on one device.

    Threads may share it. A forked process must not use it: load it after the fork, or start processes by "spawn".
    """

    def __init__(self, weights: Weights, device: str = "cpu") -> None:
        self.weights = weights
        self.predictor = Predictor(weights.network, device)
        self.sources: dict[str, LatentSource] = {"prior": Prior(weights.network.config.latent)}
        if len(weights.posteriors):
            self.sources = {"posteriors": weights.posteriors, **self.sources}
        if weights.conditional:
            self.sources = {"conditional": weights.conditional, **self.sources}

    def _repr_html_(self) -> str:
        config, parameters = self.predictor.network.config, sum(x.numel() for x in self.predictor.network.parameters())
        facts = {
            "frames": f"{config.size} x {config.size} pixels",
            "motion code z": f"{config.latent:,} dimensions",
            "network": f"{parameters / 1e6:.1f} million parameters",
            "z comes from": ", ".join(dict.fromkeys([*self.sources, "learned"])),
            "weights (sha256)": self.weights.digest[:12],
        }
        return facts_html("Visual Dynamics model", facts)

    @property
    def size(self) -> int:
        """Longer side of the frames that come out, in pixels."""
        return self.predictor.size

    def open(self, image: AnyImage, check: bool = True) -> Canvas:
        """The image as this model sees it, decoded once, for any number of verbs.

        check: warn, once, of an image that is unlike those that the model learned from.
        """
        canvas = open_canvas(image, self.size, self.predictor.network.config.background)
        if check and canvas is not image and (words := self.unfamiliar(canvas)):
            warnings.warn(words, UnfamiliarPicture, stacklevel=3)
        return canvas

    def unfamiliar(self, canvas: Canvas) -> str:
        """A sentence on a picture that is unlike those that the model learned from, with what to do; "" for others."""
        strange = _strangeness(self.weights, canvas)
        if strange is None or strange <= 1:
            return ""
        known = _shipped_model_for(canvas)
        instead = f"the shipped model {known} has" if known else "train one that has (visual-dynamics train)"
        return f"the model has not learned from pictures like this one, and its results may mean nothing: {instead}"

    def sample(
        self,
        image: AnyImage,
        n: int = 8,
        seed: int = 0,
        source: AnySource | None = None,
        full_size: bool = False,
        poke: PokeLike | None = None,
    ) -> Frames:
        """n plausible next frames, uint8 (n, H, W, 3). Frame k of a seed is the same for every n.

        poke: ((x, y), (dx, dy)) in pixels of the image, y down: futures in which what is at x, y goes by dx, dy.
        """
        canvas = self.open(image)
        wanted = self.poke(canvas, poke, seed, source) if poke else source
        return _gathered(self.each_sample(canvas, n, seed, wanted, full_size), n)

    def each_sample(
        self, image: AnyImage, n: int = 8, seed: int = 0, source: AnySource | None = None, full_size: bool = False
    ) -> Iterator[Frames]:
        """`sample` one by one, uint8 (H, W, 3), for results that do not fit into memory."""
        n, seed, latents = _whole("n", n, 1, MAX_SAMPLES), _seed(seed), self.source(source)
        canvas = self._canvas(image, n, full_size)
        return canvas.futures(each_future(self.predictor, self._seen(canvas), latents, n, seed), full_size)

    def poke(
        self,
        image: AnyImage,
        poke: PokeLike,
        seed: int = 0,
        source: AnySource | None = None,
        codes: int = CODES,
        progress: Progress = lambda done, total: None,
    ) -> PokedCodes:
        """A latent source for this image: of that many sampled codes those that move its poked part as wanted."""
        canvas, codes = self.open(image), _whole("codes", codes, 1, MAX_SAMPLES)
        wanted = in_frame(poke, canvas.pixels.shape[:2], canvas.box)
        encoded = self.predictor.encode_image(self._seen(canvas))
        return poked_codes(self.predictor, encoded, self.source(source), wanted, _seed(seed), codes, progress)

    def encode(self, before: AnyImage, after: AnyImage) -> Motion:
        """The motion code of a pair of frames of one size."""
        first, second = self.open(before), self.open(after)
        if first.pixels.shape != second.pixels.shape:
            sizes = " and ".join(f"{shape[1]}x{shape[0]}" for shape in (first.pixels.shape, second.pixels.shape))
            raise UserError(f"the frames of a pair differ in size: {sizes}")
        posterior = self.predictor.encode(first.frame, second.frame)
        return Motion(posterior.mean.numpy(), posterior.log_variance.exp().numpy())

    def apply(self, image: AnyImage, motion: Motion, full_size: bool = False) -> Frames:
        """Visual analogy: the image moved by that motion, uint8 (H, W, 3)."""
        mean, latent = np.asarray(motion.mean, np.float32), self.predictor.network.config.latent
        if mean.shape != (latent,) or not np.isfinite(mean).all():
            raise UserError(f"the motion code does not belong to this model: it needs {latent:,} finite numbers")
        canvas = self._canvas(image, 1, full_size)
        return next(canvas.futures([apply_motion(self.predictor, self._seen(canvas), torch.tensor(mean))], full_size))

    def extrapolate(
        self, image: AnyImage, steps: int = 8, seed: int = 0, source: AnySource | None = None, full_size: bool = False
    ) -> Frames:
        """The image and the frames that follow when one sampled motion repeats, uint8 (steps + 1, H, W, 3).

        A sprite keeps to its colours at every step, which stops drift.
        """
        return _gathered(self.each_step(image, steps, seed, source, full_size), steps + 1)

    def each_step(
        self, image: AnyImage, steps: int = 8, seed: int = 0, source: AnySource | None = None, full_size: bool = False
    ) -> Iterator[Frames]:
        """`extrapolate` one by one, uint8 (H, W, 3); the image itself first."""
        steps, seed, latents = _whole("steps", steps, 1, MAX_STEPS), _seed(seed), self.source(source)
        canvas = self._canvas(image, steps + 1, full_size)
        seen = self._seen(canvas)
        motion = latents.draw(sample_seeds(seed, 1), self.predictor.encode_image(seen))[0]
        frames = extrapolation(self.predictor, seen, motion, steps, canvas.in_own_colours)
        return canvas.clip(frames, full_size)

    def traverse(self, image: AnyImage, n: int = 5) -> list[Strip]:
        """The n dimensions of z that carry most motion, or all that carry any, each varied alone on the image."""
        n, used, values = _whole("n", n, 1, MAX_SAMPLES), stored_usage(self.weights.posteriors), path_values()
        chosen = used.active[:n]
        if not chosen:
            raise UserError("no dimension of z carries motion in this model")
        canvas, steps = self.open(image), torch.cat([path(used, dimension, values) for dimension in chosen])
        pictures = canvas.pictures(traverse(self.predictor, self._seen(canvas), steps))
        return [
            Strip(dimension, float(used.nats[dimension]), values.tolist(), frames)
            for dimension, frames in zip(chosen, np.split(pictures, len(chosen)), strict=True)
        ]

    def source(self, name: AnySource | None = None) -> LatentSource:
        """Where z comes from; by default the first that the file has: conditional prior, posteriors, learned prior."""
        if not isinstance(name, str | None):
            return name
        if name is None:
            name = next((known for known in ("conditional", "posteriors") if known in self.sources), "learned")
        if name == "learned":
            return self.learned_prior
        if name not in self.sources:
            raise UserError(f"this model has no latent source {name!r}; there are {', '.join(self.sources)}, learned")
        return self.sources[name]

    def guided(self, guidance: float) -> LatentSource:
        """p(z | image) with guidance: 0 looks at no image, 1 is as learned, more exaggerates the image."""
        if self.weights.conditional is None:
            raise UserError("guidance needs a model with p(z | image): see visual-dynamics prior")
        if not 0 <= guidance <= MAX_GUIDANCE:
            raise UserError(f"guidance is from 0 to {MAX_GUIDANCE}, not {guidance}")
        return replace(self.weights.conditional, guidance=float(guidance))

    @cached_property
    def learned_prior(self) -> LearnedPrior:
        """The file's learned prior, or one that is fitted to its posteriors now, which takes seconds."""
        return self.weights.prior or fit_prior(self.weights.posteriors)

    def save_copy(
        self, path: str | Path, eight_bits: bool = False, motion_encoder: bool = True, learned_prior: bool = False
    ) -> None:
        """Write a lighter copy of the model: see `weights.save_copy`. A learned prior replaces training posteriors."""
        prior = self.learned_prior if learned_prior else None
        save_copy(Path(path), self.weights, eight_bits, motion_encoder, prior)

    def _canvas(self, image: AnyImage, count: int, full_size: bool) -> Canvas:
        """The image, for `count` results that fit into memory."""
        canvas = self.open(image)
        if full_size:
            canvas.check_full_size(count, MAX_PIXELS)
        return canvas

    def _seen(self, canvas: Canvas) -> torch.Tensor:
        """The frame at the size of which the network makes most."""
        return canvas.at(self.predictor.picture_size)


def _strangeness(weights: Weights, canvas: Canvas) -> float | None:
    """How unlike training pictures a picture is, above 1 unfamiliar; None where the file does not know them."""
    if weights.familiarity is None:
        return None
    frame = canvas.frame[None]
    return float(weights.familiarity.strangeness(describe(weights.network, frame), frame, canvas.box))


def _shipped_model_for(canvas: Canvas) -> str | None:
    """The shipped model to which a picture is most familiar; None if it is to none of them."""
    picture = canvas.pixels if canvas.alpha is None else np.dstack([canvas.pixels, canvas.alpha])
    found: dict[float, str] = {}
    for name in shipped_models():
        weights = load_weights(find_weights(name))
        config = weights.network.config
        strange = _strangeness(weights, open_canvas(picture, config.size, config.background))
        if strange is not None and weights.encodes_motion:
            found[strange] = name
    return found[min(found)] if found and min(found) <= 1 else None


def load(name: str | Path, device: str = "cpu") -> Model:
    """A model by shipped name, path of a .safetensors file, or Hugging Face Hub id (owner/name@revision)."""
    usable = str(find_device(device))
    return Model(load_weights(find_weights(name)), usable)


def find_device(name: str) -> torch.device:
    """A device by PyTorch's name for it; "auto" is a GPU (CUDA, else Apple's) where there is one."""
    if name == "auto":
        gpus = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
        name = next((gpu for gpu, available in gpus.items() if available), "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).cpu()
    except (RuntimeError, AssertionError, ImportError) as error:
        unknown = str(error).startswith("Expected one of")  # and a list of twenty kinds follows
        reason = "there is no such kind of device" if unknown else str(error).splitlines()[0].split(". ")[0]
        raise UserError(f"cannot use device {name!r}: {reason}") from error
    return device


def _gathered(frames: Iterator[Frames], count: int) -> Frames:
    """`count` frames (H, W, 3) as (count, H, W, 3); `np.stack` would hold all of them twice."""
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
