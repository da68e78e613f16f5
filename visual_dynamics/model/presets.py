"""Every number of the network. A preset is a complete description; each weights file carries its own."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

MAX_LAYERS, MAX_SCALES = 32, 8  # of a network that is loaded
MAX_MAP = 2**25  # numbers in the largest result of a layer, for one frame; those of paper-128 have 2^24


@dataclass(frozen=True)
class ConvLayer:
    """A square convolution with batch normalisation."""

    channels: int
    pooled: bool = False  # followed by 2x2 max pooling
    padded: bool = True  # zeros around the border keep the size ("same"); otherwise it shrinks ("valid")


@dataclass(frozen=True)
class NetworkConfig:
    """The five components in numbers; sizes are sides of squares in pixels."""

    size: int  # of the frame and of the predicted difference
    scales: int  # levels of the image pyramid: 4 * size, 2 * size, size, ... (after two poolings size, size / 2, ...)
    motion_size: int  # at which the motion encoder sees frame and difference
    motion_layers: tuple[ConvLayer, ...]  # the last one gives mean and log-variance: 2 * scales * maps channels
    image_layers: tuple[ConvLayer, ...]  # at every scale; the last one gives `maps` segments
    decoder_channels: tuple[int, int]  # of the motion decoder, before the 3 colours
    maps: int = 32  # segments a scale, each moved by a kernel of its own
    kernel_size: int = 5  # of every convolution and of the motion kernels
    decoder_kernel_size: int = 9  # of the motion decoder's first layer
    latent: int = 3200  # dimensions of z; scales * maps * kernel_size^2 needs no linear layers
    latent_scale: bool = False  # the dimensions of z are scaled unequally (layers.latent_scale)
    difference_scale: float = 1.0  # the network regresses difference_scale * (next frame - frame)
    background: float = 1.0  # grey level that shows through where an input picture is transparent
    warp: int = 0  # the frame's pixels are moved at this many times its size; 0: only a difference, as in the paper

    def __post_init__(self) -> None:
        self._check_numbers()
        if self.motion_layers[-1].channels != 2 * self.kernel_channels:
            raise ValueError(f"the last motion layer needs {2 * self.kernel_channels} channels")
        if self.image_layers[-1].channels != self.maps:
            raise ValueError(f"the image encoder ends with {self.maps} maps")
        if not all(layer.padded for layer in self.image_layers):
            raise ValueError("image layers keep the size")
        if not 8 <= self.size <= 1024 or self.size % 2 ** (self.scales - 1):
            raise ValueError(f"{self.scales} scales do not fit frames of {self.size} pixels")
        if not 0 <= self.background <= 1:
            raise ValueError("a background is a grey level from 0 to 1")
        if self.warp not in (0, 1, 2):
            raise ValueError("a frame is warped at its size or at twice its size")
        if self.motion_output_size() != self.kernel_size:
            raise ValueError(f"the motion encoder ends at {self.motion_output_size()}, not {self.kernel_size} pixels")

    def _check_numbers(self) -> None:
        """A file may say anything: raise ValueError before any of it is computed with."""
        layers = self.motion_layers + self.image_layers
        numbers = [self.size, self.scales, self.motion_size, self.maps, self.kernel_size, self.decoder_kernel_size]
        numbers += [self.latent, *self.decoder_channels, *(layer.channels for layer in layers)]
        if not all(type(number) is int and 0 < number <= 100_000 for number in numbers):
            raise ValueError("sizes and channels are whole numbers from 1 to 100,000")
        if not all(type(flag) is bool for layer in layers for flag in (layer.pooled, layer.padded)):
            raise ValueError("a layer is pooled and padded, or not")
        if not (1e-6 <= self.difference_scale <= 1e6 and math.isfinite(self.background)):
            raise ValueError("difference_scale is from a millionth to a million, and background is finite")
        if len(layers) > MAX_LAYERS or self.scales > MAX_SCALES:
            raise ValueError(f"it has more than {MAX_LAYERS} layers or {MAX_SCALES} scales")
        if self.largest_map() > MAX_MAP:
            raise ValueError(f"a frame of {self.size} pixels takes too much memory in this network")

    @property
    def picture_size(self) -> int:
        """Side of the frames that the network makes most of: those that it warps may be larger than its own."""
        return self.size * max(1, self.warp)

    @property
    def kernel_channels(self) -> int:
        """Number of motion kernels over all scales (128)."""
        return self.scales * self.maps

    @property
    def natural_latent(self) -> int:
        """Size of z when it is the motion encoder's output as it is (3,200 = 128 x 5 x 5)."""
        return self.kernel_channels * self.kernel_size**2

    def pyramid_sizes(self) -> tuple[int, ...]:
        """Sides of the image pyramid, largest first (256, 128, 64, 32): poolings bring the first to the size."""
        largest = self.size * 2 ** sum(layer.pooled for layer in self.image_layers)
        return tuple(largest // 2**level for level in range(self.scales))

    def largest_map(self) -> int:
        """Numbers in the largest result of a layer, for one frame: layers may only make frames smaller."""
        image, motion = (max(layer.channels for layer in part) for part in (self.image_layers, self.motion_layers))
        decoder = max(self.kernel_channels, *self.decoder_channels)
        sides = (self.pyramid_sizes()[0], image), (self.motion_size, motion), (self.picture_size, decoder)
        return max(side**2 * channels for side, channels in sides)

    def motion_output_size(self) -> int:
        side = self.motion_size
        for layer in self.motion_layers:
            side = side if layer.padded else side - self.kernel_size + 1
            side = side // 2 if layer.pooled else side
        return side

    def to_dict(self) -> dict[str, Any]:
        """As weights files hold it: there latent_scale has its first name, uneven; earlier releases know no warp."""
        values = asdict(self)
        if not self.warp:
            values.pop("warp")
        return values | {"uneven": values.pop("latent_scale")}

    @staticmethod
    def from_dict(values: dict[str, Any]) -> NetworkConfig:
        """Rebuild a configuration from JSON. Raises ValueError, TypeError or KeyError when it is not one."""
        layers = {
            name: tuple(ConvLayer(**layer) for layer in values[name]) for name in ("motion_layers", "image_layers")
        }
        first, second = values["decoder_channels"]
        values = values | layers | {"decoder_channels": (first, second)}
        return NetworkConfig(latent_scale=values.pop("uneven", False), **values)


# 128 -> 124 -> 62 -> 58 -> 29 -> 29 -> 29 -> 14 -> 10 -> 5 -> 5: one reading of "some pooling layers in between".
def _motion_layers(last: int) -> tuple[ConvLayer, ...]:
    return (
        ConvLayer(96, pooled=True, padded=False),
        ConvLayer(96, pooled=True, padded=False),
        ConvLayer(128),
        ConvLayer(128, pooled=True),
        ConvLayer(256, pooled=True, padded=False),
        ConvLayer(last),
    )


PAPER = NetworkConfig(
    size=64,
    scales=4,
    motion_size=128,
    motion_layers=_motion_layers(256),
    image_layers=(ConvLayer(64, pooled=True), ConvLayer(64, pooled=True), ConvLayer(64), ConvLayer(32)),
    decoder_channels=(128, 128),
)

# The paper's footnote: 128x128 frames, five scales (512 ... 32), z of 4,000.
PAPER_128 = replace(PAPER, size=128, scales=5, motion_layers=_motion_layers(320), latent=4000)

# No enlarged levels: the pyramid is 64, 32, 16, 8. A thirtieth of the paper's work, for two CPU cores.
SMALL = NetworkConfig(
    size=64,
    scales=4,
    motion_size=64,
    motion_layers=(
        ConvLayer(24, pooled=True, padded=False),  # 64 -> 60 -> 30
        ConvLayer(32, pooled=True, padded=False),  # 30 -> 26 -> 13
        ConvLayer(48, padded=False),  # 13 -> 9
        ConvLayer(128, padded=False),  # 9 -> 5
    ),
    image_layers=(ConvLayer(16), ConvLayer(16)),
    decoder_channels=(32, 32),
    maps=16,
    decoder_kernel_size=5,
    latent=8,
)

# For tests: seconds on one core, the same code paths.
TINY = NetworkConfig(
    size=16,
    scales=2,
    motion_size=32,
    motion_layers=(ConvLayer(8, pooled=True, padded=False), ConvLayer(8, pooled=True, padded=False), ConvLayer(16)),
    image_layers=(ConvLayer(8, pooled=True), ConvLayer(8, pooled=True), ConvLayer(4)),
    decoder_channels=(8, 8),
    maps=4,
    latent=200,
)

PRESETS: dict[str, NetworkConfig] = {
    "paper": PAPER,
    "paper-128": PAPER_128,
    "sprites": replace(PAPER, latent=16, background=0.0),  # drawn on black
    "small": SMALL,
    "tiny": TINY,
}
