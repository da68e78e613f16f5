"""Each component: shapes as the paper gives them, signs of last layers, gradients, and an oracle where there is one."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.conftest import seeded
from visual_dynamics.model.image_encoder import ImageEncoder, resize
from visual_dynamics.model.kernel_decoder import KernelDecoder
from visual_dynamics.model.layers import ConvBlock, latent_scale
from visual_dynamics.model.motion_decoder import MotionDecoder, enlarged_convolution
from visual_dynamics.model.motion_encoder import MotionEncoder, Posterior, bounded
from visual_dynamics.model.network import VisualDynamics
from visual_dynamics.model.presets import PAPER, PAPER_128, PRESETS, TINY, NetworkConfig
from visual_dynamics.model.warping import LAYERS, warp, warped_difference
from visual_dynamics.objective import kl_to_unit_gaussian


def convolutions(module: nn.Module) -> list[tuple[int, int]]:
    """(outputs, kernel size) of every convolution, in order."""
    return [(m.out_channels, m.kernel_size[0]) for m in module.modules() if isinstance(m, nn.Conv2d)]


def pooled(module: nn.Module) -> list[bool]:
    """Whether each block is followed by a pooling, in order."""
    return [
        any(isinstance(part, nn.MaxPool2d) for part in block) for block in module.modules() if type(block) is ConvBlock
    ]


def test_motion_encoder_is_the_paper_s() -> None:
    encoder = MotionEncoder(PAPER).eval()
    assert convolutions(encoder) == [(96, 5), (96, 5), (128, 5), (128, 5), (256, 5), (256, 5)]
    assert sum(isinstance(m, nn.BatchNorm2d) for m in encoder.modules()) == 5  # none on the last layer
    assert pooled(encoder) == [True, True, False, True, True]
    with torch.no_grad():
        mean, log_variance = encoder(torch.zeros(1, 3, 64, 64), torch.zeros(1, 3, 64, 64))
    assert mean.shape == log_variance.shape == (1, 3200)


def test_training_begins_near_the_prior() -> None:
    """The last layer's weights are a fifth of He's, sqrt(2 / (256 * 25)): near no mean and no log-variance."""
    torch.manual_seed(0)
    last = MotionEncoder(PAPER).last
    assert isinstance(last, nn.Conv2d) and float(last.weight.std()) == pytest.approx(0.2 * 0.017678, rel=0.01)


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


def test_each_scale_has_kernels_of_its_own_channels() -> None:
    """Channels 0 to 31 are for the first scale, and so on; model files depend on it."""
    decoder = KernelDecoder(PAPER).eval()
    with torch.no_grad():
        decoder.last.weight.zero_()
        decoder.last.bias.copy_(torch.arange(128))
        kernels = decoder(seeded(1, 3200))
    for scale, found in enumerate(kernels):
        assert found[0, :, 2, 2].tolist() == list(range(32 * scale, 32 * scale + 32))


def test_image_encoder_is_the_paper_s() -> None:
    encoder = ImageEncoder(PAPER).eval()
    assert convolutions(encoder) == [(64, 5), (64, 5), (64, 5), (32, 5)] * 4
    assert pooled(encoder) == [True, True, False, False] * 4
    assert encoder.sizes == (256, 128, 64, 32)
    with torch.no_grad():
        maps = encoder(torch.zeros(1, 3, 64, 64))
    assert [m.shape for m in maps] == [(1, 32, 64, 64), (1, 32, 32, 32), (1, 32, 16, 16), (1, 32, 8, 8)]


def test_pyramid_keeps_the_picture() -> None:
    frame = seeded(1, 3, 16, 16)
    assert resize(frame, 16) is frame
    torch.testing.assert_close(resize(frame, 4)[0, 0, 0, 0], frame[0, 0, :4, :4].mean())
    assert resize(frame, 64).shape == (1, 3, 64, 64)
    ramp = torch.tensor([[0.0, 1.0], [0.0, 1.0]])[None, None]
    expected = torch.tensor([0.0, 0.25, 0.75, 1.0]).expand(1, 1, 4, 4)  # places of new pixels between the old ones
    torch.testing.assert_close(resize(ramp, 4), expected)


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
        decoded = tiny_network.decode(tiny_network.encode_image(frame), kernels, frame)
    torch.testing.assert_close(prediction.difference, decoded)


def test_one_image_many_kernels(tiny_network: VisualDynamics) -> None:
    tiny_network.eval()
    frame, z = torch.rand(1, 3, 16, 16), seeded(5, 200)
    with torch.no_grad():
        kernels = tiny_network.kernel_decoder(z)
        together = tiny_network.decode(tiny_network.encode_image(frame), kernels, frame)
        apart = tiny_network.decode(tiny_network.encode_image(frame.expand(5, -1, -1, -1)), kernels, frame)
    torch.testing.assert_close(together, apart, rtol=1e-4, atol=1e-5)


def test_a_scaled_z_is_made_and_read_with_factors_that_fall_off() -> None:
    expected = sorted(((1 + rank / 2) ** -0.75 for rank in range(3200)), reverse=True)
    scales = latent_scale(torch.zeros(1, 3200))
    torch.testing.assert_close(scales.sort(descending=True).values, torch.tensor(expected))
    ranks = (0, 1237, 2474, 511)  # of the first four dimensions: multiples of 1237, less 3,200 where they reach it
    torch.testing.assert_close(scales[:4], torch.tensor([(1 + rank / 2) ** -0.75 for rank in ranks]))
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


def bilinear(picture: torch.Tensor, y: float, x: float) -> torch.Tensor:
    """(C, H, W) at one place, written out; beyond the edge the edge."""
    height, width = picture.shape[1:]
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    top, left = int(y), int(x)
    down, right = y - top, x - left
    below, beside = min(top + 1, height - 1), min(left + 1, width - 1)
    upper = (1 - right) * picture[:, top, left] + right * picture[:, top, beside]
    lower = (1 - right) * picture[:, below, left] + right * picture[:, below, beside]
    return (1 - down) * upper + down * lower


def test_a_warp_shows_each_pixel_from_where_its_flow_points() -> None:
    picture, flow = seeded(1, 3, 6, 8, dtype=torch.float64), 2 * seeded(2, 2, 6, 8, seed=1, dtype=torch.float64)
    warped = warp(picture, flow)
    for one in range(2):
        for y, x in ((0, 0), (2, 5), (5, 7), (3, 0)):
            dx, dy = flow[one, :, y, x].tolist()
            torch.testing.assert_close(warped[one, :, y, x], bilinear(picture[0], y + dy, x + dx))


def test_a_warp_by_whole_pixels_is_a_shift() -> None:
    picture = torch.rand(1, 3, 8, 8)
    flow = torch.tensor([2.0, -1.0]).view(1, 2, 1, 1).expand(1, 2, 8, 8)  # dx, dy
    torch.testing.assert_close(warp(picture, flow)[:, :, 1:, :-2], picture[:, :, :-1, 2:])
    torch.testing.assert_close(warp(picture, 0 * flow), picture)


@pytest.mark.parametrize("times", [1, 2])
def test_layers_that_are_zero_keep_the_frame_and_others_move_it(times: int) -> None:
    picture = torch.rand(1, 3, 8 * times, 8 * times, dtype=torch.float64)
    frame, layers = resize(picture, 8), torch.zeros(2, 6, 8, 8, dtype=torch.float64)
    assert warped_difference(layers, picture).abs().max() < 1e-6
    layers[:, 0], layers[0, 2], layers[1, 2] = 1.0, 50.0, -50.0  # one pixel of the frame; the mask: all, nothing
    layers[:, 3:] = 0.25
    moved, residual = warped_difference(layers, picture)
    torch.testing.assert_close(moved[:, :, :-1], (frame[0, :, :, 1:] - frame[0, :, :, :-1]), rtol=0, atol=1e-6)
    torch.testing.assert_close(residual, torch.full_like(residual, 0.25))


def test_half_a_pixel_is_moved_without_blur_at_twice_the_size() -> None:
    columns = torch.rand(16, dtype=torch.float64).expand(1, 3, 16, 16)
    layers = torch.zeros(1, 6, 8, 8, dtype=torch.float64)
    layers[:, 0], layers[:, 2] = 0.5, 50.0
    moved = resize(columns, 8) + warped_difference(layers, columns)
    torch.testing.assert_close(moved[..., :-1], resize(columns.roll(-1, 3), 8)[..., :-1], rtol=0, atol=1e-6)


@pytest.mark.parametrize("times", [1, 2])
def test_a_network_that_warps_starts_near_the_frame_and_learns_everywhere(times: int) -> None:
    torch.manual_seed(0)
    network = VisualDynamics(replace(TINY, warp=times))
    side = network.config.picture_size
    frame, after = torch.rand(2, 4, 3, side, side)
    prediction = network(frame, after - frame, seeded(4, TINY.latent))
    assert prediction.difference.shape == (4, 3, 16, 16)
    assert prediction.difference.square().mean() < 0.2 * (after - frame).square().mean()
    (prediction.difference - resize(after - frame, 16)).square().sum().backward()
    gradients = {name: p.grad for name, p in network.named_parameters()}
    assert all(g is not None and g.isfinite().all() and g.abs().sum() > 0 for g in gradients.values())
    for layers in network.motion_decoder.last.weight.grad.split(LAYERS):
        assert layers.abs().sum() > 0


def test_a_plain_network_is_that_of_earlier_releases() -> None:
    assert "warp" not in TINY.to_dict()
    assert NetworkConfig.from_dict({k: v for k, v in PAPER.to_dict().items() if k != "warp"}) == PAPER
    torch.manual_seed(0)
    network = VisualDynamics(TINY).eval()
    frame, other, z = torch.rand(1, 3, 16, 16), torch.rand(1, 3, 16, 16), seeded(1, TINY.latent)
    features, kernels = network.encode_image(frame), network.kernel_decoder(z)
    assert torch.equal(network.decode(features, kernels, frame), network.decode(features, kernels, other))


@pytest.mark.parametrize("latent", [None, 8])
@pytest.mark.parametrize("name", PRESETS)
def test_presets_build_and_survive_json(name: str, latent: int | None) -> None:
    config = replace(PRESETS[name], latent=latent or PRESETS[name].latent)
    assert NetworkConfig.from_dict(config.to_dict()) == config
    scaled = replace(config, latent_scale=True, warp=2)
    assert scaled.to_dict()["uneven"] and NetworkConfig.from_dict(scaled.to_dict()) == scaled  # as files have it
    with torch.device("meta"):
        network = VisualDynamics(config)
        frame = torch.zeros(1, 3, config.size, config.size)
        prediction = network(frame, frame, torch.zeros(1, config.latent))
    assert prediction.posterior.mean.shape == (1, config.latent)
    assert prediction.difference.shape == (1, 3, config.size, config.size)


@pytest.mark.parametrize(
    "change",
    [
        *({"size": 63}, {"latent": 0}, {"motion_size": 64}, {"maps": 16}, {"difference_scale": 0.0}, {"warp": 3}),
        *({"background": grey} for grey in (-0.1, 1.1, float("nan"), float("inf"))),
    ],
)
def test_numbers_that_do_not_fit_are_refused(change: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        NetworkConfig.from_dict(PAPER.to_dict() | change)


def test_difference_scale_changes_units_not_meaning() -> None:
    torch.manual_seed(0)
    network = VisualDynamics(NetworkConfig.from_dict(TINY.to_dict() | {"difference_scale": 4.0})).eval()
    frame = torch.rand(1, 3, 16, 16)
    plain, difference = VisualDynamics(TINY).eval(), seeded(1, 3, 16, 16) / 10
    plain.load_state_dict(network.state_dict())
    torch.testing.assert_close(network.encode_motion(frame, difference), plain.encode_motion(frame, 4 * difference))
    maps = network.encode_image(frame)
    kernels = network.kernel_decoder(seeded(1, 200))
    raw = network.motion_decoder(
        tuple(map(lambda m, k: F.conv2d(m, k.transpose(0, 1), padding=2, groups=4), maps, kernels))
    )
    torch.testing.assert_close(network.decode(maps, kernels, frame), raw / 4)


def test_a_log_variance_outside_its_bounds_is_cut_and_still_pushed_back_by_the_kl_term() -> None:
    raw = torch.tensor([[-35.0, -20.0, -1.5, 0.0, 25.0]], requires_grad=True)
    cut = bounded(raw)
    torch.testing.assert_close(cut, torch.tensor([[-20.0, -20.0, -1.5, 0.0, 20.0]]))
    kl_to_unit_gaussian(Posterior(torch.zeros_like(raw), cut)).sum().backward()
    assert raw.grad is not None
    assert raw.grad[0, 0] == pytest.approx(-0.5)  # one step of gradient descent raises it
    assert raw.grad[0, 4] > 1e8  # and lowers this one
