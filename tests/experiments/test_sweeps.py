"""The sweeps in small: what is missing is trained, what is there is measured; plots and tables from the JSON alone."""

import json
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import typer
from PIL import Image

from visual_dynamics.api import load
from visual_dynamics.cli.main import app
from visual_dynamics.data import shapes
from visual_dynamics.errors import UserError
from visual_dynamics.evaluation import trained_shapes
from visual_dynamics.evaluation.motion_tables import Motions, kl_tables
from visual_dynamics.evaluation.shapes import Extent
from visual_dynamics.evaluation.trained_shapes import compare, measure_motion, sampler_of
from visual_dynamics.experiments import EXPERIMENTS, latents, sweeps
from visual_dynamics.experiments.sweeps import plan_runs
from visual_dynamics.reporting.base import run_experiment
from visual_dynamics.reporting.trainings import TrainingsOptions, describe, training_command
from visual_dynamics.training.config import TrainingConfig, configure, parse_settings
from visual_dynamics.training.loop import train
from visual_dynamics.weights import load_weights

CPU = torch.device("cpu")
RESULTS = Path(__file__).parents[2] / "docs" / "results"
SEED = 3
NAMES = ["z8", "z32", "z200-even", "z200", "z200-kl0.02", "z200-kl0.08", "z200-kl1.28"]
LEARNED = ("curve", "training_error", "held_out_error", "non_zero", "components", "nats_in_all", "z_mean", "kl")


@pytest.fixture(scope="module", autouse=True)
def smaller() -> Iterator[None]:
    patch = pytest.MonkeyPatch()
    few = {"pairs": 32, "batch": 8, "steps": 6, "warmup": 1, "kl_warmup": 2, "log_every": 1}
    patch.setattr(sweeps, "SMALL", few)
    patch.setattr(trained_shapes, "kl_tables", partial(kl_tables, draws=50))  # of 1,000
    for name, value in (
        ("SMALL_PAIRS", 20),
        ("HELD_OUT", 10),
        ("SMALL_IMAGES", 6),
        ("SMALL_SAMPLES", 12),
    ):
        patch.setattr(sweeps, name, value)
    yield
    patch.undo()


def make(runs: Path, seed: int = SEED) -> tuple[dict, list[str]]:
    """The result, and the steps that progress reported."""
    steps: list[str] = []
    options = TrainingsOptions(seed=seed, small=True, runs=runs)
    made = sweeps.compute(options, CPU, lambda step, share: steps.append(step))
    return json.loads(json.dumps(made.numbers)), steps


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sweeps") / "runs"


@pytest.fixture(scope="module")
def result(runs: Path) -> dict:
    made, steps = make(runs)
    assert {what for what in steps if what.startswith("train ")} == {f"train {name}" for name in NAMES}
    return made


def test_every_training_is_measured(result: dict) -> None:
    assert list(result["runs"]) == NAMES
    assert result["sizes"] == NAMES[:4] and result["kl_weights"] == [*NAMES[4:6], "z200", NAMES[6]]
    assert [run["latent"] for run in result["runs"].values()] == [8, 32, 200, 200, 200, 200, 200]
    assert [result["runs"][name]["kl_weight"] for name in result["kl_weights"]] == [0.02, 0.08, 0.32, 1.28]
    for name, run in result["runs"].items():
        assert run["model"] == name and len(run["weights"]) == 64 and run["posteriors"] == 32
        assert run["steps"] == 6 and run["curve"]["step"] == [1, 2, 3, 4, 5, 6] and run["seconds"] >= 0
        assert set(run["kl"]) == set(result["floor"]) == set(result["columns"])
        assert len(run["z_mean"]["centre"]) == len(run["z_logvar"]["deviation"]) == run["latent"]
        assert run["training_error"] == run["curve"]["squared_error"][-1]
    assert result["copy_error"] > 0 and result["protocol"]["samples"] == 12


