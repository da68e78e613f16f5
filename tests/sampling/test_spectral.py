"""The convolution in the frequency domain against the network's own, for many sizes, scales and kernels."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from tests.conftest import seeded
from visual_dynamics.model.network import VisualDynamics
from visual_dynamics.model.presets import PAPER, PRESETS, TINY, NetworkConfig
from visual_dynamics.sampling import spectral
from visual_dynamics.sampling.spectral import SpectralDecoder


def trained(config: NetworkConfig) -> VisualDynamics:
    """A network whose batch norms are not the identity, as after training; only (b), (d) and (e) are used here."""
    torch.manual_seed(0)
    network = VisualDynamics(config).eval()
    for module in network.motion_decoder.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.normal_(module.running_mean)
            torch.nn.init.uniform_(module.running_var, 0.5, 2)
            torch.nn.init.normal_(module.weight, 1, 0.3)
            torch.nn.init.normal_(module.bias)
    return network


def features_of(config: NetworkConfig) -> tuple[torch.Tensor, ...]:
    sides = [config.size // 2**level for level in range(config.scales)]
    return tuple(seeded(1, config.maps, side, side, seed=side).relu() for side in sides)


def assert_equals_the_network(config: NetworkConfig) -> None:
    network = trained(config)
    features = features_of(config)
    with torch.inference_mode():
        kernels = network.kernel_decoder(seeded(2, config.latent))
        frame = seeded(1, 3, config.picture_size, config.picture_size).sigmoid()
        expected = network.decode(features, kernels, frame)
        given = network.difference(SpectralDecoder(network).decode(features, kernels), frame)
    assert expected.std() > 0.01
    torch.testing.assert_close(given, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["tiny", "small", "paper", "paper-128"])
def test_equals_the_network(name: str) -> None:
    assert_equals_the_network(PRESETS[name])


def test_equals_the_network_with_a_small_z() -> None:
    assert_equals_the_network(replace(PAPER, latent=8))


def scaled(config: NetworkConfig, size: int, scales: int) -> NetworkConfig:
    """The configuration with another size and number of scales."""
    *motion, last = config.motion_layers
    layers = (*motion, replace(last, channels=2 * scales * config.maps))
    return replace(config, size=size, scales=scales, motion_layers=layers)


@pytest.mark.parametrize(("size", "scales"), [(9, 1), (17, 1), (33, 1), (22, 2), (20, 3), (36, 3), (48, 5), (64, 4)])
def test_any_size_and_number_of_scales(size: int, scales: int) -> None:
    assert_equals_the_network(scaled(TINY, size, scales))


@pytest.mark.parametrize("warp", [1, 2])
def test_equals_a_network_that_warps(warp: int) -> None:
    assert_equals_the_network(replace(TINY, warp=warp, difference_scale=2.0))


@pytest.mark.parametrize("kernel", [1, 3, 5, 11])
def test_any_kernel(kernel: int) -> None:
    assert_equals_the_network(replace(TINY, decoder_kernel_size=kernel, difference_scale=2.0))


@pytest.mark.parametrize("tile", [5, 16, 100])
def test_any_tile(tile: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spectral, "TILE", tile)
    assert_equals_the_network(scaled(TINY, 24, 3))


def test_windows_show_the_enlarged_map_and_nothing_beyond_it() -> None:
    small = 1 + torch.arange(36.0).view(1, 1, 6, 6)
    cut = spectral.windows(small, spectral.window_pixels(size=12, factor=2, tile=6, across=2, reach=4))
    assert spectral.distinct(10, 2, 4).tolist() == [-1, 0, 1, 2, 3]  # of the small map, for ten pixels of the window
    shown = spectral.repeat(10, 2, 4).float()
    cut = torch.einsum("gk,hl,klrc->ghrc", shown, shown, cut.view(5, 5, 2, 2))
    large = F.pad(F.interpolate(small, scale_factor=2), [2] * 4)[0, 0]  # (16, 16)
    expected = large.unfold(0, 10, 6).unfold(1, 10, 6).permute(2, 3, 0, 1)  # (10, 10, 2, 2)
    assert torch.equal(cut, expected)


@pytest.mark.parametrize("window", [8, 9])
def test_transforms_and_their_inverses(window: int) -> None:
    x = seeded(window, window, dtype=torch.float64)
    to_rows, to_columns, from_columns, from_rows = spectral.transforms(window, tile=5)
    half = window // 2 + 1
    frequencies = to_columns @ (to_rows @ x).view(half, 2 * window, 1)  # (H, G * 2, 1)
    expected = torch.fft.rfft2(x, dim=(1, 0))
    torch.testing.assert_close(torch.view_as_complex(frequencies.view(half, window, 2)), expected)
    back = from_rows @ (from_columns @ frequencies).view(half * 2, -1)
    torch.testing.assert_close(back, x[:5, :5])


def test_memory_that_is_used_again_does_not_change_what_was_given() -> None:
    network, features = trained(TINY), features_of(TINY)
    decoder = SpectralDecoder(network)
    with torch.inference_mode():
        few, many = (network.kernel_decoder(seeded(count, TINY.latent, seed=count)) for count in (1, 3))
        first = decoder.decode(features, few)
        kept = first.clone()
        decoder.decode(features, many)
        assert torch.equal(first, kept)
        assert torch.equal(decoder.decode(features, few), kept)


def test_memory_is_what_the_documentation_says() -> None:
    assert SpectralDecoder(trained(PAPER)).weights.nbytes < 41e6
