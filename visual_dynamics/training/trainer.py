"""What a run holds in memory: pairs, network, optimizer. `Trainer.step` is the whole mathematics of training."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from visual_dynamics import objective
from visual_dynamics.data.pairs import Pair, Pairs, mix_pairs, spread, without_waiting
from visual_dynamics.data.sources import DataSpec, draws_people, open_data
from visual_dynamics.errors import UserError
from visual_dynamics.files import parse_json
from visual_dynamics.model.image_encoder import resize
from visual_dynamics.model.layers import ConvBlock
from visual_dynamics.model.motion_encoder import Posterior
from visual_dynamics.model.network import VisualDynamics
from visual_dynamics.training.augment import (
    LIST,
    ShuffledOrder,
    apply_all,
    draw_all,
    draw_others,
    step_noise,
    whole_frames,
)
from visual_dynamics.training.captured import Captured
from visual_dynamics.training.config import OTHERS, TrainingConfig
from visual_dynamics.training.distributed import Processes, share_batch_norm
from visual_dynamics.training.muon import Muon

OWN_SHARE = 0.25  # of a mixture, at least: a run is about its own data
WORN_FRAMES = 1_024  # frames of a run's own data that drawn figures may wear
Read = TypeVar("Read")


def data_spec(config: TrainingConfig, size: int) -> DataSpec:
    return DataSpec(
        data=config.data,
        size=size,
        seed=config.seed,
        rendering=config.rendering,
        between=config.between,
        characters=config.split,
        sheets=config.sheets,
        background=config.network.background,
        poses=config.poses,
    )


def training_pairs(config: TrainingConfig, device: torch.device | str = "cpu") -> Pairs:
    """What a run trains on, at the size it is stored; with `also`, other data are mixed in. `device` may draw it."""
    spec = data_spec(config, config.stored_size)
    if config.also and config.stream:
        raise UserError("data that are streamed cannot be mixed with others")
    own = open_data(spec, "train", config.pairs, device, config.stream)
    if not config.also:
        return own
    more = open_data(replace(spec, data=config.also), "train", config.also_pairs, device, wear=worn(config, own))
    return mix_pairs(own, more, OWN_SHARE)


def worn(config: TrainingConfig, pairs: Pairs) -> Tensor | None:
    """What drawn figures wear: frames of the run's own pictures, uint8 (n, 3, S, S); None without figures."""
    if not (config.also and draws_people(config.also)):
        return None
    return pairs.read(spread(pairs.own or len(pairs), WORN_FRAMES, seed=0))[0]


def validation_pairs(config: TrainingConfig, count: int = 256) -> Pairs | None:
    """Pairs to look at while training, never those of a test; None where the data have none."""
    return open_data(data_spec(config, config.network.picture_size), "validation", count)


class ReadAhead(Generic[Read]):
    """A function of the step. Other threads compute its next few values: the device does not wait for files."""

    DEPTH = 4  # steps
    THREADS = 2

    def __init__(self, read: Callable[[int], Read]) -> None:
        self.read = read
        self._pool = ThreadPoolExecutor(self.THREADS, "read-ahead")
        self._coming: dict[int, Future[Read]] = {}

    def __call__(self, step: int) -> Read:
        coming = range(step, step + self.DEPTH)
        for number in coming:
            if number not in self._coming:
                self._coming[number] = self._pool.submit(self.read, number)
        for past in [number for number in self._coming if number not in coming]:
            self._coming.pop(past).cancel()
        return self._coming.pop(step).result()


class TrainingStep(nn.Module):
    """From a batch to the mean terms of the bound: the part that is compiled and differentiated."""

    def __init__(self, network: VisualDynamics, pyramid: bool = False) -> None:
        super().__init__()
        self.network, self.pyramid = network, pyramid

    def forward(self, pair: Pair, view: Pair, noise: Tensor | None) -> objective.Bound:
        """`view` is what the motion encoder sees: the pair, or the same motion in other colours or places."""
        posterior = self.network.encode_motion(view.frame, view.difference)
        z = posterior.mean if noise is None else posterior.sample(noise)
        features, kernels = self.network.encode_image(pair.frame), self.network.kernel_decoder(z)
        predicted = self.network.decode(features, kernels, pair.frame)
        target = resize(pair.difference, self.network.config.size)
        terms = objective.bound(posterior, predicted, target)
        pyramid = objective.pyramid_error(predicted, target).mean() if self.pyramid else None
        return objective.Bound(terms.kl.mean(), terms.squared_error.mean(), pyramid)


