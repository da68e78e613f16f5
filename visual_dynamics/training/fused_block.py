"""The first block of an encoder in training, as one operation that never writes its largest map.

    out = pool(ReLU(BN(conv(x)))), x a picture of 3 or 6 channels that needs no gradient

As PyTorch runs it, the map before the pooling, 256x256 with 64 channels for each example, is written and read six
times: it costs more than any other layer, though its products are few. Here each tile of that map is made of patches of
x when it is needed, twice, and stays in registers:

1. statistics: sums of patches p (numbers,) and of p p^T give mean and variance of conv(x) = w p for batch norm;
2. forward: normalise, ReLU, the largest of 2x2, write the pooled map;
3. backward: make the tile again, see which of the 2x2 was the largest, and sum up the gradient of the weights.

With y = w p, h = (y - mean) r and d the gradient before batch norm, scattered to the largest pixels, batch norm's own
gradient makes d dense: dy = gamma r (d - sum(d) / n - h sum(d h) / n). So the gradient of the weights has three parts,
and only the first needs another pass; sum(h p) = r (w sum(p p^T) - mean sum(p)):

    dW = gamma r (sum(d p) - sum(p) sum(d) / n - sum(h p) sum(d h) / n)

The plain form, ConvBlock, is the oracle in the tests, and what runs where there is no GPU or no Triton.
"""

# Kernels have Triton's own types, and names in capitals for what is known when they are compiled.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
# ruff: noqa: N803

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor, nn

GROUP = 64  # outputs of one program
PIXELS = {"statistics": 128, "forward": 128, "backward": 32}  # pooled pixels of a tile: the fastest of 16 to 128
PROGRAMS = 1_056  # at most, over all groups of outputs: eight for each of the 132 processors of an H200


