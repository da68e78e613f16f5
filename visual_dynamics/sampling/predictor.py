"""The only inference path: set one image, decode many z; always in evaluation mode, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from visual_dynamics.model.motion_encoder import Posterior
from visual_dynamics.model.network import Features, VisualDynamics


class Predictor:
    """Encodes an image once and moves it by any number of motion codes.

    S is the network's frame size. Frames are floats in [0, 1], (3, S, S), on any device; results come back on the
    predictor's device. `batch_size` bounds the memory, not the result: every decoding runs on full batches of it.
    """

    def __init__(self, network: VisualDynamics, device: torch.device | str = "cpu", batch_size: int = 8) -> None:
        self.network = network.to(device).eval()
        self.device = torch.device(device)
        self.batch_size = batch_size
        self._frame: Tensor | None = None
        self._features: Features = ()

    @property
    def size(self) -> int:
        return self.network.config.size

    @torch.inference_mode()
    def set_image(self, frame: Tensor) -> None:
        """Encode the frame (3, S, S) that the following calls of `decode` move."""
        if frame.shape != (3, self.size, self.size):
            raise ValueError(f"the predictor needs a frame (3, {self.size}, {self.size}), not {tuple(frame.shape)}")
        self._frame = frame.to(self.device, torch.float32)
        self._features = self.network.encode_image(self._frame[None])

    def decode(self, z: Tensor) -> Tensor:
        """The next frames that motion codes (n, latent) give: J = I + v, floats in [0, 1], (n, 3, S, S)."""
        return torch.cat(list(self.decode_batches(z)))

    @torch.inference_mode()
    def decode_batches(self, z: Tensor) -> Iterator[Tensor]:
        """`decode`, a batch at a time, for results that are too many to hold."""
        if self._frame is None:
            raise RuntimeError("set_image comes before decode")
        for part in z.to(self.device).split(self.batch_size):
            kernels = self.network.kernel_decoder(part)
            yield (self._frame + self.network.decode(self._features, kernels)).clamp(0, 1)

    @torch.inference_mode()
    def encode(self, frame: Tensor, next_frame: Tensor) -> Posterior:
        """q(z | v, I) of one pair of frames (3, S, S): mean and log-variance, (latent,), on the CPU."""
        frame, next_frame = frame.to(self.device, torch.float32), next_frame.to(self.device, torch.float32)
        mean, log_variance = self.network.encode_motion(frame[None], (next_frame - frame)[None])
        return Posterior(mean[0].cpu(), log_variance[0].cpu())
