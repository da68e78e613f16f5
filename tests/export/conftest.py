"""Exported folders of the tiny network."""

from pathlib import Path

import pytest
import torch

import visual_dynamics as vd
from visual_dynamics.data.pairs import Pairs
from visual_dynamics.export.folder import folder_files
from visual_dynamics.export.programs import Format, Precision
from visual_dynamics.sampling.familiarity import learn
from visual_dynamics.weights import load_weights, with_familiarity


def write(model: vd.Model, folder: Path, form: Format, precision: Precision) -> Path:
    folder.mkdir(parents=True)
    for name, data in folder_files(model, "tiny", form, precision):
        (folder / name).write_bytes(data)
    return folder


@pytest.fixture(scope="session")
def weights_file(tiny_weights_file: Path, tiny_pairs: Pairs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model that knows what its training pictures look like."""
    frames = tiny_pairs.batch(torch.arange(40)).frame
    known = learn(load_weights(tiny_weights_file).network, frames[:30], frames[30:])
    path = tmp_path_factory.mktemp("weights") / "tiny.safetensors"
    path.write_bytes(with_familiarity(tiny_weights_file.read_bytes(), known))
    return path


@pytest.fixture(scope="session")
def model(weights_file: Path) -> vd.Model:
    return vd.load(weights_file)


@pytest.fixture(scope="session")
def folders(model: vd.Model, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[Format, Precision], Path]:
    kinds: list[tuple[Format, Precision]] = [("onnx", "float32"), ("torch", "float16")]
    place = tmp_path_factory.mktemp("export")
    return {kind: write(model, place / "-".join(kind), *kind) for kind in kinds}
