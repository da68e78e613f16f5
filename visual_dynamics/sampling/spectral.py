"""Decoding on the CPU, several times faster: the motion decoder's 9x9 convolution in the frequency domain.

That convolution takes nine tenths of a decoding. Over a tile of the picture it is one small product per frequency:

    window of the moved maps -> transform -> (128 x 128) product per frequency -> back -> the tile's pixels

A window is a tile with a margin as wide as the kernel reaches. The transforms are products with small fixed matrices.
For windows of 24 pixels that is faster than an FFT: no axes are reordered, and nothing is computed that is cropped
afterwards. Results differ from the network's by the rounding of float32 only.
"""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.utils import fuse_conv_bn_eval

from visual_dynamics.model.cross_convolution import cross_convolution
from visual_dynamics.model.network import Features, VisualDynamics

# Side of a tile at most. Larger tiles need fewer products per pixel, but more weights, which are read for every block.
# Tiles of 13 to 22 pixels are about equally fast; one tile of 64 is slower, and takes 350 MB.
TILE = 16


class SpectralDecoder:
    """(d) and (e) of a network on the CPU, in evaluation mode, with a copy of its weights.

    The transformed weights take 8 times the memory of the 9x9 layer: 41 MB for the paper's network, 51 MB for 128x128.
    They are made in a quarter of a second. Intermediate results take 15 MB and 66 MB a sample.

    B samples, S size of the frame, P size of a tile, G = P + 8 of a window, N tiles, H = G // 2 + 1 vertical
    frequencies (rows are real numbers), C = 128 maps in, O = 128 maps out; a 2 in a shape is real and imaginary part.
    """

    @torch.inference_mode()
    def __init__(self, network: VisualDynamics) -> None:
        config, decoder = network.config, network.motion_decoder
        self.size, reach = config.size, config.decoder_kernel_size - 1
        self.across = -(-self.size // TILE)  # tiles a side
        self.tile = -(-self.size // self.across)
        self.window = self.tile + reach
        self.pixels = [
            window_pixels(self.size, 2**level, self.tile, self.across, reach).to(decoder.wide.weight.device)
            for level in range(config.scales)
        ]  # of each level, (G * G * N)

        # Batch norm is a scale and a shift of each channel: the convolution before it takes both in.
        wide, self.shift = with_batch_norm(decoder.wide, decoder.normalise[0])
        self.weights = transformed_weights(wide, self.window)  # (H * G, C, 2 * O)
        hidden, self.hidden_bias = with_batch_norm(decoder.hidden[0], decoder.hidden[1])
        self.hidden = hidden.flatten(1).T.contiguous()  # (O, O')
        self.last = (
            decoder.last.weight.flatten(1).T / config.difference_scale
        )  # (O', 3), of a network that warps (O', 6)
        self.last_bias = cast(Tensor, decoder.last.bias) / config.difference_scale
        matrices = (matrix.to(wide) for matrix in transforms(self.window, self.tile))
        self.to_rows, self.to_columns, self.from_columns, self.from_rows = matrices

    @torch.inference_mode()
    def decode(self, features: Features, kernels: tuple[Tensor, ...], memory: Memory | None = None) -> Tensor:
        """The layers that network.difference takes, (B, 3 or 6, S, S), for one image's segments and B sets of kernels.

        Calls that follow each other in one thread may share a `memory`: that is faster.
        """
        memory = memory or Memory()
        parts = [
            windows(cross_convolution(maps, kernel), pixels)
            for maps, kernel, pixels in zip(features, kernels, self.pixels, strict=True)
        ]  # four of (G * G * N, B, 32)
        x = self.wide(parts, memory).add_(self.shift).relu_()  # (P * P * N * B, O)
        x = product(x, self.hidden, memory.other).add_(self.hidden_bias).relu_()
        x = torch.addmm(self.last_bias, x, self.last)  # (P * P * N * B, 3 or 6)
        x = x.view(self.tile, self.tile, self.across, self.across, -1, x.shape[1])
        x = x.permute(4, 5, 2, 0, 3, 1)  # (B, 3 or 6, across, P, across, P)
        return x.flatten(4).flatten(2, 3)[:, :, : self.size, : self.size]

    def wide(self, parts: list[Tensor], memory: Memory) -> Tensor:
        """The 9x9 convolution of windows, to the pixels of their tiles: (P * P * N * B, O). Below, N is N * B."""
        window, half, tiles = self.window, self.window // 2 + 1, self.across**2 * parts[0].shape[1]
        one, other = memory.one, memory.other
        x = torch.cat(parts, dim=2, out=one.shaped(*parts[0].shape[:2], self.weights.shape[1]))
        x = product(self.to_rows, x.view(window, -1), other)  # (H * 2, G * N * C)
        x = product(self.to_columns, x.view(half, 2 * window, -1), one)  # (H, G * 2, N * C)
        x = product(x.view(half * window, 2 * tiles, -1), self.weights, other)  # (H * G, 2 * N, 2 * O)
        x = complex_product(x.view(half * window, 2, tiles, 2, -1), one)  # (H * G, 2, N, O)
        x = product(self.from_columns, x.view(half, 2 * window, -1), other)  # (H, 2 * P, N * O)
        x = product(self.from_rows, x.view(2 * half, -1), one)  # (P, P * N * O)
        return x.view(self.tile**2 * tiles, -1)


class Space:
    """Memory that is used again: new memory arrives page by page, which can take a third of the time."""

    def __init__(self) -> None:
        self.numbers = torch.empty(0)

    def shaped(self, *shape: int) -> Tensor:
        """A tensor of that shape in it, over what was there."""
        count = math.prod(shape)
        if len(self.numbers) < count:
            self.numbers = torch.empty(count)
        return self.numbers[:count].view(shape)


class Memory:
    """Two spaces: each step reads from one and writes to the other."""

    def __init__(self) -> None:
        self.one, self.other = Space(), Space()


def product(a: Tensor, b: Tensor, space: Space) -> Tensor:
    """a @ b, for matrices or for a batch of them on either side, in the given space."""
    if b.ndim == 2:
        return torch.mm(a, b, out=space.shaped(a.shape[0], b.shape[1]))
    return torch.bmm(a.expand(len(b), -1, -1), b, out=space.shaped(len(b), a.shape[-2], b.shape[-1]))


def windows(maps: Tensor, pixels: Tensor) -> Tensor:
    """Maps (B, 32, side, side), enlarged to S and cut into windows: (G * G * N, B, 32)."""
    rows = maps.permute(2, 3, 0, 1).flatten(0, 1)  # (side * side, B, 32)
    return torch.cat([rows, rows.new_zeros(1, *rows.shape[1:])]).index_select(0, pixels)


def complex_product(parts: Tensor, space: Space) -> Tensor:
    """From the four products of real and imaginary parts, (F, 2, N, 2, O), to those of the result, (F, 2, N, O)."""
    frequencies, _, tiles, _, outputs = parts.shape
    result = space.shaped(frequencies, 2, tiles, outputs)
    torch.sub(parts[:, 0, :, 0], parts[:, 1, :, 1], out=result[:, 0])
    torch.add(parts[:, 0, :, 1], parts[:, 1, :, 0], out=result[:, 1])
    return result


def window_pixels(size: int, factor: int, tile: int, across: int, reach: int) -> Tensor:
    """Which pixel of a small map, counted row by row, each pixel (row, column, tile row, tile column) of the windows
    shows when the map is enlarged `factor` times by repetition; outside of it, the one after the last."""
    start = tile * torch.arange(across) - reach // 2
    place = torch.arange(tile + reach)[:, None] + start  # (G, across): of the enlarged map
    inside = (place >= 0) & (place < size)
    place = place // factor
    side = size // factor
    pixel = side * place[:, None, :, None] + place[None, :, None, :]  # (G, G, across, across)
    return torch.where(inside[:, None, :, None] & inside[None, :, None, :], pixel, side * side).flatten()


def with_batch_norm(layer: nn.Module, norm: nn.Module) -> tuple[Tensor, Tensor]:
    """Weights and bias of the convolution that does what the two do in evaluation mode."""
    both = fuse_conv_bn_eval(cast(nn.Conv2d, layer), cast(nn.BatchNorm2d, norm))
    return both.weight.detach(), cast(Tensor, both.bias).detach()


def transformed_weights(weight: Tensor, window: int) -> Tensor:
    """(O, C, 9, 9) -> (H * G, C, 2 * O). A layer's "convolution" is a correlation: hence the conjugate."""
    spectrum = torch.fft.rfft2(weight, s=(window, window), dim=(3, 2)).conj()  # (O, C, H, G)
    spectrum = spectrum.permute(2, 3, 1, 0).flatten(0, 1)  # (H * G, C, O)
    return torch.cat([spectrum.real, spectrum.imag], dim=2)


def transforms(window: int, tile: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Matrices of the real transform of rows, the complex one of columns, and the first `tile` pixels of the inverse
    of each, in float64: transforms of the unit vectors, and of i times them where complex numbers come in."""
    real, half = torch.eye(window, dtype=torch.float64), torch.eye(window // 2 + 1, dtype=torch.float64)
    unit = torch.tensor([1, 1j], dtype=torch.complex128)
    to_rows = torch.view_as_real(torch.fft.rfft(real, dim=0))  # (H, G, 2)
    to_columns = torch.view_as_real(torch.fft.fft(real, dim=0)[:, None] * unit[:, None])  # (G, 2, G, 2)
    from_columns = torch.view_as_real(torch.fft.ifft(real, dim=0)[:tile, :, None] * unit)  # (P, G, 2, 2)
    from_rows = torch.fft.irfft(half[:, :, None] * unit, n=window, dim=0)[:tile]  # (P, H, 2)
    return (
        to_rows.permute(0, 2, 1).reshape(-1, window),  # (H * 2, G)
        to_columns.permute(0, 3, 1, 2).reshape(2 * window, 2 * window),  # (G * 2, 2 * G)
        from_columns.permute(3, 0, 1, 2).reshape(2 * tile, 2 * window),  # (2 * P, G * 2)
        from_rows.reshape(tile, -1),  # (P, H * 2)
    )
