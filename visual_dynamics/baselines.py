"""What the paper compares itself with: copying the frame, and transfer of optical flow.

The third baseline, the autoencoder, is a training option.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from visual_dynamics.data.pairs import Pairs
from visual_dynamics.errors import UserError

NEIGHBOURS = 10
CHUNK = 512  # training frames at a time, as floats: 25 MB at 64x64
SLACK = 0.05  # more than single precision can be wrong by in a squared distance between frames in [0, 1]
KEPT_FLOWS = 5000  # 164 MB at 64x64
QUERIES = 256  # frames that are searched for at once: 1 KB of distances for each training pair


class FutureSampler(Protocol):
    """Any method that samples next frames of a frame, so that all are measured alike."""

    def sample(self, frame: Tensor, seeds: Sequence[int]) -> Tensor:
        """float (3, H, W) in [0, 1] -> float (n, 3, H, W), one next frame for each of the n seeds.

        The same seed gives the same picture, whatever the other seeds are.
        """
        ...


class Copy:
    """Every next frame is the frame itself."""

    def sample(self, frame: Tensor, seeds: Sequence[int]) -> Tensor:
        return frame.repeat(len(seeds), 1, 1, 1)


class FlowTransfer:
    """The paper's 'Flow': one of the nearest training frames (squared distance of all colours) lends its motion.

    The motion is optical flow (OpenCV's DIS) from the neighbour's next frame back to the neighbour: u(y) says where
    pixel y of the next frame came from. Applied to the input, out(y) = in(y + u(y)), it gives every pixel of the output
    exactly one source. A field from frame to next frame would leave holes.

    An input that is k times as large as the training frames is moved at its own size, and then averaged to theirs.
    """

    def __init__(self, pairs: Pairs, neighbours: int = NEIGHBOURS) -> None:
        if not 1 <= neighbours <= len(pairs):
            raise UserError(f"{neighbours} neighbours cannot be found among {len(pairs)} pairs")
        self.pairs = pairs
        self.neighbours = neighbours
        self._estimator = FlowEstimator()
        self._buffer = torch.empty(CHUNK, 3 * pairs.size[0] * pairs.size[1], device=self._device)
        self._norms = torch.empty(len(pairs), device=self._device)
        for norms, part in zip(self._norms.split(CHUNK), self._chunks(), strict=True):
            torch.sum(part.square_(), 1, out=norms)
        self._flows: dict[int, Tensor] = {}

    def sample(self, frame: Tensor, seeds: Sequence[int]) -> Tensor:
        times = frame.shape[1] // self.pairs.size[0]
        nearest = self.nearest(averaged(frame[None], times))[0].tolist()
        chosen = [nearest[_draw(seed, self.neighbours)] for seed in seeds]
        warped = {index: self._moved(frame, index, times) for index in sorted(set(chosen))}  # few, for any seeds
        return torch.stack([warped[index] for index in chosen]) if chosen else frame.new_zeros(0, 3, *self.pairs.size)

    def _moved(self, frame: Tensor, index: int, times: int) -> Tensor:
        """The frame, `times` as large as the training frames, moved as training pair `index`, at their size."""
        flow = self.flow(index)
        if times > 1:
            flow = times * F.interpolate(flow[None], scale_factor=times, mode="bilinear", align_corners=False)[0]
        return averaged(warp(frame, flow)[None], times)[0]

    def sample_each(self, frames: Tensor, seeds: Sequence[int]) -> Tensor:
        """One next frame for each frame (B, 3, H, W), as `sample` gives it for that frame's own seed.

        Faster: one pass over the training frames serves many frames.
        """
        if len(frames) != len(seeds):
            raise ValueError(f"{len(frames)} frames need as many seeds, not {len(seeds)}")
        nearest = [row for part in frames.split(QUERIES) for row in self.nearest(part).tolist()]
        chosen = [row[_draw(seed, self.neighbours)] for row, seed in zip(nearest, seeds, strict=True)]
        warped = [warp(frame, self.flow(index)) for frame, index in zip(frames, chosen, strict=True)]
        return torch.stack(warped) if warped else frames.clone()

    def nearest(self, frames: Tensor) -> Tensor:
        """Indices (B, neighbours) of the nearest training frames of each frame (B, 3, H, W), the nearest first."""
        if frames.shape[1:] != (3, *self.pairs.size):
            ours, theirs = (3, *self.pairs.size), tuple(frames.shape[1:])
            raise UserError(f"the frame is {theirs}, but the training frames are {ours}")
        queries = frames.to(self._device).float().flatten(1)  # (B, D)
        # |x - q|^2 = |x|^2 - 2 x.q + |q|^2; the last term does not change the order
        with full_precision(queries.device):
            rough = queries.new_empty(len(self.pairs), len(queries))  # (N, B)
            for rows, part in zip(rough.split(CHUNK), self._chunks(), strict=True):
                torch.mm(part, queries.T, out=rows)
            rough.mul_(-2).add_(self._norms[:, None])
        found = [self._settle(query, column) for query, column in zip(queries, rough.T, strict=True)]
        return torch.stack(found) if found else torch.zeros(0, self.neighbours, dtype=torch.long)

    def _settle(self, query: Tensor, rough: Tensor) -> Tensor:
        """The nearest (neighbours,) of one frame (D,), from rounded distances (N,); ties by index."""
        bound = rough.kthvalue(self.neighbours).values + SLACK
        candidates = (rough <= bound).nonzero()[:, 0]
        exact = (self._frames(candidates).flatten(1).double() / 255 - query.double()).square().sum(1)
        return candidates[exact.argsort(stable=True)[: self.neighbours]].cpu()

    def _chunks(self) -> Iterator[Tensor]:
        """The training frames as floats in [0, 1], (CHUNK, D) at a time, all in one buffer.

        Without it memory grows: the flows that are kept lie between the chunks, which then cannot be given back.
        """
        for start in range(0, len(self.pairs), CHUNK):
            part = self._frames(torch.arange(start, min(start + CHUNK, len(self.pairs)), device=self._device))
            yield torch.div(part.flatten(1), 255, out=self._buffer[: len(part)])

    def _frames(self, chosen: Tensor) -> Tensor:
        """First frames of the chosen training pairs, uint8 (n, 3, H, W)."""
        return self.pairs.store[self.pairs.first[chosen]]

    @property
    def _device(self) -> torch.device:
        return self.pairs.store.device

    def flow(self, index: int) -> Tensor:
        """Where each pixel of the training pair's next frame came from: float (2, H, W) [dx, dy] in pixels, y down."""
        if index not in self._flows:
            if len(self._flows) >= KEPT_FLOWS:
                self._flows.pop(next(iter(self._flows)))  # the oldest
            self._flows[index] = self._estimator.measure(*reversed(self.pairs[index]))
        return self._flows[index]


class FlowEstimator:
    """Optical flow by OpenCV's DIS."""

    def __init__(self) -> None:
        self._cv2 = load_cv2()
        self._estimator = self._cv2.DISOpticalFlow_create(self._cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
        self._estimator.setFinestScale(0)  # small frames: down to single pixels, which the preset leaves out

    def measure(self, source: Tensor, target: Tensor) -> Tensor:
        """Where each pixel of a frame, uint8 (3, H, W), goes in another: float (2, H, W) [dx, dy], y down."""
        grey = [
            self._cv2.cvtColor(x.permute(1, 2, 0).cpu().contiguous().numpy(), self._cv2.COLOR_RGB2GRAY)
            for x in (source, target)
        ]
        return torch.from_numpy(self._estimator.calc(*grey, None)).permute(2, 0, 1).contiguous()


def warp(frame: Tensor, flow: Tensor) -> Tensor:
    """out(y) = frame(y + flow(y)), bilinear; the border's colours go on outside. (3, H, W), (2, H, W) -> (3, H, W)."""
    height, width = frame.shape[1:]
    flow = flow.to(frame)
    x = torch.arange(width).to(frame) + flow[0]  # (H, W), pixels
    y = torch.arange(height).to(frame)[:, None] + flow[1]
    grid = torch.stack(
        [2 * x / max(width - 1, 1) - 1, 2 * y / max(height - 1, 1) - 1], 2
    )  # corners' centres at -1 and 1
    return F.grid_sample(frame[None], grid[None], mode="bilinear", padding_mode="border", align_corners=True)[0]


def averaged(frames: Tensor, times: int) -> Tensor:
    """(n, 3, H, W) -> (n, 3, H / times, W / times)"""
    return F.avg_pool2d(frames, times) if times > 1 else frames


def _draw(seed: int, count: int) -> int:
    """A number below `count` that depends on the seed alone."""
    return int(torch.randint(count, (), generator=torch.Generator().manual_seed(seed)))


@contextmanager
def full_precision(device: torch.device) -> Iterator[None]:
    """Products in true single precision, whatever was chosen for the networks."""
    chosen = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.autocast(device.type, enabled=False):
            yield
    finally:
        torch.set_float32_matmul_precision(chosen)


def load_cv2() -> Any:
    try:
        import cv2
    except ImportError as error:
        raise UserError("optical flow needs OpenCV: pip install 'visual-dynamics[video]'") from error
    return cv2
