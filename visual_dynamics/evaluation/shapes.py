"""Images of Shapes, and how the shapes move in true and in sampled futures.

Letters in shape comments: N images, n futures of each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from visual_dynamics.baselines import FutureSampler
from visual_dynamics.data import shapes
from visual_dynamics.data.pairs import Pairs, resize_frames
from visual_dynamics.evaluation.motion_distribution import measure_displacement
from visual_dynamics.evaluation.motion_tables import Motions
from visual_dynamics.evaluation.shape_masks import segment_shapes
from visual_dynamics.sampling.latents import sample_seeds
from visual_dynamics.sampling.predictor import EncodedImage, Predictor

SIZE = 64
GROUP = 1000  # futures measured together
FLOOR_SETS = 8  # of true motions, where an image has one


@dataclass(frozen=True)
class ShapeImages:
    """Images to predict from, with the visible masks of their objects."""

    frames: Tensor  # float (N, 3, 64, 64)
    masks: Tensor  # float (N, 3, 64, 64): circle, square, triangle

    def __len__(self) -> int:
        return len(self.frames)

    def first(self, count: int) -> ShapeImages:
        return ShapeImages(self.frames[:count], self.masks[:count])


def generated_images(
    count: int, rendering: shapes.Rendering, seed: int, device: torch.device, split: shapes.Split = "test"
) -> tuple[shapes.Scenes, ShapeImages]:
    """Scenes, and their images before the motion."""
    scenes = shapes.draw_scenes(count, seed, split)
    frames = shapes.images(scenes, rendering=rendering, size=SIZE)
    masks = shapes.masks(scenes, rendering=rendering, size=SIZE).visible
    return scenes, ShapeImages(frames.to(device).float() / 255, masks.to(device))


def true_motions(
    scenes: shapes.Scenes,
    rendering: shapes.Rendering,
    images: ShapeImages,
    each: int,
    seed: int,
    progress: Callable[[float], object],
) -> Tensor:
    """Displacements in n true futures of each image, (N * n, 3, 2), image by image: new motions, drawn by the law."""
    parts = []
    for number in range(each):
        other = scenes.with_new_motions(seed * 10_000 + number)
        next_frames = shapes.images(other, moved=True, rendering=rendering, size=SIZE, device=images.frames.device)
        parts.append(measure_displacement(images.frames, images.masks, next_frames.to(images.frames) / 255))
        progress((number + 1) / each)
    return torch.stack(parts, 1).flatten(0, 1).cpu()


def sampled_motions(
    sampler: FutureSampler, images: ShapeImages, each: int, seed: int, progress: Callable[[float], object]
) -> Tensor:
    """Displacements in n sampled futures of each image, (N * n, 3, 2), image by image."""
    parts = []
    for chosen in torch.arange(len(images)).split(max(1, GROUP // each)):
        futures = [sampler.sample(images.frames[i], sample_seeds(seed * 10_000 + i, each)) for i in chosen.tolist()]
        repeat = chosen.to(images.frames.device).repeat_interleave(each)
        next_frames = torch.cat(futures).to(images.frames)
        parts.append(measure_displacement(images.frames[repeat], images.masks[repeat], next_frames))
        progress((int(chosen[-1]) + 1) / len(images))
    return torch.cat(parts).cpu()


def found_images(frames: Tensor, device: torch.device) -> ShapeImages:
    """Frames uint8 (N, 3, 128, 128) brought to 64x64, and the masks that are found in them."""
    small = (resize_frames(frames, SIZE).to(device).float() / 255).contiguous()
    found = (segment_shapes(part.to(device)) for part in frames.split(GROUP))
    masks = [F.interpolate(part, size=(SIZE, SIZE), mode="area") for part in found]
    return ShapeImages(small, torch.cat(masks))


class Remembering(Predictor):
    """Encodes an image once for all latent sources that are measured on it, and keeps the last images."""

    def __init__(self, predictor: Predictor, kept: int) -> None:
        super().__init__(predictor.network, predictor.device, predictor.batch_size)
        self.kept, self.encoded = kept, dict[bytes, EncodedImage]()

    def encode_image(self, frame: Tensor) -> EncodedImage:
        key = frame.cpu().numpy().tobytes()
        if key not in self.encoded:
            if len(self.encoded) >= self.kept:
                self.encoded.pop(next(iter(self.encoded)))  # the oldest
            self.encoded[key] = super().encode_image(frame)
        return self.encoded[key]


class Enlarged:
    """The futures of a network with smaller frames, at the size of the frames that it is given."""

    def __init__(self, sampler: FutureSampler, size: int) -> None:
        self.sampler, self.size = sampler, size

    def sample(self, frame: Tensor, seeds: Sequence[int]) -> Tensor:
        small = F.interpolate(frame[None], size=self.size, mode="area")[0]
        side = frame.shape[-1]
        return F.interpolate(self.sampler.sample(small, seeds), size=side, mode="bilinear", align_corners=False)


# --- what a table is measured on ---


@dataclass(frozen=True)
class Extent:
    """How much is measured."""

    images: int
    samples: int  # futures of all images together
    seed: int
    truths: int = 0  # true futures of each generated image, at least; they cost little beside samples
    split: shapes.Split = "test"  # of generated images: "validation" where something is chosen by the numbers

    def over(self, available: int) -> tuple[int, int]:
        """The number of images, and of futures of each."""
        count = min(self.images, self.samples, available)
        return count, max(1, self.samples // count)


@dataclass(frozen=True)
class Bench:
    """Images, what truly happens to them, and the floor of the table."""

    name: str
    images: ShapeImages  # that are predicted from
    truth: Motions  # of these images first; more may follow
    floor_truths: Sequence[Motions]  # in each as many motions of as many images, drawn by the law
    floor: Motions  # as many as each method samples, drawn by the law once more

    @property
    def sizes(self) -> dict[str, int]:
        motions = {"truth": self.truth, "floor_truth": self.floor_truths[0], "floor": self.floor}
        return {name: len(each.displacements) for name, each in motions.items()}


def generated_bench(
    rendering: shapes.Rendering, extent: Extent, device: torch.device, progress: Callable[[float], object]
) -> Bench:
    """Generated images, and true futures of the same images, twice."""
    count, each = extent.over(extent.images)
    scenes, images = generated_images(count, rendering, extent.seed, device, extent.split)
    truth, floor = (
        Motions(true_motions(scenes, rendering, images, futures, extent.seed + half, progress), futures)
        for half, futures in ((1, max(each, extent.truths)), (2, each))
    )
    return Bench(rendering, images, truth, [truth], floor)


def pairs_bench(
    name: str, pairs: Pairs, extent: Extent, device: torch.device, progress: Callable[[float], object]
) -> Bench:
    """Images of pairs that were drawn at whole pixels of 128x128. Truth: their next frames, one future an image.

    Floor: the world draws as many images, one future of each, FLOOR_SETS times, and as many futures of the first images
    as each method samples. One set alone would differ from another by half of the floor.
    """
    count, each = extent.over(len(pairs))
    images, following = found_images(pairs.frames, device), resize_frames(pairs.next_frames, SIZE).to(device)
    truth = measure_displacement(images.frames, images.masks, following.float() / 255).cpu()
    scenes = shapes.draw_scenes(len(pairs), extent.seed, "test")
    drawn = found_images(shapes.images(scenes, rendering="integer", size=shapes.SIZE), device)
    sets = true_motions(scenes, "integer", drawn, FLOOR_SETS, extent.seed + 2, progress).view(-1, FLOOR_SETS, 3, 2)
    first = scenes.subset(slice(0, count))
    floor = true_motions(first, "integer", drawn.first(count), each, extent.seed + 1, progress)
    truths = [Motions(sets[:, number]) for number in range(FLOOR_SETS)]
    return Bench(name, images.first(count), Motions(truth), truths, Motions(floor, each))
