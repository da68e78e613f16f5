"""The full-size experiment in small: what is measured, and tables and figure from the JSON alone."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("cv2")

from visual_dynamics.data.shapes import draw_scenes
from visual_dynamics.data.shapes_large import draw_large
from visual_dynamics.experiments import full_size_table
from visual_dynamics.experiments.full_size_table import Options, measures, never_moving


def test_measures_of_the_truth_and_of_a_copy() -> None:
    before, after = (draw_large(draw_scenes(1, 4), 512, moved)[0] for moved in (False, True))
    assert measures(after, before, after) == [0, 0, 1, 100]
    moving, whole, _, still = measures(before, before, after)
    assert moving == pytest.approx(whole) and whole > 0 and still == 100
    assert measures(before // 2, before, before)[3] == 0


def test_what_can_move_is_near_the_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(full_size_table, "SIZE", 128)
    scene = draw_scenes(1, 4)
    still, (before, after) = never_moving(scene), (draw_large(scene, 128, moved)[0] for moved in (False, True))
    assert not still[(before != after).any(-1)].any()
    assert 0.4 < still.mean() < 0.95


def test_compute_and_draw(tmp_path: Path) -> None:
    told: dict[str, float] = {}
    result = full_size_table.compute(
        Options(samples=1), torch.device("cpu"), lambda what, share: told.update({what: share})
    )
    assert set(told.values()) == {1.0}
    for table in result["tables"].values():
        assert table["ours"][1] < 0.5 * min(table[other][1] for other in ("copy", "difference added"))
        assert table["ours"][3] > 95
    assert result["never_moving"]["flat"]["least"] > 99
    text = full_size_table.draw(json.loads(json.dumps(result)), tmp_path)
    assert "| **ours** |" in text and (tmp_path / "full-size.png").exists() and (tmp_path / "full-size.md").exists()
    assert np.isfinite(result["tables"]["with grain"]["ours"]).all()
    assert full_size_table.headline(result).ours == f"{result['tables']['flat']['ours'][1]:.1f}"
