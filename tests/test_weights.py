"""The model file: what goes in comes out, in little space, and nothing else is taken for one."""

import hashlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from huggingface_hub.errors import HTTPError
from safetensors.torch import load_file, save, save_file

import visual_dynamics as vd
from tests.conftest import seeded
from visual_dynamics import model_files
from visual_dynamics.errors import UserError
from visual_dynamics.model.motion_encoder import Posterior
from visual_dynamics.model.network import VisualDynamics
from visual_dynamics.model.presets import PAPER, TINY, NetworkConfig
from visual_dynamics.sampling.latents import LearnedPrior, TrainingPosteriors
from visual_dynamics.tensors import of_eight_bits, to_eight_bits
from visual_dynamics.weights import MAX_BYTES, Weights, load_weights, save_copy, weights_bytes


def sparse_posterior(count: int, latent: int, active: int) -> Posterior:
    """Posteriors that carry something in the first dimensions only."""
    mean, log_variance = torch.zeros(count, latent), torch.zeros(count, latent)
    mean[:, :active] = 2 * seeded(count, active)
    log_variance[:, :active] = -4 + 0.3 * seeded(count, active, seed=1)
    return Posterior(mean, log_variance)


def test_round_trip(tiny_network: VisualDynamics, tmp_path: Path) -> None:
    tiny_network.train()(torch.rand(4, 3, 16, 16), seeded(4, 3, 16, 16), None)  # moves the batch statistics
    posterior = sparse_posterior(30, 200, 12)
    (tmp_path / "m.safetensors").write_bytes(weights_bytes(tiny_network, posterior, {"step": 7}))
    loaded = load_weights(tmp_path / "m.safetensors")
    assert loaded.training == {"step": 7}
    assert loaded.network.config == TINY
    assert not loaded.network.training and not any(p.requires_grad for p in loaded.network.parameters())
    frame, difference = torch.rand(2, 3, 16, 16), seeded(2, 3, 16, 16) / 10
    with torch.no_grad():
        expected = tiny_network.eval()(frame, difference, None).difference
        torch.testing.assert_close(loaded.network(frame, difference, None).difference, expected, rtol=0, atol=5e-3)


@pytest.mark.parametrize("name", ["format", "network", "training"])
def test_metadata_without_end(tiny_weights_file: Path, tmp_path: Path, name: str) -> None:
    """Nested too deeply for Python, or with a number that is none."""
    header = metadata_of(tiny_weights_file)
    for text in ("[" * 100_000, '{"step": 1e999}', '{"step": Infinity}', '{"size": NaN}'):
        error_of(changed(tiny_weights_file, tmp_path / "odd.safetensors", header | {name: text}))


@pytest.mark.parametrize(
    "change",
    [
        {"size": 256},  # 1.5 GB and ten seconds for one frame
        {"size": 1024},
        {"size": 64.0},
        {"size": True},
        {"scales": 40},
        {"motion_size": 10**9},
        {"latent": 10**9},
        {"latent": 8.5},
        {"warp": 10**9},
        {"difference_scale": "x"},
        {"difference_scale": 10**30},
        {"decoder_channels": [10**12, 1]},
        {"motion_layers": 40 * [{"channels": 16}]},
        {"motion_layers": []},
        {"image_layers": [{"channels": 4, "pooled": 10**9}]},
    ],
    ids=str,
)
def test_configurations_that_would_take_too_much(change: dict[str, Any]) -> None:
    """ValueError or TypeError at once: a file becomes an error before anything is computed with it."""
    started = time.process_time()
    with pytest.raises((ValueError, TypeError)):
        NetworkConfig.from_dict(PAPER.to_dict() | change)
    assert time.process_time() - started < 1


