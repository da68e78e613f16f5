"""The experiment poke: its columns, its rows on banks of futures whose law is known, and all of it on few futures."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from visual_dynamics.evaluation.motion_distribution import columns
from visual_dynamics.experiments import poke
from visual_dynamics.experiments.poke import Bank, answers, asked_and_answered, find_targets, numbers_of

CPU = torch.device("cpu")


def bank(count: int, seed: int, tied: bool = True) -> Bank:
    """The law of Shapes, or a triangle that goes its own way."""
    down, other = 10 * torch.rand(2, count, generator=torch.Generator().manual_seed(seed)) - 5
    along = down if tied else other
    return Bank(torch.stack([torch.zeros(count), down], 1), torch.stack([along, -along], 1))


def rows_of(made: Bank, seed: int) -> tuple[Tensor, list[float]]:
    asked = bank(1_000, 99).circle[:, 1]
    found, widths = answers(made, asked, seed)
    return asked_and_answered(asked, found), widths


def test_columns_are_what_was_asked_and_one_axis_of_the_answer() -> None:
    found = columns(asked_and_answered(torch.tensor([3.0]), torch.tensor([[1.0, -2.0]])))
    assert found["circles_triangles"].tolist() == [[3.0, 1.0]] and found["squares"].tolist() == [[3.0, -2.0]]


def test_a_model_of_the_law_is_near_it_and_one_without_is_far() -> None:
    law, loose = bank(4_000, 0), bank(4_000, 0, tied=False)
    ours, widths = rows_of(law, 1)
    rows = {"ours": ours, "free": rows_of(loose, 2)[0], "floor": rows_of(bank(4_000, 4), 5)[0]}
    rows |= {"poked": rows_of(bank(4_000, 6), 7)[0], "exact": asked_and_answered(law.circle[:, 1], law.triangle[:])}
    numbers = numbers_of({name: [values] for name, values in rows.items()}, widths, torch.zeros(5), 4_000)
    assert numbers["rows"]["ours"]["poked"]["circles_triangles"] < 0.2 < numbers["rows"]["ours"]["exact"]["squares"]
    assert abs(numbers["rows"]["ours"]["poked"]["squares"] - numbers["rows"]["floor"]["poked"]["squares"]) < 0.1
    assert numbers["rows"]["free"]["poked"]["circles_triangles"] > 2
    assert numbers["answered"]["ours"] > 0.99 and sum(numbers["widths"].values()) == pytest.approx(1)
    assert {*widths} == {1 / 8}


def test_a_poke_that_nothing_answers_is_missing() -> None:
    found, widths = answers(bank(500, 0), torch.tensor([0.0, 9.0]), 0)
    assert found[0].isfinite().all() and found[1].isnan().all() and len(widths) == 1


def test_images_show_the_circle_where_it_is_poked() -> None:
    targets = find_targets(4, 0)
    assert len(targets) == 4
    for target in targets:
        x, y = target.place
        assert target.masks[poke.CIRCLE, int(y), int(x)] == 1
        assert target.masks[poke.TRIANGLE].sum() >= poke.LEAST_TRIANGLE


def test_few_futures_of_the_shipped_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"SMALL_IMAGES": 1, "SMALL_POKES": 8, "SMALL_CODES": 24}.items():
        monkeypatch.setattr(poke, name, value)
    drawn: list[Bank] = []
    sampled: list[Bank] = []
    rows: list[dict[str, list[Tensor]]] = []
    true_bank, sampled_bank = poke.true_bank, poke.sampled_bank

    def kept_rows(found: dict[str, list[Tensor]], *given: Any) -> Any:
        rows.append(dict(found))
        return numbers_of(found, *given)

    def kept_samples(*given: Any) -> Any:
        found = sampled_bank(*given)
        sampled.append(found[1])
        return found

    def kept(*given: Any) -> Any:
        found = true_bank(*given)
        drawn.append(found[1])
        return found

    monkeypatch.setattr(poke, "true_bank", kept)
    monkeypatch.setattr(poke, "sampled_bank", kept_samples)
    monkeypatch.setattr(poke, "numbers_of", kept_rows)
    made = poke.compute(poke.PokeOptions(small=True), CPU, lambda step, share: None)
    truth, floor = drawn  # the floor is not the truth itself
    assert not torch.equal(truth.circle.nan_to_num(), floor.circle.nan_to_num())
    assert torch.equal(rows[0]["free"][0][:, poke.TRIANGLE], sampled[0].triangle[:8])  # ours, whatever is asked
    assert set(made.pictures) == {"poke_futures.png"}
    result = json.loads(json.dumps(made.numbers))
    assert result["protocol"] | {"epsilon": 0} == {
        "images": 1, "pokes": 8, "truths": {"poked": 8, "exact": 24}, "codes": 24, "epsilon": 0, "range": 5.0,
    }  # fmt: skip
    assert result["matching"]["median"] < 0.1 and result["matching"]["known"] == 1
    text = poke.draw(result, tmp_path)
    assert "| **ours, 24 codes** |" in text and "| ours, 6 codes |" in text and (tmp_path / "poke.png").exists()
    assert "(floor)" in poke.headline(result).floor