class Trainer:
    def __init__(
        self, config: TrainingConfig, pairs: Pairs, device: torch.device, processes: Processes, compiled: bool
    ) -> None:
        if config.batch % processes.count:
            raise UserError(f"a batch of {config.batch} pairs does not divide among {processes.count} processes")
        self.config, self.device, self.processes = config, device, processes
        with torch.random.fork_rng(devices=[]):  # drawn on the CPU: the same parameters on every device
            torch.manual_seed(config.seed)
            self.network = VisualDynamics(config.network)
        self.network.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if processes.count > 1:
            share_batch_norm(self.network)
        if device.type == "cuda":
            fuse_first_blocks(self.network)
        self.optimizer = Muon(
            self.network, config.learning_rate, config.weight_decay, adam_only=["motion_decoder.last.weight"]
        )
        module: nn.Module = TrainingStep(self.network, pyramid=config.pyramid > 0)
        if processes.count > 1:
            module = DistributedDataParallel(module, device_ids=[device] if device.type == "cuda" else None)
        self.module = torch.compile(module) if compiled else module
        self.shows_others = OTHERS in config.augmentations
        if self.shows_others and pairs.cast is None:
            raise UserError(f"the augmentation {OTHERS} is for packed characters (visual-dynamics prepare lpc)")
        self.pairs = pairs.to(device) if fits(pairs, device) else pairs
        self.order = ShuffledOrder(len(pairs), config.batch, config.seed)
        self.ahead = ReadAhead(lambda step: pairs.read(self.mine(step))) if pairs.mapped else None
        self.seen = Captured(self._seen, device)
        self.first_bad_step = torch.full((), -1, dtype=torch.int64, device=device)

    @property
    def part(self) -> slice:
        """This process's part of every global batch."""
        share = self.config.batch // self.processes.count
        return slice(self.processes.rank * share, (self.processes.rank + 1) * share)

    def mine(self, step: int) -> Tensor:
        """Indices of the pairs of this process's part of one global batch, int64."""
        return self.order.indices(step)[self.part]

    def stored(self, step: int) -> tuple[Tensor, ...]:
        """The frames of these pairs as they are stored, uint8 (B, 3, H, W) twice; and those of the view, if others."""
        if self.ahead is not None:
            return self.ahead(step)
        own = self.pairs.read(self.mine(step))
        if not self.shows_others:
            return own
        return *own, *self.pairs.read_others(self.mine(step), draw_others(self.config, step, self.part))

    def pairs_at(self, indices: Tensor) -> Pair:
        """Pairs of the training data, on the device."""
        return self.loaded(self.pairs.read(indices))

    def loaded(self, stored: tuple[Tensor, ...]) -> Pair:
        """Stored frames, uint8 (B, 3, H, W) twice, as floats in [0, 1] on the device."""
        return Pair(*(without_waiting(frames, self.device).float() / 255 for frames in stored))

    def batch(self, step: int) -> tuple[Pair, Pair, Tensor | None]:
        """This process's part of one global batch, the same as the motion encoder sees it, and its noise.

        On CUDA the next call overwrites the pairs.
        """
        drawn = draw_all(self.config, step, self.part)
        pair, view = self.seen(*self.stored(step), *drawn.values())
        if self.config.autoencoder:
            return pair, view, None
        noise = step_noise(step, self.config.batch, self.config.network.latent, self.config.seed, self.device)
        return pair, view, noise[self.part]

    def _seen(self, *given: Tensor) -> tuple[Pair, Pair]:
        """Stored frames (see `stored`) as they are trained on, and what was drawn for the augmentations of this run."""
        count = 4 if self.shows_others else 2
        own, *other = (
            Pair(*(x.to(memory_format=torch.channels_last) for x in self.loaded(given[start : start + 2])))
            for start in range(0, count, 2)
        )
        names = [name for name in LIST if self.config.augmentations.get(name)]
        drawn = dict(zip(names, given[count:], strict=True))
        return apply_all(own, drawn, self.config.network.picture_size, *other)

    def step(self, step: int, progress: float) -> dict[str, Tensor]:
        """One update of the weights; returns the loss and its terms before it, still on the device."""
        pair, view, noise = self.batch(step)
        for group in self.optimizer.param_groups:
            group["lr"] = self.config.learning_rate_at(step, progress)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            terms = objective.Bound(*self.module(pair, view, noise))
        weights = self.config.kl_weight_at(step, progress), self.config.pyramid
        loss = objective.loss(terms, self.config.sigma, *weights)
        # Asking whether the loss is finite would stall the device: remember the step, look when the log is written.
        bad = ~torch.isfinite(loss.detach()) & (self.first_bad_step < 0)
        self.first_bad_step = torch.where(bad, step, self.first_bad_step)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        shown = {name: value.detach() for name, value in terms._asdict().items() if value is not None}
        return {"loss": loss.detach(), **shown}

    def stop_if_not_finite(self) -> None:
        """Raise on a loss, or on weights, that are no numbers any more: neither is ever saved."""
        if (step := int(self.first_bad_step)) >= 0:
            raise UserError(f"the loss is not finite at step {step}; training stops, the last checkpoint is kept")
        values = [value for value in self.network.state_dict().values() if value.is_floating_point()]
        if not all(bool(torch.isfinite(value).all()) for value in values):
            raise UserError("the weights are not finite any more; training stops, the last checkpoint is kept")

    @torch.no_grad()
    def posteriors(self, count: int) -> Posterior:
        """q(z | v, I) of training pairs picked at random, in evaluation mode, on the CPU; none that was mixed in."""
        self.network.eval()
        parts, own = [], self.pairs.own or len(self.pairs)
        for indices in spread(own, count, self.config.seed).split(128):
            pair = self.pairs_at(indices)
            if pair.frame.shape[-1] != self.config.network.size:
                pair = whole_frames(pair, self.config.network.size)
            parts.append(self.network.encode_motion(pair.frame, pair.difference))
        self.network.train()
        mean, log_variance = (torch.cat(values).cpu() for values in zip(*parts, strict=True))
        if self.config.autoencoder:  # its code is a point, not a distribution
            log_variance = torch.full_like(mean, -20.0)
        return Posterior(mean, log_variance)


