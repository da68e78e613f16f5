"""A run from its start, or from a checkpoint, to the end of its budget; in one process or in many (under torchrun)."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from visual_dynamics.data.pairs import Pairs
from visual_dynamics.errors import UserError
from visual_dynamics.provenance import provenance
from visual_dynamics.training.config import TrainingConfig, read_config
from visual_dynamics.training.data import held_out_pairs, training_pairs
from visual_dynamics.training.distributed import Processes
from visual_dynamics.training.run import STATE, WEIGHTS, RunFolder, load_state, state_bytes
from visual_dynamics.training.trainer import Trainer, look_at
from visual_dynamics.weights import MAX_BYTES, Weights, find_weights, load_weights, weights_bytes

EARLY_POSTERIORS = 512  # in the weights of a checkpoint that is not the last: enough to look at samples
FIRST_CHECKPOINT = 60.0  # seconds after the first step: there is something to look at, and to resume, early
MEASURED_STEPS, MEASURED_SECONDS = 5, 10.0  # the speed is measured on this many steps, or fewer if they take longer


class Moment(NamedTuple):
    """What a run says of itself after a step."""

    share: float  # of the budget that is spent, 0 to 1
    step: int
    record: dict[str, float] | None = None  # a line that was logged
    pairs_per_second: float | None = None  # measured on the first steps, said once


def starting_weights(config: TrainingConfig) -> Weights:
    """The model that a run starts from: a network like the run's own."""
    weights = load_weights(find_weights(config.start or ""))
    if not weights.encodes_motion:
        raise UserError(f"{config.start} comes without its motion encoder; nothing can be trained from it")
    if weights.network.config != config.network:
        raise UserError(
            f"{config.start} is another network (frames of {weights.network.config.size} pixels, "
            f"z of {weights.network.config.latent:,}): train from it with its own --preset and --latent"
        )
    return weights


def train(
    config: TrainingConfig | None,
    folder: Path,
    device: torch.device,
    processes: Processes | None = None,
    compiled: bool = False,
    progress: Callable[[Moment], None] = lambda moment: None,
    asked_to_stop: Callable[[], bool] = lambda: False,
) -> Path:
    """Spend the budget of `config` in a new folder; with None, resume the run in it. Returns the weights file.

    `asked_to_stop` is called between two steps: if true, the run saves a checkpoint to resume from, and returns.
    """
    processes = processes or Processes()
    resume = config is None
    config = config or read_config(folder)
    pairs = training_pairs(config, device)
    held_out = held_out_pairs(config) if processes.is_first else None
    begun = resume and (folder / STATE).exists()
    start = None if begun or not config.start else starting_weights(config)
    if start:
        config = replace(config, start_digest=start.digest)
    with ExitStack() as stack:  # an error in the data comes before a folder is made
        run = stack.enter_context(RunFolder(folder, resume)) if processes.is_first else None
        processes.wait()
        trainer = Trainer(config, pairs, device, processes, compiled)
        if start:
            trainer.network.load_state_dict(start.network.state_dict())
        step, seconds = load_state(folder / STATE, trainer.network, trainer.optimizer) if begun else (0, 0.0)
        if run:
            run.save_config(config)
            run.forget_after(step)
        Loop(trainer, run, held_out, step, seconds, progress).spend(asked_to_stop)
        processes.wait()
    return folder / WEIGHTS


class Loop:
    """Steps until the budget is spent; on the way the log, checkpoints, and word to `progress`."""

    def __init__(
        self,
        trainer: Trainer,
        run: RunFolder | None,  # of the first process
        held_out: Pairs | None,
        step: int,
        seconds: float,
        progress: Callable[[Moment], None],
    ) -> None:
        self.trainer, self.config, self.run, self.held_out, self.progress = (
            trainer,
            trainer.config,
            run,
            held_out,
            progress,
        )
        self.step, self.seconds = step, seconds
        self.started: float | None = None  # the first step compiles, and its time is not counted
        self.first = self.logged = (step, seconds)
        self.measured = False
        self.saved = step > 0

    def spend(self, asked_to_stop: Callable[[], bool]) -> None:
        config, stopped = self.config, False
        share = config.progress(self.step, self.seconds)
        while not (over := config.is_over(self.step, share)) and not stopped:
            terms = self.trainer.step(self.step, share)
            self._tick()
            rate = config.learning_rate_at(self.step - 1, share)
            seconds = self.trainer.processes.agree_on(self.seconds) if config.minutes else 0
            share = config.progress(self.step, seconds)
            over = config.is_over(self.step, share)
            record = self._log(terms, rate) if self.step % config.log_every == 0 or over else None
            self.progress(Moment(share, self.step, record, self._speed(terms["loss"])))
            stopped = asked_to_stop()
            if self.run and (over or stopped or self._checkpoint_is_due()):
                self._save(share, final=over)
        if self.run and over and self.run.weights_step() != self.step:  # killed before they were written
            self._save(share, final=True)

    def _tick(self) -> None:
        self.step += 1
        if self.started is None:
            self.started = time.monotonic() - self.seconds
            self.first = self.logged = (self.step, self.seconds)
        self.seconds = time.monotonic() - self.started

    def _speed(self, value: Tensor) -> float | None:
        """Pairs a second, once, after the first steps."""
        steps = self.step - self.first[0]
        if self.measured or not steps or (steps < MEASURED_STEPS and self.seconds - self.first[1] < MEASURED_SECONDS):
            return None
        self.measured = True
        float(value)  # waits for the device
        assert self.started is not None
        return steps * self.config.batch / max(1e-9, time.monotonic() - self.started - self.first[1])

    def _log(self, terms: dict[str, Tensor], learning_rate: float) -> dict[str, float]:
        self.trainer.stop_if_not_finite()
        means = {name: self.trainer.processes.mean(value) for name, value in terms.items()}
        steps, seconds = self.step - self.logged[0], self.seconds - self.logged[1]
        record = {"step": self.step, **means, "learning_rate": learning_rate}
        record |= {"pairs_per_second": steps * self.config.batch / max(1e-9, seconds), "seconds": self.seconds}
        self.logged = (self.step, self.seconds)
        if self.run:
            self.run.log(record)
        return record

    def _checkpoint_is_due(self) -> bool:
        return self.step % self.config.checkpoint_every == 0 or (not self.saved and self.seconds >= FIRST_CHECKPOINT)

    def _save(self, share: float, final: bool) -> None:
        """The light weights (with few posteriors before the end), the state to resume from, held-out pictures."""
        assert self.run is not None
        trainer, config = self.trainer, self.config
        trainer.stop_if_not_finite()
        history = {"config": config.to_dict(), "step": self.step, "seconds": round(self.seconds, 1)}
        # An autoencoder's codes fill all of z. It is a baseline to measure, not a model to ship: let it be larger.
        space = 8 * MAX_BYTES if config.autoencoder else MAX_BYTES
        posteriors = trainer.posteriors(config.posteriors if final else EARLY_POSTERIORS)
        weights = weights_bytes(trainer.network, posteriors, history | provenance(trainer.device), space)
        self.run.save_checkpoint(weights, state_bytes(trainer.network, trainer.optimizer, self.step, self.seconds))
        self.saved = True
        if self.held_out:
            seen = look_at(trainer.network, self.held_out, trainer.device)
            record = {"step": self.step, "held_out_error": seen.reconstruction, "held_out_copy_error": seen.copying}
            self.run.log(record)
            self.run.save_picture(f"step_{self.step:07d}.png", seen.picture)
            self.progress(Moment(share, self.step, record))
