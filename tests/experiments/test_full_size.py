"""The full-size experiment in small: what is measured, tables and the figure."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

pytest.importorskip("cv2")

from visual_dynamics.data.shapes import draw_large, draw_scenes
from visual_dynamics.experiments import full_size
from visual_dynamics.experiments.full_size import FullSizeOptions, metrics, never_moving


def test_metrics_of_the_truth_and_of_a_copy() -> None:
    before, after = (draw_large(draw_scenes(1, 4), 512, moved)[0] for moved in (False, True))
    assert metrics(after, before, after) == [0, 0, 1, 100]
    moving, whole, _, still = metrics(before, before, after)
    assert moving == pytest.approx(whole) and whole > 0 and still == 100
    assert metrics(before // 2, before, before)[3] == 0


def test_metrics_by_hand() -> None:
    """Pixels of 51; a block of 8 x 8 becomes 102: it moves. Predicted: half of it, as 153, and a still pixel of 56."""
    before = np.full((512, 512, 3), 51, np.uint8)
    after, made = before.copy(), before.copy()
    after[100:108, 200:208] = 102
    made[100:108, 200:204] = 153
    made[0, 0] = 56
    moving, whole, sharpness, still = metrics(made, before, after)
    in_motion = 3 * (32 * 0.2**2 + 32 * 0.2**2) / 64  # too bright by 0.2, and missing 0.2
    assert moving == pytest.approx(in_motion) and whole == pytest.approx(in_motion + 3 * (5 / 255) ** 2 / 64)
    borders = 3 * ((8 + 8 + 4 + 4) * 0.4**2 + 2 * (5 / 255) ** 2)  # of 8 x 4 pixels, and of the corner
    assert sharpness == pytest.approx(borders / (3 * 32 * 0.2**2))
    assert still == pytest.approx(100 * (1 - 1 / (512**2 - 64)))


def test_intervals_are_over_scenes() -> None:
    scenes = np.array([[1.0, 5.0], [3.0, 5.0]])
    assert full_size.intervals(scenes) == [(1.0, 3.0), (5.0, 5.0)]


def test_what_can_move_is_near_the_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(full_size, "SIZE", 128)
    scene = draw_scenes(1, 4)
    still, (before, after) = never_moving(scene), (draw_large(scene, 128, moved)[0] for moved in (False, True))
    assert not still[(before != after).any(-1)].any()
    assert 0.4 < still.mean() < 0.95


def test_compute_and_draw(tmp_path: Path) -> None:
    steps: dict[str, float] = {}
    options = FullSizeOptions(samples=1)
    measured = full_size.compute(options, torch.device("cpu"), lambda step, share: steps.update({step: share}))
    result = json.loads(json.dumps(measured.numbers))
    assert set(steps.values()) == {1.0}
    for table in result["tables"].values():
        assert table["ours"][1] < 0.5 * min(table[other][1] for other in ("copy", "difference added"))
        assert table["ours"][3] > 95
    assert result["never_moving"]["flat"]["least"] > 99
    assert np.isfinite(result["tables"]["with grain"]["ours"]).all()
    figure = Image.open(io.BytesIO(measured.pictures["full-size.png"]))
    assert figure.width > 6 * 300 and figure.height > 300
    assert "| **ours** |" in full_size.draw(result, tmp_path)
    mean = f"{result['tables']['flat']['ours'][1]:.1f}"
    assert full_size.headline(result).ours == f"{mean} ({mean} to {mean})"  # one scene
    del result["intervals"]
    assert full_size.headline(result).ours == mean and "| **ours** |" in full_size.draw(result, tmp_path)
