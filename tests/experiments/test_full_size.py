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
    assert full_size.headline(result).ours == f"{result['tables']['flat']['ours'][1]:.1f}"
