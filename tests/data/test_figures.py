"""Drawn people: they move, walls do not, and a seed draws the same again."""

from __future__ import annotations

import pytest
import torch

from visual_dynamics.data import figures
from visual_dynamics.data.figures import CHUNK, figure_pairs


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "CHUNK", 16)


def test_a_seed_draws_the_same_whatever_the_count() -> None:
    few, more = figure_pairs(5, seed=3, size=32), figure_pairs(20, seed=3, size=32)
    assert CHUNK > 16 and few.frames.shape == (5, 3, 32, 32)
    assert torch.equal(more.frames[:5], few.frames) and torch.equal(more.next_frames[:5], few.next_frames)
    for other in (figure_pairs(5, seed=4, size=32), figure_pairs(5, seed=3, split="test", size=32)):
        assert not torch.equal(other.frames, few.frames)


def test_people_move_and_walls_do_not() -> None:
    pairs = figure_pairs(64, seed=0)
    changed = (pairs.frames != pairs.next_frames).any(1).float().mean((1, 2))  # (64,): share of the pixels
    assert float((changed > 0.005).float().mean()) > 0.5  # most pairs show a motion
    assert float(changed.median()) < 0.4  # and most of the picture keeps still
    assert len({tuple(frame[:, 0, 0].tolist()) for frame in pairs.frames}) > 32  # before walls of their own


def test_a_bar_covers_its_own_area() -> None:
    ends = torch.tensor([[[0.25, 0.5], [0.75, 0.5]], [[0.5, 0.5], [0.5, 0.5]]])  # a bar, and a ball
    cover, along, across = figures._bar(ends, torch.tensor([0.1, 0.2]), 200)
    areas = cover.mean((1, 2))
    torch.testing.assert_close(areas, torch.tensor([0.5 * 0.2 + torch.pi * 0.01, torch.pi * 0.04]), rtol=0.01, atol=0)
    assert cover[0, 100, 100] == 1 and cover[0, 10, 100] == 0
    assert float(along[0, 100, 100]) == pytest.approx(0.25, abs=0.01) and abs(float(across[0, 100, 100])) < 0.01


def test_limbs_hang_together() -> None:
    """Lower parts begin where upper ones end, before and after the motion."""
    before, after = figures._figure(torch.Generator().manual_seed(0), 0)
    order = [figures.NAMES[place] for place in figures.ORDER]
    assert sorted(order) == sorted(figures.NAMES)
    for parts in (before, after):
        for limb in range(figures.LIMBS):
            upper, lower = (parts.ends[:, order.index(f"{half} {limb}")] for half in ("upper", "lower"))
            torch.testing.assert_close(upper[:, 1], lower[:, 0])
    lengths = [(parts.ends[:, :, 1] - parts.ends[:, :, 0]).norm(dim=2) for parts in (before, after)]
    torch.testing.assert_close(*lengths)  # bones keep their lengths


def test_limbs_turn_about_their_joints_or_stand_still() -> None:
    """Arms and thighs turn in the picture, forearms and shins against these."""
    order = [figures.NAMES[place] for place in figures.ORDER]

    def angles(parts: figures.Parts) -> torch.Tensor:
        """(2 * LIMBS, CHUNK): of each upper part from the right, of each lower one from its upper one."""
        x, y = (parts.ends[:, :, 1] - parts.ends[:, :, 0]).unbind(2)
        of = dict(zip(order, torch.atan2(y, x).T, strict=True))
        limbs = range(figures.LIMBS)
        bent = [of[f"lower {limb}"] - of[f"upper {limb}"] for limb in limbs]
        return torch.stack([of[f"upper {limb}"] for limb in limbs] + bent)

    before, after = (angles(parts) for parts in figures._figure(torch.Generator().manual_seed(0), 0))
    turned = (after - before).cos() < 1 - 1e-6
    assert turned.any(1).all() and not turned.all(1).any()


def test_figures_wear_real_pictures() -> None:
    """Half of the walls are a picture's, and half of the figures wear pieces of one; what stays still still does."""
    pictures = torch.zeros(3, 3, 32, 32, dtype=torch.uint8)
    pictures[:, 0] = 255  # nothing but red
    pairs = figure_pairs(64, seed=0, size=32, pictures=pictures)
    red = (pairs.frames == pictures[0]).all(1).float().mean((1, 2))  # (64,): share of the pixels
    assert float((red == 1).float().mean()) > 0.1  # wall and figures
    assert float((red == 0).float().mean()) > 0.1  # neither
    assert float(((red > 0) & (red < 1)).float().mean()) > 0.3  # one of the two
    again = figure_pairs(5, seed=0, size=32, pictures=pictures)
    assert torch.equal(pairs.next_frames[:5], again.next_frames)


def test_clothes_move_with_the_parts_that_wear_them() -> None:
    """A ball that flies by whole pixels shows the same piece of a picture in both frames."""
    pictures = torch.randint(0, 256, (1, 3, 16, 16), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    one = torch.zeros(1, 1, dtype=torch.long)
    real = torch.ones(1, dtype=torch.bool)
    clothes = figures.Clothes(torch.zeros(1, 1, 3), one.float(), torch.zeros(1, 1, 2), real, one, torch.zeros(1, 1, 2))
    painted = []
    for x in (4, 7):
        place = torch.tensor([x / 16, 0.5]).expand(1, 2, 2)
        _, along, across = figures._bar(place, torch.tensor([0.2]), 16)
        painted.append(figures._paint(clothes, 0, along, across, pictures))
    assert torch.equal(painted[0][..., :13], painted[1][..., 3:])
