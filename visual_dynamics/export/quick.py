"""The decoder for machines without a graphics card: the motion decoder's 9x9 convolution in the frequency domain.

The same computation as sampling/spectral.py, written as products of matrices that export. Only the 9x9 kernels are in
the file; whoever opens it multiplies them out once. Letters in shape comments are those of SpectralDecoder, n codes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from visual_dynamics.export.programs import Decoder
from visual_dynamics.model.network import VisualDynamics
from visual_dynamics.sampling.spectral import Tiling, windows


class QuickDecoder(Decoder):
    """What Decoder gives, in less than half of its time in a browser."""

    rows: Tensor
    columns: Tensor
    conjugate: Tensor  # a layer's "convolution" is a correlation
    from_columns: Tensor
    from_rows: Tensor

    def __init__(self, network: VisualDynamics) -> None:
        super().__init__(network)
        side, tiling = network.config.decoder_kernel_size, Tiling(network.config)
        self.across, self.tile, self.window = tiling.across, tiling.tile, tiling.window
        columns = tiling.columns.view(2 * self.window, 2, self.window)[:, :, :side].flatten(1)
        matrices = {
            "rows": tiling.rows[:, :side],  # of kernels, (H * 2, 9)
            "columns": columns,  # (G * 2, 2 * 9)
            "conjugate": torch.tensor([1.0, -1.0])[:, None],
            "from_columns": tiling.from_columns,
            "from_rows": tiling.from_rows,
        }
        for name, matrix in matrices.items():
            self.register_buffer(name, matrix.float())
        for level, pixels in enumerate(tiling.pixels):
            self.register_buffer(f"pixels_{level}", pixels)
            self.register_buffer(f"to_rows_{level}", tiling.to_rows[level].float())
            self.register_buffer(f"to_columns_{level}", tiling.to_columns[level].float())

    def weights(self) -> Tensor:
        """The 9x9 kernels in the frequency domain, (H * G, C, 2 * O)."""
        wide, half = self.network.motion_decoder.wide.weight, self.window // 2 + 1
        outputs, inputs, side, _ = wide.shape
        rows = self.rows @ wide.permute(2, 3, 1, 0).reshape(side, -1)  # (H * 2, 9 * C * O)
        spectrum = self.columns @ rows.view(half, 2 * side, -1)  # (H, G * 2, C * O)
        spectrum = spectrum.view(half * self.window, 2, -1) * self.conjugate
        return spectrum.view(-1, 2, inputs, outputs).transpose(1, 2).flatten(2)

    def spectrum(self, maps: Tensor, level: int) -> Tensor:
        """Windows of the moved maps of one level in the frequency domain, (H * G, 2 * N * n, 32)."""
        pixels, to_rows, to_columns = (getattr(self, f"{name}_{level}") for name in ("pixels", "to_rows", "to_columns"))
        x = to_rows @ windows(maps, pixels).view(to_rows.shape[1], -1)  # (H * 2, K * N * n * 32)
        x = to_columns @ x.view(self.window // 2 + 1, to_columns.shape[1], -1)  # (H, G * 2, N * n * 32)
        return x.view((self.window // 2 + 1) * self.window, -1, maps.shape[1])

    def layers(self, moved: tuple[Tensor, ...]) -> Tensor:
        decoder, half = self.network.motion_decoder, self.window // 2 + 1
        outputs = decoder.wide.weight.shape[0]
        x = torch.cat([self.spectrum(maps, level) for level, maps in enumerate(moved)], dim=2)
        x = x @ self.weights()  # (H * G, 2 * N * n, 2 * O)
        x = x.view(half * self.window, 2, -1, 2, outputs)
        x = torch.stack([x[:, 0, :, 0] - x[:, 1, :, 1], x[:, 0, :, 1] + x[:, 1, :, 0]], dim=1)  # (H * G, 2, N * n, O)
        x = self.from_columns @ x.view(half, 2 * self.window, -1)  # (H, 2 * P, N * n * O)
        x = self.from_rows @ x.view(2 * half, -1)  # (P, P * N * n * O)
        x = x.view(self.tile, self.tile, self.across, self.across, -1, outputs).permute(4, 5, 2, 0, 3, 1)
        size = self.network.config.size
        x = x.flatten(4).flatten(2, 3)[:, :, :size, :size]  # (n, O, S, S)
        return decoder.last(decoder.hidden(decoder.normalise(x)))
