"""People in recorded poses: whole, within the frame, moved as the file says, and the same for a seed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.data.test_poses import REAL
from tests.poses import STANDING, waving, write_waving
from visual_dynamics.data import figures, posed
from visual_dynamics.data.figures import NAMES, ORDER, SHOWN, Parts
from visual_dynamics.data.posed import MOVED, Recorded, posed_pairs
from visual_dynamics.data.poses import HEIGHT, JOINTS, Poses, read_poses, write_poses
from visual_dynamics.errors import UserError

CHUNK = 16


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "CHUNK", CHUNK)


@pytest.fixture
def poses(tmp_path: Path) -> Poses:
    return read_poses(write_waving(tmp_path / "poses.npz"))


def drawn(recorded: Recorded, number: int = 0, seed: int = 0) -> tuple[Parts, Parts]:
    """A figure before and after, with its parts in the order of NAMES."""
    both = recorded.figure(torch.Generator().manual_seed(seed), number)
    rows = torch.arange(len(both[0].wears))[:, None]
    order = torch.tensor(ORDER)[both[0].wears].argsort(1)
    before, after = (Parts(*(values[rows, order] for values in parts)) for parts in both)
    return before, after


def part(parts: Parts, name: str) -> Tensor:
    return parts.ends[:, NAMES.index(name)]


def test_a_seed_draws_the_same_whatever_the_count(poses: Poses) -> None:
    few, more = posed_pairs(poses, 5, seed=3, size=32), posed_pairs(poses, 20, seed=3, size=32)
    assert torch.equal(more.frames[:5], few.frames) and torch.equal(more.next_frames[:5], few.next_frames)
    others = (
        posed_pairs(poses, 5, 4, size=32),
        posed_pairs(poses, 5, 3, "test", 32),
        figures.figure_pairs(5, 3, size=32),
    )
    for other in others:
        assert not torch.equal(other.frames, few.frames)


def test_people_move_and_walls_do_not(poses: Poses) -> None:
    pairs = posed_pairs(poses, 64, seed=0)
    changed = (pairs.frames != pairs.next_frames).any(1).float().mean((1, 2))  # (64,): share of the pixels
    assert (changed > 0).float().mean() > 0.95
    assert float(changed.median()) < 0.4


def test_limbs_hang_together(poses: Poses) -> None:
    for parts in drawn(Recorded(poses, "train")):
        for limb in range(4):
            upper, lower = (part(parts, f"{half} {limb}") for half in ("upper", "lower"))
            torch.testing.assert_close(upper[:, 1], lower[:, 0])
        trunk = part(parts, "trunk")
        reach = parts.radius[:, NAMES.index("trunk")] + parts.radius[:, NAMES.index("upper 0")]
        for limb in range(4):  # arms and legs begin at the trunk: beside its line, or beyond its ends
            line = trunk[:, 1] - trunk[:, 0]
            off = part(parts, f"upper {limb}")[:, 0] - trunk[:, 0]
            along = ((off * line).sum(1) / line.square().sum(1)).clamp(0, 1)
            assert (off - along[:, None] * line).norm(dim=1).le(reach + 0.01).all()


def test_figures_stand_in_the_frame(poses: Poses) -> None:
    """By the first pose alone: one that fits is in the frame with every joint, a larger one covers all of it."""
    random = torch.Generator().manual_seed(0)
    flat = torch.rand(2, 200, 15, 2, generator=random) * torch.linspace(0.2, 1.6, 200)[:, None, None] + 5
    found = posed._placed(flat, torch.rand(200, 2, generator=random))
    low, high = found[0].amin(1), found[0].amax(1)
    fits = high - low < 1
    assert fits.any() and not fits.all()
    assert (low[fits] > -1e-5).all() and (high[fits] < 1 + 1e-5).all()
    assert (low[~fits] < 1e-5).all() and (high[~fits] > 1 - 1e-5).all()
    torch.testing.assert_close(found[1] - found[0], flat[1] - flat[0])  # both poses are moved alike
    for number in (0, 1):
        before, _ = drawn(Recorded(poses, "train"), number)
        heights = before.ends.amax((1, 2))[:, 1] - before.ends.amin((1, 2))[:, 1]
        assert heights.min() > 0.75 * posed.SMALLEST[number] and heights.max() < 1.3 * posed.LARGEST


def test_a_camera_by_hand() -> None:
    """From the front the left hand is on the right of the picture; from a quarter further round it is the nearest."""
    bodies = torch.from_numpy(STANDING).float().expand(2, 1, 15, 3)
    left, right = (JOINTS.index(f"{side}_shoulder") for side in "lr")
    zero, one = torch.zeros(1), torch.ones(1)
    front = posed._seen(bodies, zero, zero, one)[0, 0]
    torch.testing.assert_close(front[left], torch.tensor([0.2, -1.35, 0.0]))
    mirrored = posed._seen(bodies, zero, zero, -one)[0, 0]
    torch.testing.assert_close(mirrored, front * torch.tensor([-1.0, 1.0, 1.0]))
    side = posed._seen(bodies, torch.full((1,), -torch.pi / 2), zero, one)[0, 0]
    torch.testing.assert_close(side[left], torch.tensor([0.0, -1.35, 0.2]), atol=1e-6, rtol=0)
    assert side[left, 2] > side[right, 2]
    above = posed._seen(bodies, zero, torch.full((1,), torch.pi / 2), one)[0, 0]  # straight down: high is near
    torch.testing.assert_close(above[:, 2], bodies[0, 0, :, 1])


def test_nearer_parts_hide_the_others(tmp_path: Path) -> None:
    """Of two arms one is painted before the trunk, mostly; which one depends on the side it is seen from."""
    write_poses(tmp_path / "poses.npz", [(name, waving(30, seed)) for seed, name in enumerate("abc")])
    recorded = Recorded(read_poses(tmp_path / "poses.npz"), "train")
    before, after = recorded.figure(torch.Generator().manual_seed(0), 0)
    assert torch.equal(before.wears, after.wears)
    place = before.wears.argsort(1)[:, torch.tensor(ORDER).argsort()]  # (n, P): when each part of NAMES is painted
    left, right = (place[:, NAMES.index(f"upper {limb}")] for limb in (0, 1))
    trunk = place[:, NAMES.index("trunk")]
    assert ((left < trunk) | (right < trunk)).float().mean() > 0.5
    assert (left > right).any() and (left < right).any()


def test_from_straight_above_heads_hide_the_rest(poses: Poses, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then high is near: shins are painted first, thighs over them, the trunk over these, and the head over it."""
    monkeypatch.setattr(posed, "PITCH", (torch.pi / 2, torch.pi / 2))
    before, _ = Recorded(poses, "train").figure(torch.Generator().manual_seed(0), 0)
    painted = torch.tensor(ORDER)[before.wears].argsort(1)  # (n, P): when each part of NAMES is
    for leg in (2, 3):
        names = f"lower {leg}", f"upper {leg}", "trunk", "head"
        assert (painted[:, [NAMES.index(name) for name in names]].diff(dim=1) > 0).all()


