"""Warnings of unfamiliar pictures: what is shown, what counts as a false alarm, and the table."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.characters import noise_characters
from visual_dynamics.data import reed
from visual_dynamics.data.shapes import draw_scenes, images
from visual_dynamics.errors import UserError
from visual_dynamics.experiments import familiarity
from visual_dynamics.experiments.familiarity import (
    KINDS,
    OWN,
    FamiliarityOptions,
    draw,
    headline,
    measure,
    moved,
    pictures,
    role,
    totals,
)
from visual_dynamics.model_files import shipped_models


def test_the_share_of_warnings_and_its_interval() -> None:
    row = measure("own", torch.tensor([0.5, 1.0, 1.001, 3.0]))
    assert row["warned"] == 0.5 and row["pictures"] == 4
    assert row["interval"] == pytest.approx((0.150, 0.850), abs=1e-3)  # Wilson's of 2 of 4, from a table


def test_what_kinds_are_to_a_model() -> None:
    assert sorted(OWN) == shipped_models() and {kind for kinds in OWN.values() for kind in kinds} <= KINDS.keys()
    assert role("shapes", "shapes") == "own" and role("shapes", "shapes-texture") == "related"
    assert role("sprites", "characters") == "own" and role("sprites", "composed") == "foreign"
    assert role("people", "photos") == "own" and role("people", "shapes") == "foreign"


def test_pictures_are_of_test_scenes_alone() -> None:
    shown = pictures(FamiliarityOptions(), 5)
    assert list(shown) == ["shapes", "shapes-integer", "shapes-texture", "figures", "noise"]
    assert all(len(each) == 5 for each in shown.values())
    for split in ("train", "validation", "test"):
        drawn = images(draw_scenes(5, 0, split), rendering="smooth", size=128).permute(0, 2, 3, 1).numpy()
        assert (np.stack(shown["shapes"]) == drawn).all() == (split == "test")


def test_characters_and_scenes_are_those_that_nothing_was_trained_on(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def characters(folder: Path, numbers: Any) -> Any:
        asked.append(numbers.tolist())
        return noise_characters(1)

    monkeypatch.setattr(reed, "read_characters", characters)
    monkeypatch.setattr(familiarity, "open_pairs", lambda folder, split: asked.append(split))
    with pytest.raises(UserError, match="holds out no scenes"):  # as the pairs are None
        pictures(FamiliarityOptions(sprites=Path("sprites"), footage=Path("footage")), 5)
    assert asked == [reed.reed_split().test.tolist(), "held-out"]


def test_a_picture_is_moved_up_and_to_the_right() -> None:
    picture = np.arange(20 * 30 * 4, dtype=np.uint8).reshape(20, 30, 4)
    found = moved(picture)
    assert found.shape == picture.shape and (found[:14, 6:] == picture[6:, :24]).all()
    assert not found[14:].any() and not found[:, :6].any()


def test_the_table_and_the_worst_rows(tmp_path: Path) -> None:
    def row(role: str, warned: float) -> dict[str, Any]:
        return {"role": role, "pictures": 100, "warned": warned, "interval": [0.0, 1.0]}

    sets = {
        "shapes": {
            "rows": {"shapes": row("own", 0.01), "shapes-texture": row("related", 0.3), "noise": row("foreign", 1.0)}
        },
        "sprites": {"rows": {"shapes": row("foreign", 0.96), "characters": row("own", 0.02)}},
    }
    text = draw({"sets": sets}, tmp_path)
    assert "| Shapes | **1.0 (0.0 to 100.0)** | 96.0 (0.0 to 100.0) |" in text
    assert "| Shapes+Texture | [30.0 (0.0 to 100.0)] | not measured |" in text
    alarms, noticed = "2.0 % (Reed's test characters shown to sprites)", "96.0 % (Shapes shown to sprites)"
    assert f"Most false alarms: {alarms}; the aim was at most 1 %, which 1 of 2 cells miss." in text
    assert f"Fewest foreign pictures noticed: {noticed}; the aim was at least 95 %, which 0 of 2 cells miss." in text
    line = headline({"sets": sets})
    assert line.ours == noticed and line.floor == f"{alarms} false alarms"
    sets["shapes"]["rows"]["noise"]["warned"] = 0.94
    assert "94.0 % (noise shown to shapes); the aim was at least 95 %, which 1 of 2 cells miss." in totals(
        {"sets": sets}
    )
    sets["sprites"]["rows"]["characters"]["warned"] = 0.01
    assert "at most 1 %, which 0 of 2 cells miss" in totals({"sets": sets})
