"""(c) The image encoder: a pyramid of the frame becomes segments, each of which can move on its own."""

import torch.nn.functional as F
from torch import Tensor, nn

from visual_dynamics.model.layers import conv_blocks
from visual_dynamics.model.presets import NetworkConfig


class ImageEncoder(nn.Module):
    """At each of four scales (256, 128, 64, 32) four 5x5 convolutions with batch norm and two 2x2 poolings."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.sizes = config.pyramid_sizes()
        # Each scale has weights of its own. The last layer keeps its ReLU: a segment is there, or it is not.
        self.towers = nn.ModuleList(conv_blocks(3, config.image_layers, config.kernel_size) for _ in self.sizes)

    def forward(self, frame: Tensor) -> tuple[Tensor, ...]:
        # frame (B, 3, S, S) in [-1, 1] -> (B, 32, 64, 64), (B, 32, 32, 32), (B, 32, 16, 16), (B, 32, 8, 8)
        return tuple(tower(resize(frame, size)) for tower, size in zip(self.towers, self.sizes, strict=True))


def resize(frame: Tensor, size: int) -> Tensor:
    """One level of the pyramid: averaged when smaller than the frame, bilinear when larger."""
    if size < frame.shape[-1]:
        return F.avg_pool2d(frame, frame.shape[-1] // size)
    return frame if size == frame.shape[-1] else F.interpolate(frame, size=size, mode="bilinear", align_corners=False)
