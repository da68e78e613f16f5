"""The decoder for machines without a graphics card: the motion decoder's 9x9 convolution in the frequency domain.

The same computation as sampling/spectral.py, written as products of matrices that export. Only the 9x9 kernels are in
the file; whoever opens it multiplies them out once. Letters in shape comments are those of SpectralDecoder, n codes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from visual_dynamics.export.programs import Decoder
from visual_dynamics.model.network import VisualDynamics
from visual_dynamics.sampling.spectral import TILE, transforms, window_pixels, windows


class QuickDecoder(Decoder):
    """What Decoder gives, in less than half of its time in a browser."""

    conjugate: Tensor  # a layer's "convolution" is a correlation
    to_rows: Tensor
    to_columns: Tensor
    from_columns: Tensor
    from_rows: Tensor

    def __init__(self, network: VisualDynamics) -> None:
        super().__init__(network)
        config, side = network.config, network.config.decoder_kernel_size
        self.across = -(-config.size // TILE)
        self.tile = -(-config.size // self.across)
        self.window = self.tile + side - 1
        for level in range(config.scales):
            pixels = window_pixels(config.size, 2**level, self.tile, self.across, side - 1)
            self.register_buffer(f"pixels_{level}", pixels)
        names = ("to_rows", "to_columns", "from_columns", "from_rows")
        for name, matrix in zip(names, transforms(self.window, self.tile), strict=True):
            self.register_buffer(name, matrix.float())
        self.register_buffer("conjugate", torch.tensor([1.0, -1.0])[:, None])

    def weights(self) -> Tensor:
        """The 9x9 kernels in the frequency domain, (H * G, C, 2 * O)."""
        wide, half = self.network.motion_decoder.wide.weight, self.window // 2 + 1
        outputs, inputs, side, _ = wide.shape
        rows = self.to_rows[:, :side] @ wide.permute(2, 3, 1, 0).reshape(side, -1)  # (H * 2, 9 * C * O)
        columns = self.to_columns.view(2 * self.window, 2, self.window)[:, :, :side].flatten(1)  # (G * 2, 2 * 9)
        spectrum = columns @ rows.view(half, 2 * side, -1)  # (H, G * 2, C * O)
        spectrum = spectrum.view(half * self.window, 2, -1) * self.conjugate
        return spectrum.view(-1, 2, inputs, outputs).transpose(1, 2).flatten(2)

    def layers(self, moved: tuple[Tensor, ...]) -> Tensor:
        decoder, half = self.network.motion_decoder, self.window // 2 + 1
        outputs, inputs = decoder.wide.weight.shape[:2]
        parts = [windows(maps, getattr(self, f"pixels_{level}")) for level, maps in enumerate(moved)]
        x = self.to_rows @ torch.cat(parts, dim=2).view(self.window, -1)  # (H * 2, G * N * n * C)
        x = self.to_columns @ x.view(half, 2 * self.window, -1)  # (H, G * 2, N * n * C)
        x = x.view(half * self.window, -1, inputs) @ self.weights()  # (H * G, 2 * N * n, 2 * O)
        x = x.view(half * self.window, 2, -1, 2, outputs)
        x = torch.stack([x[:, 0, :, 0] - x[:, 1, :, 1], x[:, 0, :, 1] + x[:, 1, :, 0]], dim=1)  # (H * G, 2, N * n, O)
        x = self.from_columns @ x.view(half, 2 * self.window, -1)  # (H, 2 * P, N * n * O)
        x = self.from_rows @ x.view(2 * half, -1)  # (P, P * N * n * O)
        x = x.view(self.tile, self.tile, self.across, self.across, -1, outputs).permute(4, 5, 2, 0, 3, 1)
        size = self.network.config.size
        x = x.flatten(4).flatten(2, 3)[:, :, :size, :size]  # (n, O, S, S)
        return decoder.last(decoder.hidden(decoder.normalise(x)))
