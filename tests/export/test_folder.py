"""Exported programs do what the package does, and their folder needs neither it nor PyTorch."""

import json
import math
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from PIL import Image

import visual_dynamics as vd
from benchmarks.export import differences, run
from tests.conftest import seeded
from tests.export.conftest import write
from visual_dynamics.export.programs import OPSET, SUFFIXES, Format, Precision, exported, programs
from visual_dynamics.model.network import VisualDynamics
from visual_dynamics.model.presets import TINY
from visual_dynamics.sampling import conditional_prior
from visual_dynamics.sampling.conditional_prior import GRID, ConditionalPrior, Velocity

Folders = dict[tuple[Format, Precision], Path]
pytestmark = pytest.mark.filterwarnings("ignore::visual_dynamics.UnfamiliarPicture")
NOT_MUCH = {"float32": 0.01, "float16": 1.0}  # levels of 255


KINDS: list[tuple[Format, Precision]] = [("onnx", "float32"), ("torch", "float16")]


@pytest.mark.parametrize("kind", KINDS)
def test_programs_give_the_package_s_frames(model: vd.Model, folders: Folders, kind: tuple[Format, Precision]) -> None:
    files = {path.stem: path.read_bytes() for path in folders[kind].iterdir() if path.suffix in SUFFIXES.values()}
    found = differences(model, kind[0], files, counts=(1, 7, 64))
    assert set(found) == {"n = 1", "n = 7", "n = 64", "code"}
    code = found.pop("code")
    assert max(found.values()) < NOT_MUCH[kind[1]] and code < {"float32": 1e-5, "float16": 1e-3}[kind[1]]


def test_a_shipped_model_gives_the_package_s_frames() -> None:
    model = vd.load("sprites")
    parts = programs(model.weights, "float16")
    files = {name: exported(parts[name], "onnx") for name in ("encoder", "decoder")}
    assert max(differences(model, "onnx", files, counts=(1, 7)).values()) < NOT_MUCH["float16"]
    large = {
        value.data_type
        for value in onnx.load_from_string(files["decoder"]).graph.initializer
        if math.prod(value.dims) > 20_000
    }
    assert large == {onnx.TensorProto.FLOAT16}
    assert len(files["decoder"]) < 5e6


@pytest.fixture(scope="module")
def warping(model: vd.Model) -> vd.Model:
    torch.manual_seed(2)
    return vd.Model(replace(model.weights, network=VisualDynamics(replace(TINY, warp=2)).eval()))


@pytest.mark.parametrize("kind", KINDS)
def test_a_network_that_warps_takes_its_larger_frames(warping: vd.Model, kind: tuple[Format, Precision]) -> None:
    form, precision = kind
    files = {name: exported(part, form) for name, part in programs(warping.weights, precision).items()}
    found = differences(warping, form, files, counts=(1, 7, 64))
    assert found.pop("code") < 1e-3 and max(found.values()) < NOT_MUCH[precision]


@pytest.fixture(scope="module")
def looking(model: vd.Model) -> Iterator[vd.Model]:
    """A model with p(z | image), in two steps instead of ten."""
    torch.manual_seed(3)
    count = TINY.kernel_channels * GRID**2
    velocity = Velocity(3, count, width=32, blocks=1, embedding=32).requires_grad_(False).eval()
    velocity.blocks[0].second.weight.normal_()
    codes, segments = torch.tensor([[0.5, -1.0, 0.0], [1.0, 2.0, 0.5]]), seeded(2, count).exp()
    prior = ConditionalPrior(torch.tensor([7, 0, 150]).int(), codes, segments, velocity, TINY.latent)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conditional_prior, "STEPS", 2)
        yield vd.Model(replace(model.weights, conditional=prior))


@pytest.mark.parametrize("kind", KINDS)
def test_codes_that_suit_the_image_are_the_package_s(looking: vd.Model, kind: tuple[Format, Precision]) -> None:
    form, precision = kind
    parts = programs(looking.weights, precision)
    files = {name: exported(parts[name], form) for name in ("encoder", "decoder", "conditional")}
    assert max(differences(looking, form, files, counts=(1, 7, 64)).values()) < NOT_MUCH[precision]
    image = looking.predictor.encode_image(seeded(3, 16, 16).sigmoid())
    for count in (1, 7, 64):
        noise = looking.source("prior").draw(range(count)).numpy()
        (z,) = run(form, files["conditional"], *(maps.numpy() for maps in image.features), noise)
        expected = looking.source("conditional").draw(range(count), image).numpy()
        assert np.abs(z - expected).max() < {"float32": 1e-5, "float16": 1e-2}[precision]
        assert np.abs(noise - expected).max() > 0.1


