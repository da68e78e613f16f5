"""BVH files: where joints are, by hand and by another program's rotations; rate, size, pieces, and damaged files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.poses import CHANNELS, bvh, drifting, skeleton
from visual_dynamics.data.bvh import NAMES, Joint, Motion, is_slow, places, read_folder, read_motion, sequences
from visual_dynamics.data.poses import JOINTS
from visual_dynamics.errors import UserError

UP, NOWHERE = (0.0, 1.0, 0.0), (0.0, 0.0, 0.0)
SCALE = 1.7 / 16


@pytest.mark.parametrize(
    ("order", "where"),
    [  # a bone that points up, its joint turned by 90 degrees about each axis: the last channel turns first
        ("ZX", (0, 0, 1)),  # about x to z, which turns about itself
        ("XZ", (-1, 0, 0)),  # about z to -x, which turns about itself
        ("YZX", (1, 0, 0)),  # about x to z; about y to x
        ("ZYX", (0, 1, 0)),  # about x to z, about y to x, about z to y
        ("XYZ", (0, -1, 0)),  # about z to -x, about y to z, about x to -y
    ],
)
def test_a_bone_that_is_turned(order: str, where: tuple[int, int, int]) -> None:
    root = Joint("Hips", -1, NOWHERE, tuple(f"{axis}rotation" for axis in order))
    found = places((root, Joint("Hips end", 0, UP, ())), np.full((2, len(order)), 90.0))
    np.testing.assert_allclose(found[:, 1], [where] * 2, atol=1e-12)


def test_a_chain_by_hand() -> None:
    """Upper arm up and turned by a quarter about z; the forearm goes on from there, turned once more."""
    root = Joint("Hips", -1, (9.0, 9.0, 9.0), ("Yposition", "Zrotation", "Xposition", "Zposition"))
    arm, hand = Joint("Arm", 0, UP, ("Zrotation",)), Joint("Hand", 1, (2.0, 0.0, 0.0), ())
    found = places((root, arm, hand), np.array([[2.0, 90.0, 1.0, 3.0, 90.0], [2.0, 0.0, 1.0, 3.0, -90.0]]))
    np.testing.assert_allclose(found[0], [[1, 2, 3], [0, 2, 3], [-2, 2, 3]], atol=1e-12)
    np.testing.assert_allclose(found[1], [[1, 2, 3], [1, 3, 3], [1, 1, 3]], atol=1e-12)


@pytest.mark.parametrize("order", ["ZYX", "XYZ", "YXZ", "ZXY"])
def test_as_another_program_turns(order: str) -> None:
    rotation = pytest.importorskip("scipy.spatial.transform").Rotation
    rows = np.random.default_rng(0).uniform(-180, 180, (3, CHANNELS))
    motion = read_motion(bvh(rows, order=order))
    found = places(motion.joints, motion.rows)
    for row, where in zip(motion.rows, found, strict=True):
        turned, column = {-1: rotation.identity()}, 0
        for number, joint in enumerate(motion.joints):
            step = row[:3] if joint.parent < 0 else np.array(joint.offset)
            column += 3 if joint.parent < 0 else 0
            above = where[joint.parent] if joint.parent >= 0 else np.zeros(3)
            np.testing.assert_allclose(where[number], above + turned[joint.parent].apply(step), atol=1e-9)
            if joint.channels:
                turned[number] = turned[joint.parent] * rotation.from_euler(
                    order, row[column : column + 3], degrees=True
                )
                column += 3


def test_a_sequence_is_scaled_and_begins_above_the_origin() -> None:
    (poses,) = sequences(read_motion(bvh(drifting(61, rested=True))))
    assert poses.shape == (21, 15, 3)
    expected = np.stack([SCALE * 3 * 0.16 * np.arange(21), np.full(21, SCALE * 9), np.zeros(21)], 1)
    np.testing.assert_allclose(poses[:, JOINTS.index("hips")], expected, atol=1e-5)
    bone = poses[:, JOINTS.index("l_elbow")] - poses[:, JOINTS.index("l_shoulder")]
    np.testing.assert_allclose(np.linalg.norm(bone, axis=1), SCALE * 3, atol=1e-5)
    right, left = (poses[0, JOINTS.index(f"{side}_wrist"), 0] for side in "rl")
    assert right < 0 < left
    (same,) = sequences(read_motion(bvh(drifting(61))))  # without a T-pose in front the offsets make it
    np.testing.assert_allclose(same, poses, atol=1e-6)


@pytest.mark.parametrize(
    ("hz", "take", "step"),
    [(60, "1_1", 3.0), (120, "1_1", 6.0), (30, "x", 1.5), (50, "x", 2.5), (120, "75_01", 3.0), (60, "75_01", 3.0)],
)
def test_twenty_poses_a_second(hz: int, take: str, step: float) -> None:
    """`step` rows from pose to pose; takes of subject 75 say 120 and have 60."""
    poses = np.concatenate(sequences(read_motion(bvh(drifting(10 * hz + 1), 1 / hz)), take))
    np.testing.assert_allclose(np.diff(poses[:100, 0, 0]), SCALE * 0.16 * step, rtol=1e-3)


def test_slow_takes() -> None:
    assert (
        is_slow("75_01") and is_slow("87_04") and not is_slow("87_06") and not is_slow("75_x") and not is_slow("walk")
    )


def test_long_takes_and_jumps_are_cut() -> None:
    rows = drifting(3 * 400)  # 400 poses
    rows[3 * 320 :, 0] += 20
    motion = read_motion(bvh(rows))
    assert [len(piece) for piece in sequences(motion)] == [160, 160, 80]
    assert sequences(motion._replace(rows=rows[:50])) == []  # shorter than a second


def test_a_folder_is_read_and_bad_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "02").mkdir()
    text = bvh(drifting(90, rested=True))
    (tmp_path / "02" / "02_01.bvh").write_text(text)
    (tmp_path / "02" / "02_02.BVH").write_text(bvh(drifting(120)))
    (tmp_path / "copy.bvh").write_text(text)
    (tmp_path / "cut.bvh").write_text(text[:-30])
    (tmp_path / "other.bvh").write_text(text.replace("LeftForeArm", "lForeArm"))
    (tmp_path / "words.txt").write_text("no motion")
    seen: list[float] = []
    found = read_folder(tmp_path, lambda done, total: seen.append(done / total))
    assert [(take, len(poses)) for take, poses in found.sequences] == [("02_01", 30), ("02_02", 40)]
    assert {str(path): reason for path, reason in found.skipped.items()} == {
        "copy.bvh": "it is a copy of 02/02_01.bvh",
        "cut.bvh": f"it has {91 * CHANNELS - 3} numbers, not 91 frames of {CHANNELS}",
        "other.bvh": "it has no joint LeftForeArm",
    }
    assert len(seen) == 5
    with pytest.raises(UserError, match="no folder of BVH files"):
        read_folder(tmp_path / "nowhere")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "a.bvh").write_text("words")
    with pytest.raises(UserError, match=r"no usable \.bvh file in .*bad: a\.bvh: it has no MOTION"):
        read_folder(tmp_path / "bad")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("HIERARCHY MOTION", "hierarchy is cut off"),
        (skeleton()[:-3] + "MOTION", "hierarchy is cut off"),
        ("HIERARCHY ROOT a { ROOT b { } } MOTION", "not one tree"),
        ("HIERARCHY ROOT a { CHANNELS 1 Wrotation } MOTION", "channels Wrotation"),
        ("HIERARCHY ROOT a { SCALE 1 } MOTION", "a word 'SCALE'"),
        ("HIERARCHY ROOT a { OFFSET 0 0", "no MOTION"),
        ("HIERARCHY ROOT a { CHANNELS 3 MOTION", "hierarchy is cut off"),
        (skeleton() + "MOTION\nFrames: 1\nFrame Time:", "no number of frames"),
        (bvh(np.full((2, CHANNELS), np.nan)), "not finite"),
        (bvh(drifting(2), 0.0), "frame time is 0"),
        (bvh(drifting(0)), "0 numbers"),
    ],
)
def test_mistakes(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_motion(text)


def test_a_person_who_is_far_away_is_an_error() -> None:
    rows = drifting(60)
    rows[:, 1] = 2_000
    with pytest.raises(ValueError, match="a joint is more than 100 from the origin"):
        sequences(read_motion(bvh(rows)))


def test_a_person_who_lies_in_the_t_pose_is_an_error() -> None:
    joints = read_motion(bvh(drifting(30))).joints
    flat = tuple(joint._replace(offset=(joint.offset[0], 0.0, joint.offset[1])) for joint in joints)
    with pytest.raises(ValueError, match="y is not up"):
        sequences(Motion(flat, drifting(30), 1 / 60))
    assert set(NAMES) <= {joint.name for joint in joints}


@settings(max_examples=60, deadline=None)
@given(cut=st.integers(0, 4000), junk=st.text("{}0123456789.-eE OFSETJNCHAL\n", max_size=12))
def test_a_damaged_file_is_read_or_skipped(tmp_path_factory: pytest.TempPathFactory, cut: int, junk: str) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    whole = bvh(drifting(60))
    (folder / "a.bvh").write_text(whole[:cut] + junk + whole[cut + len(junk) :])
    try:
        assert len(read_folder(folder).sequences) == 1
    except UserError as error:
        assert "\n" not in str(error)
