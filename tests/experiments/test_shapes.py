"""The Shapes experiment in small: the whole path from a model to a table, and figures from the JSON alone."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch import Tensor

from visual_dynamics import api
from visual_dynamics.api import load
from visual_dynamics.baselines import FlowTransfer, FutureSampler
from visual_dynamics.data import shapes
from visual_dynamics.errors import UserError
from visual_dynamics.evaluation.codes import StoredMeans
from visual_dynamics.evaluation.motion_tables import kl_tables
from visual_dynamics.evaluation.shapes import ShapeImages, generated_images
from visual_dynamics.experiments import shapes as experiment
from visual_dynamics.experiments.shapes import (
    COLUMNS,
    EXPERIMENT,
    MEANS,
    ShapesOptions,
    compute,
    draw,
    headline,
    histograms,
    kl_table,
    over_seeds,
)
from visual_dynamics.model_files import find_weights
from visual_dynamics.reporting.base import _check_models, run_experiment
from visual_dynamics.reporting.compared_models import analogies_table, claim, models_table
from visual_dynamics.sampling.latents import LearnedPrior, Prior, TrainingPosteriors, fit_prior
from visual_dynamics.sampling.moves import ModelSampler

CPU = torch.device("cpu")
OURS = ["ours, z from N(0, I)", "ours, z from the learned prior", "ours"]
WHOLE = "AE (trained on sub-pixel places)"


def first_posteriors(stored: TrainingPosteriors, count: int) -> TrainingPosteriors:
    """The first ones: a mixture of these is fitted at once."""
    return replace(stored, mean=stored.mean[:count], log_variance=stored.log_variance[:count])


@pytest.fixture(scope="module")
def result(measured: tuple[dict, list]) -> dict:
    return measured[0]


@pytest.fixture(scope="module")
def sampled(measured: tuple[dict, list]) -> list[tuple[str, FutureSampler, ShapeImages, Tensor]]:
    """What each row was made with: its name and set, its method, the images, the displacements."""
    return measured[1]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, list]:
    sampled: list[tuple[str, FutureSampler, ShapeImages, Tensor]] = []
    folder = tmp_path_factory.mktemp("pairs")
    pairs = shapes.shapes_pairs(12, seed=3, split="test", size=128)
    for number, (frame, following) in enumerate(zip(pairs.frames, pairs.next_frames, strict=True), 1):
        for name, picture in (("im1", frame), ("im2", following)):
            Image.fromarray(picture.permute(1, 2, 0).numpy()).save(folder / f"{number}_{name}.png")
    original = experiment.sampled_motions

    def spy(
        sampler: FutureSampler, images: ShapeImages, each: int, seed: int, progress: Callable[[float], object]
    ) -> Tensor:
        found = original(sampler, images, each, seed, progress)
        sampled.append((progress.args[0], sampler, images, found))  # type: ignore[attr-defined]
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiment, "FLOW_SCENES", 50)
        patch.setattr(experiment, "IMAGES", 2)
        patch.setattr(experiment, "ANALOGIES", 2)
        patch.setattr(experiment, "TRUTHS", 5)
        patch.setattr(api, "fit_prior", lambda stored: fit_prior(first_posteriors(stored, 100)))
        patch.setattr(experiment, "sampled_motions", spy)
        patch.setattr(experiment, "kl_tables", partial(kl_tables, draws=50))  # of 1,000
        options = ShapesOptions(samples=6, pairs=folder, seeds="shapes-texture")
        made = compute(options, CPU, lambda step, share: None).numbers
    return json.loads(json.dumps(made)), sampled


def test_every_row_and_column_is_there(result: dict) -> None:
    autoencoder = ["AE", "AE, z from the learned prior", "AE, z from N(0, I)"]
    generated = ["copy", "Flow", *autoencoder, *OURS, "ours, further model 1", "floor"]
    whole = ["copy", "Flow", WHOLE, *OURS, MEANS, "floor"]
    assert not EXPERIMENT.is_older(result)
    for name, rows in (("generated", generated), ("whole_pixels", whole), ("authors", whole)):
        assert list(result["sets"][name]["rows"]) == rows
        for row in result["sets"][name]["rows"].values():
            assert set(row) == {*COLUMNS, "intervals"} and set(row["intervals"]) == set(COLUMNS)
            for column in COLUMNS:
                low, high = row["intervals"][column]
                assert 0 <= low <= row[column] <= high


def test_bins_around_the_grid_measure_the_same_motions(
    result: dict, sampled: list[tuple[str, FutureSampler, ShapeImages, Tensor]]
) -> None:
    assert "on_grid" not in result["sets"]["generated"]
    for name, words in (("whole_pixels", "(integer)"), ("authors", "pairs)")):
        rows = result["sets"][name]["on_grid"]
        assert list(rows) == ["ours", MEANS, "floor"]
        moves = {row: found for row, _, _, found in sampled if row.endswith(words)}
        ours, means = (
            next(found for row, found in moves.items() if row.startswith(f"{own} (")) for own in rows if own != "floor"
        )
        assert not torch.equal(ours, means)
        assert rows["ours"] != result["sets"][name]["rows"]["ours"]


def test_the_floor_has_the_sizes_of_the_rows_and_is_not_the_truth_itself(
    result: dict, sampled: list[tuple[str, FutureSampler, ShapeImages, Tensor]]
) -> None:
    for name, truths in (("generated", 10), ("whole_pixels", 10), ("authors", 12)):
        found, words = result["sets"][name], {"generated": "(smooth)", "whole_pixels": "(integer)"}.get(name, "pairs)")
        counts = {len(moves) for row, _, _, moves in sampled if row.endswith(words)}
        assert counts == {found["samples"]} == {found["sizes"]["floor"]} == {6}
        assert found["sizes"]["truth"] == found["sizes"]["floor_truth"] == truths
        assert min(found["rows"]["floor"][column] for column in COLUMNS) > 0.1


def test_each_row_is_made_by_its_own_model(sampled: list[tuple[str, FutureSampler, ShapeImages, Tensor]]) -> None:
    names = {"ours": "shapes", "AE": "shapes-ae", "integer": "shapes-integer", "further": "shapes-texture"}
    kernels = {name: load(model).predictor.network.kernel_decoder.state_dict() for name, model in names.items()}
    seen = set()
    for row, sampler, _, _ in sampled:
        if isinstance(sampler, ModelSampler):
            own = sampler.predictor.network.kernel_decoder.state_dict()
            found = next(n for n, state in kernels.items() if all(torch.equal(own[key], state[key]) for key in state))
            ours = "further" if "further" in row else "ours" if row.endswith("(smooth)") else "integer"
            assert found == ("AE" if row.startswith("AE") else ours), row
            seen.add(found)
    assert seen == set(names)


def test_each_row_draws_z_from_the_source_it_names(
    sampled: list[tuple[str, FutureSampler, ShapeImages, Tensor]],
) -> None:
    named = {"z from N(0, I)": Prior, "z from the learned prior": LearnedPrior, "means of stored codes": StoredMeans}
    seen = set()
    for row, sampler, _, _ in sampled:
        if isinstance(sampler, ModelSampler):
            expected = next((kind for words, kind in named.items() if words in row), TrainingPosteriors)
            assert type(sampler.source) is expected, row
            seen.add(expected)
    assert seen == {*named.values(), TrainingPosteriors}


def test_flow_knows_training_scenes_only(sampled: list[tuple[str, FutureSampler, ShapeImages, Tensor]]) -> None:
    flows = [(sampler, images) for _, sampler, images, _ in sampled if isinstance(sampler, FlowTransfer)]
    assert len(flows) == 3
    for rendering in ("smooth", "integer"):
        training = {bytes(frame.numpy()) for frame in shapes.shapes_pairs(50, 0, "train", rendering).frames}
        known = next(f for f, _ in flows if bytes(f.pairs.frames[0].numpy()) in training).pairs.frames
        assert {bytes(frame.numpy()) for frame in known} == training
    for sampler, images in flows:
        tests = {bytes(frame.numpy()) for frame in (images.frames * 255).round().byte()}
        assert not tests & {bytes(frame.numpy()) for frame in sampler.pairs.frames}


def test_all_rows_of_a_set_are_made_of_the_same_test_images(
    sampled: list[tuple[str, FutureSampler, ShapeImages, Tensor]],
) -> None:
    expected = generated_images(2, "smooth", 0, CPU)[1].frames
    for row, _, images, _ in sampled:
        if row.endswith("(smooth)"):
            assert torch.equal(images.frames, expected)


def test_what_the_models_store(result: dict) -> None:
    found = result["models"]
    assert list(found) == ["ours", "ours, further model 1", "ours, whole pixels", "AE"]
    for name, model in (("ours", "shapes"), ("ours, further model 1", "shapes-texture")):
        weights = load(model).weights
        assert found[name]["weights"] == weights.digest
        least = weights.posteriors.posterior(torch.arange(len(weights.posteriors))).log_variance.amin(0)
        assert found[name]["least_log_variance"] == pytest.approx(least.tolist(), abs=1e-3)
        assert found[name]["at_bound"] == int((least == -20).sum())


def test_a_code_moves_its_own_scene_and_another(result: dict) -> None:
    for found in result["analogies"].values():
        assert 0 < found["reconstruction"] < found["copy"] / 2
        assert 0 < found["analogy"] < found["copy"] / 2
    assert {"ours", "AE"} <= set(result["analogies"])
    assert result["analogies"]["ours"]["reconstruction"] != result["analogies"]["AE"]["reconstruction"]


def test_figures_come_from_the_json_alone(result: dict, tmp_path: Path) -> None:
    text = draw(result, tmp_path)
    assert "| **ours** |" in text and "| ours, paper | 1.70 | 2.48 | 1.14 | 2.46 |" in text and "floor" in text
    assert f"{result['models']['ours']['at_bound']} of 8 |" in text and "The paper claims" in text
    steps = [load(name).weights.training["step"] for name in ("shapes", "shapes-ae")]
    assert f"{steps[0]:,} and {steps[1]:,} steps" in text and "| its codes are points |" in text
    assert "6 samples on the first 2 of the authors' pairs, against 12 true motions, as in the floor" in text
    assert "| ours, mean (range) of 2 training seeds |" in text and "| floor (truth against truth) |" in text
    assert Image.open(tmp_path / "shapes_generated.png").size[0] > 800


def row(value: float, half: float = 0.01) -> dict:
    return dict.fromkeys(COLUMNS, value) | {"intervals": {c: [value - half, value + half] for c in COLUMNS}}


def test_each_plot_shows_the_motions_of_its_own_shape() -> None:
    """Bins are 0.25 pixels wide, and number 20 is around 0; the tied motions are the circle's dy, the triangle's dx."""
    motions = torch.tensor([[[0.0, 1.0], [2.0, 0.0], [-1.0, -2.0]]])
    found = histograms(motions.expand(3, -1, -1))
    bins = {name: torch.tensor(values).nonzero().tolist() for name, values in found.items()}
    expected = {"circles": [20, 24], "squares": [28, 20], "triangles": [16, 12], "circles_triangles": [24, 16]}
    assert bins == {name: [place] for name, place in expected.items()}


def test_mean_and_range_over_seeds() -> None:
    found = over_seeds([row(0.1), row(0.2), row(0.6)])
    assert found["models"] == 3 and found["mean"]["circles"] == pytest.approx(0.3)
    assert found["range"]["circles"] == [0.1, 0.6]
    shown = {"sets": {"generated": {"rows": {"ours": row(0.1), "floor": row(0.05)}}}, "columns": COLUMNS, "paper": {}}
    lines = kl_table(shown | {"over_seeds": found}, "generated").splitlines()
    assert lines[-2].startswith("| ours, mean (range) of 3 training seeds | 0.300 (0.100 to 0.600) |")
    assert lines[-1].startswith("| floor (truth against truth) | 0.050 (0.040 to 0.060) |")


def described(steps: int | None, at_bound: int = 0) -> dict:
    return {"steps": steps, "at_bound": at_bound, "least_log_variance": [-20.0] * at_bound + [-3.0] * (8 - at_bound)}


def said(autoencoder: dict, normal: dict, **models: dict) -> str:
    rows = {"ours": row(0.1), "AE": autoencoder, "ours, z from N(0, I)": row(1.0), "AE, z from N(0, I)": normal}
    paper = {name: experiment.PAPER[name] for name in ("ours", "AE")}
    return claim({"sets": {"generated": {"rows": rows}}, "columns": COLUMNS, "paper": paper, "models": models})


def test_the_sentence_on_the_claim_follows_the_numbers() -> None:
    half = row(0.1) | {"circles": 0.3, "intervals": row(0.1)["intervals"] | {"circles": [0.29, 0.31]}}
    words = said(half, row(9.0))
    assert "its AE is 7.1 to 9.9 nats above" in words  # 8.76 - 1.70 and 12.37 - 2.48
    assert "stored codes: ours lower in 1 of 4 columns, the AE in 0 (largest difference, AE - ours, +0.200 nat" in words
    assert "N(0, I): ours lower in 4 of 4 columns, the AE in 0 (largest difference, AE - ours, +8.000 nats)" in words
    assert "codes: ours lower in 0 of 4 columns, the AE in 4 (largest difference, AE - ours, -0.08" in said(
        row(0.02), row(1)
    )


def test_only_models_trained_alike_test_the_claim_of_the_paper() -> None:
    alike = said(row(0.1), row(1), ours=described(900), AE=described(900))
    assert "Both were trained for 900 steps." in alike and "do not test" not in alike
    assert "Both were trained for 3,062 and 3,063 steps." in said(
        row(0.1), row(1), ours=described(3062), AE=described(3063)
    )
    apart = said(row(0.1), row(1), ours=described(9414), AE=described(1566))
    assert "training: ours 9,414, the AE 1,566; so these rows do not test the paper's claim." in apart
    for models in ({}, {"ours": described(900)}, {"ours": described(None), "AE": described(None)}):
        assert "training: not known of both; so these rows do not test the paper's claim." in said(
            row(1), row(1), **models
        )


def test_codes_without_noise_are_named_on_both_sides() -> None:
    assert "Of ours 3 of 8 dimensions have stored codes without noise" in said(row(1), row(1), ours=described(9, 3))
    assert "The stored codes of ours have noise in every dimension." in said(row(1), row(1), ours=described(9))


def test_the_headline_shows_each_set_with_its_own_floor() -> None:
    def rows(ours: float, floor: float) -> dict:
        return {"rows": {"ours": row(ours, 0), "ours, z from N(0, I)": row(8.0, 0), "floor": row(floor, 0)}}

    result = {"sets": {"generated": rows(0.1, 0.05)}, "columns": COLUMNS, "paper": experiment.PAPER}
    line = headline(result)
    assert line.ours.startswith("generated test images: 0.100 (") and "pairs" not in line.ours + line.floor
    assert "; generated test images, z from N(0, I): 8.000 (8.000 to 8.000) / " in line.ours
    result["sets"]["authors"] = rows(0.3, 0.2)
    line = headline(result | {"over_seeds": over_seeds([row(0.1), row(0.3)])})
    order = [
        "generated test images: 0.100",
        "2 training seeds, mean and range: 0.200 (0.100",
        "the authors' pairs: 0.3",
    ]
    assert [words.startswith(start) for words, start in zip(line.ours.split("; "), order, strict=False)] == [True] * 3
    assert [words[:32] for words in line.floor.split("; ")] == [
        "generated test images: 0.050 (0.",
        "the authors' pairs: 0.200 (0.200",
    ]
    assert "| floor (truth against truth) | 0.200 (" in kl_table(result, "authors")


def test_the_codes_of_an_autoencoder_are_points() -> None:
    made = {"weights": "0" * 64, "training_seed": 0, "training_commit": "0" * 40}
    found = {
        "ours": described(5, 3) | made | {"autoencoder": False},
        "AE": described(5, 8) | made | {"autoencoder": True},
    }
    first, second = models_table(found).splitlines()[2:]
    assert first.endswith("| 3 of 8 |") and second.endswith("| its codes are points |")


@pytest.mark.parametrize(("theirs", "verdict"), [(5.0, "lower than"), (1.0, "higher than"), (3.0, "not clearly")])
def test_the_verdict_on_carried_codes_follows_the_numbers(theirs: float, verdict: str) -> None:
    def errors(value: float) -> dict:
        names = ("analogy", "reconstruction", "copy")
        return dict.fromkeys(names, value) | {"intervals": {name: [value - 0.5, value + 0.5] for name in names}}

    text = analogies_table({"ours": errors(3.0), "AE": errors(theirs)})
    assert f"the error of ours is {verdict}" in text and "| **3.0 (2.5 to 3.5)** |" in text


def test_a_model_is_not_counted_twice(tmp_path: Path) -> None:
    for seeds in ("shapes", "shapes-texture,shapes-texture"):
        with pytest.raises(UserError, match="names a model twice"):
            run_experiment({"shapes": EXPERIMENT}, "shapes", {"seeds": seeds}, tmp_path / "new", CPU)


def test_the_json_knows_the_weights_of_all_seeds(tmp_path: Path) -> None:
    copy = tmp_path / "home" / "runs" / "s1" / "weights.safetensors"
    copy.parent.mkdir(parents=True)
    copy.symlink_to(find_weights("shapes-texture"))
    found = _check_models(EXPERIMENT, ShapesOptions(seeds=f"{copy}, shapes-ae"))
    assert found["seeds"] == ["s1/weights.safetensors", "shapes-ae"]  # no path of this machine
    assert found["seeds_weights"] == [load(name).weights.digest for name in ("shapes-texture", "shapes-ae")]


def test_a_seed_that_is_missing_is_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no model 'runs/s1\.safetensors'"):
        run_experiment({"shapes": EXPERIMENT}, "shapes", {"seeds": "runs/s1.safetensors"}, tmp_path / "new", CPU)


def test_a_folder_without_pairs_is_reported_at_once(tmp_path: Path) -> None:
    def begun(words: str, share: float) -> None:
        pytest.fail(f"measured before the pairs were read: {words}")

    with pytest.raises(UserError, match="no N_im1/N_im2 pairs"):
        compute(ShapesOptions(pairs=tmp_path), CPU, begun)
