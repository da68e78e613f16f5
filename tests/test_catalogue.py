"""Models by shipped name, path or Hub id."""

from pathlib import Path

import pytest

import visual_dynamics as vd
from visual_dynamics import catalogue
from visual_dynamics.errors import UserError


def test_paths(tiny_weights_file: Path) -> None:
    assert catalogue.find_weights(tiny_weights_file) == tiny_weights_file
    assert vd.load(str(tiny_weights_file)).size == 16


def test_unknown_names_list_what_exists(monkeypatch, tmp_path: Path) -> None:
    (tmp_path / "shapes.safetensors").touch()
    monkeypatch.setattr(catalogue, "SHIPPED", tmp_path)
    with pytest.raises(UserError, match=r"no model 'shape'.*shipped models are shapes"):
        catalogue.find_weights("shape")
    assert catalogue.find_weights("shapes") == tmp_path / "shapes.safetensors"


def test_a_folder_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is a folder"):
        catalogue.find_weights(tmp_path)


def test_hub_ids_are_fetched(monkeypatch, tiny_weights_file: Path) -> None:
    import huggingface_hub

    asked = []

    def download(repository: str, name: str) -> str:
        asked.append((repository, name))
        return str(tiny_weights_file)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    assert vd.load("someone/dancing-shapes").size == 16
    assert asked == [("someone/dancing-shapes", "model.safetensors")]


def test_a_hub_that_cannot_be_reached_is_told_in_one_line(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(UserError, match=r"cannot fetch model.safetensors of 'someone/nothing'") as error:
        catalogue.find_weights("someone/nothing")
    assert "\n" not in str(error.value)
