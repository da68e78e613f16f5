"""Trainings with and without the KL term, in small: every number by hand and of its own training; the claim by code."""

import json
import shlex
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from visual_dynamics.api import Model, load
from visual_dynamics.baselines import Copy
from visual_dynamics.data import shapes
from visual_dynamics.errors import UserError
from visual_dynamics.evaluation import trained_shapes
from visual_dynamics.evaluation.motion_tables import kl_tables
from visual_dynamics.evaluation.shapes import Enlarged, Extent
from visual_dynamics.evaluation.trained_shapes import measure_motion
from visual_dynamics.experiments import EXPERIMENTS, kl_term
from visual_dynamics.reporting.base import run_experiment
from visual_dynamics.reporting.trainings import TrainingsOptions
from visual_dynamics.sampling.latents import LatentSource, Prior
from visual_dynamics.sampling.moves import ModelSampler

CPU = torch.device("cpu")
SEED = 3
NAMES = [f"{method}-{size}{few}" for few in ("", "-few") for size in ("z8", "z200") for method in ("ours", "ae")]


@pytest.fixture(scope="module", autouse=True)
def smaller() -> Iterator[None]:
    patch = pytest.MonkeyPatch()
    few = {"pairs": 32, "batch": 8, "steps": 6, "warmup": 1, "kl_warmup": 2, "log_every": 1}
    patch.setattr(kl_term, "SMALL", few)
    patch.setattr(trained_shapes, "kl_tables", partial(kl_tables, draws=50))  # of 1,000
    for name, value in (("SMALL_FEW", 8), ("SMALL_HELD_OUT", 6), ("SMALL_IMAGES", 6), ("SMALL_SAMPLES", 12)):
        patch.setattr(kl_term, name, value)
    yield
    patch.undo()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kl-term") / "runs"


@pytest.fixture(scope="module")
def result(runs: Path) -> dict:
    options = TrainingsOptions(seed=SEED, small=True, runs=runs)
    return json.loads(json.dumps(kl_term.compute(options, CPU, lambda step, share: None).numbers))


def model_of(runs: Path, name: str) -> Model:
    return load(runs / name / "weights.safetensors")


def test_the_floor_is_one_set_of_true_futures_against_another() -> None:
    rows, floor = measure_motion({}, Extent(images=3, samples=12, seed=SEED), CPU, lambda step, share: None)
    assert rows == {} and len(floor) == 4
    assert min(value for value in floor.values() if value is not None) > 0.1  # the same set twice would give 0


def test_a_row_is_of_its_own_futures() -> None:
    """Objects that stand still are farther from the truth than other true futures are."""
    rows, floor = measure_motion({"copy": Copy()}, Extent(images=3, samples=300, seed=SEED), CPU, lambda *_: None)
    assert min(rows["copy"]["kl"].values()) > 5 > 1 > max(value for value in floor.values() if value is not None)


def test_ours_and_the_autoencoder_differ_in_the_kl_term_alone() -> None:
    planned = kl_term.plan_runs()
    assert list(planned) == [name.replace("z200", "z3200") for name in NAMES]
    for ours, theirs in kl_term.settings(list(planned)):
        assert ours.replace("ours", "ae") == theirs and not planned[ours].autoencoder
        assert planned[theirs] == replace(planned[ours], autoencoder=True)
    assert [config.pairs for config in planned.values()] == [None] * 4 + [500] * 4
    assert {config.steps for config in planned.values()} == {2_400}
    assert [config.network.latent for config in planned.values()] == [8, 8, 3200, 3200] * 2


