"""How every shipped model is made, and models to come: `visual-dynamics train RUN --recipe NAME`.

A recipe is one training, or one after the other, and what becomes of the weights at the end. The released runs had a
budget in minutes; the steps here are those that they reached. Results are on the cards, visual_dynamics/models/NAME.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from visual_dynamics.errors import UserError
from visual_dynamics.files import read_json, write_atomically
from visual_dynamics.training.config import TrainingConfig, config_from_dict, configure, read_config

STAGES = "stages.json"  # in the folder of a recipe with several trainings: their configurations


@dataclass(frozen=True)
class Recipe:
    """Trainings, each from the weights of the one before it; the copy to ship; what to expect."""

    stages: tuple[TrainingConfig, ...]
    minutes: float  # on one NVIDIA H200; `shapes` and `shapes-ae` beside two other trainings and measurements
    expect: str  # of the released runs, on validation pairs; on 256 test pairs if trained before 2026-11-18
    data: str = ""  # what --data must be, where the pairs are not drawn
    eight_bits: bool = True  # of the copy that is shipped: one byte for most weights ...
    motion_encoder: bool = True  # ... with what reads the motion of a pair ...
    prior: bool = False  # ... and p(z | image), trained after the network ...
    carry_over: bool = False  # ... and only those motions that also move what moves in other scenes

    def with_options(self, given: Mapping[str, Any]) -> Recipe:
        """This recipe with other options, in all of its stages."""
        if self.data and "data" not in given:
            raise UserError(f"this recipe needs {self.data}: give its folder with --data")
        later = {name: value for name, value in given.items() if name != "start"}
        first, *others = self.stages
        return replace(self, stages=(configure(given, first), *(configure(later, stage) for stage in others)))


SHAPES = TrainingConfig()  # its defaults
SPRITES = configure({"preset": "sprites", "augment": ()}, SHAPES)
INTEGER = replace(SHAPES, rendering="integer")
PEOPLE = configure(
    {
        "also": "figures",
        "also_pairs": 60_000,
        "augment": ("zoom=2", "mirror", "reverse", "shift=4", "colour-jitter"),
        "latent": 128,
        "sigma": 0.05,
    },
    SHAPES,
)
PEOPLE_NEXT = configure(  # codes that hold no places; frames that keep the picture's own pixels
    {
        "augment": ("zoom=2", "mirror", "reverse", "colour-jitter", "displace=8"),
        "latent": 64,
        "beta": 10.0,
        "warp": 2,
        "pyramid": 1.0,
        "minutes": 25.0,
    },
    PEOPLE,
)
# For two CPU cores: see `make train`.
SHAPES_SMALL = configure({"preset": "small", "batch": 32, "steps": 2_800, "kl_warmup": 200}, SHAPES)
CLIPS = "clips prepared by `visual-dynamics prepare videos CLIPS --split docs/video-clips.csv`"
UNTRAINED = "no released run yet"
LPC = "characters packed by `visual-dynamics prepare lpc CHECKOUT --items train --count 4000` (docs/training.md)"
NOT_YET = "no released run yet; minutes are at the rate of `sprites`"
LPC_POSES = configure(
    {
        "between": "any+standing",
        "augment": ("mirror", "place", "other-character"),
        "latent": 32,
        "beta": 10.0,
    },
    SPRITES,
)
CHARACTERS = "Reed's sprites, packed by `visual-dynamics prepare sprites`"

RECIPES: dict[str, Recipe] = {
    "shapes": Recipe((SHAPES,), 7.7, "error 1.6, copying 195.4"),
    "shapes-small": Recipe((SHAPES_SMALL,), 15.0, "no released run yet; on two CPU cores, by the time of a step"),
    "shapes-ae": Recipe(
        (replace(SHAPES, autoencoder=True),), 7.7, "as long as ours: error 1.2, copying 195.4", motion_encoder=False
    ),
    "shapes-integer": Recipe(
        (replace(INTEGER, steps=8_408), replace(INTEGER, steps=2_701, learning_rate=4e-4, kl_warmup=0)),
        9.3,
        "error 1.6, copying 198.6",
        eight_bits=False,
        motion_encoder=False,
    ),
    "shapes-texture": Recipe((replace(SHAPES, data="shapes-texture", steps=7_856),), 6.2, "error 1.35, copying 248.3"),
    "sprites": Recipe(
        (replace(SPRITES, between="mostly", augment=("jitter=2",), beta=400.0, steps=11_607),),
        8.9,
        "error 13.1, copying 172.1",
        CHARACTERS,
    ),
    "sprites-poses": Recipe(
        (replace(SPRITES, between="any", beta=50.0, steps=14_621),), 10.3, "error 3.3, copying 219.5", CHARACTERS
    ),
    "sprites-lpc": Recipe(
        (replace(SPRITES, between="mostly+starts", augment=("place", "jitter=2"), beta=400.0, steps=30_000),),
        23.0,
        NOT_YET,
        LPC,
    ),
    "sprites-lpc-poses": Recipe(
        (
            replace(LPC_POSES, steps=5_074),
            replace(LPC_POSES, steps=2_976, learning_rate=6e-4, kl_warmup=0),
        ),
        11.6,
        "error 53.5, copying 243.2; both stages beside other trainings",
        LPC,
    ),
    "people": Recipe(
        (
            replace(PEOPLE, batch=64, steps=40_000, stop=23_843),
            replace(PEOPLE, batch=128, steps=5_780, learning_rate=4e-4, kl_warmup=0),
        ),
        18.0,
        "the motion code explains 73 % of the squared difference between two frames of other scenes",
        "the clips of docs/people-clips.csv, prepared by `visual-dynamics prepare videos CLIPS --held-out 0.25`",
        carry_over=True,
    ),
    "people-next": Recipe((PEOPLE_NEXT,), 25.0, UNTRAINED, CLIPS, carry_over=True),
    # Four times the pixels, twice the sigma: a nat buys the same share of the error as at 64x64. Clips are prepared at
    # 128: their frames are warped at this size, and not zoomed into.
    "people-128": Recipe(
        (
            replace(
                PEOPLE_NEXT,
                preset="paper-128",
                augment=("mirror", "reverse", "colour-jitter", "displace=16"),
                warp=1,
                sigma=0.1,
                batch=64,
            ),
        ),
        25.0,
        UNTRAINED,
        CLIPS,
        carry_over=True,
    ),
    "shapes-128": Recipe(
        (configure({"preset": "paper-128", "latent": 8, "sigma": 0.2, "minutes": 25.0}, SHAPES),),
        25.0,
        UNTRAINED,
    ),
}


def find_recipe(name: str) -> Recipe:
    if name not in RECIPES:
        raise UserError(f"no recipe {name!r}; there are {', '.join(RECIPES)}")
    return RECIPES[name]


def write_stages(folder: Path, stages: list[TrainingConfig]) -> None:
    """Keep the plan of several trainings, so that the recipe can be resumed in any of them."""
    write_atomically(folder / STAGES, json.dumps([stage.to_dict() for stage in stages], indent=2).encode() + b"\n")


def read_stages(folder: Path) -> list[TrainingConfig]:
    """The trainings in a folder: those of a recipe, or the one."""
    path = folder / STAGES
    try:
        if not path.exists():
            return [read_config(folder)]
        return [config_from_dict(values) for values in read_json(path)]
    except (OSError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"cannot read {path}: {error}") from error