def test_another_size_than_that_of_the_training(tiny_weights_file: Path, tmp_path: Path) -> None:
    """Tensors fit any size: the file would load, and its pictures mean nothing."""
    header = metadata_of(tiny_weights_file)
    training = {"training": json.dumps({"config": {"preset": "tiny"}})}
    larger = {"network": json.dumps(TINY.to_dict() | {"size": 32})}
    assert load_weights(changed(tiny_weights_file, tmp_path / "same.safetensors", header | training))
    words = error_of(changed(tiny_weights_file, tmp_path / "larger.safetensors", header | training | larger))
    assert "it was trained on frames of 16 pixels, and now says 32" in words


def test_files_that_are_too_large(tiny_weights_file: Path, tmp_path: Path) -> None:
    data, path = tiny_weights_file.read_bytes(), tmp_path / "large.safetensors"
    path.write_bytes(data)
    os.truncate(path, model_files.MAX_FILE_BYTES + 1)  # takes no room on the disk
    assert "too large" in error_of(path)
    header = metadata_of(tiny_weights_file) | {"training": " " * model_files.MAX_HEADER + "{}"}
    assert "too large" in error_of(changed(tiny_weights_file, path, header))


def test_the_digest_is_of_all_bytes_but_those_of_training_pictures(tiny_weights_file: Path) -> None:
    data = tiny_weights_file.read_bytes()
    digest = model_files.digest_of(data)
    assert digest == hashlib.sha256(data).hexdigest() == load_weights(tiny_weights_file).digest
    header = 8 + int.from_bytes(data[:8], "little")
    for place in (header, (header + len(data)) // 2, len(data) - 1):
        assert model_files.digest_of(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]) != digest
    more = model_files.with_group(data, model_files.FAMILIAR, {"mean": np.zeros(3, np.float32)})
    assert more != data and model_files.digest_of(more) == digest


def test_blocks_of_zeros_and_of_the_smallest_numbers_in_eight_bits() -> None:
    """A step of zero would divide by it."""
    value = torch.zeros(3, 32, dtype=torch.float16)
    value[1, 3], value[2] = 2.0**-24, torch.linspace(-1, 1, 32).half()
    numbers, step = to_eight_bits(value)
    assert (step > 0).all() and not numbers[0].any()
    assert torch.allclose(of_eight_bits(numbers, step), value.float(), atol=0.5 / 127)
    assert float(of_eight_bits(numbers, step)[1, 3]) == 2.0**-24


def test_posteriors_survive_one_byte_a_number() -> None:
    posterior = sparse_posterior(50, 300, 9)
    stored = TrainingPosteriors.compress(posterior, max_bytes=10_000)
    assert stored.dimensions.tolist() == list(range(9))
    assert len(stored) == 50
    rows = torch.tensor([0, 17, 49, 17])
    mean, log_variance = stored.posterior(rows)
    assert (mean - posterior.mean[rows]).abs().max() < 0.5 * (posterior.mean.max() - posterior.mean.min()) / 255
    assert (log_variance - posterior.log_variance[rows]).abs().max() < 0.01


def test_posteriors_keep_to_their_space() -> None:
    stored = TrainingPosteriors.compress(sparse_posterior(100, 300, 10), max_bytes=600)
    assert len(stored) == 20 and stored.mean.nbytes + stored.log_variance.nbytes == 400


def test_the_paper_s_network_fits_into_14_megabytes(tmp_path: Path) -> None:
    (tmp_path / "m.safetensors").write_bytes(
        weights_bytes(VisualDynamics(PAPER), sparse_posterior(4000, 3200, 200), {"step": 1})
    )
    assert 13_990_000 < (tmp_path / "m.safetensors").stat().st_size <= MAX_BYTES
    assert len(load_weights(tmp_path / "m.safetensors").posteriors) > 1000


def test_a_network_that_fills_the_file_still_has_posteriors(tiny_network: VisualDynamics, tmp_path: Path) -> None:
    (tmp_path / "m.safetensors").write_bytes(
        weights_bytes(tiny_network, sparse_posterior(500, 200, 40), {}, max_bytes=1000)
    )
    assert len(load_weights(tmp_path / "m.safetensors").posteriors) == 500


def changed(source: Path, target: Path, metadata: dict[str, str]) -> Path:
    target.write_bytes(save(load_file(source), metadata))
    return target


