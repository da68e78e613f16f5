"""Exported folders of the tiny network."""

from pathlib import Path

import pytest

import visual_dynamics as vd
from visual_dynamics.export.folder import folder_files
from visual_dynamics.export.programs import Format, Precision


def write(model: vd.Model, folder: Path, form: Format, precision: Precision) -> Path:
    folder.mkdir(parents=True)
    for name, data in folder_files(model, "tiny", form, precision):
        (folder / name).write_bytes(data)
    return folder


@pytest.fixture(scope="session")
def model(tiny_weights_file: Path) -> vd.Model:
    return vd.load(tiny_weights_file)


@pytest.fixture(scope="session")
def folders(model: vd.Model, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[Format, Precision], Path]:
    kinds: list[tuple[Format, Precision]] = [("onnx", "float32"), ("torch", "float16")]
    place = tmp_path_factory.mktemp("export")
    return {kind: write(model, place / "-".join(kind), *kind) for kind in kinds}
