"""Training in which the motion encoder sees another character make the same move."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.data.test_packed import character
from visual_dynamics.data.packed import packed_pairs
from visual_dynamics.data.shapes import shapes_pairs
from visual_dynamics.errors import UserError
from visual_dynamics.training.augment import draw_others
from visual_dynamics.training.config import TrainingConfig
from visual_dynamics.training.distributed import Processes
from visual_dynamics.training.trainer import Trainer

CPU = torch.device("cpu")
CONFIG = TrainingConfig(preset="tiny", latent=None, batch=6, augment=("other-character",), posteriors=4)


def trainer(config: TrainingConfig, processes: Processes | None = None) -> Trainer:
    return Trainer(
        config, packed_pairs([character(n) for n in range(5)], "any", 16, 0.0), CPU, processes or Processes(), False
    )


def test_the_view_is_of_other_characters_and_the_pair_is_not() -> None:
    made = trainer(CONFIG)
    pair, view, _ = made.batch(2)
    indices = made.mine(2)
    own = [frames.float() / 255 for frames in made.pairs.read(indices)]
    others = [frames.float() / 255 for frames in made.pairs.read_others(indices, draw_others(CONFIG, 2, slice(0, 6)))]
    assert torch.equal(pair.frame, own[0]) and torch.equal(pair.next_frame, own[1])
    assert torch.equal(view.frame, others[0]) and torch.equal(view.next_frame, others[1])
    assert (view.frame != pair.frame).flatten(1).any(1).sum() >= 3  # one in five draws is the same character
    assert torch.isfinite(made.step(2, 0.5)["loss"])


def test_processes_share_the_draws_of_a_batch() -> None:
    whole = draw_others(CONFIG, 3, slice(0, 6))
    assert torch.equal(torch.cat([draw_others(CONFIG, 3, slice(n, n + 3)) for n in (0, 3)]), whole)
    assert not torch.equal(whole, draw_others(CONFIG, 4, slice(0, 6)))


def test_stored_codes_are_of_the_characters_own_motions() -> None:
    made, plain = trainer(CONFIG), trainer(replace(CONFIG, augment=()))
    assert torch.equal(made.posteriors(4).mean, plain.posteriors(4).mean)


def test_other_data_have_no_other_characters(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="other-character is for packed characters"):
        Trainer(CONFIG, shapes_pairs(8, 0, "train", "smooth", 16), CPU, Processes(), False)