def metadata_of(path: Path) -> dict[str, str]:
    size = int.from_bytes(path.read_bytes()[:8], "little")
    return json.loads(path.read_bytes()[8 : 8 + size])["__metadata__"]


def error_of(path: Path) -> str:
    with pytest.raises(UserError) as error:
        load_weights(path)
    assert "\n" not in str(error.value) and path.name in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("version", [0, 3, 9])
def test_other_versions_are_named(tiny_weights_file: Path, tmp_path: Path, version: int) -> None:
    header = metadata_of(tiny_weights_file) | {"format": json.dumps({"name": "visual-dynamics", "version": version})}
    assert f"version {version};" in error_of(changed(tiny_weights_file, tmp_path / "other.safetensors", header))


@pytest.mark.parametrize("part", [0, 4, 100, 3000, -1])
def test_truncated_files(tiny_weights_file: Path, tmp_path: Path, part: int) -> None:
    (tmp_path / "cut.safetensors").write_bytes(tiny_weights_file.read_bytes()[:part])
    error_of(tmp_path / "cut.safetensors")


def test_foreign_files(tiny_weights_file: Path, tmp_path: Path) -> None:
    save_file({"a": torch.zeros(3)}, tmp_path / "foreign.safetensors")
    assert "not a visual-dynamics model" in error_of(tmp_path / "foreign.safetensors")
    (tmp_path / "noise.safetensors").write_bytes(bytes(range(256)) * 20)
    error_of(tmp_path / "noise.safetensors")
    torch.save({"weights": torch.zeros(3)}, tmp_path / "pickle.safetensors")
    error_of(tmp_path / "pickle.safetensors")
    error_of(tmp_path / "missing.safetensors")
    error_of(tmp_path)


def test_other_configurations_and_missing_parts(tiny_weights_file: Path, tmp_path: Path) -> None:
    header = metadata_of(tiny_weights_file)
    other = header | {"network": json.dumps(PAPER.to_dict())}
    assert "Missing key(s) in state_dict" in error_of(changed(tiny_weights_file, tmp_path / "o.safetensors", other))
    for broken in ({"network": "{}"}, {"network": "[1]"}, {"network": "nonsense"}, {"training": "{"}):
        error_of(changed(tiny_weights_file, tmp_path / "broken.safetensors", header | broken))
    tensors = load_file(tiny_weights_file)
    for name in ("posteriors.mean", "network.motion_decoder.last.bias"):
        lacking = {key: value for key, value in tensors.items() if key != name}
        (tmp_path / "lacking.safetensors").write_bytes(save(lacking, header))
        error_of(tmp_path / "lacking.safetensors")
    tensors["posteriors.dimensions"] = tensors["posteriors.dimensions"] + 100_000
    (tmp_path / "wild.safetensors").write_bytes(save(tensors, header))
    assert "posteriors" in error_of(tmp_path / "wild.safetensors")


def small_prior(latent: int) -> LearnedPrior:
    """Two components in two dimensions of z."""
    factor = 0.1 * torch.eye(2).repeat(2, 1, 1)
    return LearnedPrior(
        torch.tensor([1, 3], dtype=torch.int32), torch.tensor([0.25, 0.75]), seeded(2, 2), factor, latent
    )


@pytest.fixture
def light(tiny_weights: Weights, tmp_path: Path) -> Path:
    """The tiny model with a learned prior in place of its posteriors."""
    prior = small_prior(tiny_weights.network.config.latent)
    save_copy(tmp_path / "light.safetensors", tiny_weights, prior=prior)
    return tmp_path / "light.safetensors"


def test_a_learned_prior_in_place_of_posteriors(tiny_weights: Weights, light: Path) -> None:
    loaded = load_weights(light)
    assert tiny_weights.prior is None and loaded.prior is not None
    assert len(loaded.posteriors) == 0 and loaded.posteriors.latent == loaded.prior.latent == TINY.latent
    assert loaded.training == tiny_weights.training
    expected = vars(small_prior(TINY.latent))
    assert all(
        torch.equal(vars(loaded.prior)[name], expected[name]) for name in ("dimensions", "weight", "mean", "factor")
    )
    pairs = zip(loaded.network.state_dict().items(), tiny_weights.network.state_dict().items(), strict=True)
    assert all(name == other and torch.equal(one, two) for (name, one), (other, two) in pairs)


