"""A model as programs: image encoder, decoder, motion encoder and p(z | image), in ONNX or as torch.export writes them.

B frames or pairs, n motion codes of one image, S size of the frame. The encoders take any B, the others any n.
"""

from __future__ import annotations

import copy
import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from visual_dynamics.model.cross_convolution import by_groups
from visual_dynamics.model.image_encoder import resize
from visual_dynamics.model.motion_encoder import NoMotionEncoder
from visual_dynamics.model.network import VisualDynamics
from visual_dynamics.sampling.conditional_prior import ConditionalPrior, pooled
from visual_dynamics.weights import Weights

Format: TypeAlias = Literal["onnx", "torch"]
Precision: TypeAlias = Literal["float32", "float16"]
SUFFIXES: dict[Format, str] = {"onnx": ".onnx", "torch": ".pt2"}
OPSET = 18
MOST = 65_536  # frames, pairs or codes in one call


class Part(nn.Module):
    """What one program does with the network."""

    def __init__(self, network: VisualDynamics) -> None:
        super().__init__()
        self.network = network


class Encoder(Part):
    """The segments of frames, one tensor (B, maps, side, side) a scale."""

    def forward(self, frame: Tensor) -> tuple[Tensor, ...]:
        return self.network.encode_image(frame)


class Decoder(Part):
    """The next frames (n, 3, S, S) of one frame, from its segments and n motion codes.

    A network that warps takes the frame at the size that it warps: config.picture_size.
    """

    def forward(self, frame: Tensor, segments: tuple[Tensor, ...], z: Tensor) -> Tensor:
        kernels = self.network.kernel_decoder(z)
        # One image's segments under many kernels: one convolution a scale, with any n.
        moved = tuple(by_groups(maps, kernel) for maps, kernel in zip(segments, kernels, strict=True))
        layers = self.layers(moved) / self.network.config.difference_scale
        small = resize(frame, self.network.config.size)
        return (small + self.network.difference(layers, frame)).clamp(0, 1)

    def layers(self, moved: tuple[Tensor, ...]) -> Tensor:
        return self.network.motion_decoder(moved)


class MotionEncoder(Part):
    """Mean and log-variance of q(z | v, I), both (B, latent), of pairs of frames."""

    def forward(self, before: Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_variance = self.network.encode_motion(before, after - before)
        return mean, log_variance


class ConditionalCodes(nn.Module):
    """Motion codes z (n, latent) of p(z | image), from the segments of the image and as much noise N(0, I)."""

    places: Tensor  # the dimensions that carry motion
    order: Tensor  # where each dimension of z comes from: the noise, or the moved dimensions after it

    def __init__(self, prior: ConditionalPrior, precision: Precision) -> None:
        super().__init__()
        self.velocity = copy.deepcopy(prior.velocity)
        if precision == "float16":
            _store_in_half(self.velocity)
        self.prior = replace(prior, velocity=self.velocity)
        places, order = prior.dimensions.long(), torch.arange(prior.latent)
        order[places] = prior.latent + torch.arange(len(places))
        self.register_buffer("places", places)
        self.register_buffer("order", order)

    def forward(self, segments: tuple[Tensor, ...], noise: Tensor) -> Tensor:
        moved = self.prior.flowed(noise[:, self.places], self.prior.embedded(pooled(segments)))
        return torch.cat([noise, moved], 1)[:, self.order]


class Program(NamedTuple):
    """A part of a model, with the names of what goes in and out."""

    module: nn.Module
    example: tuple[Tensor | tuple[Tensor, ...], ...]
    inputs: dict[str, list[int | str]]  # name -> shape, in which a letter stands for any number
    outputs: dict[str, list[int | str]]


def programs(weights: Weights, precision: Precision) -> dict[str, Program]:
    """All parts by name; no motion encoder and no p(z | image) where the file has none."""
    network, config = weights.network, weights.network.config
    side = config.picture_size
    frame, z = torch.rand(3, 3, side, side), torch.zeros(3, config.latent)
    segments = copy.deepcopy(network).to("cpu").encode_image(frame[:1])
    shapes = {f"segments_{maps.shape[-1]}": list(maps.shape[1:]) for maps in segments}
    of_one: dict[str, list[int | str]] = {name: [1, *shape] for name, shape in shapes.items()}
    picture, code = list(frame.shape[1:]), [config.latent]

    def lean(*kept: str) -> VisualDynamics:
        copied = copy.deepcopy(network).to("cpu").requires_grad_(False).eval()
        for name in {name for name, _ in copied.named_children()} - set(kept):
            setattr(copied, name, nn.Identity())  # or its weights would be in the file
        if precision == "float16":
            _store_in_half(copied)
        return copied

    found = {
        "encoder": Program(
            Encoder(lean("image_encoder")),
            (frame,),
            {"frame": ["B", *picture]},
            {name: ["B", *shape] for name, shape in shapes.items()},
        ),
        "decoder": Program(
            Decoder(lean("kernel_decoder", "motion_decoder")),
            (frame[:1], segments, z),
            {"frame": [1, *picture], **of_one, "z": ["n", *code]},
            {"next_frame": ["n", 3, config.size, config.size]},
        ),
    }
    if not isinstance(network.motion_encoder, NoMotionEncoder):
        found["motion_encoder"] = Program(
            MotionEncoder(lean("motion_encoder")),
            (frame, frame.flip(0)),
            {"before": ["B", *picture], "after": ["B", *picture]},
            {"mean": ["B", *code], "log_variance": ["B", *code]},
        )
    if weights.conditional:
        found["conditional"] = Program(
            ConditionalCodes(weights.conditional, precision),
            (segments, z),
            {**of_one, "noise": ["n", *code]},
            {"z": ["n", *code]},
        )
    return found


class _Widened(nn.Module):
    """float16 in the file, float32 in every computation: half the size, and no loss where files hold float16 too."""

    def forward(self, stored: Tensor) -> Tensor:
        return stored.float()


def _store_in_half(network: nn.Module) -> None:
    for module in list(network.modules()):
        if isinstance(module, nn.Conv2d | nn.Linear):
            module.weight.data = module.weight.half()
            parametrize.register_parametrization(module, "weight", _Widened(), unsafe=True)  # unsafe: another type


def exported(program: Program, form: Format) -> bytes:
    """The file of a program."""
    free = {"n": torch.export.Dim("n", max=MOST), "B": torch.export.Dim("B", max=MOST)}
    shapes = iter(
        {place: free[side] for place, side in enumerate(shape) if isinstance(side, str)}
        for shape in program.inputs.values()
    )
    # Segments are one argument.
    nested = [
        tuple(next(shapes) for _ in each) if isinstance(each, tuple) else next(shapes) for each in program.example
    ]
    with _quiet(), torch.no_grad():
        traced = torch.export.export(program.module, program.example, dynamic_shapes=tuple(nested))
        if form == "torch":
            buffer = io.BytesIO()
            torch.export.save(traced, buffer)
            return buffer.getvalue()
        made = torch.onnx.export(
            traced,
            dynamo=True,
            opset_version=OPSET,
            input_names=list(program.inputs),
            output_names=list(program.outputs),
            verbose=False,
        )
        assert made is not None
        return made.model_proto.SerializeToString()


@contextmanager
def _quiet() -> Iterator[None]:
    """PyTorch's exporter names packages that it would know, too, and its own deprecated lines."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)
