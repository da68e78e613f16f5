"""Make a study: inputs that the model was not trained on, futures by each method, a balanced plan.

Letters in shape comments: S the model's size, s the size of a clip, in pixels.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import attrgetter
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from visual_dynamics.api import Model, load
from visual_dynamics.baselines import Copy, FlowTransfer, FutureSampler
from visual_dynamics.data.names import GENERATED
from visual_dynamics.data.pairs import Pairs, resize_frames, spread
from visual_dynamics.data.sources import DataSpec, open_data
from visual_dynamics.errors import UserError
from visual_dynamics.files import check_folder, write_together
from visual_dynamics.media import encode_png
from visual_dynamics.model_files import find_weights, read_header, shipped_models
from visual_dynamics.sampling.latents import sample_seeds
from visual_dynamics.sampling.moves import ModelSampler
from visual_dynamics.sampling.palette import snap_to_palette
from visual_dynamics.study import answers, folder
from visual_dynamics.study.design import CONTROL, REAL, TORN, Design, StudyClip, clips_of, plan_sessions

OURS, FLOW, COPY = "ours", "flow", "copy"
POOL = 2_048  # the inputs are drawn from this many pairs: neighbours in a data set are often alike
MAX_CLIPS = 12_000  # the paper's study has 100 samples of each of 100 images
MAX_BYTES = 500 * 10**6  # of all pictures
MIN_SIZE, MAX_SIZE = 8, 256  # pixels
TILES = 4  # per side of a torn picture

Progress = Callable[[int, int], None]


def make_study(
    design: Design,
    model_name: str,
    data: str,
    path: Path,
    overwrite: bool = False,
    device: str = "cpu",
    progress: Progress | None = None,
) -> folder.Study:
    """Write the study into a folder, all of it or nothing. `data` is what `train --data` takes."""
    stale = _check_folder(path, overwrite)
    _check_design(design)
    sessions = plan_sessions(design)
    clips = clips_of(sessions)
    if len(clips) > MAX_CLIPS:
        raise UserError(f"the study has {len(clips):,} clips, at most {MAX_CLIPS:,}: choose fewer inputs or samples")
    model = load(model_name, device)
    if max(design.sizes) > model.size:
        raise UserError(f"{model_name} makes frames of {model.size} pixels: clips of {max(design.sizes)} are too large")
    pairs, known_to_flow, held_out = study_pairs(data, model, design)
    snapped = model.predictor.network.config.background == 0  # sprites
    maker = ClipMaker(pairs, _samplers(design, model, device, known_to_flow), snapped, design.seed)
    pictures = _draw(maker, clips, progress)
    source = {
        "model": Path(model_name).name,
        "weights": model.weights.digest,
        "data": data if data in GENERATED else Path(data).name,
        "held_out": held_out,
        "snapped": snapped,
        "design": asdict(design) | {"methods": list(design.methods), "sizes": list(design.sizes)},  # as JSON has it
    }
    study = folder.name_clips(design, sessions, source)
    files = {folder.picture_path(path, name).name: pictures[clip] for name, clip in study.clips.items()}
    write_together(path, files | {folder.FILE: study.to_json()})
    for name in stale - files.keys():
        (path / name).unlink(missing_ok=True)
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
        frame, _ = self.pairs[number]
        return {clip: strip(frame, futures[clip.method][clip.sample], clip.size) for clip in clips}

    def _next_frames(self, number: int, method: str, clips: Sequence[StudyClip]) -> dict[int, Tensor]:
        """Sample -> uint8 (3, S, S)."""
        frame, real = self.pairs[number]
        if method in (REAL, CONTROL):
            return {0: real}
        if method == TORN:
            return {0: torn(real, self.seed + number)}
        samples = sorted({clip.sample for clip in clips if clip.method == method})
        seeds = [sample_seeds(self.seed, 1, number * 1_000 + sample)[0] for sample in samples]
        made = self.methods[method].sample(frame.float() / 255, seeds).cpu()
        pixels = (made.clamp(0, 1) * 255).round().to(torch.uint8)  # (n, 3, S, S)
        if self.snapped:
            palette = np.unique(frame.flatten(1).T.numpy(), axis=0)  # (P, 3)
            pixels = torch.from_numpy(snap_to_palette(pixels.movedim(1, 3).numpy(), palette)).movedim(3, 1)
        return dict(zip(samples, pixels, strict=True))


def strip(frame: Tensor, next_frame: Tensor, size: int) -> bytes:
    """uint8 (3, S, S) twice -> PNG of (s, 2s): averaged down, side by side."""
    both = torch.stack([frame, next_frame])
    both = both if both.shape[-1] == size else resize_frames(both, size)
    return encode_png(np.ascontiguousarray(torch.cat([both[0], both[1]], 2).permute(1, 2, 0).numpy()))


def torn(frame: Tensor, seed: int) -> Tensor:
    """A frame (3, S, S) cut into tiles, none of which stays in its place."""
    side = frame.shape[-1] // TILES
    circle = torch.randperm(TILES**2, generator=torch.Generator().manual_seed(seed))
    source = torch.empty_like(circle)
    source[circle] = circle.roll(1)  # each place gets the tile of the place before it in a random circle
    tiles = frame[:, : side * TILES, : side * TILES].unfold(1, side, side).unfold(2, side, side)  # (3, t, t, s, s)
    shuffled = tiles.flatten(1, 2)[:, source].view_as(tiles)
    result = frame.clone()
    result[:, : side * TILES, : side * TILES] = shuffled.permute(0, 1, 3, 2, 4).reshape(3, side * TILES, side * TILES)
    return result


def _draw(maker: ClipMaker, clips: list[StudyClip], progress: Progress | None) -> dict[StudyClip, bytes]:
    """All clips as PNG files, input by input."""
    pictures: dict[StudyClip, bytes] = {}
    total = 0
    for number, group in itertools.groupby(sorted(clips, key=attrgetter("input")), attrgetter("input")):
        made = maker.clips_of(number, list(group))
        pictures |= made
        total += sum(map(len, made.values()))
        if total > MAX_BYTES:
            raise UserError(f"the pictures exceed {MAX_BYTES // 10**6} MB: choose fewer inputs, samples or sizes")
        if progress:
            progress(len(pictures), len(clips))
    return pictures


def _check_design(design: Design) -> None:
    if not all(MIN_SIZE <= size <= MAX_SIZE for size in design.sizes):
        raise UserError(f"clips are {MIN_SIZE} to {MAX_SIZE} pixels large, not {', '.join(map(str, design.sizes))}")
    known = (OURS, FLOW, COPY, *shipped_models())
    for name in design.methods:
        if name not in known and not (name == REAL and design.kind == "realistic"):
            raise UserError(f"no method {name!r}: there are {', '.join(known)}")


def _check_folder(path: Path, overwrite: bool) -> set[str]:
    """Never mix files with others', or separate answers from their study; returns the old study's pictures."""
    check_folder(path)
    if not path.is_dir() or not any(path.iterdir()):
        return set()
    if not overwrite:
        raise UserError(f"{path} is not empty: give --overwrite, or another folder")
    if (path / answers.FILE).exists():
        raise UserError(f"{path} holds people's answers, {answers.FILE}: move them away first, or use another folder")
    try:
        return {folder.picture_path(path, name).name for name in folder.read_study(path).clips}
    except UserError:  # not a study, or a broken one
        return set()