def test_posteriors_and_learned_prior_together(tiny_weights_file: Path, light: Path, tmp_path: Path) -> None:
    both = load_file(light) | load_file(tiny_weights_file)
    (tmp_path / "both.safetensors").write_bytes(save(both, metadata_of(light)))
    loaded = load_weights(tmp_path / "both.safetensors")
    assert len(loaded.posteriors) == 40 and loaded.prior is not None


def test_malformed_learned_priors(light: Path, tmp_path: Path) -> None:
    tensors, header, broken = load_file(light), metadata_of(light), tmp_path / "broken.safetensors"
    changes = {
        "prior.dimensions": tensors["prior.dimensions"] + 100_000,
        "prior.weight": tensors["prior.weight"] * 2,
        "prior.mean": tensors["prior.mean"] / 0,
        "prior.factor": tensors["prior.factor"][:, :1].clone(),
    }
    for name, value in changes.items():
        broken.write_bytes(save(tensors | {name: value}, header))
        assert "learned prior is malformed" in error_of(broken)
        broken.write_bytes(save({key: part for key, part in tensors.items() if key != name}, header))
        assert name in error_of(broken)
    broken.write_bytes(save({key: part for key, part in tensors.items() if not key.startswith("prior.")}, header))
    assert "neither training posteriors nor a learned prior" in error_of(broken)


def test_a_file_without_the_motion_encoder_still_samples(tiny_weights: Weights, tmp_path: Path) -> None:
    path = tmp_path / "sampling.safetensors"
    save_copy(path, tiny_weights, motion_encoder=False)
    assert not any("motion_encoder" in name for name in load_file(path))
    light = load_weights(path)
    assert tiny_weights.encodes_motion and not light.encodes_motion
    frame, z = seeded(1, 3, TINY.size, TINY.size), seeded(1, TINY.latent)
    one, two = (
        w.network.decode(w.network.encode_image(frame), w.network.kernel_decoder(z), frame)
        for w in (tiny_weights, light)
    )
    assert torch.equal(one, two)
    assert torch.equal(light.posteriors.mean, tiny_weights.posteriors.mean)
    with pytest.raises(UserError, match="without its motion encoder"):
        light.network.encode_motion(frame, frame)


def test_one_byte_a_weight(tiny_weights: Weights, tmp_path: Path) -> None:
    """No weight is off by more than half a step, a 254th of the largest of its 32 neighbours in memory; the motion
    decoder's, which paint pixels, are not off at all."""
    save_copy(tmp_path / "copy.safetensors", tiny_weights, eight_bits=True)
    stored = load_file(tmp_path / "copy.safetensors")
    for key, value in stored.items():
        if key.startswith("network."):
            assert (value.dtype == torch.int8) == (value.ndim > 1 and "motion_decoder" not in key)
    copy = load_weights(tmp_path / "copy.safetensors")
    assert torch.equal(copy.posteriors.mean, tiny_weights.posteriors.mean)
    for (name, value), exact in zip(
        copy.network.state_dict().items(), tiny_weights.network.state_dict().values(), strict=True
    ):
        if value.ndim <= 1 or name.startswith("motion_decoder"):
            assert torch.equal(value, exact)
        else:
            for one, two in zip(value.flatten().split(32), exact.flatten().split(32), strict=True):
                assert (one - two).abs().max() <= 1.01 * two.abs().max() / 254 + 1e-7, name


