"""The training loop: the same in one process or in many (under torchrun)."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from visual_dynamics import objective
from visual_dynamics.data.pairs import Pair, Pairs, spread, without_waiting
from visual_dynamics.errors import UserError
from visual_dynamics.model.motion_encoder import Posterior
from visual_dynamics.model.network import VisualDynamics
from visual_dynamics.provenance import provenance
from visual_dynamics.training.ahead import ReadAhead
from visual_dynamics.training.config import TrainingConfig
from visual_dynamics.training.data import (
    ShuffledOrder,
    displaced,
    held_out_pairs,
    lit,
    recoloured,
    step_colours,
    step_lights,
    step_noise,
    step_offsets,
    step_turns,
    step_windows,
    training_pairs,
    turned,
    zoomed,
)
from visual_dynamics.training.distributed import Processes, share_batch_norm
from visual_dynamics.training.held_out import look_at
from visual_dynamics.training.muon import Muon
from visual_dynamics.training.run import RunFolder, read_config
from visual_dynamics.training.state import load_state, save_state
from visual_dynamics.weights import MAX_BYTES, Weights, find_weights, load_weights, save_weights

EARLY_POSTERIORS = 512  # in the weights of a checkpoint that is not the last: enough to look at samples
Report = Callable[[float, dict[str, float]], None]  # share of the budget spent, the last log record


class TrainingStep(nn.Module):
    """From a batch to the mean terms of the bound: the part that is compiled and differentiated."""

    def __init__(self, network: VisualDynamics) -> None:
        super().__init__()
        self.network = network

    def forward(self, pair: Pair, disguised: Pair, noise: Tensor | None) -> objective.Bound:
        """`disguised` is what the motion encoder sees: the pair, or the same motion in other colours or places."""
        posterior = self.network.encode_motion(disguised.frame, disguised.difference)
        z = posterior.mean if noise is None else posterior.sample(noise)
        predicted = self.network.decode(self.network.encode_image(pair.frame), self.network.kernel_decoder(z))
        terms = objective.bound(posterior, predicted, pair.difference)
        return objective.Bound(terms.kl.mean(), terms.squared_error.mean())


class Trainer:
    """What a run holds in memory; `step` is its whole mathematics."""

    def __init__(
        self,
        config: TrainingConfig,
        pairs: Pairs,
        device: torch.device,
        processes: Processes,
        compiled: bool,
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
        self.optimizer = Muon(
            self.network, config.learning_rate, config.weight_decay, adam_only=["motion_decoder.last.weight"]
        )
        module: nn.Module = TrainingStep(self.network)
        if processes.count > 1:
            module = DistributedDataParallel(module, device_ids=[device] if device.type == "cuda" else None)
        self.module = torch.compile(module) if compiled else module
        self.pairs = pairs.to(device) if fits(pairs, device) else pairs
        self.order = ShuffledOrder(len(pairs), config.batch, config.seed)
        self.ahead = ReadAhead(lambda step: pairs.read(self.mine(step))) if pairs.mapped else None
        self.first_bad_step = torch.full((), -1, dtype=torch.int64, device=device)

    def mine(self, step: int) -> Tensor:
        """Indices of this process's share of the global batch of one step, int64."""
        share = self.config.batch // self.processes.count
        return self.order.indices(step)[self.processes.rank * share : (self.processes.rank + 1) * share]

    def frames(self, step: int) -> Pair:
        """These pairs, on the device."""
        if self.ahead is not None:
            return self.pair_of(self.ahead(step))
        return Pair(*(x.to(self.device) for x in self.pairs.batch(self.mine(step))))

    def pair_of(self, stored: tuple[Tensor, ...]) -> Pair:
        """What was read from files, uint8 (B, 3, H, W) twice, as floats on the device: the same as from memory."""
        return Pair(*(without_waiting(frames, self.device).float() / 255 for frames in stored))

    def batch(self, step: int) -> tuple[Pair, Pair, Tensor | None]:
        """This process's share of the global batch of one step, the same as the motion encoder sees it, and its noise;
        on the device."""
        share = self.config.batch // self.processes.count
        mine = slice(self.processes.rank * share, (self.processes.rank + 1) * share)
        pair = Pair(*(x.to(memory_format=torch.channels_last) for x in self.frames(step)))
        if self.config.zoom > 1:
            windows = step_windows(step, self.config.batch, self.config.zoom, self.config.seed)
            pair = zoomed(pair, windows[mine], self.config.network.size)
        mirror, reverse = self.config.mirror, self.config.reverse
        if mirror or reverse:
            turns = step_turns(step, self.config.batch, mirror, reverse, self.config.seed)
            pair = turned(pair, *(chosen[mine] for chosen in turns))
        shift, jitter = self.config.shift, self.config.jitter
        moved = step_offsets(step, self.config.batch, shift, jitter, self.config.seed) if shift or jitter else None
        if moved and shift:
            pair = displaced(pair, moved[0][:, mine])
        if self.config.light:
            pair = lit(pair, step_lights(step, self.config.batch, self.config.seed)[mine])
        disguised = pair
        if self.config.recolour:
            orders = step_colours(step, self.config.batch, self.config.seed)[:, mine]
            pair, disguised = (recoloured(pair, order) for order in orders)
        if moved and jitter:
            disguised = displaced(disguised, moved[1][:, mine])
        if self.config.autoencoder:
            return pair, disguised, None
        noise = step_noise(step, self.config.batch, self.config.network.latent, self.config.seed, self.device)
        return pair, disguised, noise[mine]

    def step(self, step: int, progress: float) -> dict[str, Tensor]:
        """One update of the weights; returns the loss and its terms before it, still on the device."""
        pair, disguised, noise = self.batch(step)
        for group in self.optimizer.param_groups:
            group["lr"] = self.config.learning_rate_at(step, progress)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            terms = objective.Bound(*self.module(pair, disguised, noise))
        loss = objective.loss(terms, self.config.sigma, self.config.kl_weight_at(step, progress))
        # Asking whether the loss is finite would stall the device: remember the step, look when the log is written.
        bad = ~torch.isfinite(loss.detach()) & (self.first_bad_step < 0)
        self.first_bad_step = torch.where(bad, step, self.first_bad_step)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return {"loss": loss.detach(), "kl": terms.kl.detach(), "squared_error": terms.squared_error.detach()}

    def stop_if_not_finite(self) -> None:
        if (step := int(self.first_bad_step)) >= 0:
            raise UserError(f"the loss is not finite at step {step}; training stops, the last checkpoint is kept")

    @torch.no_grad()
    def posteriors(self, count: int) -> Posterior:
        """q(z | v, I) of training pairs picked at random, in evaluation mode, on the CPU; none that was mixed in."""
        self.network.eval()
        parts, own = [], self.pairs.own or len(self.pairs)
        for indices in spread(own, count, self.config.seed).split(128):
            if self.pairs.mapped:
                pair = self.pair_of(self.pairs.read(indices))
            else:
                pair = Pair(*(x.to(self.device) for x in self.pairs.batch(indices)))
            if self.config.zoom > 1:  # whole
                pair = zoomed(pair, torch.tensor([[1.0, 0.0, 0.0]]).expand(len(indices), 3), self.config.network.size)
            parts.append(self.network.encode_motion(pair.frame, pair.difference))
        self.network.train()
        mean, log_variance = (torch.cat(values).cpu() for values in zip(*parts, strict=True))
        if self.config.autoencoder:  # its code is a point, not a distribution
            log_variance = torch.full_like(mean, -20.0)
        return Posterior(mean, log_variance)


