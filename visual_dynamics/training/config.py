"""Every option of a training run, once: name, type, default, help, group. The command line is made from this table.

A run resolves its options before it starts, prints them, and saves them as config.json. Imports no torch: --help is
instant.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import Field, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from visual_dynamics.errors import UserError
from visual_dynamics.files import read_json
from visual_dynamics.model.presets import PRESETS, NetworkConfig

BETA_GROWS = (0.3, 0.6)  # shares of the budget between which the weight of the KL term goes from 1 to beta
MAX_ZOOM = 8
BETWEEN = ("neighbours", "any", "mixed", "mostly")
DATA, NETWORK, TRAINING = "Data", "Network", "Training"  # groups of options

OTHERS = "other-character"

AUGMENTATIONS: dict[str, tuple[str, str]] = {  # name -> (what =NUMBER is, what it does), as in augment.py
    "zoom": ("times", "enlarge half of the pairs, up to this many times, around any place"),
    "mirror": ("", "mirror half of the pairs left to right"),
    "reverse": ("", "run half of the pairs backwards"),
    "shift": ("pixels", "move whole pairs by up to this many pixels"),
    "place": ("", "move sprites on black, whole pairs, to any place; the motion encoder sees them at another one"),
    "colour-jitter": ("", "give each pair another hue, saturation, contrast and brightness"),
    "permute-channels": ("", "show the motion encoder another order of red, green and blue: z cannot hold colours"),
    "jitter": ("pixels", "move each frame that the motion encoder sees by up to this many pixels"),
    "displace": ("pixels", "show the motion encoder the pair moved and grown by up to this many: z cannot hold places"),
    OTHERS: ("", "show the motion encoder another packed character make the same move"),
}


def option(default: Any, text: str, group: str = "", flags: tuple[str, ...] = (), **checks: Any) -> Any:
    """A field. Without flags it is given as --set NAME=VALUE.

    checks: above (a bound that is excluded), least, most, choices.
    """
    return field(default=default, metadata={"help": text, "group": group, "flags": flags} | checks)


@dataclass(frozen=True)
class TrainingConfig:
    """A run. Two runs with equal configurations, on equal hardware, are equal. The defaults make the Shapes model."""

    data: str = option(
        "shapes",
        "shapes, shapes-texture, figures, a pose file, a folder or zip of pairs, prepared videos, or sprites.",
        DATA,
        ("--data",),
    )
    pairs: int | None = option(None, "Only the first N training pairs (20,000 if drawn).", DATA, ("--pairs",), above=0)
    also: str | None = option(None, "More data, mixed in.", DATA, ("--also",))
    also_pairs: int | None = option(None, "Only the first N pairs of these.", above=0)
    poses: str | None = option(None, "Drawn figures take the poses of people in this file.", DATA, ("--poses",))
    augment: tuple[str, ...] = option(("permute-channels",), "See below; may be repeated.", DATA, ("--augment",))
    rendering: str = option(
        "smooth", "Of drawn shapes: smooth (sub-pixel) or integer (as the authors').", choices=("integer", "smooth")
    )
    sheets: str | None = option(
        None, "Data are sprite sheets: size of a cell (64x64), aseprite or frames.", DATA, ("--sheets",)
    )
    split: str = option(
        "reed",
        "Of Reed's sprites: train on his 500 characters or the paper's 652, which leave none for validation.",
        choices=("reed", "paper"),
    )
    between: str = option(
        "neighbours",
        "Which two frames of an animation make a pair: neighbours; any two; any two, with neighbours half (mixed) or "
        "nine tenths (mostly) of the time. Of packed characters +starts adds the first frame of each animation after a "
        "standing frame, +standing all of them: mostly+starts.",
        choices=tuple(within + also for also in ("", "+starts", "+standing") for within in BETWEEN),
    )
    stream: bool = option(False, "Leave prepared videos on the disk, even if they would fit into memory.")

    preset: str = option("paper", f"The network: {', '.join(PRESETS)}.", NETWORK, ("--preset",))
    latent: int | None = option(8, "Dimensions of z; with --preset the preset's own.", NETWORK, ("--latent",), above=0)
    latent_scale: bool = option(False, "Scale the dimensions of z unequally, so that a few lead (for large z).")
    warp: int = option(
        0,
        "1: the motion decoder also moves the frame's own pixels; 2: at twice the size, then averaged: sharper.",
        least=0,
        most=2,
    )
    start: str | None = option(None, "A model to start from: name, file, or owner/name@main.", NETWORK, ("--from",))
    start_digest: str | None = option(None, "SHA-256 of that model, filled in when it is read.")

    steps: int | None = option(3_062, "Budget in steps.", TRAINING, ("--steps",), above=0)
    minutes: float | None = option(None, "Budget in minutes, in place of steps.", TRAINING, ("--minutes",), above=0)
    batch: int = option(128, "Pairs a step, over all processes.", TRAINING, ("--batch",), above=0)
    beta: float = option(
        1.0, "Weight of the KL term at the end: more for shorter codes.", TRAINING, ("--beta",), above=0
    )
    seed: int = option(0, "Seed of weights, order, noise and drawn data.", least=0)
    sigma: float = option(0.1, "Deviation of p(v | z, I); lambda = 1 / (2 sigma^2).", above=0)
    pyramid: float = option(0.0, "Weight of the distance of Laplacian pyramids, beside the squared error.", least=0)
    autoencoder: bool = option(False, "The paper's AE baseline: no KL term, z is not sampled.")
    learning_rate: float = option(1e-3, "Of Muon; it falls along a cosine.", above=0)
    final_learning_rate: float = option(0.02, "The fraction of it that is left at the end.", least=0, most=1)
    warmup: int = option(50, "Steps over which the learning rate grows.", least=0)
    weight_decay: float = option(0.01, "Decoupled weight decay.", least=0)
    kl_warmup: int = option(500, "Steps over which the KL term is phased in.", least=0)
    stop: int | None = option(None, "Stop after this step, before the budget is spent.", above=0)
    log_every: int = option(50, "Steps between lines of the log.", above=0)
    checkpoint_every: int = option(1_000, "Steps between checkpoints.", above=0)
    posteriors: int = option(20_000, "Training posteriors to store in the weights, if there is room.", above=0)

    compile: bool | None = option(None, "torch.compile; if none, on GPUs.")
    recipe: str | None = option(None, "The recipe that the run follows, filled in by --recipe.")

    def __post_init__(self) -> None:
        for each in fields(self):
            _check(each, getattr(self, each.name))
        if self.also_pairs and not self.also:
            raise UserError("also_pairs is a number of pairs of other data: give these with --also")
        if self.poses and "figures" not in (self.data, self.also):
            raise UserError("poses are for drawn people: give --data figures or --also figures")
        if self.preset not in PRESETS:
            raise UserError(f"unknown preset {self.preset!r}; there are {', '.join(PRESETS)}")
        if (self.steps is None) == (self.minutes is None):
            raise UserError("give a budget: either steps or minutes")
        _ = self.augmentations  # checks them

    @property
    def network(self) -> NetworkConfig:
        network = PRESETS[self.preset]
        latent = self.latent or network.latent
        return replace(network, latent=latent, latent_scale=self.latent_scale, warp=self.warp)

    @property
    def augmentations(self) -> dict[str, float]:
        """What is done to the pairs, by name; and how much, where that is a number."""
        return dict(_parse_augmentation(text) for text in self.augment)

    @property
    def stored_size(self) -> int:
        """Side of the frames that are held for training: what is zoomed into, or warped, should not be blurred."""
        return max(self.network.picture_size, round(self.network.size * self.augmentations.get("zoom", 1)))

    def progress(self, step: int, seconds: float) -> float:
        """Share of the budget that is spent, 0 to 1."""
        spent = step / self.steps if self.steps else seconds / (60 * (self.minutes or math.inf))
        return min(1.0, spent)

    def is_over(self, step: int, progress: float) -> bool:
        return progress >= 1 or (self.stop is not None and step >= self.stop)

    def learning_rate_at(self, step: int, progress: float) -> float:
        """A line up to the full rate in the first steps; a cosine from there to the final fraction of it."""
        low = self.final_learning_rate
        rate = self.learning_rate * (low + (1 - low) * 0.5 * (1 + math.cos(math.pi * progress)))
        return rate * min(1.0, (step + 1) / self.warmup) if self.warmup else rate

    def kl_weight_at(self, step: int, progress: float) -> float:
        """A line from 0 to 1 in the first steps; later, geometrically, from 1 to beta."""
        if self.autoencoder:
            return 0.0
        phased_in = min(1.0, (step + 1) / self.kl_warmup) if self.kl_warmup else 1.0
        begin, end = BETA_GROWS
        return phased_in * self.beta ** min(1.0, max(0.0, (progress - begin) / (end - begin)))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"augment": list(self.augment)}


KINDS: dict[str, tuple[Any, str]] = {  # of a field: what its values are, and in words
    "bool": (bool, "true or false"),
    "int": (int, "a whole number"),
    "float": ((int, float), "a number"),
    "str": (str, "a text"),
    "tuple[str, ...]": (tuple, "a list of texts"),
}


def _check(each: Field[Any], value: Any) -> None:
    kind, _, optional = str(each.type).partition(" | ")
    if value is None and optional:
        return
    name, checks, (types, words) = each.name, each.metadata, KINDS[kind]
    if not isinstance(value, types) or (type(value) is bool) != (kind == "bool"):
        raise UserError(f"{name} is {words}, not {str(value)[:40]!r}")
    if "choices" in checks and value not in checks["choices"]:
        raise UserError(f"{name} is {' or '.join(checks['choices'])}, not {value}")
    if "above" in checks and not checks["above"] < value < math.inf:
        raise UserError(f"{name} must be positive, not {value}")
    if "least" in checks and not checks["least"] <= value <= checks.get("most", math.inf):
        upper = f" to {checks['most']}" if "most" in checks else " up"
        raise UserError(f"{name} must be from {checks['least']}{upper}, not {value}")


def _parse_augmentation(text: str) -> tuple[str, float]:
    """ "shift=8" -> ("shift", 8.0); "mirror" -> ("mirror", 1.0)."""
    name, equals, number = text.partition("=")
    if name not in AUGMENTATIONS:
        raise UserError(f"no augmentation {name!r}; there are {', '.join(AUGMENTATIONS)}")
    unit, _ = AUGMENTATIONS[name]
    if bool(unit) != bool(equals):
        raise UserError(f"give --augment {name}{f'=NUMBER ({unit})' if unit else ' without a number'}, not {text}")
    try:
        amount = float(number) if unit else 1.0
    except ValueError:
        raise UserError(f"{name} needs a number, not {number!r}") from None
    if name == "zoom" and not 1 <= amount <= MAX_ZOOM:
        raise UserError(f"zoom is from 1 to {MAX_ZOOM}, not {number}")
    if unit == "pixels" and not (amount >= 0 and amount.is_integer()):
        raise UserError(f"{name} is a whole number of pixels from 0 up, not {number}")
    return name, amount


# --- from text: --set NAME=VALUE, and config.json of this release or an earlier one ---

OLD_PRESETS: dict[str, dict[str, Any]] = {  # of the first release
    **{f"paper-z{size}": {"preset": "paper", "latent": size} for size in (8, 16, 32, 128)},
    **{f"tiny-z{size}": {"preset": "tiny", "latent": size} for size in (8, 32)},
    "paper-uneven": {"preset": "paper", "latent": None, "latent_scale": True},
    "paper-z128-uneven": {"preset": "paper", "latent": 128, "latent_scale": True},
}


def configure(given: Mapping[str, Any], base: TrainingConfig | None = None) -> TrainingConfig:
    """`base` with the given values in place of its own. One budget replaces another; a preset brings its size of z."""
    values = dict(given)
    if (preset := values.get("preset")) in OLD_PRESETS:
        values = OLD_PRESETS[preset] | {name: value for name, value in values.items() if name != "preset"}
    elif preset is not None:
        values.setdefault("latent", None)
    if values.get("steps") is not None or values.get("minutes") is not None:
        values = {"steps": None, "minutes": None} | values
    return replace(base or TrainingConfig(), **values)


def parse_settings(settings: list[str]) -> dict[str, Any]:
    """["warmup=4", "stream=true"] -> {"warmup": 4, "stream": True}."""
    types, found = {each.name: str(each.type) for each in fields(TrainingConfig)}, {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        name = name.replace("-", "_")
        if not equals:
            raise UserError(f"--set takes NAME=VALUE, not {setting!r}")
        if name not in types:
            near = difflib.get_close_matches(name, types, 1)
            hint = f": did you mean {near[0]}?" if near else f"; there are {', '.join(types)}"
            raise UserError(f"no setting {name!r}{hint}")
        found[name] = _parse(name, text, types[name])
    return found


def _parse(name: str, text: str, kind: str) -> Any:
    if "None" in kind and text.lower() == "none":
        return None
    if "tuple" in kind:
        return tuple(part for part in text.split(",") if part and part != "none")
    try:
        if "bool" in kind:
            return {"true": True, "false": False, "yes": True, "no": False, "1": True, "0": False}[text.lower()]
        return int(text) if "int" in kind else float(text) if "float" in kind else text
    except (KeyError, ValueError):
        raise UserError(f"{name} is {KINDS[kind.partition(' | ')[0]][1]}, not {text!r}") from None


def config_from_dict(values: dict[str, Any]) -> TrainingConfig:
    """A configuration as config.json and weights files hold it, the first release's too. May raise TypeError."""
    values = dict(values)
    if "augment" not in values:  # of the first release
        old = {"latent": None, "rendering": "integer", "steps": 6_000} | values
        old["beta"] = old.pop("bottleneck", 1.0)
        numbers = {name: old.pop(name, 0) for name in ("zoom", "shift", "jitter")}
        switches = {"mirror": "mirror", "reverse": "reverse", "colour-jitter": "light", "permute-channels": "recolour"}
        chosen = {name for name, key in switches.items() if old.pop(key, False)}
        chosen |= {name for name, number in numbers.items() if number > (1 if name == "zoom" else 0)}
        old["augment"] = [
            f"{name}={numbers[name]:g}" if name in numbers else name for name in AUGMENTATIONS if name in chosen
        ]
        values = old | OLD_PRESETS.get(old.get("preset", "paper"), {})
    return TrainingConfig(**values | {"augment": tuple(values["augment"])})


def read_config_file(path: Path) -> TrainingConfig:
    """The configuration in a file that a run wrote."""
    try:
        values = read_json(path)
        if not isinstance(values, dict):
            raise ValueError("it is not a configuration")
        return config_from_dict(values)
    except (OSError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error


def read_config(folder: Path) -> TrainingConfig:
    """The configuration that the run in a folder was made with."""
    if not (folder / "config.json").is_file():
        raise UserError(f"there is no run to resume in {folder}")
    return read_config_file(folder / "config.json")


def command_words(config: TrainingConfig) -> list[str]:
    """The options of `visual-dynamics train` that make a configuration: what differs from the defaults."""
    usual, words = TrainingConfig(), []
    if config.preset != usual.preset or config.latent is None:
        words = ["--preset", config.preset]
        usual = replace(usual, preset=config.preset, latent=None)
    for each in fields(config):
        value = getattr(config, each.name)
        if value == getattr(usual, each.name) or value is None:
            continue
        if each.name == "augment":
            words += [word for text in value or ("none",) for word in ("--augment", text)]
        elif each.metadata["flags"]:
            words += [each.metadata["flags"][0], str(value)]
        else:
            words += ["--set", f"{each.name}={str(value).lower() if isinstance(value, bool) else value}"]
    return words