@pytest.mark.parametrize("name", NAMES)
def test_every_number_is_of_its_own_training(name: str, result: dict, runs: Path) -> None:
    """Errors and counts by hand; the motion once more, of this training alone."""
    model = load(runs / name / "weights.safetensors")
    network, found = model.predictor.network, result["runs"][name]
    assert found["weights"] == model.weights.digest and model.weights.training["config"]["beta"] == found["bottleneck"]
    pairs = shapes.shapes_pairs(20, SEED, "test", "smooth", 16)
    errors = []
    noise = torch.randn(10, network.config.latent, generator=torch.Generator().manual_seed(0))
    for before, after, drawn in zip(*pairs.batch(torch.arange(10)), noise, strict=True):
        kernels = network.kernel_decoder(model.predictor.encode(before, after).sample(drawn)[None])
        moved = network.decode(network.encode_image(before[None]), kernels, before[None])[0]
        errors.append(float((moved - (after - before)).square().sum()))
    assert found["held_out_error"] == pytest.approx(np.mean(errors), rel=1e-3)
    whole = latents.measure(model, name, pairs, lambda share: None)
    assert all(found[key] == whole[key] for key in ("components", "non_zero", "active"))
    np.testing.assert_allclose(np.array(found["z_logvar"]["centre"]) / 100, whole["z_logvar"]["centre"], atol=0.0051)
    log = [json.loads(line) for line in (runs / name / "log.jsonl").read_text().splitlines()]
    assert found["training_error"] == pytest.approx(log[-2]["squared_error"], rel=1e-3)  # the last line is held out
    rows, _ = measure_motion({"it": sampler_of(model)}, Extent(6, 12, SEED), CPU, lambda step, share: None)
    assert found["kl"] == rows["it"]["kl"] and found["measured_shares"] == rows["it"]["measured_shares"]


def test_what_is_there_is_only_measured(result: dict, runs: Path) -> None:
    before = {path: path.read_bytes() for path in runs.rglob("*") if path.is_file()}
    again, steps = make(runs)
    assert steps and not [what for what in steps if what.startswith("train ")]
    assert {path: path.read_bytes() for path in runs.rglob("*") if path.is_file()} == before
    assert again["runs"] == result["runs"] and again["floor"] == result["floor"]


def test_an_interrupted_training_is_resumed(result: dict, runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("z32", "state.safetensors"))
    steps: list[int] = []
    config = replace(plan_runs(SEED, small=True)[0]["z32"], checkpoint_every=2)  # no other training for that

    def stop() -> bool:
        steps.append(1)
        return len(steps) == 3

    train(config, tmp_path / "z32", CPU, asked_to_stop=stop)
    assert len(steps) == 3
    early = (tmp_path / "z32" / "weights.safetensors").read_bytes()
    resumed, reported = make(tmp_path)
    assert {what for what in reported if what.startswith("train ")} == {"train z32"}
    for name in LEARNED:
        assert resumed["runs"]["z32"][name] == result["runs"]["z32"][name], name
    assert load_weights(tmp_path / "z32" / "weights.safetensors").training["step"] == config.steps
    (tmp_path / "z32" / "weights.safetensors").write_bytes(early)  # as if it broke off before it wrote the last ones
    make(tmp_path)
    assert load_weights(tmp_path / "z32" / "weights.safetensors").training["step"] == config.steps


def test_another_training_is_an_error(result: dict, runs: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="z8 holds another training: its seed is 3, here it is 4") as error:
        make(runs, seed=4)
    assert "\n" not in str(error.value)
    shutil.copytree(runs / "z8", tmp_path / "z200-kl1.28")
    with pytest.raises(UserError, match=r"kl1.28 holds another training: its latent is 8, here it is 200$"):
        make(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["z200-kl1.28"]  # reported before the others are trained


def test_a_training_without_its_log_is_an_error(result: dict, runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("state.safetensors"))
    (tmp_path / "z8" / "log.jsonl").unlink()
    with pytest.raises(UserError, match=r"cannot read .*log.jsonl: No such file"):
        make(tmp_path)


def test_a_file_in_the_place_of_the_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="file is a file; results need a folder"):
        run_experiment(EXPERIMENTS, "sweeps", {"runs": tmp_path / "file"}, tmp_path / "out", CPU)


def test_days_on_a_cpu_are_not_begun() -> None:
    with pytest.raises(UserError, match="take days on a CPU: give --set runs=FOLDER"):
        sweeps.compute(TrainingsOptions(), CPU, lambda step, share: None)


