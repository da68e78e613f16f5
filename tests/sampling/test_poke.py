"""Poke: motions of the poked part, weights of codes, and what the rest does."""

import math
from typing import cast

import numpy as np
import pytest
import torch
from torch import Tensor

import visual_dynamics as vd
from tests.boxes import BLUE, RED, box, canvas
from visual_dynamics.cli import pictures
from visual_dynamics.data import shapes
from visual_dynamics.errors import UserError
from visual_dynamics.evaluation.motion_distribution import measure_displacement
from visual_dynamics.images import Box
from visual_dynamics.sampling import poke
from visual_dynamics.sampling.latents import noise_of, sample_seeds
from visual_dynamics.sampling.poke import Poke, PokedCodes, fitting, in_frame, motion_at, part_at, poked_codes
from visual_dynamics.sampling.predictor import EncodedImage, Predictor

SLOPE = -0.6  # how the blue box follows the red one


class Boxes:
    """Stands for a predictor: z moves a red box by (z0, 0) and a blue one by (0, z1), by fractions of a pixel."""

    size = 32

    def decode(self, image: EncodedImage, z: Tensor) -> Tensor:
        return torch.stack([box_scene(*code) for code in z.tolist()])


class Follows:
    """A latent source: z1 = SLOPE z0 + 0.3 noise, z0 ~ N(0, 1)."""

    def draw(self, seeds: list[int], image: EncodedImage | None = None) -> Tensor:
        first, second = noise_of([np.random.default_rng(seed) for seed in seeds], 2).unbind(1)
        return torch.stack([first, SLOPE * first + 0.3 * second], 1)


def box_scene(dx: float = 0.0, dy: float = 0.0) -> Tensor:
    whole, share = math.floor(dx), dx - math.floor(dx)
    red = [box(canvas(), RED, 4 + whole + more, 4, 8, 8) for more in (0, 1)]
    whole_down, share_down = math.floor(dy), dy - math.floor(dy)
    blue = [box(canvas(), BLUE, 18, 18 + whole_down + more, 8, 8) for more in (0, 1)]
    return red[0].lerp(red[1], share) + blue[0].lerp(blue[1], share_down) - canvas()


def boxes_poked(motion: tuple[float, float], count: int) -> PokedCodes:
    image = EncodedImage(box_scene(), (), box_scene())
    return poked_codes(cast(Predictor, Boxes()), image, Follows(), Poke((8, 8), motion), 0, count)


def test_the_rest_follows_by_the_conditional_law() -> None:
    found = boxes_poked((1.0, 0.0), 2000)
    drawn = found.draw(sample_seeds(1, 4000))
    spread = found.width**2 / (1 + found.width**2)  # of z0 under the prior and the kernel
    assert found.width == 1 / 8 and poke.EFFECTIVE < found.effective < 300
    assert abs(drawn[:, 0].mean() - 1 / (1 + found.width**2)) < 0.04 and abs(drawn[:, 0].std() - spread**0.5) < 0.03
    assert abs(drawn[:, 1].mean() - SLOPE) < 0.1 and abs(drawn[:, 1].std() - 0.3) < 0.06
    assert abs(Follows().draw(sample_seeds(0, 500))[:, 1].mean()) < 0.1  # not so without the poke


def test_a_draw_depends_on_its_seed_alone() -> None:
    found, seeds = PokedCodes(torch.arange(5.0)[:, None], torch.tensor([0.1, 0.0, 0.2, 0.3, 0.4]).double(), 1.0), [3, 9]
    assert found.draw(seeds).tolist() == [*found.draw(seeds[:1]).tolist(), *found.draw(seeds[1:]).tolist()]
    shares = torch.bincount(found.chosen(sample_seeds(0, 5000)), minlength=5) / 5000
    assert (shares - found.weights).abs().max() < 0.02 and shares[1] == 0
    assert found.effective == pytest.approx(1 / 0.3)


def test_weights_are_a_gaussian_of_the_distance() -> None:
    motions = torch.tensor([[1.0, 2.0], [1.3, 2.4], [math.nan, 2.0]])
    weights, width = fitting(motions, (1.0, 2.0), width=0.5)
    assert width == 0.5 and weights[2] == 0
    assert float(weights[1] / weights[0]) == pytest.approx(math.exp(-0.5), rel=1e-6)


def test_the_kernel_is_as_narrow_as_the_codes_allow() -> None:
    line = torch.stack([torch.linspace(-5, 5, 2001), torch.zeros(2001)], 1)
    expected = 2001 / 10 * 2 * math.sqrt(math.pi)  # effective codes for each pixel of width
    for count in (1, 3, 9, 40):
        _, width = fitting(line[::count], (0.0, 0.0))
        enough = [w for w in poke.WIDTHS if expected / count * w >= poke.EFFECTIVE]
        assert width == (enough[0] if enough else 1.0)


