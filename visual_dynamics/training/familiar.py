"""What a model's training pictures look like to it, measured for its weights file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from visual_dynamics.data.pairs import Pair, Pairs, spread
from visual_dynamics.data.sources import draws_people, open_data, recognise
from visual_dynamics.errors import UserError
from visual_dynamics.files import write_atomically
from visual_dynamics.model.image_encoder import resize
from visual_dynamics.model.network import VisualDynamics
from visual_dynamics.sampling.familiarity import Familiarity, learn
from visual_dynamics.training.augment import augment
from visual_dynamics.training.config import TrainingConfig, config_from_dict
from visual_dynamics.training.trainer import data_spec, training_pairs, worn
from visual_dynamics.weights import Weights, load_weights, with_familiarity

PICTURES = 2_048  # that are looked at
LEAST = 8  # pairs
MANY = 32  # pairs for validation that are read for each frame that is looked at
DRAWN = PICTURES  # pairs that are mixed in, at most: they are drawn for this


def familiarity_of(
    network: VisualDynamics, config: TrainingConfig, pairs: Pairs, count: int = PICTURES
) -> Familiarity | None:
    """Measured on training pictures as the network saw them; limits come from half as many for validation.

    None where there are too few pairs to say anything.
    """
    count = min(count, len(pairs))
    if count < LEAST:
        return None
    training = seen_in_training(config, pairs, count)
    validation = for_validation(config, pairs, count // 2)
    if validation is None:  # the data have none: some of the training pictures stand for them
        validation, training = training[::4], torch.cat([training[first::4] for first in (1, 2, 3)])
    was_training = network.training
    found = learn(network.eval(), training, validation)
    network.train(was_training)
    return found


def seen_in_training(config: TrainingConfig, pairs: Pairs, count: int) -> Tensor:
    """Frames of training pairs picked at random, augmented as in training: floats (n, 3, S, S) on the CPU."""
    chosen = spread(len(pairs), count, config.seed)
    frames, next_frames = pairs.read(chosen)
    pair = Pair(frames.cpu().float() / 255, next_frames.cpu().float() / 255)
    seen, _ = augment(pair, replace(config, batch=len(chosen)), step=0, part=slice(0, len(chosen)))
    return resize(seen.frame, config.network.size).contiguous()


def for_validation(config: TrainingConfig, pairs: Pairs, count: int) -> Tensor | None:
    """Frames for validation, floats (n, 3, S, S); of a mixture half of each kind. None where the data have none."""
    spec = data_spec(config, config.network.size)
    specs = [spec, replace(spec, data=config.also)] if config.also else [spec]
    kinds = []
    for each in specs:
        number = count // len(specs)
        wanted = number if recognise(each) == "drawn" else MANY * number
        found = open_data(each, "validation", wanted, wear=worn(config, pairs) if draws_people(each.data) else None)
        if found is not None:  # each frame counts once: those of long animations begin more pairs
            frames = found.first.unique()
            kinds.append(found.store[frames[spread(len(frames), number, config.seed)]].cpu())
    return torch.cat(kinds).float() / 255 if kinds else None


def familiarize(path: Path, data: str | None = None) -> Familiarity:
    """Measure a model that is trained already, and store the result in its file; `data` is where its data lie now.

    The same file and data give the same result. Nothing else in the file changes, nor does its digest.
    """
    weights = load_weights(path)
    config = config_of(path, weights)
    drawn = min(config.also_pairs or DRAWN, DRAWN) if config.also else None
    config = replace(config, data=data or config.data, also_pairs=drawn)
    found = familiarity_of(weights.network, config, training_pairs(config))
    if found is None:
        raise UserError(f"{config.data} has fewer than {LEAST} training pairs")
    write_atomically(path, with_familiarity(path.read_bytes(), found))
    return found


def config_of(path: Path, weights: Weights) -> TrainingConfig:
    """How the model in a file was trained."""
    try:
        return config_from_dict(weights.training["config"])
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path} does not say how it was trained") from error
