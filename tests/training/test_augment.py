"""Order, noise and augmentations are pure functions of seed and step, and draw the same numbers as ever:
trained models can be made again."""

import pytest
import torch
import torch.nn.functional as F

from visual_dynamics.data.pairs import Pair, mix
from visual_dynamics.training.augment import (
    LIST,
    ShuffledOrder,
    apply_all,
    augment,
    displaced,
    draw,
    draw_all,
    placed,
    step_noise,
    zoomed,
)
from visual_dynamics.training.config import TrainingConfig

DRAWN = {  # sum, two values
    "zoom": [32.7266, 0.0135, 1.0],
    "mirror": [17.0, 0.0, 1.0],
    "reverse": [20.0, 1.0, 1.0],
    "shift": [-8.0, 0.0, 2.0],
    "place": [64.4341, 0.2406, 0.2333],
    "colour-jitter": [95.4587, 0.9434, 0.07],
    "permute-channels": [188.0, 1.0, 0.0],
    "jitter": [9.0, 1.0, -1.0],
    "displace": [11.8586, 0.0, -1.2364],
}


@pytest.mark.parametrize("name", LIST)
def test_draws_are_those_of_released_models(name: str) -> None:
    values = draw(name, 2, step=3, batch=32, seed=7).double()
    assert [round(float(value), 4) for value in (values.sum(), values.flatten()[5], values.flatten()[-3])] == DRAWN[
        name
    ]


def test_the_motion_encoder_sees_a_sprite_at_another_place() -> None:
    config = TrainingConfig(preset="tiny", latent=None, batch=32, augment=("place",))
    frame = torch.zeros(32, 3, 16, 16)
    frame[..., 3:6, 3:6] = 1
    pair, view = augment(Pair(frame, frame), config, step=0, part=slice(0, 32))
    assert (pair.frame.sum((1, 2, 3)) == 27).all() and (view.frame.sum((1, 2, 3)) == 27).all()
    assert torch.equal(view.frame, view.next_frame) and not torch.equal(pair.frame, view.frame)
    rows = torch.stack([each.frame.amax((1, 3)).argmax(1) for each in (pair, view)]).double()
    assert rows[0].unique().numel() > 8 and abs(torch.corrcoef(rows)[0, 1]) < 0.5


def test_what_changes_both_alike_changes_the_view_of_another_character() -> None:
    config = TrainingConfig(preset="tiny", latent=None, batch=8, augment=("mirror", "reverse"))
    drawn = draw_all(config, 3, slice(0, 8))
    one, other = random_pair(16, 8), random_pair(16, 8, seed=1)
    pair, view = apply_all(one, drawn, 16, other)
    assert torch.equal(pair.frame, apply_all(one, drawn, 16)[0].frame)
    assert torch.equal(view.next_frame, apply_all(other, drawn, 16)[0].next_frame)


def test_every_epoch_sees_every_pair_once() -> None:
    order = ShuffledOrder(count=10, batch=4, seed=0)
    walk = torch.cat([order.indices(step) for step in range(10)])
    for epoch in range(4):
        assert sorted(walk[10 * epoch : 10 * epoch + 10].tolist()) == list(range(10))
    assert walk[:10].tolist() != walk[10:20].tolist()


def test_a_step_needs_no_history() -> None:
    fresh, used = ShuffledOrder(7, 3, 1), ShuffledOrder(7, 3, 1)
    for step in range(20):
        used.indices(step)
    assert torch.equal(fresh.indices(11), used.indices(11))
    assert not torch.equal(ShuffledOrder(700, 300, 2).indices(0), ShuffledOrder(700, 300, 1).indices(0))


def test_noise() -> None:
    noise = step_noise(3, 64, 500, seed=0, device=torch.device("cpu"))
    assert torch.equal(noise, step_noise(3, 64, 500, seed=0, device=torch.device("cpu")))
    assert not torch.equal(noise, step_noise(4, 64, 500, seed=0, device=torch.device("cpu")))
    assert abs(noise.mean()) < 0.02 and abs(noise.std() - 1) < 0.02


def test_mixed_seeds_do_not_meet() -> None:
    assert len({mix(seed, number) for seed in range(50) for number in range(200)}) == 10_000


def random_pair(size: int, count: int = 2, seed: int = 0) -> Pair:
    frames = torch.rand(2, count, 3, size, size, generator=torch.Generator().manual_seed(seed))
    return Pair(*frames)


@pytest.mark.parametrize(("dy", "dx"), [(0, 0), (3, -2), (-5, 5)])
def test_a_displaced_pair_is_the_same_motion_at_another_place(dy: int, dx: int) -> None:
    """The oracle: both frames in a mirrored margin, cut out (dy, dx) away."""
    pair = random_pair(16)
    view = displaced(pair, torch.tensor([[0.0, dy, dx]] * 2), 16)
    for seen, frame in zip(view, pair, strict=True):
        around = torch.cat([frame.flip(3), frame, frame.flip(3)], 3)
        around = torch.cat([around.flip(2), around, around.flip(2)], 2)
        torch.testing.assert_close(seen, around[:, :, 16 - dy : 32 - dy, 16 - dx : 32 - dx], rtol=0, atol=1e-5)
    kept = [slice(max(0, by), 16 + min(0, by)) for by in (dy, dx)]
    source = [slice(max(0, -by), 16 + min(0, -by)) for by in (dy, dx)]
    motion, seen_motion = (x.difference for x in (pair, view))
    torch.testing.assert_close(seen_motion[:, :, *kept], motion[:, :, *source], rtol=0, atol=1e-5)


