"""The inference path: the network's own numbers, whatever the batch, always in evaluation mode."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor

from tests.conftest import seeded
from visual_dynamics.api import Model, load
from visual_dynamics.data.shapes import draw_scenes, images
from visual_dynamics.model.cross_convolution import cross_convolution
from visual_dynamics.model.network import VisualDynamics
from visual_dynamics.sampling.folded import folded
from visual_dynamics.sampling.latents import sample_seeds
from visual_dynamics.sampling.moves import futures
from visual_dynamics.sampling.predictor import EncodedImage, Predictor


def test_equals_the_whole_network(tiny_network: VisualDynamics) -> None:
    predictor = Predictor(tiny_network)
    frame, z = torch.rand(3, 16, 16), seeded(5, 200)
    with torch.no_grad():
        features = tiny_network.encode_image(frame.expand(5, -1, -1, -1))
        expected = (frame + tiny_network.decode(features, tiny_network.kernel_decoder(z), frame[None])).clamp(0, 1)
    torch.testing.assert_close(predictor.decode(predictor.encode_image(frame), z), expected, rtol=1e-4, atol=1e-5)


def test_folded_it_is_the_same_network(tiny_network: VisualDynamics) -> None:
    generator = torch.Generator().manual_seed(0)
    norms = [module for module in tiny_network.eval().modules() if isinstance(module, torch.nn.BatchNorm2d)]
    for norm in norms:  # scales of either sign, and statistics that are not those of the beginning
        for values in (norm.weight.data, norm.bias.data, norm.running_mean):
            torch.nn.init.normal_(values, generator=generator)
        torch.nn.init.uniform_(norm.running_var, 0.5, 2, generator=generator)
    frames, difference = torch.rand(3, 3, 16, 16), seeded(3, 3, 16, 16)
    with torch.no_grad():
        fast = folded(tiny_network)
        for found, expected in zip(fast.encode_image(frames), tiny_network.encode_image(frames), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        for found, expected in zip(*(n.encode_motion(frames, difference) for n in (fast, tiny_network)), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_sample_k_is_the_same_for_every_batch_size(tiny_network: VisualDynamics) -> None:
    frame, z = torch.rand(3, 16, 16), seeded(65, 200)
    results = []
    for batch_size in (1, 7, 64):
        predictor = Predictor(tiny_network, batch_size=batch_size)
        results.append(predictor.decode(predictor.encode_image(frame), z))
    for other in results[1:]:
        assert torch.equal((results[0] * 255).round(), (other * 255).round())


def test_images_do_not_disturb_each_other_and_a_preview_is_the_same_picture(tiny_network: VisualDynamics) -> None:
    predictor, z = Predictor(tiny_network), seeded(3, 200)
    one, other = (predictor.encode_image(frame) for frame in torch.rand(2, 3, 16, 16))
    expected = predictor.decode(one, z)
    predictor.decode(other, z)
    assert torch.equal(predictor.decode(one, z), expected)
    torch.testing.assert_close(predictor.preview(one, z), expected, rtol=1e-4, atol=1e-5)


def test_many_images_with_one_code_each(tiny_network: VisualDynamics) -> None:
    predictor = Predictor(tiny_network, batch_size=2)
    frames, z = torch.rand(5, 3, 16, 16), seeded(5, 200)
    encoded = map(predictor.encode_image, frames)
    apart = [predictor.decode(image, code[None]) for image, code in zip(encoded, z, strict=True)]
    together = predictor.decode_each(frames, z)
    torch.testing.assert_close(together, torch.cat(apart), rtol=1e-4, atol=1e-5)
    assert together.min() >= 0 and together.max() <= 1
    with pytest.raises(ValueError, match="as many motion codes"):
        predictor.decode_each(frames, z[:4])


def test_always_evaluation_mode(tiny_network: VisualDynamics) -> None:
    tiny_network.train()
    before = {name: value.clone() for name, value in tiny_network.state_dict().items()}
    predictor = Predictor(tiny_network)
    predictor.decode(predictor.encode_image(torch.rand(3, 16, 16)), seeded(3, 200))
    predictor.decode_each(torch.rand(2, 3, 16, 16), seeded(2, 200))
    predictor.encode(torch.rand(3, 16, 16), torch.rand(3, 16, 16))
    assert not tiny_network.training
    assert all(torch.equal(before[name], value) for name, value in tiny_network.state_dict().items())


def test_memory_is_bounded_by_the_batch(tiny_network: VisualDynamics) -> None:
    predictor = Predictor(tiny_network, batch_size=4)
    image = predictor.encode_image(torch.rand(3, 16, 16))
    assert [len(part) for part in predictor.decode_batches(image, seeded(10, 200))] == [4, 4, 2]
    assert predictor.decode(image, seeded(10, 200)).shape == (10, 3, 16, 16)


@pytest.fixture(scope="module")
def shipped() -> Model:
    return load("shapes")


@pytest.fixture(scope="module")
def shipped_frame() -> Tensor:
    return images(draw_scenes(1, 0, "test"), size=64)[0].float() / 255


def test_shipped_model_gives_the_same_pictures_for_every_batch_size(shipped: Model, shipped_frame: Tensor) -> None:
    z = shipped.sources["posteriors"].draw(sample_seeds(0, 20))
    predictor = Predictor(shipped.weights.network)
    image, results = predictor.encode_image(shipped_frame), []
    for batch_size in (1, 7, 64):
        predictor.batch_size = batch_size
        results.append(predictor.decode(image, z))
    results.append(predictor.decode(image, z.flip(0)).flip(0))  # nor does a place among others make a difference
    for other in results[1:]:
        assert torch.equal(results[0], other)  # floats, to the last bit; so uint8 as well


def test_shipped_model_equals_the_plain_network(shipped: Model, shipped_frame: Tensor) -> None:
    z = shipped.sources["posteriors"].draw(sample_seeds(1, 5))
    network, frame = shipped.weights.network, shipped_frame[None]
    with torch.no_grad():
        kernels = network.kernel_decoder(z)
        features = network.encode_image(frame.expand(len(z), -1, -1, -1))
        moved = [cross_convolution(maps, kernel) for maps, kernel in zip(features, kernels, strict=True)]
        decoder = network.motion_decoder
        enlarged = torch.cat([torch.nn.functional.interpolate(maps, size=64) for maps in moved], dim=1)
        difference = decoder.last(decoder.hidden(decoder.normalise(decoder.wide(enlarged))))
    expected = (frame + difference / network.config.difference_scale).clamp(0, 1)
    found = shipped.predictor.decode(shipped.predictor.encode_image(shipped_frame), z)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)  # 1 / 255 is 4e-3


def test_threads_share_a_model(shipped: Model) -> None:
    """Eight threads, each with an image of its own, three times."""
    frames = images(draw_scenes(8, 0, "test"), size=64).float() / 255
    predictor, z = shipped.predictor, shipped.sources["posteriors"].draw(sample_seeds(2, 3))
    alone = [predictor.decode(predictor.encode_image(frame), z) for frame in frames]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda k: futures(predictor, frames[k % 8], Given(z), 3, seed=0), range(24)))
    wrong = [k for k, result in enumerate(together) if not torch.allclose(result, alone[k % 8], rtol=0, atol=1e-5)]
    assert not wrong


class Given:
    """A latent source that gives the same codes for all seeds."""

    def __init__(self, z: Tensor) -> None:
        self.z = z

    def draw(self, seeds: Sequence[int], image: EncodedImage) -> Tensor:
        return self.z[: len(seeds)]


def test_encodes_a_pair_as_the_network_does(tiny_network: VisualDynamics) -> None:
    predictor = Predictor(tiny_network)
    before, after = torch.rand(3, 16, 16), torch.rand(3, 16, 16)
    with torch.no_grad():
        expected = tiny_network.encode_motion(before[None], (after - before)[None])
    torch.testing.assert_close(predictor.encode(before, after).mean, expected.mean[0])
    many, small = torch.rand(2, 5, 3, 16, 16), Predictor(tiny_network, batch_size=2)
    together = small.encode(*many)
    apart = [small.encode(*pair) for pair in zip(*many, strict=True)]
    for values, one_by_one in zip(together, zip(*apart, strict=True), strict=True):
        torch.testing.assert_close(values, torch.stack(one_by_one))


def test_wrong_use(tiny_network: VisualDynamics) -> None:
    predictor = Predictor(tiny_network)
    with pytest.raises(ValueError, match=r"\(3, 16, 16\)"):
        predictor.encode_image(torch.rand(3, 17, 16))
