"""The block that the encoders repeat: convolution, batch normalisation, ReLU, pooling."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from visual_dynamics.model.presets import ConvLayer

SCATTER = 1237  # a prime: its multiples visit all dimensions of z before they come back
LARGE, FALL = 2, 0.75  # of a scaled z: about how many dimensions have a large scale; how fast that of others falls


def conv(
    inputs: int, outputs: int, kernel_size: int, padded: bool = True, bias: bool = True, gain: float = 1.0
) -> nn.Conv2d:
    """A convolution with He's initial weights, N(0, 2 gain^2 / fan_in). They matter: Adam moves each weight by about
    the learning rate, and PyTorch's own smaller ones let layers under batch norm turn too fast to learn together."""
    made = nn.Conv2d(inputs, outputs, kernel_size, padding=kernel_size // 2 if padded else 0, bias=bias)
    if made.weight.is_meta:  # its weights come from a file; PyTorch would import its compiler, 2 seconds, for this
        return made
    nn.init.kaiming_normal_(made.weight, nonlinearity="relu")
    with torch.no_grad():
        made.weight.mul_(gain)
    return made


class ConvBlock(nn.Sequential):
    """ReLU(BN(conv(x))), halved by max pooling where the layer says so."""

    def __init__(self, inputs: int, layer: ConvLayer, kernel_size: int) -> None:
        super().__init__(
            conv(inputs, layer.channels, kernel_size, layer.padded, bias=False),  # batch norm has the bias
            nn.BatchNorm2d(layer.channels),
            nn.ReLU(inplace=True),
            *([nn.MaxPool2d(2)] if layer.pooled else []),
        )
        self.fused: Callable[[nn.Sequential, Tensor], Tensor] | None = None  # set where training runs it fused

    def forward(self, x: Tensor) -> Tensor:
        return self.fused(self, x) if self.fused and self.training else super().forward(x)


def conv_blocks(inputs: int, layers: tuple[ConvLayer, ...], kernel_size: int) -> nn.Sequential:
    """The layers one after the other."""
    channels = [inputs, *(layer.channels for layer in layers)]
    return nn.Sequential(
        *(ConvBlock(before, layer, kernel_size) for before, layer in zip(channels, layers, strict=False))
    )


def latent_scale(z: Tensor) -> Tensor:
    """(latent,), from 1 to 1/250 for a z of 3,200: a fixed factor of each dimension, where z is made and where read.

    With thousands of equal dimensions a motion is spread thin: each carries a hundredth of a nat under noise of full
    strength, and none has a reason to become clear while the others fade. That costs many times the nats of a few clear
    ones. With unequal scales a few lead from the start. They are scattered over channels and places.
    """
    count = z.shape[1]
    rank = torch.arange(count, device=z.device) * SCATTER % count
    return (1 + rank / LARGE) ** -FALL
