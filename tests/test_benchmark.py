"""The benchmark at tiny sizes: that it measures what it says, not how fast."""

import json
from pathlib import Path

import pytest
import torch

from benchmarks import everyday, processes, speed, time_to_quality
from tests.conftest import seeded
from visual_dynamics.api import load
from visual_dynamics.model.cross_convolution import by_groups
from visual_dynamics.weights import Weights

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def result(tiny_weights_file: Path) -> dict:
    plan = speed.Plan(
        model=tiny_weights_file,
        futures=7,
        rounds=2,
        passes=3,
        poses=tiny_weights_file,
        guide=tiny_weights_file,
        clips=(3, 2),
        animations=1,
        starts=1,
        preset="tiny",
        batches=(1, 2),
        repeats=2,
        training_batch=4,
        training_repeats=2,
    )
    said: list[str] = []
    measured = speed.compute(plan, CPU, said.append)
    assert said == ["futures of one image", "animations", "starts", "cross convolution", "training"]
    return json.loads(json.dumps(measured))


def test_futures_are_those_of_the_full_passes(result: dict) -> None:
    futures = result["futures"]
    assert futures["count"] == 7 and futures["compared"] == 6 and futures["size"] == 16
    assert futures["largest_pixel_difference"] < 1e-4
    assert set(futures["seconds"]) == {"predictor", "full passes", "predictor, conditional prior"}
    assert futures["times_faster"] == pytest.approx(
        futures["futures_per_second"] / futures["full_passes_per_second"], rel=1e-6
    )


def test_animations_of_both_forms_are_the_same(result: dict) -> None:
    animation = result["animation"]
    assert animation["frames"] == 5 and set(animation["seconds"]) == {"batched and folded", "plain"}
    assert animation["largest_pixel_difference"] <= 1


def test_starts_of_all_commands(result: dict) -> None:
    assert list(result["starts"]) == ["import torch", *everyday.COMMANDS]
    assert result["starts"]["eight futures"]["shortest"] > result["starts"]["--help"]["shortest"] > 0


def test_every_form_at_every_batch(result: dict) -> None:
    rows = result["cross_convolution"]
    assert [(row["batch"], row["pass"]) for row in rows] == [
        (1, "forward"),
        (1, "backward"),
        (2, "forward"),
        (2, "backward"),
    ]
    for row in rows:
        assert set(row["ratio"]) == {"groups", "shifts", "unfold", "loop"}
        assert min(row["ratio"].values()) == 1.0


def test_says_where_it_was_measured(result: dict) -> None:
    assert result["training"]["pairs_per_second"] > 0
    assert {"commit", "device", "torch", "python", "threads", "date", "seconds"} <= set(result)


def test_table_names_all_of_it(result: dict) -> None:
    text = speed.table(result)
    assert (
        "7 futures of one image" in text
        and "animate, 5 frames" in text
        and "| models |" in text
        and "forward, batch 2" in text
        and "Training (tiny, batch 4" in text
    )


@pytest.mark.parametrize("form", [speed.by_unfold, speed.by_loop])
def test_other_forms_of_the_cross_convolution_are_right(form: speed.Form) -> None:
    maps, kernels = seeded(3, 4, 8, 8), seeded(3, 4, 5, 5, seed=1)
    torch.testing.assert_close(form(maps, kernels), by_groups(maps, kernels))


def test_full_pass_is_the_network(tiny_weights: Weights) -> None:
    network, frame, z = tiny_weights.network.eval(), torch.rand(1, 3, 16, 16), seeded(1, 200)
    with torch.no_grad():
        difference = network.decode(network.encode_image(frame), network.kernel_decoder(z), frame)
        torch.testing.assert_close(speed.full_pass(network, frame, z), (frame + difference).clamp(0, 1))


def test_a_model_with_a_learned_prior_only(tiny_weights_file: Path, tmp_path: Path) -> None:
    load(tiny_weights_file).save_copy(tmp_path / "light.safetensors", learned_prior=True)
    plan = speed.Plan(futures=3, rounds=1, passes=2)
    assert speed.time_futures(load(tmp_path / "light.safetensors"), plan, CPU)["compared"] == 2


def test_plans() -> None:
    plan = speed.plan_for(CPU, quick=False)
    assert plan.rounds * plan.passes == plan.futures == 64
    assert speed.plan_for(CPU, quick=True).batches == (1, 8)
    assert speed.plan_for(torch.device("cuda"), quick=False).training_batch == 256


def test_efficiency_is_of_the_best_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    speeds = iter([10.0, 6.0, 8.0, 9.0])  # one process, two, one, two
    monkeypatch.setattr(processes, "pairs_per_second", lambda *_: next(speeds))
    assert processes.measure(rounds=2, steps=4) == {"one_process": 10, "two_processes": 9, "efficiency": 0.9}


def test_budgets_are_tried_by_size_until_one_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ["preset=tiny", "latent=8", "batch=4", "pairs=16", "posteriors=16"]
    words = ["--minutes", "0.004", "0.002", "--images", "4", "--samples", "8", "--device", "cpu"]
    words += [word for setting in settings for word in ("--set", setting)]

    def found(*more: str) -> dict:
        monkeypatch.setattr("sys.argv", ["time_to_quality", *words, *more, "--out", str(tmp_path / "out.json")])
        time_to_quality.main()
        return json.loads((tmp_path / "out.json").read_text())

    enough = found("--limit", "1000")
    assert enough["reached"] and [one["minutes"] for one in enough["tried"]] == [0.002]
    assert enough["tried"][0]["pairs"] == 4 * enough["tried"][0]["steps"] > 0 and enough["commit"]
    never = found("--limit", "0")
    assert not never["reached"] and [one["minutes"] for one in never["tried"]] == [0.002, 0.004]
    assert "not within 0.004 minutes" in capsys.readouterr().out


def test_a_column_without_objects_is_not_good() -> None:
    assert time_to_quality.is_good({"circle": 0.05, "square": 0.01}, 0.05)
    assert not time_to_quality.is_good({"circle": 0.051, "square": 0.01}, 0.05)
    assert not time_to_quality.is_good({"circle": None, "square": 0.01}, 0.05)
