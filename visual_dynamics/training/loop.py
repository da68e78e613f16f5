"""A run from its start, or from a checkpoint, to the end of its budget; in one process or in many (under torchrun).

And the folder of a run: configuration, log, pictures, weights, state to resume from. One process writes into it.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from filelock import FileLock, Timeout
from PIL import Image
from safetensors import SafetensorError, safe_open
from torch import Tensor

from visual_dynamics.data.pairs import Pairs
from visual_dynamics.errors import UserError
from visual_dynamics.files import (
    check_folder,
    missing_folders,
    parse_json,
    remove_empty,
    remove_parts,
    write_atomically,
    write_together,
)
from visual_dynamics.model_files import find_weights
from visual_dynamics.provenance import provenance
from visual_dynamics.training.config import TrainingConfig, read_config
from visual_dynamics.training.distributed import Processes
from visual_dynamics.training.familiar import PICTURES, familiarity_of
from visual_dynamics.training.trainer import (
    Trainer,
    load_state,
    look_at,
    state_bytes,
    training_pairs,
    validation_pairs,
)
from visual_dynamics.weights import MAX_BYTES, Weights, load_weights, weights_bytes

WEIGHTS, STATE, PICTURES_FOLDER = "weights.safetensors", "state.safetensors", "pictures"
STAGE = "stage"  # how the names of what belongs to trainings before this one begin
EARLY_POSTERIORS = 512  # in the weights of a checkpoint that is not the last: enough to look at samples
EARLY_PICTURES = 256  # that such weights know training pictures by
FIRST_CHECKPOINT = 60.0  # seconds after the first step: there is something to look at, and to resume, early
MEASURED_STEPS, MEASURED_SECONDS = 5, 10.0  # the speed is measured on this many steps, or fewer if they take longer


class Moment(NamedTuple):
    """What a run reports after a step."""

    share: float  # of the budget that is spent, 0 to 1
    step: int
    record: dict[str, float] | None = None  # a line that was logged
    pairs_per_second: float | None = None  # measured on the first steps, said once


def stage_folder(folder: Path, number: int, count: int) -> Path:
    """Where training `number` of `count`, from 1, is run: the last one in the folder itself."""
    return folder if number == count else folder / f"{STAGE}{number}"


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
    validation = validation_pairs(config) if processes.is_first else None
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
        Loop(trainer, run, validation, step, seconds, progress).spend(asked_to_stop)
        processes.wait()
    return folder / WEIGHTS


class Loop:
    """Steps until the budget is spent; on the way the log, checkpoints, and calls of `progress`."""

    def __init__(
        self,
        trainer: Trainer,
        run: RunFolder | None,  # of the first process
        validation: Pairs | None,
        step: int,
        seconds: float,
        progress: Callable[[Moment], None],
    ) -> None:
        self.trainer, self.config = trainer, trainer.config
        self.run, self.validation, self.progress = run, validation, progress
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
                self._look(share)
                self._save(final=over)
        if self.run and over and self.run.weights_step() != self.step:  # killed before they were written
            self._save(final=True)

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

    def _look(self, share: float) -> None:
        """A held-out line and picture; before the checkpoint: a run that is killed in between makes them again."""
        assert self.run is not None
        self.trainer.stop_if_not_finite()
        if self.validation:
            seen = look_at(self.trainer.network, self.validation, self.trainer.device)
            record = {"step": self.step, "held_out_error": seen.reconstruction, "held_out_copy_error": seen.copying}
            self.run.log(record)
            self.run.save_picture(f"step_{self.step:07d}.png", seen.picture)
            self.progress(Moment(share, self.step, record))

    def _save(self, final: bool) -> None:
        """The light weights (with few posteriors before the end), and the state to resume from."""
        assert self.run is not None
        trainer, config = self.trainer, self.config
        trainer.stop_if_not_finite()
        history = {"config": config.to_dict(), "step": self.step, "seconds": round(self.seconds, 1)}
        # An autoencoder's codes fill all of z. It is a baseline to measure, not a model to ship: let it be larger.
        space = 8 * MAX_BYTES if config.autoencoder else MAX_BYTES
        posteriors = trainer.posteriors(config.posteriors if final else EARLY_POSTERIORS)
        known = familiarity_of(trainer.network, config, trainer.pairs, PICTURES if final else EARLY_PICTURES)
        weights = weights_bytes(trainer.network, posteriors, history | provenance(trainer.device), space, known)
        self.run.save_checkpoint(weights, state_bytes(trainer.network, trainer.optimizer, self.step, self.seconds))
        self.saved = True


class RunFolder:
    """Owns a folder for the time of a run. A folder that holds anything is taken only to resume the run in it."""

    def __init__(self, path: Path, resume: bool) -> None:
        self.path = path
        occupied = path.is_dir() and any(not inside.name.startswith(STAGE) for inside in path.iterdir())
        if path.exists() and not path.is_dir():
            raise UserError(f"{path} is a file; a run needs a folder")
        check_folder(path)
        if resume and not self.config_file.is_file():
            raise UserError(f"there is no run to resume in {path}")
        if occupied and not resume:
            raise UserError(f"{path} is not empty: resume the run in it (--resume) or choose another folder")
        self._new, self._made = not resume, missing_folders(path)
        self._lock = FileLock(path / "run.lock")
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=0)
            remove_parts(path, path / PICTURES_FOLDER)
        except Timeout:
            raise UserError(f"{path} is in use by another process that trains in it") from None
        except OSError as error:
            remove_empty([folder for folder in self._made if folder.is_dir()])
            raise UserError(f"cannot use {path} as a run folder: {error.strerror or error}") from error
        self._tensorboard: Any = None  # opened with the first record

    @property
    def config_file(self) -> Path:
        return self.path / "config.json"

    @property
    def log_file(self) -> Path:
        return self.path / "log.jsonl"

    def save_config(self, config: TrainingConfig) -> None:
        write_atomically(self.config_file, json.dumps(config.to_dict(), indent=2).encode() + b"\n")

    def save_checkpoint(self, weights: bytes, state: bytes) -> None:
        """Both or neither. If the run is killed between the two, it makes the weights again when it is resumed."""
        write_together(self.path, {WEIGHTS: weights, STATE: state})

    def weights_step(self) -> int | None:
        """The step that the weights were saved at."""
        try:
            with safe_open(self.path / WEIGHTS, "pt") as file:
                return int(parse_json((file.metadata() or {})["training"])["step"])
        except (SafetensorError, OSError, KeyError, TypeError, ValueError):
            return None  # there are none, or not whole

    def log(self, record: dict[str, Any]) -> None:
        """Add one JSON line, and the same numbers to TensorBoard where it is installed."""
        try:
            with self.log_file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
            self._tensorboard = self._tensorboard or _open_tensorboard(self.path / "tensorboard")
            if self._tensorboard is not None:
                for name, value in record.items():
                    self._tensorboard.add_scalar(name, value, record["step"])
        except OSError as error:
            raise UserError(f"cannot write {self.log_file}: {error.strerror or error}") from error

    def forget_after(self, step: int) -> None:
        """Drop log lines past the state that is resumed from: those steps are run again."""
        if self.log_file.exists():
            kept = [line for line in self.log_file.read_text("utf-8").splitlines() if _step_of(line) <= step]
            write_atomically(self.log_file, "".join(line + "\n" for line in kept).encode())

    def save_picture(self, name: str, rows: Tensor) -> None:
        """rows: floats (R, C, 3, H, W) in [0, 1], written as a grid of R x C pictures, enlarged twice."""
        grid = rows.clamp(0, 1).permute(0, 3, 1, 4, 2).flatten(0, 1).flatten(1, 2)  # (R * H, C * W, 3)
        picture = Image.fromarray((grid * 255).round().to(torch.uint8).cpu().numpy())
        stream = io.BytesIO()
        picture.resize((2 * picture.width, 2 * picture.height), Image.Resampling.NEAREST).save(stream, "PNG")
        write_atomically(self.path / PICTURES_FOLDER / name, stream.getvalue())

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._tensorboard is not None:
            with suppress(OSError):  # the log holds the same numbers
                self._tensorboard.close()
        never_began = kind is not None and self._new and not self.log_file.exists()
        if never_began:  # leave no trace of it
            for file in (self.config_file, self.path / "run.lock"):
                file.unlink(missing_ok=True)
        self._lock.release()
        if never_began:
            remove_empty(self._made)


def _open_tensorboard(path: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(path))


def _step_of(line: str) -> float:
    try:
        return float(parse_json(line)["step"])
    except (ValueError, KeyError, TypeError):
        return float("inf")  # a line cut short by a crash