def test_the_commands_make_the_planned_trainings() -> None:
    runs, sizes, weights = plan_runs()
    assert list(runs) == ["z8", "z32", "z128-even", "z128", "z3200", "z3200-kl0.02", "z3200-kl0.08", "z3200-kl1.28"]
    assert sizes == list(runs)[:5] and weights == [*list(runs)[5:7], "z3200", "z3200-kl1.28"]
    assert runs["z128"] == replace(runs["z128-even"], latent_scale=True)
    assert [name for name in sizes if runs[name].latent_scale] == ["z128", "z3200"]
    command = typer.main.get_command(app).commands["train"]  # type: ignore[attr-defined]
    for name, config in [*runs.items(), *plan_runs(5, small=True)[0].items()]:
        words = shlex.split(training_command(f"runs/{name}", config))
        assert words[:3] == ["visual-dynamics", "train", f"runs/{name}"]
        params = command.make_context("train", words[2:]).params
        given = {
            field.name: params[field.name]
            for field in fields(TrainingConfig)
            if params.get(field.name) not in (None, ())
        }
        assert configure(given | parse_settings(params["settings"] or [])) == config
        assert config.rendering == "smooth" and config.augment == ("permute-channels",) and config.data == "shapes"
    assert {config.steps for config in runs.values()} == {3_000}


def test_a_long_log_makes_a_short_curve() -> None:
    log = [{"step": n, "squared_error": 1000 / n, "kl": 12.34567, "seconds": 2.0 * n} for n in range(1, 201)]
    made = describe("runs/z8", TrainingConfig(batch=4), log)
    found = made["curve"]
    assert len(found["step"]) == 80 and found["step"][0] == 1 and found["step"][-1] == 200
    assert len(set(found["step"])) == 80 and set(found["kl"]) == {12.35}
    assert made["training_error"] == pytest.approx(np.mean([1000 / n for n in range(181, 201)]), rel=1e-3)
    assert made["seconds"] == 400 and made["pairs_per_second"] == pytest.approx(199 * 4 / 400)


def test_motion_that_cannot_be_measured_is_none() -> None:
    truth = torch.randn(9, 3, 2, generator=torch.Generator().manual_seed(0))
    assert all(value < 0.01 for value in compare(Motions(truth), Motions(truth))["kl"].values())
    moved = truth.clone()
    moved[:, 2] = torch.nan
    found = compare(Motions(truth), Motions(moved))
    assert set(found["kl"].values()) == {None} and found["measured_shares"]["triangles"] == 0


def test_tables_and_figures_come_from_the_json_alone(result: dict, tmp_path: Path) -> None:
    text = sweeps.draw(result, tmp_path)
    assert text.count("| 0.08 | 4 |") == 1 and f"| 8 | 3 | **{result['runs']['z8']['components']}** |" in text
    assert "visual-dynamics train runs/sweeps/z200-kl0.08 --preset tiny --pairs" in text
    for name in ("sweeps_lambda", "sweeps_size"):
        assert Image.open(tmp_path / f"{name}.png").width > 600
        assert (tmp_path / f"{name}.png").stat().st_size < 150_000


def test_headline(result: dict) -> None:
    line = sweeps.headline(result)
    assert line.measure.endswith("with a z of 8 / 32 / 200 even / 200 scaled, beta 16; one training each")
    assert line.paper == "3 / 3 / no number / no number"
    assert line.ours == " / ".join(str(result["runs"][name]["components"]) for name in NAMES[:4])


def test_a_training_that_an_older_result_lacks_is_said_to_be_missing(tmp_path: Path) -> None:
    older = json.loads((RESULTS / "sweeps.json").read_bytes())
    older["sizes"] = [name for name in older["sizes"] if name != "z128-even"]
    older["runs"].pop("z128-even", None)
    line, text = sweeps.headline(older), sweeps.draw(older, tmp_path)
    assert "8 / 32 / 128 even / 128 scaled / 3,200 scaled" in line.measure and line.paper == "3 / 3 / 3 / 3 / 5"
    assert line.ours.split(" / ")[2] == "not measured" and line.ours.count("not measured") == 1
    assert (
        "| 128 even | 3 | **not measured** |" in text
        and f"| 128 scaled | 3 | **{older['runs']['z128']['components']}** |" in text
    )


def test_without_a_folder_nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "SMALL_SIZES", {"z200": {"preset": "tiny", "latent": 200}})
    monkeypatch.setattr(sweeps, "BETAS", (1.0, 16.0))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    text = run_experiment(EXPERIMENTS, "sweeps", {"small": True}, tmp_path / "out", CPU)
    assert text.startswith("**Small setting") and not list((tmp_path / "temporary").iterdir())
    found = json.loads((tmp_path / "out" / "sweeps.json").read_bytes())
    assert found["small"] and list(found["runs"]) == ["z200", "z200-kl0.02"]


def test_the_early_error_is_that_of_a_third_to_a_half_of_the_way() -> None:
    assert sweeps.early_error({"curve": {"squared_error": [9.0, 8.0, 7.0, 6.0, 4.0, 3.0, 2.0, 1.0, 1.0, 1.0]}}) == 5.0
