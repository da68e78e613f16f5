"""How fast it is: futures of one image, animations, the start of a command, the cross convolution, training.

Command  python benchmarks/speed.py [--device cuda] [--quick] [--out out/bench]   (or: make bench)
Cost     about three minutes on two CPU cores; with --quick, a third of it

Protocol: what is compared runs in turns in one process on the same threads, so that whatever else the machine does hits
all of it alike. Of each, the shortest and the median of the repeats are kept; ratios are those of the shortest. The
first run of everything is not counted.

Earlier demos ran the whole network anew for each sample: the motion encoder (whose result they replace by the sampled
z), the image encoder, the maps of every scale enlarged before the 9x9 convolution. `full_pass` does the same.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.everyday import everyday_table, time_animation, time_starts
from benchmarks.timing import Times, milliseconds, ratios
from visual_dynamics.api import Model, find_device, load
from visual_dynamics.data import shapes
from visual_dynamics.data.pairs import Pairs
from visual_dynamics.files import check_folder, write_atomically
from visual_dynamics.model.cross_convolution import by_groups, by_shifts
from visual_dynamics.model.network import VisualDynamics
from visual_dynamics.model.presets import PRESETS
from visual_dynamics.provenance import provenance
from visual_dynamics.sampling.conditional_prior import GRID, ConditionalPrior, Velocity
from visual_dynamics.sampling.latents import LatentSource, sample_seeds
from visual_dynamics.training.config import TrainingConfig
from visual_dynamics.training.distributed import Processes
from visual_dynamics.training.trainer import Trainer

Say = Callable[[str], None]
Form = Callable[[Tensor, Tensor], Tensor]  # of the cross convolution: maps, kernels -> moved maps


@dataclass(frozen=True)
class Plan:
    """How much is run."""

    model: str | Path = "shapes"
    futures: int = 64
    rounds: int = 8  # of: all the futures, then some of the full passes
    passes: int = 8  # full passes a round
    poses: str | Path = "sprites-poses"
    guide: str | Path = "sprites"
    clips: tuple[int, ...] = (9, 9, 13, 8, 7)  # frames of each clip to animate
    animations: int = 2  # of the sheet, in each form
    starts: int = 3  # of each command
    preset: str = "paper"  # sizes of the cross convolution and of training
    batches: tuple[int, ...] = (1, 8, 64)  # of the cross convolution
    repeats: int = 5  # of each of its forms
    training_batch: int = 8
    training_steps: int = 1  # at a time
    training_repeats: int = 4


def plan_for(device: torch.device, quick: bool) -> Plan:
    if device.type == "cuda":
        return Plan(batches=(1, 8, 64, 256), repeats=20, training_batch=256, training_steps=20)
    if quick:
        return Plan(
            rounds=4,
            passes=4,
            clips=(5, 5),
            animations=1,
            starts=1,
            batches=(1, 8),
            repeats=3,
            training_batch=2,
            training_repeats=2,
        )
    return Plan()


def compute(plan: Plan, device: torch.device, say: Say) -> dict[str, Any]:
    """Measure all of it."""
    started = time.monotonic()
    say("futures of one image")
    futures = time_futures(load(plan.model, str(device)), plan, device)
    say("animations")
    networks = (load(name, str(device)).weights.network for name in (plan.poses, plan.guide))
    animation = time_animation(*networks, plan.clips, plan.animations, device)
    say("starts")
    starts = time_starts(plan.starts)
    say("cross convolution")
    forms = time_cross_convolution(plan, device)
    say("training")
    training = time_training(plan, device)
    return {
        "experiment": "speed",
        "futures": futures,
        "animation": animation,
        "starts": starts,
        "cross_convolution": forms,
        "training": training,
        "threads": torch.get_num_threads(),
        "date": datetime.now(UTC).date().isoformat(),
        "seconds": round(time.monotonic() - started, 1),
    } | provenance(device)


@torch.inference_mode()
def time_futures(model: Model, plan: Plan, device: torch.device) -> dict[str, Any]:
    """All futures of an image through the predictor, its encoding included, and by one full pass each."""
    predictor, network, size = model.predictor, model.predictor.network, model.size
    frame = (shapes.images(shapes.draw_scenes(1, 0, "test"), size=size)[0].float() / 255).to(device)
    seeds, posteriors = sample_seeds(0, plan.futures), model.weights.posteriors
    stored = posteriors if len(posteriors) else model.learned_prior
    conditional = model.weights.conditional or untrained_prior(model, stored.dimensions)
    z = stored.draw(seeds).to(device)
    ours, looking, theirs = Times(), Times(), Times()
    pictures: dict[str, list[Tensor]] = {"ours": [], "theirs": []}

    def sample(name: str, source: LatentSource) -> None:
        image = predictor.encode_image(frame)
        pictures[name] = list(predictor.decode(image, source.draw(seeds, image)))

    def pass_each(mine: Tensor) -> None:
        pictures["theirs"] += [full_pass(network, frame[None], one)[0] for one in mine.split(1)]

    sample("ours", stored)
    sample("looking", conditional)
    full_pass(network, frame[None], z[:1])
    for mine in z[: plan.rounds * plan.passes].split(plan.passes):
        ours.add(partial(sample, "ours", stored), device)
        looking.add(partial(sample, "looking", conditional), device)
        theirs.add(partial(pass_each, mine), device)
    compared = len(pictures["theirs"])
    apart = (torch.stack(pictures["ours"][:compared]) - torch.stack(pictures["theirs"])).abs().max()
    share = plan.futures / plan.passes  # rounds that make up one pass for every future
    return {
        "count": plan.futures,
        "compared": compared,
        "size": size,
        "seconds": {
            "predictor": ours.summary(),
            "full passes": {name: share * value for name, value in theirs.summary().items()},
            "predictor, conditional prior": looking.summary(),
        },
        "conditional_to_stored": looking.shortest / ours.shortest,
        "futures_per_second": plan.futures / ours.shortest,
        "full_passes_per_second": plan.passes / theirs.shortest,
        "times_faster": share * theirs.shortest / ours.shortest,
        "times_faster_median": statistics.median(
            share * slow / fast for fast, slow in zip(ours.seconds, theirs.seconds, strict=True)
        ),
        "largest_pixel_difference": float(apart),  # of 0 to 1
    }


def untrained_prior(model: Model, places: Tensor) -> ConditionalPrior:
    """A conditional prior as large as a trained one, for a model without; places: the dimensions that carry motion."""
    config = model.predictor.network.config
    count = config.kernel_channels * GRID**2
    codes, segments = (torch.stack([torch.zeros(n), torch.ones(n)]) for n in (len(places), count))
    return ConditionalPrior(places, codes, segments, Velocity(len(places), count).eval(), config.latent)


def full_pass(network: VisualDynamics, frame: Tensor, z: Tensor) -> Tensor:
    """The next frame (1, 3, S, S) by the whole network, for one z, with nothing reused and nothing rearranged."""
    network.encode_motion(frame, torch.zeros_like(frame))
    features = network.encode_image(frame)
    moved = [
        F.conv2d(maps, kernel.transpose(0, 1), padding=kernel.shape[-1] // 2, groups=maps.shape[1])
        for maps, kernel in zip(features, network.kernel_decoder(z), strict=True)
    ]
    enlarged = torch.cat([F.interpolate(maps, size=frame.shape[-2:]) for maps in moved], dim=1)  # (1, 128, S, S)
    decoder = network.motion_decoder
    layers = decoder.last(decoder.hidden(decoder.normalise(decoder.wide(enlarged)))) / network.config.difference_scale
    return (frame + network.difference(layers, frame)).clamp(0, 1)


def by_unfold(maps: Tensor, kernels: Tensor) -> Tensor:
    """Every pixel's surroundings side by side, then one product."""
    batch, channels, side, _ = kernels.shape
    around = F.unfold(maps, side, padding=side // 2).view(batch, channels, side * side, -1)
    return torch.einsum("bckp,bck->bcp", around, kernels.flatten(2)).view(maps.shape)


def by_loop(maps: Tensor, kernels: Tensor) -> Tensor:
    """One convolution an example."""
    pad, groups = kernels.shape[-1] // 2, maps.shape[1]
    return torch.cat(
        [F.conv2d(maps[k : k + 1], kernels[k, :, None], padding=pad, groups=groups) for k in range(len(maps))]
    )


def time_cross_convolution(plan: Plan, device: torch.device) -> list[dict[str, Any]]:
    """Every form at every batch size, forward and backward, for the maps of the finest scale."""
    config = PRESETS[plan.preset]
    forms: dict[str, Form] = {"groups": by_groups, "shifts": by_shifts, "unfold": by_unfold, "loop": by_loop}
    if device.type == "cuda":  # as in training
        forms["shifts, compiled"] = torch.compile(by_shifts)
    rows = []
    for batch in plan.batches:
        maps = torch.randn(batch, config.maps, config.size, config.size, device=device, requires_grad=True)
        kernels = torch.randn(batch, config.maps, *2 * [config.kernel_size], device=device, requires_grad=True)
        forward, backward = ({name: Times() for name in forms} for _ in range(2))
        for repeat in range(-1, plan.repeats):
            for name, form in forms.items():
                run = Run(form, maps, kernels)
                once = (Times(), Times()) if repeat < 0 else (forward[name], backward[name])
                once[0].add(run.forward, device)
                once[1].add(run.backward, device)
        rows += [
            {"batch": batch, "pass": direction, "milliseconds": milliseconds(times), "ratio": ratios(times)}
            for direction, times in (("forward", forward), ("backward", backward))
        ]
    return rows


class Run:
    """One evaluation of a form and its gradients; what lies between them is let go."""

    def __init__(self, form: Form, maps: Tensor, kernels: Tensor) -> None:
        self.form, self.inputs = form, (maps, kernels)
        self.result: Tensor | None = None

    def forward(self) -> None:
        self.result = self.form(*self.inputs)

    def backward(self) -> None:
        assert self.result is not None
        torch.autograd.grad(self.result, self.inputs, torch.ones_like(self.result))
        self.result = None


def time_training(plan: Plan, device: torch.device) -> dict[str, Any]:
    """Steps of the training loop on random pairs that lie on the device; on GPUs in bfloat16, compiled."""
    on_gpu = device.type == "cuda"
    size, count = PRESETS[plan.preset].size, 4 * plan.training_batch
    generator = torch.Generator().manual_seed(0)
    frames = torch.randint(256, (2, count, 3, size, size), dtype=torch.uint8, generator=generator)
    config = TrainingConfig(preset=plan.preset, latent=None, augment=(), batch=plan.training_batch, pairs=count)
    trainer = Trainer(config, Pairs.of(frames[0], frames[1]), device, Processes(), compiled=on_gpu)
    times = Times()

    def steps() -> None:
        for step in range(plan.training_steps):
            trainer.step(step, progress=0.0)

    steps()
    for _ in range(plan.training_repeats):
        times.add(steps, device)
    pairs = plan.training_batch * plan.training_steps
    return {
        "preset": plan.preset,
        "batch": plan.training_batch,
        "steps": plan.training_steps * plan.training_repeats,
        "precision": "bfloat16" if on_gpu else "float32",
        "compiled": on_gpu,
        "pairs_per_second": pairs / times.shortest,
        "pairs_per_second_median": pairs / statistics.median(times.seconds),
    }


def table(result: dict[str, Any]) -> str:
    """The result as Markdown."""
    futures, training = result["futures"], result["training"]
    times = futures["seconds"]
    lines = [
        f"{result['date']}, {result['device']}, torch {result['torch']}",
        "",
        f"| {futures['count']} futures of one image | seconds | median |",
        "|---|---:|---:|",
        *(f"| {name} | {each['shortest']:.2f} | {each['median']:.2f} |" for name, each in times.items()),
        f"| times faster | {futures['times_faster']:.1f} | {futures['times_faster_median']:.1f} |",
        "",
        f"{futures['futures_per_second']:.0f} futures a second, image encoding included; "
        f"largest pixel difference {255 * futures['largest_pixel_difference']:.4f} / 255. Conditional prior: "
        f"{futures['conditional_to_stored']:.2f} times the time of stored codes.",
        "",
    ]
    lines += everyday_table(result["animation"], result["starts"])
    names = list(result["cross_convolution"][0]["ratio"])
    lines += [
        "| cross convolution, ratio to the best | " + " | ".join(names) + " |",
        "|---|" + "---:|" * len(names),
        *(
            f"| {row['pass']}, batch {row['batch']} ({min(row['milliseconds'].values()):.2f} ms) | "
            + " | ".join(f"{row['ratio'][name]:.1f}" for name in names)
            + " |"
            for row in result["cross_convolution"]
        ),
        "",
        f"Training ({training['preset']}, batch {training['batch']}, {training['precision']}"
        f"{', compiled' if training['compiled'] else ''}): {training['pairs_per_second']:.1f} pairs a second.",
    ]
    return "\n".join(lines)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, default=Path("out/bench"), help="folder for speed.json")
    options.add_argument("--device", default="auto")
    options.add_argument("--quick", action="store_true", help="fewer repeats and sizes")
    given = options.parse_args()
    device = find_device(given.device)
    check_folder(given.out)
    result = compute(plan_for(device, given.quick), device, lambda step: print(f"{step} ...", file=sys.stderr))
    write_atomically(given.out / "speed.json", json.dumps(result, indent=1).encode() + b"\n")
    print(table(result))


if __name__ == "__main__":
    main()
