"""Options of the first release that have another name now. They work for one more release, with a note on stderr."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from visual_dynamics.errors import UserError


def _by_set(*names: str) -> dict[str, str]:
    return {f"--{name.replace('_', '-')}": f"--set {name}={{}}" for name in names}


RENAMED = {  # verb -> old option -> what stands for it now; {} is its value
    "train": {
        "--recolour": "--augment permute-channels",
        "--light": "--augment colour-jitter",
        "--mirror": "--augment mirror",
        "--reverse": "--augment reverse",
        "--zoom": "--augment zoom={}",
        "--shift": "--augment shift={}",
        "--jitter": "--augment jitter={}",
        "--bottleneck": "--beta {}",
        "--autoencoder": "--set autoencoder=true",
        "--stream": "--set stream=true",
        "--compile": "--set compile=true",
        "--no-compile": "--set compile=false",
        **_by_set("rendering", "split", "between", "also_pairs", "sigma", "learning_rate", "warmup", "kl_warmup"),
        **_by_set("log_every", "checkpoint_every", "seed"),
    },
    "reproduce": {"--list": ""} | _by_set("sprites_model", "guide", "autoencoder", "integer_model", "runs"),
}
GONE = {
    ("compact", "--overwrite"): "compact replaces no file: remove it, or give another one",
    ("bench",): "bench has left the package: run `make bench` in the source tree",
    ("compact", "--carry-over"): "--carry-over is now the last step of train RUN --recipe people --data FOOTAGE",
}


def current_names(arguments: Sequence[str]) -> list[str]:
    """The arguments with today's names for old ones."""
    for old, sentence in GONE.items():
        if arguments and arguments[0] == old[0] and set(old) <= {word.partition("=")[0] for word in arguments}:
            raise UserError(sentence)
    renamed = RENAMED.get(arguments[0], {}) if arguments else {}
    found: list[str] = []
    rest = iter(arguments)
    for word in rest:
        name, equals, value = word.partition("=")
        if (new := renamed.get(name)) is None:
            found.append(word)
            continue
        if "{}" in new:
            new = new.replace("{}", value if equals else next(rest, ""))
        print(f"note: {name} is now {new}" if new else f"note: {name} is not needed any more", file=sys.stderr)
        found += new.split(" ", 1) if new else []
    return found
