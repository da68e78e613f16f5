"""The folder of a run: configuration, log, pictures, weights, state to resume from. One process writes into it."""

from __future__ import annotations

import io
import json
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from filelock import FileLock, Timeout
from PIL import Image
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from visual_dynamics.errors import UserError
from visual_dynamics.files import check_folder, missing_folders, remove_empty, write_atomically, write_together
from visual_dynamics.training.config import TrainingConfig

WEIGHTS, STATE = "weights.safetensors", "state.safetensors"
STAGE = "stage"  # how the names of what belongs to trainings before this one begin


def stage_folder(folder: Path, number: int, count: int) -> Path:
    """Where training `number` of `count`, from 1, is run: the last one in the folder itself."""
    return folder if number == count else folder / f"{STAGE}{number}"


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
        """Both or neither. Killed between the two, the state is the older one, and the next run makes the weights
        again."""
        write_together(self.path, {WEIGHTS: weights, STATE: state})

    def weights_step(self) -> int | None:
        """The step that the weights were saved at."""
        try:
            with safe_open(self.path / WEIGHTS, "pt") as file:
                return int(json.loads((file.metadata() or {})["training"])["step"])
        except (SafetensorError, OSError, KeyError, TypeError, ValueError):
            return None  # there are none, or not whole

    def log(self, record: dict[str, Any]) -> None:
        """Add one JSON line, and the same numbers to TensorBoard where it is installed."""
        try:
            with self.log_file.open("a") as file:
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
            kept = [line for line in self.log_file.read_text().splitlines() if _step_of(line) <= step]
            write_atomically(self.log_file, "".join(line + "\n" for line in kept).encode())

    def save_picture(self, name: str, rows: Tensor) -> None:
        """rows: floats (R, C, 3, H, W) in [0, 1], written as a grid of R x C pictures, enlarged twice."""
        grid = rows.clamp(0, 1).permute(0, 3, 1, 4, 2).flatten(0, 1).flatten(1, 2)  # (R * H, C * W, 3)
        picture = Image.fromarray((grid * 255).round().to(torch.uint8).cpu().numpy())
        stream = io.BytesIO()
        picture.resize((2 * picture.width, 2 * picture.height), Image.Resampling.NEAREST).save(stream, "PNG")
        write_atomically(self.path / "pictures" / name, stream.getvalue())

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._tensorboard is not None:
            with suppress(OSError):  # the log holds the same numbers
                self._tensorboard.close()
        never_began = error is not None and self._new and not self.log_file.exists()
        if never_began:  # leave no trace of it
            for file in (self.config_file, self.path / "run.lock"):
                file.unlink(missing_ok=True)
        self._lock.release()
        if never_began:
            remove_empty(self._made)


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
            progress = json.loads((file.metadata() or {})["progress"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dictionary
        network.load_state_dict(_below("network.", tensors))
        saved = optimizer.state_dict()
        saved["state"] = {}
        for name, value in _below("optimizer.", tensors).items():
            index, moment = name.split(".", 1)
            saved["state"].setdefault(int(index), {})[moment] = value
        optimizer.load_state_dict(saved)
        return int(progress["step"]), float(progress["seconds"])
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise UserError(f"cannot resume from {path}: {str(error).splitlines()[0]}") from error


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _open_tensorboard(path: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(path))


def _step_of(line: str) -> float:
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return float("inf")  # a line cut short by a crash
