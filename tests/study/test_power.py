"""The calculation agrees with simulated studies, and says what it cannot promise."""

import re
from dataclasses import replace

import pytest

from benchmarks.study import simulated_power
from tests.cli.conftest import Fails, Run, fails, place, run  # noqa: F401 - fixtures
from visual_dynamics.study.power import Comparison, raters_needed, trials_needed


@pytest.mark.parametrize(
    "study",
    [
        Comparison(effect=0.1, raters=40, trials=40, inputs=80),
        Comparison(effect=0.1, raters=10, trials=40, inputs=40),
        Comparison(effect=0.15, share=0.5, raters=30, trials=20, inputs=60, methods=3, input_deviation=0.15),
    ],
)
def test_power_is_that_of_simulated_studies(study: Comparison) -> None:
    """Within 3 points in benchmarks/study.py; here with the error of 1,500 studies."""
    assert simulated_power(study, studies=1_500) == pytest.approx(study.power, abs=0.045)


def test_no_effect_is_found_in_one_study_of_twenty() -> None:
    study = Comparison(effect=1e-9, raters=20, trials=40, inputs=40)
    assert study.power == pytest.approx(0.05, abs=0.01)


def test_the_fewest_raters_and_trials() -> None:
    needed = raters_needed(Comparison(effect=0.1), 0.8)
    assert needed.power >= 0.8 > replace(needed, raters=needed.raters - 1).power
    fewest = trials_needed(Comparison(effect=0.1, raters=needed.raters), 0.8)
    assert fewest.trials == 40
    assert raters_needed(Comparison(effect=0.1, inputs=1_000), 0.8).raters < needed.raters
    assert raters_needed(Comparison(effect=0.1, rater_deviation=0.15), 0.8).raters > needed.raters
    assert raters_needed(Comparison(effect=0.1), 0.9).raters > needed.raters


def test_the_command(run: Run, fails: Fails) -> None:  # noqa: F811
    usual = run("study", "plan", "--effect", "5", "--power", "0.8")
    assert usual.code == 0 and usual.out.startswith(f"{raters_needed(Comparison(), 0.8).raters} raters of 40 trials")
    told = run("study", "plan", "--effect", "10", "--raters", "60")
    assert re.match(r"60 raters of \d+ trials about 200 inputs: power 0\.[89]", told.out), told
    both = run("study", "plan", "--effect", "10", "--raters", "20", "--trials", "20")
    assert f"power {Comparison(effect=0.1, raters=20, trials=20).power:.2f} to find 40 % against 30 %" in both.out
    for words, reason in {
        ("--effect", "2"): "200 inputs are too few: with 5,000 raters",
        ("--raters", "5"): "5 raters and 200 inputs are too few",
        ("--effect", "0"): "the effect is above 0",
        ("--effect", "40"): "below the share",
        ("--effect", "nan"): "the effect is above 0",
        ("--power", "1"): "a power is above",
        ("--trials", "30"): "do not make sessions of 30",
        ("--trials", "1"): "at least 2 clips",
        ("--methods", "1"): "two methods or more",
        ("--raters-differ", "60"): "cannot vary that much",
        ("--raters-differ", "-1"): "0 or more",
        ("--raters", "1"): "too few",
    }.items():
        assert reason in fails("study", "plan", *words), words
