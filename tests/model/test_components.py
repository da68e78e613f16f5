"""Each component: shapes as the paper gives them, signs of last layers, gradients, and an oracle where there is one."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.conftest import seeded
from visual_dynamics.model.image_encoder import ImageEncoder, resize
from visual_dynamics.model.kernel_decoder import KernelDecoder
from visual_dynamics.model.layers import latent_scale
from visual_dynamics.model.motion_decoder import MotionDecoder, enlarged_convolution
from visual_dynamics.model.motion_encoder import MotionEncoder, Posterior, bounded
from visual_dynamics.model.network import VisualDynamics
from visual_dynamics.model.presets import PAPER, PAPER_128, PRESETS, TINY, NetworkConfig
from visual_dynamics.objective import kl_to_unit_gaussian


def convolutions(module: nn.Module) -> list[tuple[int, int]]:
    """(outputs, kernel size) of every convolution, in order."""
    return [(m.out_channels, m.kernel_size[0]) for m in module.modules() if isinstance(m, nn.Conv2d)]


def test_motion_encoder_is_the_paper_s() -> None:
    encoder = MotionEncoder(PAPER).eval()
    assert convolutions(encoder) == [(96, 5), (96, 5), (128, 5), (128, 5), (256, 5), (256, 5)]
    assert sum(isinstance(m, nn.BatchNorm2d) for m in encoder.modules()) == 5  # none on the last layer
    with torch.no_grad():
        mean, log_variance = encoder(torch.zeros(1, 3, 64, 64), torch.zeros(1, 3, 64, 64))
    assert mean.shape == log_variance.shape == (1, 3200)


def test_means_and_log_variances_take_both_signs() -> None:
    mean, log_variance = MotionEncoder(TINY)(seeded(8, 3, 16, 16), seeded(8, 3, 16, 16, seed=1))
    for values in (mean, log_variance):
        assert (values > 0).any() and (values < 0).any()


def test_kernel_decoder_is_the_paper_s() -> None:
    decoder = KernelDecoder(PAPER).eval()
    assert convolutions(decoder) == [(128, 5), (128, 5)]
    kernels = decoder(seeded(2, 3200))
    assert [k.shape for k in kernels] == [(2, 32, 5, 5)] * 4
    assert all((k > 0).any() and (k < 0).any() for k in kernels)


def test_image_encoder_is_the_paper_s() -> None:
    encoder = ImageEncoder(PAPER).eval()
    assert convolutions(encoder) == [(64, 5), (64, 5), (64, 5), (32, 5)] * 4
    assert encoder.sizes == (256, 128, 64, 32)
    with torch.no_grad():
        maps = encoder(torch.zeros(1, 3, 64, 64))
    assert [m.shape for m in maps] == [(1, 32, 64, 64), (1, 32, 32, 32), (1, 32, 16, 16), (1, 32, 8, 8)]


def test_pyramid_keeps_the_picture() -> None:
    frame = seeded(1, 3, 16, 16)
    assert resize(frame, 16) is frame
    torch.testing.assert_close(resize(frame, 4)[0, 0, 0, 0], frame[0, 0, :4, :4].mean())
    assert resize(frame, 64).shape == (1, 3, 64, 64)


def test_motion_decoder_is_the_paper_s() -> None:
    decoder = MotionDecoder(PAPER).eval()
    assert convolutions(decoder) == [(128, 9), (128, 1), (3, 1)]
    with torch.no_grad():
        out = decoder(tuple(torch.zeros(1, 32, side, side) for side in (64, 32, 16, 8)))
    assert out.shape == (1, 3, 64, 64)


def test_motion_decoder_enlarges_and_convolves() -> None:
    """The plain reading of the paper - repeat pixels, concatenate, convolve - is the oracle."""
    decoder = MotionDecoder(TINY).double().eval()
    moved = (seeded(2, 4, 16, 16, dtype=torch.float64), seeded(2, 4, 8, 8, dtype=torch.float64))
    enlarged = torch.cat([moved[0], F.interpolate(moved[1], scale_factor=2, mode="nearest")], dim=1)
    expected = decoder.last(decoder.hidden(decoder.normalise(decoder.wide(enlarged))))
    torch.testing.assert_close(decoder(moved), expected)


@pytest.mark.parametrize("factor", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("kernel", [3, 5, 9])
def test_enlarged_convolution_equals_convolution_of_the_enlarged(factor: int, kernel: int) -> None:
    maps, weight = seeded(2, 3, 5, 4, dtype=torch.float64), seeded(4, 3, kernel, kernel, dtype=torch.float64)
    enlarged = maps.repeat_interleave(factor, 2).repeat_interleave(factor, 3)
    expected = F.conv2d(enlarged, weight, padding=kernel // 2)
    torch.testing.assert_close(enlarged_convolution(maps, weight, factor), expected)


def test_gradients_of_the_enlarged_convolution() -> None:
    maps = seeded(1, 2, 3, 3, dtype=torch.float64).requires_grad_()
    weight = seeded(2, 2, 5, 5, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda m, w: enlarged_convolution(m, w, 2), (maps, weight))


def test_reparametrisation() -> None:
    mean, log_variance, noise = seeded(3, 4), seeded(3, 4, seed=1), seeded(3, 4, seed=2)
    expected = torch.distributions.Normal(mean, log_variance.exp().sqrt()).icdf(
        torch.distributions.Normal(0, 1).cdf(noise)
    )
    torch.testing.assert_close(Posterior(mean, log_variance).sample(noise), expected, rtol=1e-3, atol=1e-3)


def test_the_whole_network(tiny_network: VisualDynamics) -> None:
    frame, difference = torch.rand(2, 3, 16, 16), seeded(2, 3, 16, 16) / 10
    prediction = tiny_network(frame, difference, seeded(2, 200))
    assert prediction.difference.shape == (2, 3, 16, 16)
    assert [f.shape[-1] for f in prediction.features] == [16, 8]
    prediction.difference.square().sum().backward()
    missing = [name for name, p in tiny_network.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert missing == []


def test_no_noise_decodes_the_mean(tiny_network: VisualDynamics) -> None:
    tiny_network.eval()
    frame, difference = torch.rand(2, 3, 16, 16), seeded(2, 3, 16, 16) / 10
    with torch.no_grad():
        prediction = tiny_network(frame, difference, None)
        kernels = tiny_network.kernel_decoder(prediction.posterior.mean)
        decoded = tiny_network.decode(tiny_network.encode_image(frame), kernels)
    torch.testing.assert_close(prediction.difference, decoded)


def test_one_image_many_kernels(tiny_network: VisualDynamics) -> None:
    tiny_network.eval()
    frame, z = torch.rand(1, 3, 16, 16), seeded(5, 200)
    with torch.no_grad():
        kernels = tiny_network.kernel_decoder(z)
        together = tiny_network.decode(tiny_network.encode_image(frame), kernels)
        apart = tiny_network.decode(tiny_network.encode_image(frame.expand(5, -1, -1, -1)), kernels)
    torch.testing.assert_close(together, apart, rtol=1e-4, atol=1e-5)


def test_a_scaled_z_is_made_and_read_with_factors_that_fall_off() -> None:
    expected = sorted(((1 + rank / 2) ** -0.75 for rank in range(3200)), reverse=True)
    found = latent_scale(torch.zeros(1, 3200)).sort(descending=True).values
    torch.testing.assert_close(found, torch.tensor(expected))
    weights = latent_scale(torch.zeros(1, TINY.latent))
    even_network, network = VisualDynamics(TINY).eval(), VisualDynamics(replace(TINY, latent_scale=True)).eval()
    network.load_state_dict(even_network.state_dict())
    frame, difference, z = seeded(2, 3, 16, 16), seeded(2, 3, 16, 16, seed=1), seeded(2, TINY.latent, seed=2)
    with torch.no_grad():
        even_posterior = even_network.encode_motion(frame, difference)
        posterior = network.encode_motion(frame, difference)
        torch.testing.assert_close(posterior.mean, even_posterior.mean * weights)
        torch.testing.assert_close(posterior.log_variance, even_posterior.log_variance)
        for kernel, read in zip(network.kernel_decoder(z), even_network.kernel_decoder(z * weights), strict=True):
            torch.testing.assert_close(kernel, read)


def test_numbers_of_the_paper() -> None:
    assert PAPER.natural_latent == PAPER.latent == 3200
    assert PAPER_128.natural_latent == PAPER_128.latent == 4000
    assert PAPER_128.pyramid_sizes() == (512, 256, 128, 64, 32)
    parameters = sum(p.numel() for p in VisualDynamics(PAPER).parameters())
    assert 6.5e6 < parameters < 6.7e6


@pytest.mark.parametrize("latent", [None, 8])
@pytest.mark.parametrize("name", PRESETS)
def test_presets_build_and_survive_json(name: str, latent: int | None) -> None:
    config = replace(PRESETS[name], latent=latent or PRESETS[name].latent)
    assert NetworkConfig.from_dict(config.to_dict()) == config
    scaled = replace(config, latent_scale=True)
    assert scaled.to_dict()["uneven"] and NetworkConfig.from_dict(scaled.to_dict()) == scaled  # as files have it
    with torch.device("meta"):
        network = VisualDynamics(config)
        frame = torch.zeros(1, 3, config.size, config.size)
        prediction = network(frame, frame, torch.zeros(1, config.latent))
    assert prediction.posterior.mean.shape == (1, config.latent)
    assert prediction.difference.shape == (1, 3, config.size, config.size)


@pytest.mark.parametrize(
    "change", [{"size": 63}, {"latent": 0}, {"motion_size": 64}, {"maps": 16}, {"difference_scale": 0.0}]
)
def test_numbers_that_do_not_fit_are_refused(change: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        NetworkConfig.from_dict(PAPER.to_dict() | change)


def test_difference_scale_changes_units_not_meaning() -> None:
    torch.manual_seed(0)
    network = VisualDynamics(NetworkConfig.from_dict(TINY.to_dict() | {"difference_scale": 4.0})).eval()
    maps = network.encode_image(torch.rand(1, 3, 16, 16))
    kernels = network.kernel_decoder(seeded(1, 200))
    raw = network.motion_decoder(
        tuple(map(lambda m, k: F.conv2d(m, k.transpose(0, 1), padding=2, groups=4), maps, kernels))
    )
    torch.testing.assert_close(network.decode(maps, kernels), raw / 4)


def test_a_log_variance_outside_its_bounds_is_cut_and_still_pushed_back_by_the_kl_term() -> None:
    raw = torch.tensor([[-35.0, -20.0, -1.5, 0.0, 25.0]], requires_grad=True)
    cut = bounded(raw)
    torch.testing.assert_close(cut, torch.tensor([[-20.0, -20.0, -1.5, 0.0, 20.0]]))
    kl_to_unit_gaussian(Posterior(torch.zeros_like(raw), cut)).sum().backward()
    assert raw.grad is not None
    assert raw.grad[0, 0] == pytest.approx(-0.5)  # one step of gradient descent raises it
    assert raw.grad[0, 4] > 1e8  # and lowers this one
