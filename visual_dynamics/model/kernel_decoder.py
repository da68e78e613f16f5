"""(b) The kernel decoder: a motion code becomes one small kernel for each segment of each scale."""

from torch import Tensor, nn

from visual_dynamics.model.layers import ConvBlock, conv, latent_scale
from visual_dynamics.model.presets import ConvLayer, NetworkConfig


class KernelDecoder(nn.Module):
    """z as 128x5x5, two 5x5 convolutions of 128 channels, split into four sets of 32 kernels of 5x5."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.channels, self.side, self.scales = config.kernel_channels, config.kernel_size, config.scales
        self.scaled = config.latent_scale
        natural = config.latent == config.natural_latent
        self.from_latent = nn.Identity() if natural else nn.Linear(config.latent, config.natural_latent)
        self.hidden = ConvBlock(self.channels, ConvLayer(self.channels), config.kernel_size)
        self.last = conv(self.channels, self.channels, config.kernel_size)  # kernels take either sign: no ReLU

    def forward(self, z: Tensor) -> tuple[Tensor, ...]:
        z = z * latent_scale(z) if self.scaled else z
        x = self.from_latent(z).unflatten(1, (self.channels, self.side, self.side))  # (B, 128, 5, 5)
        kernels = self.last(self.hidden(x))  # (B, 128, 5, 5)
        return kernels.chunk(self.scales, dim=1)  # four of (B, 32, 5, 5)
