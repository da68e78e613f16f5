"""Make a study: inputs that the model has not been trained on, futures by each method, a balanced plan."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import asdict, dataclass
from operator import attrgetter
from pathlib import Path

from visual_dynamics.api import Model, load
from visual_dynamics.baselines.copying import Copy
from visual_dynamics.baselines.flow_transfer import FlowTransfer
from visual_dynamics.baselines.sampler import FutureSampler
from visual_dynamics.catalogue import shipped_models
from visual_dynamics.data.folders import has_list
from visual_dynamics.data.pairs import Pairs, spread
from visual_dynamics.data.sources import GENERATED, DataSpec, open_data, recognise
from visual_dynamics.errors import UserError
from visual_dynamics.files import check_folder, write_together
from visual_dynamics.sampling.moves import ModelSampler
from visual_dynamics.study import store, study_file
from visual_dynamics.study.clips import ClipMaker
from visual_dynamics.study.plan import REAL, Design, Shown, clips_of, plan_sessions

OURS, FLOW, COPY = "ours", "flow", "copy"
POOL = 2_048  # pairs among which the inputs are drawn: neighbours in a data set are often alike
MAX_CLIPS = 12_000  # the paper's 100 samples of each of 100 images, and some
MAX_BYTES = 500 * 10**6  # of all pictures
MIN_SIZE, MAX_SIZE = 8, 256  # pixels

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Source:
    """What a study is made from."""

    model: str  # shipped name, path or Hub id
    data: str  # what `train --data` takes
    snap: bool | None = None  # None: where the model is one of sprites
    consent: str | None = None  # the text that people agree to, in place of ours


def make_study(
    design: Design, source: Source, folder: Path, overwrite: bool, device: str = "cpu", progress: Progress | None = None
) -> study_file.Study:
    """Write the study into a folder, all of it or nothing."""
    stale = _check_folder(folder, overwrite)
    _check_design(design)
    sessions = plan_sessions(design)
    shown = clips_of(sessions)
    if len(shown) > MAX_CLIPS:
        raise UserError(
            f"the study would have {len(shown):,} clips, at most {MAX_CLIPS:,}: choose fewer inputs or samples"
        )
    model = load(source.model, device)
    if max(design.sizes) > model.size:
        raise UserError(
            f"{source.model} makes frames of {model.size} pixels: a clip of {max(design.sizes)} would be blown up"
        )
    pairs, known_to_flow, held_out = study_pairs(source.data, model, design)
    snapped = model.predictor.network.config.background == 0 if source.snap is None else source.snap
    maker = ClipMaker(pairs, _samplers(design, model, device, known_to_flow), snapped, design.seed)
    pictures = _draw(maker, shown, progress)
    told = {
        "model": Path(source.model).name,
        "weights": model.weights.digest,
        "data": source.data if source.data in GENERATED else Path(source.data).name,
        "held_out": held_out,
        "snapped": snapped,
        "design": asdict(design) | {"methods": list(design.methods), "sizes": list(design.sizes)},  # as JSON has it
    }
    study = study_file.name_clips(design, sessions, told, source.consent)
    files = {study_file.picture_path(folder, name).name: pictures[clip] for name, clip in study.clips.items()}
    write_together(folder, files | {study_file.FILE: study.to_json()})
    for name in stale - files.keys():
        (folder / name).unlink(missing_ok=True)
    return study


def default_sizes(model: str) -> tuple[int, int]:
    """Half of the model's size and all of it: 32 and 64 pixels for the paper's network."""
    from visual_dynamics.catalogue import find_weights
    from visual_dynamics.weights import load_weights

    size = load_weights(find_weights(model)).network.config.size
    return size // 2, size


def study_pairs(data: str, model: Model, design: Design) -> tuple[Pairs, Callable[[], Pairs], bool]:
    """The inputs with their true next frames; how to get those that Flow may know; whether the inputs were held out.

    Data without a test set have no pairs that are known to be unknown to the model: then all are drawn from, and Flow
    knows those that are left.
    """
    spec = _data_spec(data, model, design.seed)
    known = recognise(spec) != "pairs" or has_list(Path(data), "test")  # a share by default may be trained on elsewhere
    pool = open_data(spec, "held-out", design.all_inputs if data in GENERATED else POOL) if known else None
    held_out = pool is not None
    everything = (open_data(spec, "train", POOL) if pool is None else pool).in_memory()
    moving = (everything.frames != everything.next_frames).flatten(1).any(1).nonzero()[:, 0]
    if len(moving) < design.all_inputs:
        raise UserError(
            f"{design.inputs} inputs and {design.obvious} for obvious trials are asked for, "
            f"but {data} has {len(moving)} pairs that move{' in its test set' if held_out else ''}"
        )
    order = moving[spread(len(moving), len(moving), design.seed)]
    chosen, others = order[: design.all_inputs], order[design.all_inputs :]

    def known_to_flow() -> Pairs:
        if not held_out:
            return everything.subset(others)
        return open_data(spec, "train").in_memory()

    return everything.subset(chosen), known_to_flow, held_out


def _data_spec(data: str, model: Model, seed: int) -> DataSpec:
    """The data as they would be trained on at the model's size, drawn as the model's own were."""
    network, known = model.predictor.network.config, model.weights.training.get("config", {})
    known = known if isinstance(known, dict) else {}
    own = {
        name: str(known[key])
        for name, key in (("rendering", "rendering"), ("sheets", "sheets"), ("characters", "split"))
        if known.get(key) is not None
    }
    return DataSpec(data, network.size, seed, background=network.background, **own)


def _samplers(design: Design, model: Model, device: str, known: Callable[[], Pairs]) -> dict[str, FutureSampler]:
    """Each method behind the one interface; another model by its name."""
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


def _draw(maker: ClipMaker, shown: list[Shown], progress: Progress | None) -> dict[Shown, bytes]:
    """All clips as PNG files, input by input."""
    pictures: dict[Shown, bytes] = {}
    total = 0
    for number, group in itertools.groupby(sorted(shown, key=attrgetter("input")), attrgetter("input")):
        made = maker.clips_of(number, list(group))
        pictures |= made
        total += sum(map(len, made.values()))
        if total > MAX_BYTES:
            raise UserError(
                f"the pictures take more than {MAX_BYTES // 10**6} MB: choose fewer inputs, samples or sizes"
            )
        if progress:
            progress(len(pictures), len(shown))
    return pictures


def _check_design(design: Design) -> None:
    if not all(MIN_SIZE <= size <= MAX_SIZE for size in design.sizes):
        raise UserError(f"clips are {MIN_SIZE} to {MAX_SIZE} pixels large, not {', '.join(map(str, design.sizes))}")
    known = (OURS, FLOW, COPY, *shipped_models())
    for name in design.methods:
        if name not in known and not (name == REAL and design.kind == "realistic"):
            raise UserError(f"no method {name!r}: there are {', '.join(known)}")


def _check_folder(folder: Path, overwrite: bool) -> set[str]:
    """Refuse to mix files with others', and to part answers from their study; returns the old study's pictures."""
    check_folder(folder)
    if not folder.is_dir() or not any(folder.iterdir()):
        return set()
    if not overwrite:
        raise UserError(f"{folder} is not empty: give --overwrite, or another folder")
    if (folder / store.FILE).exists():
        raise UserError(f"{folder} holds people's answers, {store.FILE}: move them away first, or use another folder")
    try:
        return {study_file.picture_path(folder, name).name for name in study_file.read_study(folder).clips}
    except UserError:  # not a study, or a broken one
        return set()