class Plan(NamedTuple):
    """Sizes of one call, as the kernels want them."""

    batch: int
    channels: int  # of x
    outputs: int
    taps: int  # side of the convolution's kernel
    height: int  # of the padded x
    width: int
    pooled_height: int
    pooled_width: int
    programs: int  # of each group of outputs

    @property
    def windows(self) -> int:
        return self.batch * self.pooled_height * self.pooled_width

    @property
    def padded_outputs(self) -> int:
        """A whole number of groups."""
        return -(-self.outputs // GROUP) * GROUP

    @property
    def sizes(self) -> tuple[int, ...]:
        """The kernels' first numbers."""
        return self.windows, self.pooled_height, self.pooled_width, self.height * self.width, self.width

    @property
    def pieces(self) -> tuple[int, int]:
        """A patch has channels * taps^2 numbers: a power of two, and the rest, filled up to one of at least 16."""
        numbers = self.channels * self.taps**2
        first = 1 << (numbers.bit_length() - 1)
        return first, max(16, 1 << (numbers - first - 1).bit_length())

    @property
    def constants(self) -> dict[str, Any]:
        first, second = self.pieces
        row = self.taps * self.channels
        patch = {"C": self.channels, "ROW": row, "COUNT": row * self.taps, "K1": first, "K2": second}
        return patch | {"N": self.outputs, "NP": self.padded_outputs, "GROUP": GROUP}


def plan(shape: torch.Size, weight_shape: torch.Size) -> Plan:
    batch, height, width, channels = shape
    outputs, _, taps, _ = weight_shape
    pooled = (height - taps + 1) // 2, (width - taps + 1) // 2
    tiles = triton.cdiv(batch * pooled[0] * pooled[1], max(PIXELS.values()))
    programs = min(tiles, max(1, PROGRAMS * GROUP // outputs))
    return Plan(batch, channels, outputs, taps, height, width, *pooled, programs)


@triton.jit
def window_places(tile, windows, pooled_height, pooled_width, area, width, C: tl.constexpr, PIXELS: tl.constexpr):
    """Numbers of the pooled pixels of a tile, which of them there are, and where in x their patches begin."""
    number = tile * PIXELS + tl.arange(0, PIXELS)
    there = number < windows
    inside = tl.where(there, number, 0)
    across = inside % pooled_width
    down = (inside // pooled_width) % pooled_height
    example = inside // (pooled_width * pooled_height)
    return number, there, (example * area + 2 * down * width + 2 * across) * C


@triton.jit
def tap_places(first: tl.constexpr, K: tl.constexpr, width, C: tl.constexpr, ROW: tl.constexpr, COUNT: tl.constexpr):
    """Where numbers first, ..., first + K - 1 of a patch lie, from its beginning; those that only fill up: there."""
    k = first + tl.arange(0, K)
    return tl.where(k < COUNT, (k // ROW) * width * C + k % ROW, 0)


@triton.jit
def weights_of(w, first: tl.constexpr, K: tl.constexpr, n, NP: tl.constexpr):
    return tl.load(w + (first + tl.arange(0, K))[:, None] * NP + n[None, :])


@triton.jit
def statistics_kernel(
    x, products11, products12, products22,
    windows, pooled_height, pooled_width, area, width, tiles, programs,
    C: tl.constexpr, ROW: tl.constexpr, COUNT: tl.constexpr, K1: tl.constexpr, K2: tl.constexpr,
    N: tl.constexpr, NP: tl.constexpr, GROUP: tl.constexpr, PIXELS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Sums of p p^T: (programs, K1, K1), (programs, K1, K2) and (programs, K2, K2)."""
    program = tl.program_id(0)
    taps1, taps2 = tap_places(0, K1, width, C, ROW, COUNT), tap_places(K1, K2, width, C, ROW, COUNT)
    sum11, sum12 = tl.zeros([K1, K1], tl.float32), tl.zeros([K1, K2], tl.float32)
    sum22 = tl.zeros([K2, K2], tl.float32)
    for tile in range(program, tiles, programs):
        _, there, place = window_places(tile, windows, pooled_height, pooled_width, area, width, C, PIXELS)
        for phase in range(4):
            patch = x + (place + (phase // 2 * width + phase % 2) * C)[:, None]
            patch1 = tl.load(patch + taps1[None, :], mask=there[:, None], other=0.0)
            patch2 = tl.load(patch + taps2[None, :], mask=there[:, None], other=0.0)
            sum11 = tl.dot(tl.trans(patch1), patch1, sum11, input_precision=PRECISION)
            sum12 = tl.dot(tl.trans(patch1), patch2, sum12, input_precision=PRECISION)
            sum22 = tl.dot(tl.trans(patch2), patch2, sum22, input_precision=PRECISION)
    k1, k2 = tl.arange(0, K1), tl.arange(0, K2)
    tl.store(products11 + (program * K1 + k1)[:, None] * K1 + k1[None, :], sum11)
    tl.store(products12 + (program * K1 + k1)[:, None] * K2 + k2[None, :], sum12)
    tl.store(products22 + (program * K2 + k2)[:, None] * K2 + k2[None, :], sum22)


@triton.jit
def forward_kernel(
    x, w, scale, shift, out,
    windows, pooled_height, pooled_width, area, width, tiles, programs,
    C: tl.constexpr, ROW: tl.constexpr, COUNT: tl.constexpr, K1: tl.constexpr, K2: tl.constexpr,
    N: tl.constexpr, NP: tl.constexpr, GROUP: tl.constexpr, PIXELS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """out (windows, N): the largest of scale * conv(x) + shift in each window, and of 0."""
    n = tl.program_id(1) * GROUP + tl.arange(0, GROUP)
    w1, w2 = weights_of(w, 0, K1, n, NP), weights_of(w, K1, K2, n, NP)
    taps1, taps2 = tap_places(0, K1, width, C, ROW, COUNT), tap_places(K1, K2, width, C, ROW, COUNT)
    times, plus = tl.load(scale + n)[None, :], tl.load(shift + n)[None, :]
    for tile in range(tl.program_id(0), tiles, programs):
        number, there, place = window_places(tile, windows, pooled_height, pooled_width, area, width, C, PIXELS)
        best = tl.zeros([PIXELS, GROUP], tl.float32)
        for phase in range(4):
            patch = x + (place + (phase // 2 * width + phase % 2) * C)[:, None]
            y = tl.dot(tl.load(patch + taps1[None, :]), w1, input_precision=PRECISION)
            y = tl.dot(tl.load(patch + taps2[None, :]), w2, y, input_precision=PRECISION)
            best = tl.maximum(best, y * times + plus)
        where = number.to(tl.int64)[:, None] * N + n[None, :]
        tl.store(out + where, best.to(out.dtype.element_ty), mask=there[:, None] & (n < N)[None, :])


@triton.jit
def backward_kernel(
    x, w, mean, inverse, gamma, beta, gradient, by_patch, gamma_sums, beta_sums,
    windows, pooled_height, pooled_width, area, width, tiles, programs,
    C: tl.constexpr, ROW: tl.constexpr, COUNT: tl.constexpr, K1: tl.constexpr, K2: tl.constexpr,
    N: tl.constexpr, NP: tl.constexpr, GROUP: tl.constexpr, PIXELS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Sums of d p (programs, NP, K1 + K2), of d h and of d, both (programs, NP)."""
    program = tl.program_id(0)
    n = tl.program_id(1) * GROUP + tl.arange(0, GROUP)
    w1, w2 = weights_of(w, 0, K1, n, NP), weights_of(w, K1, K2, n, NP)
    taps1, taps2 = tap_places(0, K1, width, C, ROW, COUNT), tap_places(K1, K2, width, C, ROW, COUNT)
    middle, r = tl.load(mean + n)[None, :], tl.load(inverse + n)[None, :]
    times, plus = tl.load(gamma + n)[None, :], tl.load(beta + n)[None, :]
    sum1, sum2 = tl.zeros([GROUP, K1], tl.float32), tl.zeros([GROUP, K2], tl.float32)
    gammas, betas = tl.zeros([GROUP], tl.float32), tl.zeros([GROUP], tl.float32)
    for tile in range(program, tiles, programs):
        number, there, place = window_places(tile, windows, pooled_height, pooled_width, area, width, C, PIXELS)
        best, h_best = tl.zeros([PIXELS, GROUP], tl.float32), tl.zeros([PIXELS, GROUP], tl.float32)
        chosen = tl.full([PIXELS, GROUP], -1, tl.int32)  # none: all four are cut off by the ReLU
        for phase in range(4):
            patch = x + (place + (phase // 2 * width + phase % 2) * C)[:, None]
            y = tl.dot(tl.load(patch + taps1[None, :]), w1, input_precision=PRECISION)
            y = tl.dot(tl.load(patch + taps2[None, :]), w2, y, input_precision=PRECISION)
            h = (y - middle) * r
            value = h * times + plus
            larger = value > best  # the first of equal ones, as in PyTorch's pooling
            best, h_best = tl.where(larger, value, best), tl.where(larger, h, h_best)
            chosen = tl.where(larger, phase, chosen)
        where = number.to(tl.int64)[:, None] * N + n[None, :]
        d = tl.load(gradient + where, mask=there[:, None] & (n < N)[None, :], other=0.0)
        d = tl.where(chosen >= 0, d, 0.0)
        gammas += tl.sum(d.to(tl.float32) * h_best, 0)
        betas += tl.sum(d.to(tl.float32), 0)
        for phase in range(4):
            patch = x + (place + (phase // 2 * width + phase % 2) * C)[:, None]
            here = tl.trans(tl.where(chosen == phase, d, 0.0))
            sum1 = tl.dot(here, tl.load(patch + taps1[None, :]), sum1, input_precision=PRECISION)
            sum2 = tl.dot(here, tl.load(patch + taps2[None, :]), sum2, input_precision=PRECISION)
    row = (program * NP + n)[:, None] * (K1 + K2)
    tl.store(by_patch + row + tl.arange(0, K1)[None, :], sum1)
    tl.store(by_patch + row + K1 + tl.arange(0, K2)[None, :], sum2)
    tl.store(gamma_sums + program * NP + n, gammas)
    tl.store(beta_sums + program * NP + n, betas)


def launch(kernel: Any, sizes: Plan, *tensors: Tensor) -> None:
    kind = kernel.__name__.removesuffix("_kernel")
    groups = 1 if kind == "statistics" else sizes.padded_outputs // GROUP
    large = kind == "statistics" and sizes.pieces[0] > 64  # its sums fill the registers of four warps
    kernel[sizes.programs, groups](
        *tensors,
        *sizes.sizes,
        triton.cdiv(sizes.windows, PIXELS[kind]),
        sizes.programs,
        **sizes.constants,
        PIXELS=PIXELS[kind],
        PRECISION="ieee" if tensors[0].dtype == torch.float32 else "tf32",
        num_warps=8 if large else 4,
    )


def rows_of(weight: Tensor) -> Tensor:
    """(N, C, taps, taps) -> (N, numbers), in the order of a patch."""
    return weight.permute(0, 2, 3, 1).flatten(1)


def packed(weight: Tensor, sizes: Plan, dtype: torch.dtype) -> Tensor:
    """(N, C, taps, taps) -> (K1 + K2, NP), zero where nothing is left of a patch or of the outputs."""
    rows = rows_of(weight).T
    missing = (0, sizes.padded_outputs - sizes.outputs, 0, sum(sizes.pieces) - len(rows))
    return F.pad(rows, missing).to(dtype).contiguous()


def padded(values: Tensor, sizes: Plan) -> Tensor:
    """(N,) -> (NP,)"""
    return F.pad(values, (0, sizes.padded_outputs - sizes.outputs))


def patch_mean(picture: Tensor, sizes: Plan) -> Tensor:
    """Mean of all patches p, (numbers,), in float64."""
    added = picture.sum(0, dtype=torch.float32)  # (H, W, C)
    rows = added.unfold(0, 2 * sizes.pooled_height, 1).sum(3)  # (taps, W, C)
    sums = rows.unfold(1, 2 * sizes.pooled_width, 1).sum(3)  # (taps, taps, C)
    return sums.flatten().double() / (4 * sizes.windows)


def product_mean(picture: Tensor, sizes: Plan) -> Tensor:
    """Mean of all p p^T, (numbers, numbers), in float64."""
    sides = [(first, second) for first in sizes.pieces for second in sizes.pieces if first >= second]
    parts = [picture.new_empty(sizes.programs, *each, dtype=torch.float32) for each in sides]
    launch(statistics_kernel, sizes, picture, *parts)
    first, mixed, second = (part.sum(0, dtype=torch.float64) for part in parts)
    whole = torch.cat([torch.cat([first, mixed], 1), torch.cat([mixed.T, second], 1)])
    numbers = sizes.channels * sizes.taps**2
    return whole[:numbers, :numbers] / (4 * sizes.windows)


@torch.library.custom_op("visual_dynamics::first_block", mutates_args=())
def first_block(
    picture: Tensor, weight: Tensor, gamma: Tensor, beta: Tensor, epsilon: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Pooled map (B, H / 2, W / 2, N), mean and variance (N,) of the convolution, mean of h p (N, numbers).

    picture (B, H + taps - 1, W + taps - 1, C)
    """
    sizes, picture = plan(picture.shape, weight.shape), picture.contiguous()
    rows = packed(weight, sizes, picture.dtype)
    patch, products = patch_mean(picture, sizes), product_mean(picture, sizes)
    rounded = rows_of(weight).to(picture.dtype).double()
    mean, with_patch = rounded @ patch, rounded @ products  # (N,), (N, numbers): of y and of y p
    centred = with_patch - mean[:, None] * patch
    variance = (centred * rounded).sum(1).clamp_min(0)
    inverse = torch.rsqrt(variance + epsilon)
    scale = (gamma * inverse).float()
    out = picture.new_empty(sizes.batch, sizes.pooled_height, sizes.pooled_width, sizes.outputs)
    shift = (beta - mean * scale).float()
    launch(forward_kernel, sizes, picture, rows, padded(scale, sizes), padded(shift, sizes), out)
    return out, mean.float(), variance.float(), (centred * inverse[:, None]).float()


@first_block.register_fake
def _(
    picture: Tensor, weight: Tensor, gamma: Tensor, beta: Tensor, epsilon: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    sizes = plan(picture.shape, weight.shape)
    out = picture.new_empty(sizes.batch, sizes.pooled_height, sizes.pooled_width, sizes.outputs)
    by_all = gamma.new_empty(sizes.outputs, sizes.channels * sizes.taps**2)
    return out, torch.empty_like(gamma), torch.empty_like(gamma), by_all


@torch.library.custom_op("visual_dynamics::first_block_backward", mutates_args=())
def first_block_backward(
    gradient: Tensor, picture: Tensor, weight: Tensor, gamma: Tensor, beta: Tensor, mean: Tensor, variance: Tensor,
    by_all: Tensor, epsilon: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of weight, gamma and beta."""
    sizes, picture = plan(picture.shape, weight.shape), picture.contiguous()
    rows, inverse = packed(weight, sizes, picture.dtype), torch.rsqrt(variance + epsilon)
    by_patch = picture.new_empty(sizes.programs, sizes.padded_outputs, sum(sizes.pieces), dtype=torch.float32)
    totals = picture.new_empty(2, sizes.programs, sizes.padded_outputs, dtype=torch.float32)
    each = (padded(values, sizes) for values in (mean, inverse, gamma, beta))
    launch(backward_kernel, sizes, picture, rows, *each, gradient.contiguous(), by_patch, *totals)
    d_gamma, d_beta = totals.sum(1, dtype=torch.float64)[:, : sizes.outputs, None]
    by_largest = by_patch.sum(0, dtype=torch.float64)[: sizes.outputs, : by_all.shape[1]]
    patch = patch_mean(picture, sizes)
    d_weight = (gamma * inverse).double()[:, None] * (by_largest - patch * d_beta - by_all * d_gamma)
    d_weight = d_weight.view(sizes.outputs, sizes.taps, sizes.taps, sizes.channels).permute(0, 3, 1, 2)
    return d_weight.to(weight.dtype).contiguous(), d_gamma[:, 0].to(gamma.dtype), d_beta[:, 0].to(beta.dtype)


@first_block_backward.register_fake
def _(
    gradient: Tensor, picture: Tensor, weight: Tensor, gamma: Tensor, beta: Tensor, mean: Tensor, variance: Tensor,
    by_all: Tensor, epsilon: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    return weight.new_empty(weight.shape), torch.empty_like(gamma), torch.empty_like(beta)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, ctx.epsilon = inputs
    ctx.save_for_backward(*tensors, *output[1:])


def _differentiate(context: Any, gradient: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
    found = first_block_backward(gradient, *context.saved_tensors, context.epsilon)
    return None, *found, None


first_block.register_autograd(_differentiate, setup_context=_keep)


def apply(block: nn.Sequential, x: Tensor) -> Tensor:
    """What a ConvBlock does in training: x (B, C, H, W) -> (B, N, H / 2, W / 2); its running statistics move on."""
    convolution, norm = parts(block)
    around, taps = int(convolution.padding[0]), convolution.kernel_size[0]
    if any((side + 2 * around - taps + 1) % 2 for side in x.shape[2:]):
        return nn.Sequential.forward(block, x)  # pooling leaves a row out, batch norm does not
    kind = torch.get_autocast_dtype(x.device.type) if torch.is_autocast_enabled(x.device.type) else x.dtype
    picture = F.pad(x.to(kind).permute(0, 2, 3, 1), (0, 0, around, around, around, around)).contiguous()
    out, mean, variance, _ = first_block(picture, convolution.weight, norm.weight, norm.bias, norm.eps)
    count = 4 * out[..., 0].numel()
    with torch.no_grad():
        norm.num_batches_tracked.add_(1)  # type: ignore[union-attr]
        norm.running_mean.lerp_(mean, norm.momentum)  # type: ignore[union-attr, arg-type]
        norm.running_var.lerp_(variance * (count / (count - 1)), norm.momentum)  # type: ignore[union-attr, arg-type]
    return out.permute(0, 3, 1, 2)


def parts(block: nn.Sequential) -> tuple[nn.Conv2d, nn.BatchNorm2d]:
    convolution, norm = block[0], block[1]
    assert isinstance(convolution, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d)
    return convolution, norm


def fits(block: nn.Sequential) -> bool:
    """Whether a block is a first one that is pooled; batch norm over several processes is not done here."""
    if len(block) < 4 or type(block[1]) is not nn.BatchNorm2d:
        return False
    return parts(block)[0].in_channels <= 6
