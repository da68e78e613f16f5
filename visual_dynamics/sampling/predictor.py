"""The only inference path: set one image, decode many z; always in evaluation mode, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from visual_dynamics.model.motion_encoder import Posterior
from visual_dynamics.model.network import Features, VisualDynamics
from visual_dynamics.sampling.spectral import SpectralDecoder
from visual_dynamics.weights import NoMotionEncoder

# Samples that the CPU decodes together. From 4 on a sample takes the same time; one alone takes that of a block.
BLOCK = 4


class EncodedImage(NamedTuple):
    """A frame and its segments: all that decoding needs of an image, some 0.7 MB of the paper's network."""

    frame: Tensor  # (3, S, S)
    features: Features


class Predictor:
    """Encodes an image once and moves it by any number of motion codes.

    S is the network's frame size. Frames are floats in [0, 1], (3, S, S), on any device; results come back on the
    predictor's device. `batch_size` bounds how many are held at once. On the CPU decoding goes on in the frequency
    domain, always on blocks of one size: a frame is the same to the last bit, whatever the batch size and the others
    around it. On a GPU a batch goes through the network as it is, and the last bits of float32 may depend on it.

    The weights are taken as they are at the first decoding: after training on, make a new predictor.
    """

    def __init__(self, network: VisualDynamics, device: torch.device | str = "cpu", batch_size: int = 8) -> None:
        self.network = network.to(device).eval()
        self.device = torch.device(device)
        self.batch_size = batch_size
        self._image: EncodedImage | None = None
        self._spectral: SpectralDecoder | None = None

    @property
    def size(self) -> int:
        return self.network.config.size

    def set_image(self, image: Tensor | EncodedImage) -> None:
        """The image that the following calls of `decode` move: a frame (3, S, S), or one that was encoded before."""
        self._image = image if isinstance(image, EncodedImage) else self.encode_image(image)

    @torch.inference_mode()
    def encode_image(self, frame: Tensor) -> EncodedImage:
        """Find the segments of a frame (3, S, S), to keep them for later."""
        if frame.shape != (3, self.size, self.size):
            raise ValueError(f"the predictor needs a frame (3, {self.size}, {self.size}), not {tuple(frame.shape)}")
        frame = frame.to(self.device, torch.float32)
        return EncodedImage(frame, self.network.encode_image(frame[None]))

    def decode(self, z: Tensor) -> Tensor:
        """The next frames that motion codes (n, latent) give: J = I + v, floats in [0, 1], (n, 3, S, S)."""
        return torch.cat(list(self.decode_batches(z)))

    @torch.inference_mode()
    def decode_batches(self, z: Tensor) -> Iterator[Tensor]:
        """`decode`, a batch at a time, for results that are too many to hold."""
        if self._image is None:
            raise RuntimeError("set_image comes before decode")
        frame, features = self._image
        for part in z.to(self.device).split(self.batch_size):
            differences = (
                self._in_blocks(features, part) if self.device.type == "cpu" else self._at_once(features, part)
            )
            yield (frame + differences).clamp(0, 1)

    @torch.inference_mode()
    def preview(self, z: Tensor) -> Tensor:
        """`decode` of one code (1, latent), on the CPU four times as fast, for a slider; its last bits may differ."""
        if self._image is None or len(z) != 1:
            raise ValueError("a preview has an image, and one code")
        frame, features = self._image
        if self.device.type != "cpu":
            return self.decode(z)
        return (frame + self._in_blocks(features, z, block=1)).clamp(0, 1)

    def _at_once(self, features: Features, z: Tensor) -> Tensor:
        return self.network.decode(features, self.network.kernel_decoder(z))

    def _in_blocks(self, features: Features, z: Tensor, block: int = BLOCK) -> Tensor:
        self._spectral = self._spectral or SpectralDecoder(self.network)
        padded = F.pad(z, (0, 0, 0, -len(z) % block))
        # Libraries may choose their order of summation by shape and by alignment: every block has memory of its own.
        kernels = (self.network.kernel_decoder(part.clone()) for part in padded.split(block))
        return torch.cat([self._spectral.decode(features, each) for each in kernels])[: len(z)]

    def rest(self, frame: Tensor) -> Tensor:
        """A code that keeps a frame (3, S, S) still: that of a pair of two equal ones; (latent,), on the CPU.

        Zeros are none: they lie between all motions, and what they make of a frame is a blurred mean of these. They
        have to do where a model cannot read motion.
        """
        if isinstance(self.network.motion_encoder, NoMotionEncoder):
            return torch.zeros(self.network.config.latent)
        return self.encode(frame, frame).mean

    @torch.inference_mode()
    def encode(self, frame: Tensor, next_frame: Tensor) -> Posterior:
        """q(z | v, I) of one pair of frames (3, S, S): mean and log-variance, (latent,), on the CPU."""
        frame, next_frame = frame.to(self.device, torch.float32), next_frame.to(self.device, torch.float32)
        mean, log_variance = self.network.encode_motion(frame[None], (next_frame - frame)[None])
        return Posterior(mean[0].cpu(), log_variance[0].cpu())