def fits(pairs: Pairs, device: torch.device) -> bool:
    """Whether the data may live on the device, leaving at least half of its free memory to the network."""
    if device.type != "cuda":
        return True
    free, _ = torch.cuda.mem_get_info(device)
    return pairs.nbytes < free // 2


def starting_weights(config: TrainingConfig) -> Weights:
    """The model that a run starts from; it must be of the run's own preset."""
    weights = load_weights(find_weights(config.start or ""))
    if not weights.encodes_motion:
        raise UserError(f"{config.start} comes without its motion encoder; nothing can be trained from it")
    if weights.network.config != config.network:
        raise UserError(f"{config.start} is not a network of preset {config.preset}; train from it with its own preset")
    return weights


def train(
    config: TrainingConfig | None,
    folder: Path,
    device: torch.device,
    processes: Processes | None = None,
    compiled: bool = False,
    report: Report | None = None,
    asked_to_stop: Callable[[], bool] = lambda: False,
) -> Path:
    """Spend the budget of `config` in a new folder; with None, resume the run in it. Returns the weights file.

    `asked_to_stop` is heard between two steps: the run saves a checkpoint, from which it can be resumed, and returns.
    """
    processes = processes or Processes()
    resume = config is None
    config = config or read_config(folder)
    pairs = training_pairs(config, device)
    held_out = held_out_pairs(config) if processes.is_first else None
    begun = resume and (folder / "state.safetensors").exists()
    start = None if begun or not config.start else starting_weights(config)
    if start:
        config = replace(config, start_digest=start.digest)
    with ExitStack() as stack:  # bad data has been told before a folder is made
        run = stack.enter_context(RunFolder(folder, resume)) if processes.is_first else None
        processes.wait()
        trainer = Trainer(config, pairs, device, processes, compiled)
        step, seconds = 0, 0.0
        if start:
            trainer.network.load_state_dict(start.network.state_dict())
        if begun:
            step, seconds = load_state(folder / "state.safetensors", trainer.network, trainer.optimizer)
        if run:
            run.save_config(config)
            run.forget_after(step)
        started, logged = None, (step, seconds)
        progress = config.progress(step, seconds)
        stopped = False
        while progress < 1 and not stopped:
            terms = trainer.step(step, progress)
            if started is None:  # the first step compiles, and its time is not counted
                started, logged = time.monotonic() - seconds, (step + 1, seconds)
            step, seconds, spent = step + 1, time.monotonic() - started, progress
            progress = config.progress(step, processes.agree_on(seconds) if config.minutes else 0)
            if step % config.log_every == 0 or progress >= 1:
                trainer.stop_if_not_finite()
                record = {"step": step} | {name: processes.mean(value) for name, value in terms.items()}
                record["learning_rate"] = config.learning_rate_at(step - 1, spent)
                record["pairs_per_second"] = (step - logged[0]) * config.batch / max(1e-9, seconds - logged[1])
                record["seconds"] = seconds
                logged = (step, seconds)
                if run:
                    run.log(record)
                if report:
                    report(progress, record)
            stopped = asked_to_stop()
            if run and (step % config.checkpoint_every == 0 or progress >= 1 or stopped):
                save_checkpoint(run, trainer, held_out, step, seconds, final=progress >= 1)
        processes.wait()
    return folder / "weights.safetensors"


def save_checkpoint(
    run: RunFolder, trainer: Trainer, held_out: Pairs | None, step: int, seconds: float, final: bool
) -> None:
    """The resumable state, the light weights (with few posteriors before the end), and a look at held-out pairs."""
    history = {"config": trainer.config.to_dict(), "step": step, "seconds": round(seconds, 1)}
    save_state(run.state_file, trainer.network, trainer.optimizer, step, seconds)
    # An autoencoder's codes fill all of z. It is a baseline to measure, not a model to ship: let it be larger.
    space = 8 * MAX_BYTES if trainer.config.autoencoder else MAX_BYTES
    posteriors = trainer.posteriors(trainer.config.posteriors if final else EARLY_POSTERIORS)
    save_weights(run.weights_file, trainer.network, posteriors, history | provenance(trainer.device), space)
    if held_out:
        seen = look_at(trainer.network, held_out, trainer.device)
        run.log({"step": step, "held_out_error": seen.reconstruction, "held_out_copy_error": seen.copying})
        run.save_picture(f"step_{step:07d}.png", seen.picture)