def test_a_displaced_pair_is_grown_about_its_middle_first() -> None:
    pair = random_pair(16)
    grown = displaced(pair, torch.tensor([[16.0, 0, 0], [16.0, 2, 0]]), 16).frame
    twice = F.interpolate(pair.frame, scale_factor=2, mode="bilinear", align_corners=False)
    torch.testing.assert_close(grown[0], twice[0, :, 8:24, 8:24], rtol=0, atol=1e-5)
    torch.testing.assert_close(grown[1], twice[1, :, 6:22, 8:24], rtol=0, atol=1e-5)


def test_displacements_stay_within_what_is_asked_for() -> None:
    growth, dy, dx = draw("displace", 8, step=5, batch=4_000, seed=1).unbind(1)
    for moved in (dy, dx):
        assert set(moved.tolist()) == set(range(-8, 9))
    assert 0.45 < float((growth == 0).float().mean()) < 0.55
    assert -8 <= growth.min() < -7.9 and 7.9 < growth.max() <= 8


def test_only_the_motion_encoder_sees_a_pair_displaced() -> None:
    config = TrainingConfig(preset="tiny", latent=None, batch=8, augment=("displace=4",))
    pair = random_pair(16, count=8)
    target, view = augment(pair, config, step=3, part=slice(0, 8))
    assert target is pair
    drawn = draw("displace", 4, 3, 8, config.seed)
    torch.testing.assert_close(view.frame, displaced(pair, drawn, 16).frame)
    assert not torch.allclose(view.difference, pair.difference)
    again, half = (augment(Pair(*(x[part] for x in pair)), config, 3, part)[1] for part in (slice(0, 8), slice(4, 8)))
    assert torch.equal(again.frame, view.frame)  # a resumed run, or another process, sees the same
    torch.testing.assert_close(half.frame, view.frame[4:])


def test_pixels_of_an_augmentation_are_those_of_the_network() -> None:
    """Frames that are held twice as large, to be warped, move by the same part of the frame."""
    config = TrainingConfig(preset="tiny", latent=None, batch=500, warp=2, augment=("shift=2",))
    ramp = torch.arange(32.0).expand(500, 3, 32, 32)
    moved = augment(Pair(ramp, ramp), config, step=0, part=slice(0, 500))[0].frame
    assert set((16 - moved[:, 0, 0, 16]).tolist()) == set(range(-4, 5))


def test_sprites_go_to_every_place_within_the_picture_and_no_other() -> None:
    """A pair of 8 x 8 pixels: the first frame has rows 2 and 3, the second one rows 3 to 5 and columns 1 to 6."""
    frame, after = torch.zeros(2, 3, 8, 8).unbind(0)
    frame[0, 2:4, 2:4], after[2, 3:6, 1:7] = 0.5, 1.0
    shares = torch.cartesian_prod(torch.linspace(0, 0.999, 21), torch.linspace(0, 0.999, 21))
    count = len(shares)
    moved = placed(Pair(frame.expand(count, -1, -1, -1), after.expand(count, -1, -1, -1)), shares, 8)
    assert (moved.frame.flatten(1).sum(1) == 2).all() and (moved.next_frame.flatten(1).sum(1) == 18).all()
    places = set()
    for one, other in zip(*moved, strict=True):
        down, right = (int(numbers.min()) for numbers in other[2].nonzero().T)
        assert one[0, down - 1 : down + 1, right + 1 : right + 3].sum() == 2  # both moved alike
        places.add((down, right))
    assert places == {(down, right) for down in range(1, 6) for right in range(3)}
    empty = Pair(torch.zeros(1, 3, 8, 8), torch.zeros(1, 3, 8, 8))
    low = torch.zeros(1, 3, 8, 8)
    low[..., 5:, 3] = 1  # it stands on the lowest row
    up = placed(Pair(low, low), torch.tensor([[0.0, 0.0]]), 8).frame
    assert up.sum() == 9 and bool((up[..., :3, 0] == 1).all())  # nothing is drawn below its feet
    assert not placed(empty, torch.tensor([[0.9, 0.9]]), 8).frame.any()


def test_zooming_shows_windows_of_the_frames() -> None:
    frame = torch.rand(2, 3, 8, 8)
    windows = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.25]])
    small = zoomed(Pair(frame, frame), windows, 4).frame
    torch.testing.assert_close(small[0], F.avg_pool2d(frame[0], 2))
    torch.testing.assert_close(small[1], frame[1, :, 2:6, 4:])
    drawn = draw("zoom", 2.0, 3, 1000, 0)
    assert torch.equal(drawn, draw("zoom", 2.0, 3, 1000, 0)) and 0.4 < float((drawn[:, 0] == 1).float().mean()) < 0.6
    assert drawn[:, 0].min() >= 0.5 and (drawn[:, 1:] >= 0).all() and (drawn[:, 1:] + drawn[:, :1] <= 1 + 1e-6).all()