def test_shapes_are_followed_though_others_cover_them() -> None:
    """Every motion that can be measured, against the law of the world."""
    scenes = shapes.draw_scenes(14, 0, "test")
    visible = shapes.masks(scenes, rendering="smooth", size=64).visible
    for place, kind in ((0, 0), (13, 1), (5, 2)):
        many = scenes.subset([place] * 24).with_new_motions(3)
        frame = shapes.images(scenes.subset([place]), rendering="smooth", size=64)[0].float() / 255
        futures = shapes.images(many, moved=True, rendering="smooth", size=64).float() / 255
        y, x = divmod(int((visible[place, kind] == visible[place, kind].max()).flatten().nonzero()[40]), 64)
        away = (motion_at(frame, futures, (x, y)) - torch.tensor(many.motions[:, kind]).float() / 2).norm(dim=1)
        assert away.isfinite().all() and away.median() < 0.06 and away.max() < 0.25


def test_a_flat_place_is_matched_with_its_outline_and_a_pattern_by_itself() -> None:
    frame = box_scene()
    mask = part_at(frame, (7.6, 8.2)).mask
    assert bool(mask[1:15, 1:15].all()) and mask.sum() == 14 * 14  # the box and its ring
    noise = torch.rand(3, 32, 32, generator=torch.Generator().manual_seed(0))
    assert part_at(noise, (16, 16)).mask.sum() == (2 * poke.PATCH + 1) ** 2
    moved = torch.roll(noise, (3, -2), (1, 2))
    assert motion_at(noise, moved[None], (16, 16)).tolist() == [[-2.0, 3.0]]


def test_from_the_picture_to_the_frame() -> None:
    """20 x 30 pixels, the longer side 60 of 64."""
    wanted = in_frame(((29, 0), (3, -2)), (20, 30), Box(12, 2, 40, 60))
    assert wanted == Poke((2 + 59 - 0.5 + 0.5 - 0.5 + 0.0, 12 + 1 - 0.5), (6.0, -4.0))


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (((30, 5), (1, 0)), r"the poked place \(30, 5\) lies outside the picture of 30 x 20 pixels"),
        (((5, -1), (1, 0)), "lies outside the picture"),
        (((5, math.nan), (1, 0)), "a poke is a place and a motion"),
        ((5, 1, 0, 2), "a poke is a place and a motion"),
    ],
)
def test_places_outside_the_picture(wanted: tuple, words: str) -> None:
    with pytest.raises(UserError, match=words):
        in_frame(wanted, (20, 30), Box(12, 2, 40, 60))


def test_motions_that_nothing_makes() -> None:
    with pytest.raises(UserError, match=r"no sampled motion .* 0.0, 6.0 is wanted, and the nearest of 64 is"):
        boxes_poked((0.0, 6.0), 64)
    with pytest.raises(UserError, match="by more than 1/4 of the picture"):
        boxes_poked((9.0, 0.0), 64)
    with pytest.raises(UserError, match="no outline or pattern"):
        poked_codes(
            cast(Predictor, Boxes()),
            EncodedImage(box_scene(), (), box_scene()),
            Follows(),
            Poke((2, 28), (1, 0)),
            0,
            64,
        )


def test_on_shapes_the_triangle_answers_the_circle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poke, "EFFECTIVE", 16)
    model, scenes = vd.load("shapes"), shapes.clear_scenes(1, 0)
    frame = shapes.images(scenes, rendering="smooth", size=64)
    masks = shapes.masks(scenes, rendering="smooth", size=64).visible
    x, y = (float(value) for value in scenes.anchors[0, 0] / 2)
    wanted = (x, y), (0.0, 2.0)
    picture = frame[0].permute(1, 2, 0).numpy()
    source = model.poke(picture, wanted, codes=128)
    assert source.width == 0.5
    futures = torch.from_numpy(model.sample(picture, 6, 1, source)).permute(0, 3, 1, 2)
    found = measure_displacement(*(v.expand(6, -1, -1, -1) for v in (frame / 255, masks)), futures / 255)
    circle, square, triangle = found.unbind(1)
    assert (circle - torch.tensor([0.0, 2.0])).norm(dim=1).max() < 4 * source.width
    assert (triangle - circle[:, 1:] * torch.tensor([1.0, -1.0])).norm(dim=1).max() < 0.4
    assert square[:, 0].std() > 1  # it goes where it likes


def test_the_command_line_has_the_same_number_of_codes() -> None:
    assert pictures.CODES == poke.CODES
    assert pictures.parse_poke("30,40:0,-5.5") == ((30, 40), (0, -5.5))
    for text in ("30,40", "30,40:1", "a,b:c,d", "1,2:3,4:5,6", ""):
        with pytest.raises(UserError, match="a poke is x,y:dx,dy"):
            pictures.parse_poke(text)