def test_the_list_of_programs_is_true(folders: Folders) -> None:
    onnx_folder = folders["onnx", "float32"]
    about = json.loads((onnx_folder / "model.json").read_text())
    assert about["size"] == about["picture_size"] == 16 and about["latent"] == 200 and about["background"] == 1.0
    assert about["weights"] == "float32" and len(about["digest"]) == 64
    for program in about["programs"].values():
        session = onnxruntime.InferenceSession(onnx_folder / program["file"])
        for shown, real in ((program["inputs"], session.get_inputs()), (program["outputs"], session.get_outputs())):
            assert list(shown) == [each.name for each in real]
            for each in real:
                assert [side for side in each.shape if isinstance(side, int)] == [
                    side for side in shown[each.name] if isinstance(side, int)
                ]
        assert onnx.load(onnx_folder / program["file"]).opset_import[0].version == OPSET
    for source in about["sources"].values():
        arrays = np.load(onnx_folder / source["file"])
        assert {name: list(arrays[name].shape) for name in arrays} == source["arrays"]
    listed = [each["file"] for group in ("programs", "sources") for each in about[group].values()]
    assert {path.name for path in onnx_folder.iterdir()} == {*listed, "model.json", "README.md"}


# --- the README ---

BLOCKED = "import sys; sys.modules['torch'] = sys.modules['visual_dynamics'] = None\n"  # importing either is an error


def run_readme(folder: Path, place: Path, before: str = BLOCKED) -> np.ndarray:
    """The README's futures of a picture, but for their number, (64, S, S, 3)."""
    (code,) = re.findall(r"^```python\n(.*?)^```$", (folder / "README.md").read_text(), re.M | re.S)
    assert len(code.splitlines()) <= 18  # two of them empty
    for path in folder.iterdir():
        (place / path.name).write_bytes(path.read_bytes())
    more = code.replace("range(8)", "range(64)")
    done = subprocess.run([sys.executable, "-c", before + more], cwd=place, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return np.stack([np.array(Image.open(place / f"future_{k}.png")) for k in range(64)])


def picture_of(side: int, place: Path) -> Path:
    frame = (255 * seeded(side, side, 3).sigmoid()).to(torch.uint8).numpy()
    Image.fromarray(frame).save(place / "picture.png")
    return place / "picture.png"


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    return picture_of(16, tmp_path)


def test_codes_that_suit_the_image_in_the_readme_s_lines(looking: vd.Model, tmp_path: Path, picture: Path) -> None:
    folder = write(looking, tmp_path / "looking", "onnx", "float32")
    about = json.loads((folder / "model.json").read_text())
    assert about["programs"]["conditional"]["outputs"] == {"z": ["n", 200]}
    assert set(about["sources"]) == {"posteriors", "mixture"}
    expected = looking.sample(picture, n=64, seed=0)
    found = run_readme(folder, tmp_path)
    assert np.abs(found.astype(int) - expected).max() <= 1
    assert np.abs(expected.astype(int) - looking.sample(picture, n=64, seed=0, source="prior")).max() > 2


def test_a_network_that_warps_in_the_readme_s_lines(warping: vd.Model, tmp_path: Path) -> None:
    folder = write(warping, tmp_path / "warping", "onnx", "float32")
    picture = picture_of(32, tmp_path)
    assert np.abs(run_readme(folder, tmp_path).astype(int) - warping.sample(picture, n=64, seed=0)).max() <= 1


def test_the_readme_s_lines_give_the_futures_of_the_package_without_torch(
    model: vd.Model, folders: Folders, picture: Path
) -> None:
    found = run_readme(folders["onnx", "float32"], picture.parent)
    expected = model.sample(picture, n=64, seed=0)
    assert np.abs(found.astype(int) - expected).max() <= 1
    assert (found == expected).mean() > 0.99


def test_a_lighter_copy_in_the_other_format_has_its_mixture_and_no_motion_encoder(
    model: vd.Model, tmp_path: Path, picture: Path
) -> None:
    model.save_copy(tmp_path / "light.safetensors", motion_encoder=False, learned_prior=True)
    light = vd.load(tmp_path / "light.safetensors")
    folder = write(light, tmp_path / "light", "torch", "float32")
    assert {path.name for path in folder.iterdir()} == {
        *("encoder.pt2", "decoder.pt2", "mixture.npz", "model.json", "README.md")
    }
    found = run_readme(folder, picture.parent, "import sys; sys.modules['visual_dynamics'] = None\n")
    assert np.abs(found.astype(int) - light.sample(picture, n=64, seed=0)).max() <= 1