def fuse_first_blocks(network: nn.Module) -> None:
    """Let the first block of each encoder run as one operation, if Triton is installed."""
    try:
        from visual_dynamics.training import fused_block
    except ImportError:
        return
    for block in network.modules():
        if isinstance(block, ConvBlock) and fused_block.fits(block):
            block.fused = fused_block.apply


def fits(pairs: Pairs, device: torch.device) -> bool:
    """Whether the data may live on the device, leaving at least half of its free memory to the network."""
    if device.type != "cuda":
        return True
    free, _ = torch.cuda.mem_get_info(device)
    return pairs.nbytes < free // 2


def state_bytes(network: nn.Module, optimizer: torch.optim.Optimizer, step: int, seconds: float) -> bytes:
    """All that decides the next step: weights and batch statistics in full precision, the optimizer's moments, the step
    and the time spent."""
    tensors = {f"network.{name}": value for name, value in network.state_dict().items()}
    for index, moments in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": value for name, value in moments.items()}
    light = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    return save(light, {"progress": json.dumps({"step": step, "seconds": seconds})})


def load_state(path: Path, network: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[int, float]:
    """Fill network and optimizer with what `state_bytes` saved; returns step and seconds."""
    try:
        with safe_open(path, "pt") as file:
            progress = parse_json((file.metadata() or {})["progress"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dictionary
        network.load_state_dict(_below("network.", tensors))
        saved = optimizer.state_dict()
        saved["state"] = {}
        for name, value in _below("optimizer.", tensors).items():
            index, moment = name.split(".", 1)
            saved["state"].setdefault(int(index), {})[moment] = value
        optimizer.load_state_dict(saved)
        return int(progress["step"]), float(progress["seconds"])
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise UserError(f"cannot resume from {path}: {str(error).splitlines()[0]}") from error


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


class HeldOut(NamedTuple):
    """What the network makes of pairs that it was not trained on."""

    reconstruction: float  # squared error from the mean of q(z | v, I), summed over pixels, mean over pairs
    copying: float  # the same for the frame itself
    picture: Tensor  # (R, 3 + R, 3, H, W): frame, next frame, reconstruction, then the motion of each row on it


@torch.no_grad()
def look_at(network: VisualDynamics, pairs: Pairs, device: torch.device, rows: int = 5) -> HeldOut:
    """Reconstruct validation pairs, and carry motions between the first few of them; in evaluation mode."""
    network.eval()
    errors, copies = [], []
    for indices in torch.arange(len(pairs)).split(64):
        pair = Pair(*(x.to(device) for x in pairs.batch(indices)))
        predicted = network(pair.frame, pair.difference, None).difference
        target = resize(pair.difference, network.config.size)
        errors.append(objective.squared_error(predicted, target))
        copies.append(objective.squared_error(torch.zeros_like(predicted), target))
    pair = Pair(*(x.to(device) for x in pairs.batch(torch.arange(min(rows, len(pairs))))))
    prediction = network(pair.frame, pair.difference, None)
    before, after = (resize(x, network.config.size) for x in pair)
    columns = [before, after, before + prediction.difference]
    for motion in prediction.posterior.mean:
        kernels = network.kernel_decoder(motion.expand(len(before), -1))
        columns.append(before + network.decode(prediction.features, kernels, pair.frame))
    network.train()
    return HeldOut(float(torch.cat(errors).mean()), float(torch.cat(copies).mean()), torch.stack(columns, dim=1))