@pytest.mark.parametrize("name", NAMES)
def test_every_row_is_of_its_own_training(name: str, result: dict, runs: Path) -> None:
    model, found = model_of(runs, name), result["runs"][name]
    network, autoencoder = model.predictor.network, name.startswith("ae")
    assert found["weights"] == model.weights.digest and found["autoencoder"] == autoencoder
    assert model.weights.training["config"]["autoencoder"] == autoencoder
    assert found["pairs"] == (8 if name.endswith("few") else 32) == found["posteriors"]
    assert shlex.split(found["command"])[2] == f"runs/kl-term/{name}"
    pairs = shapes.shapes_pairs(6, SEED, "test", "smooth", 16).batch(torch.arange(6))
    noise = torch.randn(6, network.config.latent, generator=torch.Generator().manual_seed(0))
    errors = []
    for before, after, drawn in zip(*pairs, noise, strict=True):
        mean, log_variance = model.predictor.encode(before, after)
        z = mean if autoencoder else mean + (log_variance / 2).exp() * drawn
        with torch.no_grad():
            moved = network.decode(network.encode_image(before[None]), network.kernel_decoder(z[None]), before[None])[0]
        errors.append(float((moved - (after - before)).square().sum()))
    assert found["held_out_error"] == pytest.approx(sum(errors) / 6, rel=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_codes_are_drawn_as_in_training_and_carried_to_other_scenes(name: str, result: dict, runs: Path) -> None:
    """One scene after the other: scene i gives the code, scene 10 + i is moved by it."""
    model, found = model_of(runs, name), result["runs"][name]["carried"]
    scenes = shapes.draw_scenes(20, SEED + 1, "test")
    noise = torch.randn(10, model.predictor.network.config.latent, generator=torch.Generator().manual_seed(0))
    sums = {"analogy": 0.0, "reconstruction": 0.0, "copy": 0.0}
    for place in range(10):
        source = scenes.subset([place])
        target = replace(scenes.subset([10 + place]), motions=source.motions)
        (before, after), (frame, truth) = (
            [shapes.images(s, moved, "smooth", 16)[0] / 255 for moved in (False, True)] for s in (source, target)
        )
        mean, log_variance = model.predictor.encode(before, after)
        z = mean if name.startswith("ae") else mean + (log_variance / 2).exp() * noise[place]
        for key, moved, true in (("analogy", frame, truth), ("reconstruction", before, after)):
            made = model.predictor.decode(model.predictor.encode_image(moved), z[None])[0]
            sums[key] += float((made - true).square().sum()) / 10
        sums["copy"] += float((frame - truth).square().sum()) / 10
    assert {key: found[key] for key in sums} == pytest.approx(sums, rel=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_motions_are_of_both_sources_of_the_row(name: str, result: dict, runs: Path) -> None:
    model, found = model_of(runs, name), result["runs"][name]["motion"]
    sources: dict[str, LatentSource] = {"posteriors": model.weights.posteriors, "prior": Prior(found_latent(model))}
    for source, z in sources.items():
        sampler = Enlarged(ModelSampler(model.predictor, z), 16)
        rows, floor = measure_motion({"it": sampler}, Extent(6, 12, SEED), CPU, lambda step, share: None)
        assert found[source] == json.loads(json.dumps(rows["it"])) and result["floor"] == floor


def found_latent(model: Model) -> int:
    return model.predictor.network.config.latent


def made_up(**better: list[int]) -> dict:
    """Four settings; numbers of ours are 1 in the settings that are named for a kind, else 3; those of the AE are 2."""

    def run(values: dict[str, float]) -> dict:
        def kl(value: float) -> dict:
            return {"kl": {"circles": value}, "kl_intervals": {"circles": [value - 0.1, value + 0.1]}}

        carried: dict = {key: values[key] for key in ("analogy", "reconstruction")}
        carried["intervals"] = {key: [value - 0.1, value + 0.1] for key, value in carried.items()}
        return {"motion": {key: kl(values[key]) for key in ("posteriors", "prior")}, "carried": carried}

    runs = {f"ae{n}": run(dict.fromkeys(kl_term.COMPARED, 2.0)) for n in range(4)}
    for n in range(4):
        runs[f"ours{n}"] = run({key: 1.0 if n in better[key] else 3.0 for key in kl_term.COMPARED})
    return {"runs": runs, "settings": [[f"ours{n}", f"ae{n}"] for n in range(4)], "columns": ["circles"]}


def test_the_claim_counts_numbers() -> None:
    given = made_up(posteriors=[0, 1], prior=[0, 1, 2, 3], analogy=[], reconstruction=[0, 1, 2])
    text = kl_term.claim(given)
    assert "with z from stored codes, as the paper draws it: of 4 numbers 2 better, 2 worse; codes carried" in text
    assert "codes carried to another scene: of 4 numbers 0 better, 4 worse; codes on" in text
    assert "codes on their own scene: of 4 numbers 3 better, 1 worse; motions" in text
    assert text.endswith("motions with z from N(0, I): of 4 numbers 4 better, 0 worse.")
    for n in range(4):  # intervals that overlap do not count
        given["runs"][f"ours{n}"]["motion"]["prior"]["kl_intervals"]["circles"] = [0.9, 1.95]
    assert "motions with z from N(0, I): of 4 numbers 0 better, 0 worse" in kl_term.claim(given)
    for n in range(4):  # what cannot be measured is worse than any number
        given["runs"][f"ae{n}"]["motion"]["prior"] = {"kl": {"circles": None}, "kl_intervals": {"circles": None}}
    assert "motions with z from N(0, I): of 4 numbers 4 better, 0 worse" in kl_term.claim(given)


def test_tables_come_from_the_json_alone(result: dict, tmp_path: Path) -> None:
    text, line = kl_term.draw(result, tmp_path), kl_term.headline(result)
    assert (
        text.count("| AE |") == text.count("| ours |") == 3 * 4 and "visual-dynamics train runs/kl-term/ae-z8 " in text
    )
    run = result["runs"]["ae-z200-few"]
    low, high = run["carried"]["intervals"]["analogy"]
    stored, drawn, errors = (row for row in text.splitlines() if row.startswith("| 200 | 8 | AE |"))
    for row, source in ((stored, "posteriors"), (drawn, "prior")):
        assert all(f"| {value:.3f} (" in row for value in run["motion"][source]["kl"].values())
    assert f"| AE | {run['carried']['analogy']:.2f} ({low:.2f} to {high:.2f}) |" in errors
    assert errors.endswith(f"| {run['held_out_error']:.2f} | {run['training_error']:.2f} |")
    assert "z of 8, 32 pairs; z of 200, 32 pairs; z of 8, 8 pairs; z of 200, 8 pairs" in line.measure
    first = result["runs"]["ours-z8"]["motion"]["prior"]["kl"]
    values = first.values()
    expected = "none" if None in values else f"{sum(values) / 4:.3f}"
    assert line.ours.split(", ")[1].startswith(expected) and line.paper.startswith("ours 1.9, AE 10.5 (by optical flow")


def test_the_command_measures_finished_trainings(result: dict, runs: Path, tmp_path: Path) -> None:
    given = {"small": True, "runs": runs, "seed": SEED}
    text = run_experiment(EXPERIMENTS, "kl-term", given, tmp_path / "out", CPU)
    made = json.loads((tmp_path / "out" / "kl-term.json").read_bytes())
    assert made["runs"] == result["runs"] and "### Trained with and without the KL term" in text
    assert "ours-z8 " in text.splitlines()[-1]  # weights of each run in the line of provenance


def test_days_on_a_cpu_are_not_begun() -> None:
    with pytest.raises(UserError, match="take days on a CPU: give --set runs=FOLDER"):
        kl_term.compute(TrainingsOptions(), CPU, lambda step, share: None)
