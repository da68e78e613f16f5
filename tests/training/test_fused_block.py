"""The fused first block, in Triton's interpreter on the CPU, against the plain block in float64."""

import copy
from types import ModuleType

import pytest
import torch

from tests.conftest import seeded
from visual_dynamics.model.layers import ConvBlock
from visual_dynamics.model.presets import ConvLayer


@pytest.fixture(scope="module")
def fused_block() -> ModuleType:
    pytest.importorskip("triton", reason="Triton is not installed: `pip install triton` on Linux")
    from visual_dynamics.training import fused_block

    return fused_block


def blocks(fused_block: ModuleType, channels: int, outputs: int, padded: bool) -> tuple[ConvBlock, ConvBlock]:
    """The plain block in float64, and the fused one with the same weights; scales of both signs."""
    block = ConvBlock(channels, ConvLayer(outputs, pooled=True, padded=padded), 5)
    with torch.no_grad():
        block[0].weight.copy_(seeded(*block[0].weight.shape) / 5)
        block[1].weight.copy_(seeded(outputs, seed=1))
        block[1].bias.copy_(seeded(outputs, seed=2))
    fused = copy.deepcopy(block)
    fused.fused = fused_block.apply
    return block.double(), fused


@pytest.mark.parametrize(
    ("batch", "channels", "outputs", "side", "padded"),
    [
        (3, 3, 64, 16, True),  # a tower of the image encoder: borders, an odd batch
        (2, 6, 96, 20, False),  # the motion encoder: no borders, outputs that are no whole number of groups
        (5, 3, 16, 12, True),  # fewer outputs than a group, a tile that is not full
    ],
)
def test_equals_the_plain_block(fused_block, batch, channels, outputs, side, padded) -> None:
    plain, fused = blocks(fused_block, channels, outputs, padded)
    for step in range(2):  # running statistics of the second step build on those of the first
        x = 0.7 + 0.3 * seeded(batch, channels, side, side, seed=step)  # far from zero, as pictures are
        expected, found = plain(x.double()), fused(x)
        torch.testing.assert_close(found.double(), expected, atol=1e-4, rtol=1e-4)
        gradient = seeded(*expected.shape, seed=9)
        plain.zero_grad()
        fused.zero_grad()
        expected.backward(gradient.double())
        found.backward(gradient)
        for (name, one), other in zip(plain.named_parameters(), fused.parameters(), strict=True):
            scale = float(one.grad.abs().max())
            torch.testing.assert_close(other.grad.double(), one.grad, atol=1e-4 * scale, rtol=0, msg=name)
        for (name, one), other in zip(plain.named_buffers(), fused.named_buffers(), strict=True):
            torch.testing.assert_close(other[1].to(one.dtype), one, atol=1e-5, rtol=1e-4, msg=name)


def test_equal_pixels_send_the_gradient_to_the_first(fused_block) -> None:
    plain, fused = blocks(fused_block, 3, 64, padded=True)
    x = torch.full((1, 3, 12, 12), 0.5)
    x[:, :, 4:, 7:] = -0.5
    plain(x.double()).sum().backward()
    fused(x).sum().backward()
    scale = float(plain[0].weight.grad.abs().max())
    torch.testing.assert_close(fused[0].weight.grad.double(), plain[0].weight.grad, atol=1e-4 * scale, rtol=0)


def test_sizes_that_pooling_cuts_run_plain(fused_block) -> None:
    plain, fused = blocks(fused_block, 3, 64, padded=True)
    x = seeded(2, 3, 11, 11)
    torch.testing.assert_close(fused(x).double(), plain(x.double()), atol=1e-4, rtol=1e-4)


def test_only_pooled_blocks_of_pictures_are_fused(fused_block) -> None:
    assert fused_block.fits(ConvBlock(6, ConvLayer(96, pooled=True), 5))
    assert not fused_block.fits(ConvBlock(64, ConvLayer(64, pooled=True), 5))
    assert not fused_block.fits(ConvBlock(3, ConvLayer(64), 5))


def test_evaluation_is_plain(fused_block) -> None:
    _, fused = blocks(fused_block, 3, 64, padded=True)
    fused.eval()
    before, x = fused[1].running_mean.clone(), seeded(2, 3, 12, 12)
    again = copy.deepcopy(fused)
    again.fused = None
    assert torch.equal(fused(x), again(x))
    assert torch.equal(fused[1].running_mean, before)
