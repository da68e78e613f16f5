"""Plans are balanced, and one seed makes one plan."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from visual_dynamics.errors import UserError
from visual_dynamics.study.design import CONTROL, OBVIOUS, REAL, TORN, Design, Trial, plan_sessions

METHODS = ("ours", "flow", "copy")


@st.composite
def designs(draw: st.DrawFn) -> Design:
    kind = draw(st.sampled_from(["choice", "realistic"]))
    methods = METHODS[: draw(st.integers(1, 3))] + ((REAL,) if kind == "realistic" else ())
    trials = draw(st.integers(1, 24))
    return Design(
        kind,
        methods,
        (32, 64)[: draw(st.integers(1, 2))],
        inputs=trials * draw(st.integers(1, 3)),
        trials=trials,
        samples=1 if kind == "choice" else draw(st.integers(1, 4)),
        sessions=draw(st.integers(1, 40)),
        obvious=draw(st.integers(0, 6)),
        seed=draw(st.integers(0, 2**63 - 1)),
    )


def condition(trial: Trial) -> tuple[str, int]:
    (clip,) = [one for one in trial if one.method != REAL] or trial
    return clip.method, clip.size


def nearly_equal(counts: Counter, kinds: int, by: int = 1) -> bool:  # type: ignore[type-arg]
    values = [*counts.values(), *[0] * (kinds - len(counts))]
    return max(values) - min(values) <= by


@settings(max_examples=60, deadline=None)
@given(designs())
def test_plans_are_balanced(design: Design) -> None:
    sessions, kinds = plan_sessions(design), len(design.methods) * len(design.sizes)
    assert len(sessions) == design.sessions and sessions == plan_sessions(design)
    shown: dict[int, Counter] = {}  # type: ignore[type-arg]
    for session in sessions:
        inputs = [trial[0].input for trial in session]
        assert len(set(inputs)) == len(inputs) == design.trials + design.obvious
        scored = [trial for trial in session if condition(trial)[0] not in OBVIOUS]
        assert len(scored) == design.trials
        assert nearly_equal(Counter(map(condition, scored)), kinds)
        for trial in scored:
            shown.setdefault(trial[0].input, Counter())[condition(trial)] += 1
        if design.kind == "choice":
            assert all([clip.method for clip in trial].count(REAL) == 1 for trial in session)
            assert all(trial[0].size == trial[1].size and trial[0].input == trial[1].input for trial in session)
            for kind in set(map(condition, scored)):
                left = Counter(trial[0].method == REAL for trial in scored if condition(trial) == kind)
                assert nearly_equal(left, 2)
            assert nearly_equal(Counter(trial[0].method == REAL for trial in scored), 2, by=2)
    assert all(nearly_equal(counts, kinds) for counts in shown.values())


@settings(max_examples=30, deadline=None)
@given(designs())
def test_whole_rounds_of_sessions_are_exactly_balanced(design: Design) -> None:
    kinds = len(design.methods) * len(design.sizes)
    blocks, conditions = design.inputs // design.trials, kinds * design.samples
    whole = Design(**(vars(design) | {"sessions": 2 * blocks * conditions}))
    seen = Counter(
        (trial[0].input, condition(trial), trial[0].method == REAL and design.kind == "choice")
        for session in plan_sessions(whole)
        for trial in session
        if condition(trial)[0] not in OBVIOUS
    )
    assert len(seen) == design.inputs * kinds * (2 if design.kind == "choice" else 1)
    assert len(set(seen.values())) == 1


def test_another_seed_is_another_plan() -> None:
    one, two = (plan_sessions(Design("choice", METHODS, (32, 64), seed=seed)) for seed in (0, 1))
    assert one != two


def test_obvious_trials_are_spread_over_the_session() -> None:
    design = Design("choice", METHODS, (32, 64), inputs=60, trials=60, obvious=6, sessions=50)
    for session in plan_sessions(design):
        places = [place for place, trial in enumerate(session) if condition(trial)[0] in OBVIOUS]
        assert all(10 * n <= place - n <= 10 * (n + 1) for n, place in enumerate(places))
        assert {trial[0].size for trial in session if condition(trial)[0] in OBVIOUS} == {64}


def test_half_of_the_obvious_trials_about_realism_are_real() -> None:
    design = Design("realistic", ("ours",), (64,), inputs=4, trials=4, obvious=6)
    assert Counter(design.obvious_methods) == {TORN: 3, CONTROL: 3}


@pytest.mark.parametrize(
    "wrong",
    [
        {"methods": ()},
        {"methods": ("ours", "ours")},
        {"sizes": (32, 32)},
        {"inputs": 0},
        {"trials": 7},
        {"trials": 80},
        {"samples": 2},
        {"sessions": 1001},
        {"obvious": -1},
        {"inputs": 500, "trials": 500, "sessions": 1000},
    ],
)
def test_plans_that_cannot_be(wrong: dict) -> None:  # type: ignore[type-arg]
    with pytest.raises(UserError):
        Design(**({"kind": "choice", "methods": METHODS, "sizes": (32, 64)} | wrong))
