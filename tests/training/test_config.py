"""Options of a run: read from text and from files of both releases, written as a command, the same everywhere."""

import json
from dataclasses import fields, replace
from pathlib import Path

import pytest

from visual_dynamics.data.pairs import BETWEEN
from visual_dynamics.errors import UserError
from visual_dynamics.training.augment import LIST
from visual_dynamics.training.config import (
    AUGMENTATIONS,
    OLD_PRESETS,
    OTHERS,
    TrainingConfig,
    command_words,
    config_from_dict,
    configure,
    parse_settings,
    read_config_file,
)


def test_tables_agree() -> None:
    assert (*LIST, OTHERS) == tuple(AUGMENTATIONS)
    choices = {each.name: each.metadata.get("choices") for each in fields(TrainingConfig)}
    assert choices["between"][: len(BETWEEN)] == BETWEEN
    assert all(each.metadata["help"] for each in fields(TrainingConfig))


def test_the_defaults_are_the_released_shapes_model() -> None:
    config = TrainingConfig()
    assert (config.data, config.rendering, config.network.latent) == ("shapes", "smooth", 8)
    assert config.augmentations == {"permute-channels": 1.0} and config.steps == 3_062
    assert (config.sigma, config.beta, config.batch, config.learning_rate) == (0.1, 1.0, 128, 1e-3)


def test_a_run_is_over_at_its_stop_or_at_the_end_of_its_budget() -> None:
    config = TrainingConfig(steps=10, stop=4)
    assert [config.is_over(step, step / 10) for step in (3, 4)] == [False, True]
    assert [TrainingConfig(steps=10).is_over(step, step / 10) for step in (9, 10)] == [False, True]


def test_a_preset_brings_its_z_and_one_budget_replaces_another() -> None:
    assert configure({"preset": "sprites"}).network.latent == 16
    assert configure({"preset": "tiny", "latent": 8}).network.latent == 8
    assert configure({"latent": 32}).network.latent == 32
    assert configure({"minutes": 3.0}).steps is None
    assert configure({"steps": 3}, TrainingConfig(steps=None, minutes=2)).minutes is None
    with pytest.raises(UserError, match="either steps or minutes"):
        configure({"steps": 3, "minutes": 3.0})


@pytest.mark.parametrize("name", OLD_PRESETS)
def test_presets_of_the_first_release(name: str) -> None:
    network = configure({"preset": name}).network
    assert network.latent_scale == name.endswith("uneven")
    wanted = name.split("-z")[1].split("-")[0] if "-z" in name else "3200"
    assert network.latent == int(wanted)


def test_a_configuration_of_the_first_release(tmp_path: Path) -> None:
    old = {"data": "shapes", "rendering": "integer", "preset": "paper-z16", "bottleneck": 4.0, "recolour": True}
    old |= {"light": False, "mirror": True, "reverse": False, "zoom": 1.0, "shift": 3, "jitter": 0, "steps": 7}
    (tmp_path / "config.json").write_text(json.dumps(old))
    config = read_config_file(tmp_path / "config.json")
    assert config == TrainingConfig(
        rendering="integer", augment=("mirror", "shift=3", "permute-channels"), latent=16, beta=4.0, steps=7
    )
    assert config_from_dict({"preset": "paper"}).network.latent == 3200


@pytest.mark.parametrize("text", ["[]", "{", '{"augment": 3}', '{"augment": [], "colour": 1}'])
def test_files_that_are_no_configuration(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(UserError, match="cannot read"):
        read_config_file(tmp_path / "config.json")


def test_settings_are_read_by_type() -> None:
    read = parse_settings(
        ["kl-warmup=0", "sigma=0.5", "stream=true", "also=none", "between=any", "augment=mirror,shift=2"]
    )
    assert read == {"kl_warmup": 0, "sigma": 0.5, "stream": True, "also": None, "between": "any"} | {
        "augment": ("mirror", "shift=2")
    }


@pytest.mark.parametrize(
    "config",
    [
        TrainingConfig(),
        TrainingConfig(latent=None),
        TrainingConfig(preset="tiny", latent=8, augment=()),
        TrainingConfig(steps=None, minutes=2.5, autoencoder=True, augment=("zoom=2", "jitter=1"), start="a model"),
    ],
    ids=["default", "whole z", "tiny", "many"],
)
def test_a_command_makes_the_configuration(config: TrainingConfig) -> None:
    import typer

    from visual_dynamics.cli.main import app

    words = command_words(config)
    params = typer.main.get_command(app).commands["train"].make_context("train", ["run", *words]).params  # type: ignore[attr-defined]
    given = {each.name: params[each.name] for each in fields(config) if params.get(each.name) not in (None, ())}
    given |= parse_settings(list(params["settings"] or ()))
    if "augment" in given:
        given["augment"] = tuple(name for name in given["augment"] if name != "none")
    assert configure(given) == config
    assert config_from_dict(json.loads(json.dumps(config.to_dict()))) == config
    assert replace(config) == config