def test_copies_of_copies(tiny_weights: Weights, tmp_path: Path) -> None:
    """A copy of eight bits can be copied again in float16, and what is left out stays out."""
    save_copy(tmp_path / "a.safetensors", tiny_weights, eight_bits=True, motion_encoder=False)
    first = load_weights(tmp_path / "a.safetensors")
    save_copy(tmp_path / "b.safetensors", first)
    second = load_weights(tmp_path / "b.safetensors")
    assert not second.encodes_motion
    for one, two in zip(first.network.state_dict().values(), second.network.state_dict().values(), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-6)
    save_copy(tmp_path / "c.safetensors", second, prior=small_prior(TINY.latent))
    save_copy(tmp_path / "d.safetensors", load_weights(tmp_path / "c.safetensors"))
    assert load_weights(tmp_path / "d.safetensors").prior is not None


def test_malformed_steps(tiny_weights: Weights, tmp_path: Path) -> None:
    path = tmp_path / "copy.safetensors"
    save_copy(path, tiny_weights, eight_bits=True)
    tensors, header = load_file(path), metadata_of(path)
    name = next(name for name in tensors if name.startswith("steps."))
    for value in (tensors[name][:1].clone(), tensors[name] / 0):
        path.write_bytes(save(tensors | {name: value}, header))
        assert "malformed" in error_of(path)
    path.write_bytes(save({key: value for key, value in tensors.items() if key != name}, header))
    assert name in error_of(path)


@pytest.mark.parametrize("eight_bits", [False, True])
def test_overwritten_bytes(tiny_weights: Weights, tmp_path: Path, eight_bits: bool) -> None:
    """Values that no training writes: NaN, infinity, a variance below 0."""
    path = tmp_path / "damaged.safetensors"
    save_copy(path, tiny_weights, eight_bits=eight_bits)
    tensors, header = load_file(path), metadata_of(path)
    for name, number in (
        ("network.motion_decoder.wide.weight", float("nan")),
        ("network.motion_decoder.last.bias", float("inf")),
        (next(name for name in tensors if name.endswith("running_var")), -1.0),
    ):
        damaged = tensors[name].clone()
        damaged.flatten()[0] = number
        path.write_bytes(save(tensors | {name: damaged}, header))
        assert f"{name} holds impossible numbers" in error_of(path)


# --- models by shipped name, path or Hub id ---


def test_paths(tiny_weights_file: Path) -> None:
    assert model_files.find_weights(tiny_weights_file) == tiny_weights_file
    assert vd.load(str(tiny_weights_file)).size == 16


def test_unknown_names_list_what_exists(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "shapes.safetensors").touch()
    monkeypatch.setattr(model_files, "SHIPPED", tmp_path)
    with pytest.raises(UserError, match=r"no model 'shape'.*shipped models are shapes"):
        model_files.find_weights("shape")
    assert model_files.find_weights("shapes") == tmp_path / "shapes.safetensors"


def test_a_folder_is_no_model_but_one_inside_is_named(tmp_path: Path) -> None:
    """The state of a training is none."""
    for made, words in ((None, "file"), ("state", "file"), ("weights", f"file: give {tmp_path}/weights.safetensors")):
        if made:
            (tmp_path / f"{made}.safetensors").touch()
        with pytest.raises(UserError) as error:
            model_files.find_weights(tmp_path)
        assert str(error.value) == f"{tmp_path} is a folder; a model is a .safetensors {words}"


def test_hub_ids_are_fetched(monkeypatch: pytest.MonkeyPatch, tiny_weights_file: Path) -> None:
    import huggingface_hub

    asked = []

    def download(repository: str, name: str, revision: str | None) -> str:
        asked.append((repository, name, revision))
        return str(tiny_weights_file)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    shapes = ("someone/dancing-shapes", "model.safetensors")
    revisions = ("main", "v2", "refs/pr/1", "0123456789abcdef0123456789abcdef01234567")
    for revision in revisions:
        assert vd.load(f"someone/dancing-shapes@{revision}").size == 16
    assert asked == [(*shapes, revision) for revision in revisions]