def test_feet_that_stand_stay_whatever_the_body(poses: Poses) -> None:
    """The ankles of these takes do not move, and bones are longer or shorter by their factors."""
    recorded = Recorded(poses, "train")
    first = recorded.moving[:8]
    factors = {name: torch.linspace(*bounds, 8) for name, bounds in posed.FACTORS.items()}
    before, after = recorded._bodies(torch.stack([first, first + 2]), factors)
    ankle = JOINTS.index("l_ankle")
    torch.testing.assert_close(before[:, ankle], after[:, ankle], atol=1e-3, rtol=0)
    for end, start in (("head_top", "neck_base"), ("l_shoulder", "neck_base"), ("l_elbow", "l_shoulder")):
        name = end.removeprefix("l_")
        ends = [JOINTS.index(joint) for joint in (end, start)]
        for body, places in ((before, first), (after, first + 2)):
            bone = torch.from_numpy(poses.positions)[places][:, ends]
            length = (bone[:, 0] - bone[:, 1]).norm(dim=1) * factors[name]
            torch.testing.assert_close((body[:, ends[0]] - body[:, ends[1]]).norm(dim=1), length)


def test_the_first_figure_moves_and_others_may_stand_still(tmp_path: Path) -> None:
    poses = read_poses(write_waving(tmp_path / "poses.npz", takes=20, still=12))
    recorded = Recorded(poses, "train")
    assert 0 < len(recorded.moving) < 0.7 * len(recorded.first)
    assert (poses.moves(recorded.moving.numpy()) >= MOVED).all()
    moves = []
    for number in (0, 1):
        before, after = drawn(recorded, number)
        there = before.radius.amax(1) > 0
        assert abs(float(there.float().mean()) - SHOWN[number]) < 0.4 and (there.all() or number)
        moves.append((after.ends - before.ends).norm(dim=-1).amax((1, 2)))
    assert (moves[0] > 0).all() and (moves[1] == 0).any()


def test_a_file_in_which_nothing_moves_is_an_error() -> None:
    still = Poses(np.tile(STANDING, (90, 1, 1)).astype(np.float32), np.array([0, 30, 60, 90]), ("a", "b", "c"))
    with pytest.raises(UserError, match="no pair of poses for train in which a joint moves"):
        Recorded(still, "train")


def test_figures_wear_real_pictures(poses: Poses) -> None:
    pictures = torch.zeros(3, 3, 32, 32, dtype=torch.uint8)
    pictures[:, 0] = 255
    pairs = posed_pairs(poses, 64, seed=0, size=32, pictures=pictures)
    red = (pairs.frames == pictures[0]).all(1).float().mean((1, 2))
    assert float((red == 1).float().mean()) > 0.1 and float((red == 0).float().mean()) > 0.1
    assert torch.equal(pairs.frames[:5], posed_pairs(poses, 5, 0, size=32, pictures=pictures).frames)


@pytest.mark.skipif(not REAL.exists(), reason="the real poses are not here")
def test_real_people(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "CHUNK", 512)
    recorded = Recorded(read_poses(REAL), "train")
    before, after = drawn(recorded)
    moved = (after.ends - before.ends).norm(dim=-1).amax((1, 2))
    assert 0.02 < moved.median() < 0.06 and moved.quantile(0.95) < 0.25  # shares of the frame: no jumps
    heights = before.ends.amax((1, 2))[:, 1] - before.ends.amin((1, 2))[:, 1]
    assert 0.4 < heights.median() < 1 and HEIGHT == 1.7
