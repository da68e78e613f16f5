"""The only inference path: one image with many z, or many images with one z each.

Always in evaluation mode, in bounded memory, and without state between calls: threads may share a predictor. A forked
process must not use it: PyTorch's own threads do not survive a fork. Load the model after the fork, or use "spawn".
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from visual_dynamics.model.image_encoder import resize
from visual_dynamics.model.motion_encoder import NoMotionEncoder, Posterior
from visual_dynamics.model.network import Features, VisualDynamics
from visual_dynamics.sampling.folded import folded
from visual_dynamics.sampling.spectral import Memory, SpectralDecoder

BLOCK = 4  # samples that the CPU decodes together: from 4 on a sample takes the same time
BATCH, GPU_BATCH = 8, 128  # samples in memory at a time


class EncodedImage(NamedTuple):
    """A frame and its segments: all that decoding needs of an image; 0.7 MB for the paper's network."""

    frame: Tensor  # (3, S, S)
    features: Features
    picture: Tensor  # (3, k S, k S): the frame, or what it is the average of, for a network that warps


class Predictor:
    """Moves images by motion codes z.

    S is the network's frame size. Frames are floats in [0, 1], on any device; results are on the predictor's device.
    A network that warps at twice the size also takes frames of that size, and makes sharper ones of them.
    One image with many z: the CPU decodes in the frequency domain, in blocks of one size. A result is then the same to
    the last bit, whatever the other z. On a GPU, and for many images, the last bits may depend on the batch.
    The weights are copied when they are first used: after further training, make a new predictor.
    """

    def __init__(
        self, network: VisualDynamics, device: torch.device | str = "cpu", batch_size: int | None = None
    ) -> None:
        self.network = network.to(device).eval()
        self.device = torch.device(device)
        self.batch_size = batch_size or (GPU_BATCH if self.device.type == "cuda" else BATCH)

    @property
    def size(self) -> int:
        return self.network.config.size

    @property
    def picture_size(self) -> int:
        """Side of the frames that it makes most of: S, or 2 S for a network that warps at twice the size."""
        return self.network.config.picture_size

    @torch.inference_mode()
    def encode_image(self, frame: Tensor) -> EncodedImage:
        """The segments of a frame (3, S, S), found once for any number of decodings."""
        if frame.shape not in [(3, side, side) for side in (self.size, self.picture_size)]:
            raise ValueError(f"the predictor needs a frame (3, {self.size}, {self.size}), not {tuple(frame.shape)}")
        picture = frame.to(self.device, torch.float32)
        return EncodedImage(resize(picture, self.size), self._form.encode_image(picture[None]), picture)

    def decode(self, image: EncodedImage, z: Tensor) -> Tensor:
        """The next frames of one image for motion codes (n, latent): J = I + v, in [0, 1], (n, 3, S, S)."""
        return torch.cat(list(self.decode_batches(image, z)))

    @torch.inference_mode()
    def decode_batches(self, image: EncodedImage, z: Tensor) -> Iterator[Tensor]:
        """`decode`, a batch at a time, for results that do not fit into memory."""
        memory = Memory()
        for part in z.to(self.device).split(self.batch_size):
            if self.device.type == "cpu":
                difference = self._in_blocks(image, part, BLOCK, memory)
            else:
                kernels = self.network.kernel_decoder(part)
                difference = self.network.decode(image.features, kernels, image.picture[None])
            yield (image.frame + difference).clamp(0, 1)

    @torch.inference_mode()
    def preview(self, image: EncodedImage, z: Tensor) -> Tensor:
        """`decode` one by one: on the CPU a single code is four times as fast; the last bits may differ."""
        if self.device.type != "cpu":
            return self.decode(image, z)
        return (image.frame + self._in_blocks(image, z, 1, Memory())).clamp(0, 1)

    @torch.inference_mode()
    def decode_each(self, frames: Tensor, z: Tensor) -> Tensor:
        """The next frame of each of many images (n, 3, S, S) for its own motion code (n, latent): (n, 3, S, S)."""
        if len(frames) != len(z):
            raise ValueError(f"{len(frames)} images need as many motion codes, not {len(z)}")
        results = []
        for part, codes in zip(frames.split(self.batch_size), z.split(self.batch_size), strict=True):
            image = part.to(self.device, torch.float32)
            kernels = self.network.kernel_decoder(codes.to(self.device))
            difference = self.network.decode(self._form.encode_image(image), kernels, image)
            results.append((resize(image, self.size) + difference).clamp(0, 1))
        return torch.cat(results)

    @torch.inference_mode()
    def encode(self, frame: Tensor, next_frame: Tensor) -> Posterior:
        """q(z | v, I) of one pair of frames (3, S, S), or of n pairs (n, 3, S, S).

        Mean and log-variance, (latent,) or (n, latent), on the CPU.
        """
        one = frame.ndim == 3
        found = []
        pairs = (frames[None] if one else frames for frames in (frame, next_frame))
        for parts in zip(*(frames.split(self.batch_size) for frames in pairs), strict=True):
            before, after = (part.to(self.device, torch.float32) for part in parts)
            found.append([values.cpu() for values in self._form.encode_motion(before, after - before)])
        mean, log_variance = (torch.cat(values) for values in zip(*found, strict=True))
        return Posterior(mean[0], log_variance[0]) if one else Posterior(mean, log_variance)

    def rest(self, image: EncodedImage) -> Tensor:
        """A code that keeps an image still: that of a pair of two equal frames; (latent,), on the CPU.

        z = 0 is not "no motion": it decodes to a blurred average of all motions. A model without its motion encoder
        cannot do better, though, and gets z = 0.
        """
        if isinstance(self.network.motion_encoder, NoMotionEncoder):
            return torch.zeros(self.network.config.latent)
        return self.encode(image.frame, image.frame).mean

    @cached_property
    def _form(self) -> VisualDynamics:
        """The network as this device computes it fastest."""
        return folded(self.network) if self.device.type == "cpu" else self.network

    @cached_property
    def _spectral(self) -> SpectralDecoder:
        return SpectralDecoder(self.network)

    def _in_blocks(self, image: EncodedImage, z: Tensor, block: int, memory: Memory) -> Tensor:
        padded = F.pad(z, (0, 0, 0, -len(z) % block))
        # Libraries may choose their order of summation by shape and by alignment: each block gets memory of its own.
        kernels = (self.network.kernel_decoder(part.clone()) for part in padded.split(block))
        layers = (self._spectral.decode(image.features, each, memory) for each in kernels)
        return torch.cat([self.network.difference(each, image.picture[None]) for each in layers])[: len(z)]