def test_a_mistyped_path_is_no_hub_id(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("huggingface_hub.hf_hub_download", lambda *_, **__: pytest.fail("asked the Hub"))
    monkeypatch.chdir(tmp_path)
    names = ("runs/mine", "runs/mine.safetensors", "a/b/c", "nowhere/mine@2.safetensors", str(tmp_path / "mine"))
    for name in names:
        with pytest.raises(UserError, match="there is no such file"):
            model_files.find_weights(name)
    with pytest.raises(UserError, match=r"if it is on the Hugging Face Hub: runs/mine@main"):
        model_files.find_weights("runs/mine")


class FakeApi:
    """Stands for huggingface_hub.HfApi: keeps what would be uploaded."""

    made: ClassVar[list[tuple[str, dict[str, bytes]]]] = []

    def create_repo(self, repo_id: str, exist_ok: bool) -> None:
        if repo_id == "nobody/here":
            raise ValueError("you are not logged in\nand much more")
        if repo_id == "nobody/there":
            raise HTTPError("no connection")

    def create_commit(self, repo_id: str, operations: list[Any], commit_message: str) -> None:
        files = {each.path_in_repo: Path(each.path_or_fileobj).read_bytes() for each in operations}
        self.made.append((repo_id, files))


def test_push(monkeypatch: pytest.MonkeyPatch, tiny_weights_file: Path, tmp_path: Path) -> None:
    monkeypatch.setattr("huggingface_hub.HfApi", FakeApi)
    mine, data = tmp_path / "mine.safetensors", tiny_weights_file.read_bytes()
    mine.write_bytes(data)
    assert model_files.push(mine, "me/mine") == "https://huggingface.co/me/mine"
    mine.with_suffix(".md").write_text("# My model")
    model_files.push(mine, "me/mine")
    without, with_card = FakeApi.made
    assert without == ("me/mine", {"model.safetensors": data})
    assert with_card == ("me/mine", {"model.safetensors": data, "README.md": b"# My model"})
    mine.write_bytes(data[:100])
    for path, hub_id, words in (
        (tiny_weights_file, "mine", "not a Hub id"),
        (tiny_weights_file, "me/mine@v2", "not a Hub id"),
        (tiny_weights_file, "nobody/here", "cannot upload .*you are not logged in$"),
        (tiny_weights_file, "nobody/there", "cannot upload .*no connection$"),
        (mine, "me/mine", "not a complete safetensors file"),
        (tmp_path / "none.safetensors", "me/mine", "cannot read"),
    ):
        with pytest.raises(UserError, match=words):
            model_files.push(path, hub_id)
    assert len(FakeApi.made) == 2


def test_a_hub_that_cannot_be_reached_is_an_error_of_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(UserError, match=r"cannot fetch model.safetensors of 'someone/nothing'") as error:
        model_files.find_weights("someone/nothing@main")
    assert "\n" not in str(error.value)


def with_header(data: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    change(header)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data[start:]


@pytest.mark.parametrize("dtype", ["F16\n", "\r"])
def test_a_header_with_line_breaks_is_an_error_of_one_line(tiny_weights_file: Path, tmp_path: Path, dtype: str) -> None:
    data = with_header(
        tiny_weights_file.read_bytes(), lambda header: header["network.kernel_decoder.last.bias"].update(dtype=dtype)
    )
    (tmp_path / "m.safetensors").write_bytes(data)
    with pytest.raises(UserError, match="not a complete safetensors file") as error:
        load_weights(tmp_path / "m.safetensors")
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize(
    "change", [{"background": "white"}, {"background": None}, {"background": 2}, {"size": 16.0}, {"image_layers": []}]
)
def test_a_configuration_of_impossible_values_is_an_error(
    tiny_weights_file: Path, tmp_path: Path, change: dict[str, Any]
) -> None:
    def changed(header: dict[str, Any]) -> None:
        config = json.loads(header["__metadata__"]["network"]) | change
        header["__metadata__"]["network"] = json.dumps(config)

    (tmp_path / "m.safetensors").write_bytes(with_header(tiny_weights_file.read_bytes(), changed))
    with pytest.raises(UserError, match="does not hold a whole visual-dynamics model"):
        load_weights(tmp_path / "m.safetensors")
