"""The network: wires the five components of the paper's pipeline figure together.

B examples, S size of the frame (64); z has `latent` dimensions. Frames are floats in [0, 1] and differences lie in
[-1, 1]: the network owns what happens to these ranges on the way in and out. Frames and differences that are a whole
number of times as large are averaged to S; a network that warps moves the large frame, and then averages it.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn

from visual_dynamics.model.cross_convolution import cross_convolution
from visual_dynamics.model.image_encoder import ImageEncoder, resize
from visual_dynamics.model.kernel_decoder import KernelDecoder
from visual_dynamics.model.motion_decoder import MotionDecoder
from visual_dynamics.model.motion_encoder import MotionEncoder, Posterior
from visual_dynamics.model.presets import NetworkConfig
from visual_dynamics.model.warping import warped_difference

Features = tuple[Tensor, ...]  # one (B, maps, side, side) a scale, the largest first


class Prediction(NamedTuple):
    """All that one pass through the network gives."""

    difference: Tensor  # (B, 3, S, S), the mean of p(v | z, I)
    posterior: Posterior  # q(z | v, I)
    kernels: tuple[Tensor, ...]  # one (B, maps, 5, 5) a scale
    features: Features


class VisualDynamics(nn.Module):
    """f_mean(z, I) and q(z | v, I) of the paper."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config
        self.motion_encoder = MotionEncoder(config)
        self.kernel_decoder = KernelDecoder(config)
        self.image_encoder = ImageEncoder(config)
        self.motion_decoder = MotionDecoder(config)

    def forward(self, frame: Tensor, difference: Tensor, noise: Tensor | None) -> Prediction:
        """Encode a pair and reconstruct its difference. `noise` ~ N(0, I), (B, latent); None decodes the mean."""
        posterior = self.encode_motion(frame, difference)
        z = posterior.mean if noise is None else posterior.sample(noise)  # (B, latent)
        features = self.encode_image(frame)
        kernels = self.kernel_decoder(z)
        return Prediction(self.decode(features, kernels, frame), posterior, kernels, features)

    def encode_motion(self, frame: Tensor, difference: Tensor) -> Posterior:
        """(a) q(z | v, I) of frames and differences, both (B, 3, S, S)."""
        frame, difference = (resize(picture, self.config.size) for picture in (frame, difference))
        return self.motion_encoder(2 * frame - 1, self.config.difference_scale * difference)

    def encode_image(self, frame: Tensor) -> Features:
        """(c) The segments of frames (B, 3, S, S)."""
        return self.image_encoder(2 * resize(frame, self.config.size) - 1)

    def decode(self, features: Features, kernels: tuple[Tensor, ...], frame: Tensor) -> Tensor:
        """(d), (e) Move segments of frames by kernels (B of each, or one image's by B sets), to (B, 3, S, S)."""
        moved = tuple(cross_convolution(maps, kernel) for maps, kernel in zip(features, kernels, strict=True))
        return self.difference(self.motion_decoder(moved).float() / self.config.difference_scale, frame)

    def difference(self, layers: Tensor, frame: Tensor) -> Tensor:
        """What the last layer gives is the difference itself, as in the paper, or says how to warp the frame."""
        return warped_difference(layers, frame) if self.config.warp else layers
