"""Sprite characters of noise, and their packed files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from tests.characters import noise_characters
from visual_dynamics.data.reed import Characters, pack_characters


@pytest.fixture(scope="session")
def made() -> Characters:
    """Three characters of coloured noise: black where the mask is not, as in most of the real ones."""
    return noise_characters(3)


@pytest.fixture(scope="session")
def packed_once(made: Characters, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sprites") / "packed"
    pack_characters(made, folder)
    return folder


@pytest.fixture
def packed(packed_once: Path, tmp_path: Path) -> Path:
    """A packed folder that a test may spoil."""
    return shutil.copytree(packed_once, tmp_path / "packed")


def assert_same(some: Characters, others: Characters) -> None:
    assert len(some) == len(others)
    for place in range(len(some)):
        assert torch.equal(some.rgba(place), others.rgba(place))
    assert (some.attributes == others.attributes).all()
    assert (some.numbers == others.numbers).all()
