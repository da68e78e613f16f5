"""Decoding on the CPU, several times faster: the motion decoder's 9x9 convolution in the frequency domain.

That convolution takes nine tenths of a decoding. Over a tile of the picture it is one small product per frequency:

    window of the moved maps -> transform -> (128 x 128) product per frequency -> back -> the tile's pixels

A window is a tile with a margin as wide as the kernel reaches. The transforms are products with small fixed matrices.
For windows of 24 pixels that is faster than an FFT: no axes are reordered, and nothing is computed that is cropped
afterwards. Results differ from the network's by the rounding of float32 only.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.utils import fuse_conv_bn_eval

from visual_dynamics.model.cross_convolution import cross_convolution
from visual_dynamics.model.network import Features, VisualDynamics
from visual_dynamics.model.presets import NetworkConfig

# Side of a tile at most. Larger tiles need fewer products per pixel, but more weights, which are read for every block.
# Tiles of 13 to 22 pixels are about equally fast; one tile of 64 is slower, and takes 350 MB.
TILE = 16


class Tiling:
    """How a network's frames are cut into windows, and the matrices that transform these; letters below."""

    def __init__(self, config: NetworkConfig) -> None:
        reach = config.decoder_kernel_size - 1
        self.across = -(-config.size // TILE)  # tiles a side
        largest = 2 ** (config.scales - 1)  # side of what a pixel of the smallest map covers
        self.tile = -(-config.size // self.across // largest) * largest
        self.window = self.tile + reach
        factors = [2**level for level in range(config.scales)]
        self.pixels = [window_pixels(config.size, factor, self.tile, self.across, reach) for factor in factors]
        self.rows, self.columns, self.from_columns, self.from_rows = transforms(self.window, self.tile)
        repeats = [repeat(self.window, factor, reach) for factor in factors]  # of each level, (G, K)
        self.to_rows = [self.rows @ each for each in repeats]
        self.to_columns = [self.columns @ torch.block_diag(each, each) for each in repeats]


class SpectralDecoder:
    """(d) and (e) of a network on the CPU, in evaluation mode, with a copy of its weights.

    The transformed weights take 8 times the memory of the 9x9 layer: 41 MB for the paper's network, 51 MB for 128x128.
    They are made in a quarter of a second. Intermediate results take 16 MB and 75 MB a sample.

    B samples, S size of the frame, P size of a tile, G = P + 8 of a window, which shows K x K pixels of a level's map
    (24, 12, 6 and 4 a side; they are transformed at that size), N tiles, H = G // 2 + 1 vertical
    frequencies (rows are real numbers), C = 128 maps in, O = 128 maps out; a 2 in a shape is real and imaginary part.
    """

    @torch.inference_mode()
    def __init__(self, network: VisualDynamics) -> None:
        config, decoder = network.config, network.motion_decoder
        tiling = Tiling(config)
        self.size, self.across, self.tile, self.window = config.size, tiling.across, tiling.tile, tiling.window
        self.pixels = tiling.pixels

        # Batch norm is a scale and a shift of each channel: the convolution before it takes both in.
        wide, self.shift = with_batch_norm(decoder.wide, decoder.normalise[0])
        self.weights = transformed_weights(wide, self.window)  # (H * G, C, 2 * O)
        hidden, self.hidden_bias = with_batch_norm(decoder.hidden[0], decoder.hidden[1])
        self.hidden = hidden.flatten(1).T.contiguous()  # (O, O')
        self.last = (
            decoder.last.weight.flatten(1).T / config.difference_scale
        )  # (O', 3), of a network that warps (O', 6)
        self.last_bias = cast(Tensor, decoder.last.bias) / config.difference_scale
        self.to_rows, self.to_columns = (
            [matrix.to(wide) for matrix in matrices] for matrices in (tiling.to_rows, tiling.to_columns)
        )
        self.from_columns, self.from_rows = tiling.from_columns.to(wide), tiling.from_rows.to(wide)

    @torch.inference_mode()
    def decode(self, features: Features, kernels: tuple[Tensor, ...], memory: Memory | None = None) -> Tensor:
        """The layers that network.difference takes, (B, 3 or 6, S, S), for one image's segments and B sets of kernels.

        Calls that follow each other in one thread may share a `memory`: that is faster.
        """
        memory = memory or Memory()
        parts = [
            windows(cross_convolution(maps, kernel), pixels)
            for maps, kernel, pixels in zip(features, kernels, self.pixels, strict=True)
        ]  # four of (K * K * N, B, 32)
        x = self.wide(parts, memory).add_(self.shift).relu_()  # (P * P * N * B, O)
        x = product(x, self.hidden, memory.one).add_(self.hidden_bias).relu_()
        x = torch.addmm(self.last_bias, x, self.last)  # (P * P * N * B, 3 or 6)
        x = x.view(self.tile, self.tile, self.across, self.across, -1, x.shape[1])
        x = x.permute(4, 5, 2, 0, 3, 1)  # (B, 3 or 6, across, P, across, P)
        return x.flatten(4).flatten(2, 3)[:, :, : self.size, : self.size]

    def wide(self, parts: list[Tensor], memory: Memory) -> Tensor:
        """The 9x9 convolution of windows, to the pixels of their tiles: (P * P * N * B, O). Below, N is N * B."""
        window, half, tiles = self.window, self.window // 2 + 1, self.across**2 * parts[0].shape[1]
        one, other = memory.one, memory.other
        spectra = []
        for level, (part, to_rows, to_columns) in enumerate(zip(parts, self.to_rows, self.to_columns, strict=True)):
            x = product(to_rows, part.view(to_rows.shape[1], -1), one)  # (H * 2, K * N * 32)
            x = product(to_columns, x.view(half, to_columns.shape[1], -1), memory.levels[level])  # (H, G * 2, N * 32)
            spectra.append(x.view(half * 2 * window * tiles, -1))
        x = torch.cat(spectra, dim=1, out=one.shaped(len(spectra[0]), self.weights.shape[1]))
        x = complex_products(x.view(half * window, 2 * tiles, -1), self.weights, window, memory)  # (H * G, 2, N, O)
        x = product(self.from_columns, x.view(half, 2 * window, -1), one)  # (H, 2 * P, N * O)
        x = product(self.from_rows, x.view(2 * half, -1), other)  # (P, P * N * O)
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
    """Two spaces: each step reads from one and writes to the other. And a small one, and one for each level."""

    def __init__(self) -> None:
        self.one, self.other, self.small = Space(), Space(), Space()
        self.levels = defaultdict[int, Space](Space)


def product(a: Tensor, b: Tensor, space: Space) -> Tensor:
    """a @ b, for matrices or for a batch of them on either side, in the given space."""
    if b.ndim == 2:
        return torch.mm(a, b, out=space.shaped(a.shape[0], b.shape[1]))
    return torch.bmm(a.expand(len(b), -1, -1), b, out=space.shaped(len(b), a.shape[-2], b.shape[-1]))


def windows(maps: Tensor, pixels: Tensor) -> Tensor:
    """What windows show of maps (B, 32, side, side): (K * K * N, B, 32)."""
    rows = maps.permute(2, 3, 0, 1).flatten(0, 1)  # (side * side, B, 32)
    return torch.cat([rows, rows.new_zeros(1, *rows.shape[1:])]).index_select(0, pixels)


def complex_products(x: Tensor, weights: Tensor, group: int, memory: Memory) -> Tensor:
    """One product a frequency: real and imaginary rows (F, 2 * N, C) with (F, C, 2 * O), to (F, 2, N, O).

    A group at a time: the four products of real and imaginary parts are still in the cache when they become two.
    """
    count, rows, _ = x.shape
    result = memory.other.shaped(count, 2, rows // 2, weights.shape[2] // 2)
    for start in range(0, count, group):
        now = slice(start, start + group)
        four = product(x[now], weights[now], memory.small).view(group, 2, rows // 2, 2, -1)
        torch.sub(four[:, 0, :, 0], four[:, 1, :, 1], out=result[now, 0])
        torch.add(four[:, 0, :, 1], four[:, 1, :, 0], out=result[now, 1])
    return result


def window_pixels(size: int, factor: int, tile: int, across: int, reach: int) -> Tensor:
    """Which pixels of a small map, counted row by row, the windows show when it is enlarged `factor` times by
    repetition, each once: (row, column, tile row, tile column); outside of it, the one after the last."""
    start = tile // factor * torch.arange(across)
    place = distinct(tile + reach, factor, reach)[:, None] + start  # (K, across): of the small map
    side = size // factor
    inside = (place >= 0) & (place < side)
    pixel = side * place[:, None, :, None] + place[None, :, None, :]  # (K, K, across, across)
    return torch.where(inside[:, None, :, None] & inside[None, :, None, :], pixel, side * side).flatten()


def distinct(window: int, factor: int, reach: int) -> Tensor:
    """The pixels of a small map that a window shows, (K,), from the first one of its tile on."""
    return torch.arange(-reach // 2 // factor, (window - reach // 2 - 1) // factor + 1)


def repeat(window: int, factor: int, reach: int) -> Tensor:
    """Which of them each pixel of the window shows: 0 or 1, float64 (G, K)."""
    shown = (torch.arange(window) - reach // 2).div(factor, rounding_mode="floor")
    return (shown[:, None] == distinct(window, factor, reach)).double()


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
