"""The disocclusion experiment in small: what counts as revealed, what is measured there, tables and the figure."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

pytest.importorskip("cv2")

from visual_dynamics.baselines import warp
from visual_dynamics.data import shapes
from visual_dynamics.data.shapes import Scenes
from visual_dynamics.experiments import disocclusion
from visual_dynamics.experiments.disocclusion import (
    DisocclusionOptions,
    errors,
    near,
    outlined,
    revealed,
    true_flow,
    without_texture,
    zoom_box,
)
from visual_dynamics.reporting.base import Measured

CPU = torch.device("cpu")


def one_scene(circle: tuple[float, float], square: tuple[float, float], c: float, s: float) -> Scenes:
    """A circle of diameter 32, a square of side 30, no triangle in sight; motion (0, c) and (s, 0)."""
    return Scenes(
        background=np.ones((1, 3)),
        colours=np.eye(3)[None],
        anchors=np.array([[circle, square, (500.0, 500.0)]]),
        sizes=np.array([[32.0, 30.0, 30.0]]),
        motions=np.array([[[0, c], [s, 0], [c, -c]]]),
    )


def box(rows: slice, columns: slice, size: int = 128) -> torch.Tensor:
    region = torch.zeros(size, size, dtype=torch.bool)
    region[rows, columns] = True
    return region


def test_nothing_is_revealed_where_nothing_was_hidden() -> None:
    found = revealed(one_scene((30.3, 30.6), (70.2, 80.9), 4.7, -3.3), 128)
    assert not any(found[name].any() for name in (*shapes.OBJECTS, "objects"))
    assert found["background"].any() and found["frame"].all()
    still = revealed(one_scene((64.0, 64.0), (60.0, 70.0), 0.0, 0.0), 64)  # hidden, and it stays so
    assert not any(region.any() for name, region in still.items() if name != "frame")


def test_what_comes_into_the_frame_is_revealed() -> None:
    """Columns -10 to 19 of the square go to -2 to 27: what was left of column 0 is now in columns 0 to 7."""
    scenes = one_scene((500.0, 500.0), (-10.0, 40.0), 0.0, 8.0)
    for size, part in ((128, box(slice(40, 70), slice(0, 8))), (64, box(slice(20, 35), slice(0, 4), 64))):
        found = revealed(scenes, size)
        assert torch.equal(found["square"][0], part) and torch.equal(found["objects"][0], part)
        assert not found["background"].any()


def test_what_a_square_leaves_is_revealed() -> None:
    """The square goes from columns 64 to 93 to columns 72 to 101, rows 40 to 69; a circle stands behind it."""
    scenes = one_scene((64.0, 64.0), (64.0, 40.0), 0.0, 8.0)
    found = {name: region[0] for name, region in revealed(scenes, 128).items()}
    strip = box(slice(40, 70), slice(64, 72))
    assert found["circle"][51:70, 64:72].all() and not found["circle"][~strip].any()
    assert found["background"][40:47, 64:72].all() and not found["background"][~strip].any()
    assert torch.equal(found["circle"] | found["background"], strip)
    assert torch.equal(found["objects"], found["circle"])


def test_what_moves_out_of_hiding_is_revealed() -> None:
    """The circle goes down by 6 behind a square that stands still: rows 64 to 69 of it come out below the square."""
    found = revealed(one_scene((64.0, 64.0), (64.0, 40.0), 6.0, 0.0), 128)["circle"][0]
    assert found[70:76, 64:78].all() and not found[~box(slice(70, 76), slice(64, 81))].any()


def test_true_flow_is_right_but_for_what_was_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disocclusion, "HALF", 1e-4)  # the edges too
    scenes = one_scene((64.0, 64.0), (70.0, 40.0), 7.0, -9.0)
    frame, truth = (shapes.images(scenes, moved, "smooth", 128, textured=True)[0] / 255 for moved in (False, True))
    seen = shapes.masks(scenes, True, "smooth", 128).visible[0]
    pure = torch.cat([seen, 1 - seen.sum(0, keepdim=True)]).max(0).values == 1
    regions = revealed(scenes, 128)
    hidden = (regions["objects"] | regions["background"])[0]
    wrong = (warp(frame, true_flow(scenes, 128)[0]) - truth).abs().amax(0)
    assert wrong[pure & ~hidden].max() < 0.01
    assert wrong[pure & hidden].mean() > 0.3


def test_without_texture_objects_have_the_mean_of_their_two_colours() -> None:
    """A dark stripe has 0.4 of the light colour: the mean is 0.7 of it. The square goes from column 20 to 28."""
    (picture,) = without_texture(one_scene((90.0, 90.0), (20.0, 20.0), 0.0, 8.0), 128)
    for (y, x), colour in (((90, 90), (0.7, 0, 0)), ((30, 57), (0, 0.7, 0)), ((30, 24), (1, 1, 1))):
        assert picture[:, y, x].tolist() == pytest.approx(colour, abs=1 / 255)


def test_errors_are_those_of_the_region() -> None:
    truth, predicted = torch.zeros(2, 3, 8, 8), torch.zeros(2, 3, 8, 8)
    predicted[0, :, :2] = 0.5
    region = torch.stack([box(slice(1, 3), slice(0, 4), 8), box(slice(0), slice(0), 8)])
    found = errors(predicted, truth, {"some": region, "none": torch.zeros_like(region)})
    assert found["some"] == {"mean": 0.125, "interval": (0.125, 0.125), "sum": 4 * 3 * 0.25 / 2}  # of one scene alone
    assert found["none"] == {"mean": None, "interval": None, "sum": 0.0}


def test_intervals_are_over_scenes() -> None:
    """Two scenes, one pixel of error 0.25 and three without: drawn twice the first has 0.25, the other 0, both 1/16."""
    truth, predicted = torch.zeros(2, 3, 8, 8), torch.zeros(2, 3, 8, 8)
    predicted[0] = 0.5
    region = torch.stack([box(slice(1, 2), slice(0, 1), 8), box(slice(1, 2), slice(0, 3), 8)])
    found = errors(predicted, truth, {"some": region})["some"]
    assert found["mean"] == 0.0625 and found["interval"] == (0.0, 0.25) and found["sum"] == 3 * 0.25 / 2


def test_it_zooms_to_the_region_within_the_frame() -> None:
    assert zoom_box(box(slice(20, 24), slice(30, 40), 64)) == [23, 10, 24]
    assert zoom_box(box(slice(0, 4), slice(60, 64), 64)) == [40, 0, 24]
    assert zoom_box(box(slice(0, 16), slice(0, 16), 16)) == [0, 0, 16]


@pytest.fixture(scope="module")
def measured(tiny_weights_file: Path) -> Measured:
    patch = pytest.MonkeyPatch()
    patch.setattr(disocclusion, "FLOW_SCENES", 20)
    options = DisocclusionOptions(samples=20, seed=4, model=str(tiny_weights_file))
    made = disocclusion.compute(options, CPU, lambda step, share: None)
    patch.undo()
    return made


@pytest.fixture(scope="module")
def result(measured: Measured) -> dict:
    return json.loads(json.dumps(measured.numbers))


def test_every_row_is_measured(result: dict) -> None:
    assert set(disocclusion.ENLARGED) - {"truth"} < set(result["rows"])
    for row in result["rows"].values():
        assert set(row) == set(disocclusion.REGIONS) == set(result["pixels"])
        for name, pixels in result["pixels"].items():
            assert (row[name]["mean"] is None) == (pixels == 0)
    rows = result["rows"]
    assert rows["true flow"]["frame"]["sum"] < rows["copy"]["frame"]["sum"]
    assert rows["true shapes without texture"]["objects"]["mean"] < rows["copy"]["objects"]["mean"]
    assert rows["ours"]["frame"] != rows["ours, code of another scene"]["frame"]


def test_shown_are_the_scenes_that_reveal_most(measured: Measured, result: dict) -> None:
    shown = result["pictures"]
    assert len({one["scene"] for one in shown}) == len(shown) <= 6
    areas = revealed(shapes.draw_scenes(20, 4, "test"), 16)["circle"].sum((1, 2))
    assert shown[0]["object"] == "circle" and shown[0]["pixels"] == areas.max() == areas[shown[0]["scene"]]
    figure = Image.open(io.BytesIO(measured.pictures["disocclusion.png"]))
    assert figure.width > 8 * 192 and figure.height > len(shown) * 192


def test_tables_come_from_the_json_alone(result: dict, tmp_path: Path) -> None:
    text = disocclusion.draw(result, tmp_path)
    assert text.count("| true flow |") == 2 and "| **ours** |" in text and not list(tmp_path.iterdir())
    found = result["rows"]["ours"]["objects"]
    low, high = found.pop("interval")
    assert low <= found["mean"] <= high
    assert disocclusion.headline(result).ours == f"{found['mean']:.4f}"  # a result without intervals
    found["interval"] = [low, high]
    assert disocclusion.headline(result).ours == f"{found['mean']:.4f} ({low:.4f} to {high:.4f})"


def test_the_outline_lies_on_the_border_of_the_region() -> None:
    region = box(slice(2, 4), slice(2, 4), 8).numpy()
    assert np.array_equal(near(region), box(slice(1, 5), slice(1, 5), 8).numpy())
    made = outlined(np.full((8, 8, 3), 100, np.uint8), region, [0, 0, 8])  # 24 pixels for each
    inside, outside = made[2 * 24 : 4 * 24, 2 * 24 : 4 * 24], made[2 * 24 - 1 : 4 * 24 + 1, 2 * 24 - 1]
    assert (inside[0] == 255).all() and (inside[:, -1] == 255).all() and (inside[2:-2, 2:-2] == 100).all()
    assert (outside == 0).all()
