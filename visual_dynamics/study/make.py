"""Make a study: inputs that the model was not trained on, futures by each method, a balanced plan.

Letters in shape comments: S the model's size in pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from visual_dynamics.api import Model, load
from visual_dynamics.baselines import Copy, FlowTransfer, FutureSampler
from visual_dynamics.data.names import GENERATED
from visual_dynamics.data.pairs import Pairs, spread
from visual_dynamics.data.sources import DataSpec, open_data
from visual_dynamics.errors import UserError
from visual_dynamics.images import Pixels
from visual_dynamics.model_files import find_weights, read_header, shipped_models
from visual_dynamics.sampling.latents import sample_seeds
from visual_dynamics.sampling.moves import ModelSampler
from visual_dynamics.sampling.palette import snap_to_palette
from visual_dynamics.study.design import CONTROL, REAL, TORN, Design, StudyClip, plan_sessions
from visual_dynamics.study.folder import ON_ONES_OWN, Recruiting, Study, name_clips
from visual_dynamics.study.writing import (
    Progress,
    check_sizes,
    check_target,
    draw_clips,
    planned_clips,
    strip,
    torn,
    write_study,
)

OURS, FLOW, COPY = "ours", "flow", "copy"
POOL = 2_048  # the inputs are drawn from this many pairs: neighbours in a data set are often alike


def make_study(
    design: Design,
    model_name: str,
    data: str,
    path: Path,
    overwrite: bool = False,
    device: str = "cpu",
    progress: Progress | None = None,
    recruiting: Recruiting = ON_ONES_OWN,
) -> Study:
    """Write the study into a folder, all of it or nothing. `data` is what `train --data` takes."""
    stale = check_target(path, overwrite)
    _check_design(design)
    sessions = plan_sessions(design)
    clips = planned_clips(sessions)
    model = load(model_name, device)
    if max(design.sizes) > model.size:
        raise UserError(f"{model_name} makes frames of {model.size} pixels: clips of {max(design.sizes)} are too large")
    pairs, known_to_flow, held_out = study_pairs(data, model, design)
    snapped = model.predictor.network.config.background == 0  # sprites
    maker = ClipMaker(pairs, _samplers(design, model, device, known_to_flow), snapped, design.seed)
    pictures = draw_clips(clips, maker.clips_of, progress)
    source = {
        "model": Path(model_name).name,
        "weights": model.weights.digest,
        "data": data if data in GENERATED else Path(data).name,
        "held_out": held_out,
        "snapped": snapped,
        "design": design.to_json(),
    }
    study = name_clips(design, sessions, source, recruiting=recruiting)
    write_study(path, study, pictures, stale)
    return study


def default_sizes(kind: str, model: str) -> tuple[int, ...]:
    """Half of the model's size and all of it, 32 and 64 pixels in the paper; only the latter in a realistic study."""
    size = read_header(find_weights(model)).config.size
    return (size,) if kind == "realistic" else (size // 2, size)


def study_pairs(data: str, model: Model, design: Design) -> tuple[Pairs, Callable[[], Pairs], bool]:
    """The inputs with their true next frames; a function for the pairs that Flow may use; "the inputs are held out".

    If the data have no test set, the model may know any pair. Then the inputs are drawn from all, and Flow uses the
    others.
    """
    spec = _data_spec(data, model, design.seed)
    pool = open_data(spec, "test", design.all_inputs if data in GENERATED else POOL)
    held_out = pool is not None
    everything = (open_data(spec, "train", POOL) if pool is None else pool).in_memory()
    moving = (everything.frames != everything.next_frames).flatten(1).any(1).nonzero()[:, 0]
    if len(moving) < design.all_inputs:
        raise UserError(
            f"the study needs {design.inputs} inputs and {design.obvious} for obvious trials, "
            f"but {data} has {len(moving)} pairs that move"
        )
    order = moving[spread(len(moving), len(moving), design.seed)]
    chosen, others = order[: design.all_inputs], order[design.all_inputs :]

    def known_to_flow() -> Pairs:
        if not held_out:
            return everything.subset(others)
        return open_data(spec, "train").in_memory()

    return everything.subset(chosen), known_to_flow, held_out


def _data_spec(data: str, model: Model, seed: int) -> DataSpec:
    """The data as for training at the model's size, drawn with the options of the model's own training."""
    network, known = model.predictor.network.config, model.weights.training.get("config", {})
    known = known if isinstance(known, dict) else {}
    own = {
        name: str(known[key])
        for name, key in (("rendering", "rendering"), ("sheets", "sheets"), ("characters", "split"))
        if known.get(key) is not None
    }
    return DataSpec(data, network.size, seed, background=network.background, **own)


def _samplers(design: Design, model: Model, device: str, known: Callable[[], Pairs]) -> dict[str, FutureSampler]:
    """The methods by name: ours, the baselines, and other shipped models."""
    found: dict[str, FutureSampler] = {}
    for name in design.methods:
        if name == FLOW:
            found[name] = FlowTransfer(known())
        elif name == COPY:
            found[name] = Copy()
        elif name != REAL:
            other = model if name == OURS else load(name, device)
            if other.size != model.size:
                raise UserError(f"{name} makes frames of {other.size} pixels, not {model.size} as the study's model")
            found[name] = ModelSampler(other.predictor, other.source())
    return found


@dataclass(frozen=True)
class ClipMaker:
    """Draws the clips of a study; the same seed gives the same pictures."""

    pairs: Pairs  # inputs with their true next frames, (N, 3, S, S)
    methods: Mapping[str, FutureSampler]
    snapped: bool  # synthetic frames take the colours of their input, as pixel art is drawn
    seed: int

    def clips_of(self, number: int, clips: Sequence[StudyClip]) -> dict[StudyClip, bytes]:
        """PNG files of the clips of one input."""
        futures = {method: self._next_frames(number, method, clips) for method in {clip.method for clip in clips}}
        frame = _pixels(self.pairs[number][0])
        return {clip: strip([frame, futures[clip.method][clip.sample]], clip.size) for clip in clips}

    def _next_frames(self, number: int, method: str, clips: Sequence[StudyClip]) -> dict[int, Pixels]:
        """Sample -> uint8 (S, S, 3)."""
        frame, real = self.pairs[number]
        if method in (REAL, CONTROL):
            return {0: _pixels(real)}
        if method == TORN:
            return {0: torn(_pixels(real), self.seed + number)}
        samples = sorted({clip.sample for clip in clips if clip.method == method})
        seeds = [sample_seeds(self.seed, 1, number * 1_000 + sample)[0] for sample in samples]
        made = self.methods[method].sample(frame.float() / 255, seeds).cpu()
        pixels = _pixels((made.clamp(0, 1) * 255).round().to(torch.uint8))  # (n, S, S, 3)
        if self.snapped:
            palette = np.unique(frame.flatten(1).T.numpy(), axis=0)  # (P, 3)
            pixels = snap_to_palette(pixels, palette)
        return dict(zip(samples, pixels, strict=True))


def _pixels(frames: Tensor) -> Pixels:
    """(..., 3, S, S) -> (..., S, S, 3)"""
    return np.ascontiguousarray(frames.movedim(-3, -1).numpy())


def _check_design(design: Design) -> None:
    check_sizes(design)
    known = (OURS, FLOW, COPY, *shipped_models())
    for name in design.methods:
        if name not in known and not (name == REAL and design.kind == "realistic"):
            raise UserError(f"no method {name!r}: there are {', '.join(known)}")
