"""What judges and distances between sets see of a pair, and what they say.

A pair is seen in 8-bit colours, as a file would hold it. `made` has one predicted frame of each method. Letters in
shape comments: M methods, N pairs, D features, S pixels a side, s those that judges see.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from visual_dynamics.data.pairs import resize_frames
from visual_dynamics.evaluation.intervals import cluster_interval
from visual_dynamics.evaluation.judge import Judging, fooled_share, in_folds, judge_folds, without_noise
from visual_dynamics.evaluation.set_distances import (
    flow_histograms,
    frechet_distance,
    kernel_distance,
    random_features,
)
from visual_dynamics.evaluation.video_motion import over_scenes

JUDGED_SIZE = 32  # pixels a side that judges see at most

Features = dict[str, Tensor]  # kind -> (n, D)


class SeenPair(NamedTuple):
    plain: Tensor  # uint8 (2 + M, 3, s, s): frame, true next frame, predictions
    blind: Tensor  # the same where small changes are hidden
    features: Features  # (1 + M, D) each: of the true pair, then of the predictions


def see(frame: Tensor, truth: Tensor, made: Sequence[Tensor]) -> SeenPair:
    """Frames (3, S, S), floats in [0, 1]."""
    pixels = (torch.stack([frame, truth, *made]).clamp(0, 1) * 255).round().to(torch.uint8)
    size = min(JUDGED_SIZE, pixels.shape[-1])
    plain, blind = (resize_frames(x, size) for x in (pixels, without_noise(pixels)))
    return SeenPair(plain, blind, pair_features(pixels[:1].expand(len(pixels) - 1, -1, -1, -1), pixels[1:]))


def pair_features(frames: Tensor, next_frames: Tensor) -> Features:
    """Of pairs, uint8 (n, 3, S, S) twice."""
    floats = [x.float() / 255 for x in (frames, next_frames)]
    return {"random network": random_features(*floats), "flow histogram": flow_histograms(frames, next_frames)}


def judge_pairs(
    seen: Sequence[SeenPair],
    methods: Sequence[str],
    groups: Sequence[str],
    judging: Judging,
    seed: int,
    device: torch.device,
    progress: Callable[[str, float], object],
) -> dict[str, Any] | None:
    """Shares on which judges are fooled, with intervals over groups, and the last method's minus that before it.

    For judges that see all and for those that are blind for noise. None for one group: no fold to learn from.
    """
    fold = in_folds(groups, judging.folds, seed)
    if fold is None:
        return None
    numbers = torch.tensor([list(dict.fromkeys(groups)).index(name) for name in groups])
    found: dict[str, Any] = {"inputs": len(seen), "folds": int(fold.max()) + 1, "groups": len(set(groups))}
    for name in ("plain", "blind"):
        shown = torch.stack([getattr(one, name) for one in seen]).to(device)
        answers = judge_folds(shown, methods, fold, judging, seed, partial(progress, f"judges, {name}"))
        more = answers[methods[-1]].double().mean(0) - answers[methods[-2]].double().mean(0)  # (N,)
        found[name] = {
            "rows": {method: asdict(fooled_share(given, numbers, seed)) for method, given in answers.items()},
            "difference": {"mean": float(more.mean()), "interval": cluster_interval(more, numbers, seed)},
        }
    return found | {"judges": judging.judges, "steps": judging.steps, "size": seen[0].plain.shape[-1]}


def set_distances(
    seen: Sequence[SeenPair], scenes: Sequence[str], others: Features, other_scenes: Sequence[str], rows: Sequence[str]
) -> dict[str, Any]:
    """Distances of each row, the first of which is the truth, to other true pairs; scenes: of each pair.

    Features are centred, and divided by one number, so that their mean variance among the others is 1. Frechet of all
    pairs; kernel distance as the mean over scenes that have two pairs or more in both sets.
    """
    found: dict[str, Any] = {}
    for kind, reference in others.items():
        scale = reference.var(0).mean().sqrt()
        own = (torch.stack([one.features[kind] for one in seen]) - reference.mean(0)) / scale  # (N, rows, D)
        right = (reference - reference.mean(0)) / scale  # (n, D)
        found[kind] = {}
        for place, row in enumerate(rows):
            each = [
                kernel_distance(own[_of(scenes, name), place], right[_of(other_scenes, name)])
                for name in dict.fromkeys(scenes)
            ]
            mean, interval = over_scenes([value for value in each if value == value])
            found[kind][row] = {
                "frechet": frechet_distance(own[:, place], right),
                "kernel": mean,
                "interval": interval,
            }
    return found


def _of(scenes: Sequence[str], name: str) -> Tensor:
    """bool (N,): which pairs are of a scene."""
    return torch.tensor([scene == name for scene in scenes])
