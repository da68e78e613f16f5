"""Tables of `reproduce video`: cells, heads, and who leads."""

from typing import Any

from visual_dynamics.reporting import video_tables
from visual_dynamics.reporting.video_tables import CODE, FLOW, METRICS, SAMPLED


def test_cells() -> None:
    assert video_tables.cell("ratio", {"ratio": None, "inside": 0.1}) == "all inside"
    assert video_tables.cell("ratio", {"ratio": None, "inside": 0.0}) == "none"
    assert video_tables.cell("explained", {"explained": -0.123}) == "-12.3"
    assert video_tables.cell("explained", {"explained": -1e-16}) == "0.0"
    assert video_tables.cell("best", {"best": 0.756}) == "0.76"


def test_scenes_say_what_is_explained_by_the_true_code() -> None:
    own = {"pairs": 1, "rows": {row: dict.fromkeys(METRICS) for row in (FLOW, CODE, SAMPLED)}}
    text = video_tables.scene_table({str(number): own for number in range(25)})
    assert "| scene | pairs | explained by the true code, % |" in text
    assert "\n\nThe JSON has the other 5 scenes." in text


def made_up(**ours: float | None) -> dict[str, Any]:
    """Flow has 0.5 of everything."""
    return {"rows": {FLOW: dict.fromkeys(METRICS, 0.5), SAMPLED: dict.fromkeys(METRICS, 0.5) | ours}}


def test_who_leads() -> None:
    text = video_tables.who_leads(made_up(explained=0.6, ratio=0.3, best=0.4, inside_share=None, diversity=0.9))
    assert text == (
        "Who leads, Flow or ours, sampled: ours: explained, %, best sample, error / copy's; "
        "Flow: motion inside / outside; neither: still pixels that stay, %."
    )
    assert "Flow: best sample" in video_tables.who_leads(made_up(best=0.6))  # the less the better
    assert "neither: explained, %," in video_tables.who_leads(made_up(explained=0.5004))  # 50.0 both, as shown


def test_copying_beats_samples_that_explain_less_than_nothing() -> None:
    assert "less error than a sample of: ours, sampled." in video_tables.who_leads(made_up(explained=-0.1))
    assert "Copying" not in video_tables.who_leads(made_up(explained=0.1))


def test_a_lead_within_intervals_says_so() -> None:
    result = made_up(ratio=0.9)
    text = video_tables.method_table(result)
    assert "| over all pairs | explained" in text and "intervals" not in text
    for own, overlap in (([0.5, 1.0], True), ([0.7, 1.0], False)):
        known = result | {"intervals": {FLOW: {"ratio": [0.4, 0.6]}, SAMPLED: {"ratio": own}}}
        text = video_tables.method_table(known)
        assert ("ours: motion inside / outside (intervals overlap)" in text) == overlap
        assert "| over all pairs (95 % interval) |" in text and "| ours, sampled | 50.0 | 0.9 (" in text
