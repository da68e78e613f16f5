"""Tables of `reproduce video`: cells, what is better, and scenes."""

from pathlib import Path
from typing import Any

from visual_dynamics.reporting import video_tables
from visual_dynamics.reporting.video_tables import CODE, FLOW, METRICS, OF_CODE, SAMPLED


def made_up(**ours: float | None) -> dict[str, Any]:
    """One scene; Flow has 0.5 of everything."""
    rows = {row: dict.fromkeys(METRICS, 0.5) for row in (FLOW, SAMPLED)} | {CODE: dict.fromkeys(OF_CODE, 0.25)}
    rows[SAMPLED] |= ours
    return {"rows": rows, "intervals": {row: {} for row in rows}, "scenes": {"lawn": {"pairs": 3, "rows": rows}}}


def test_cells() -> None:
    result = made_up(energy=1.234, ratio=None, diversity=0.0)
    assert video_tables.cell(result, SAMPLED, "energy") == "123.4"
    assert video_tables.cell(result, SAMPLED, "ratio") == video_tables.cell(result, SAMPLED, "diversity") == "none"
    assert video_tables.cell(result, SAMPLED, "best_30") == "none"  # of ten futures there is no best of 30
    result["intervals"][SAMPLED] = {"energy": [0.5, 2.0], "still": [0.5, 0.5]}
    assert video_tables.cell(result, SAMPLED, "energy") == "123.4 (50.0 to 200.0)"
    assert video_tables.cell(result, SAMPLED, "still") == "50.0"


def test_less_is_better_where_it_is() -> None:
    own = {"mean": -0.1, "interval": [-0.2, 0.05], "below": 4, "scenes": 6}
    text = video_tables.difference_table(
        {"differences": {"energy_score": own, "still": own, "energy": own, "ratio": own}}
    )
    assert "| energy score / copy's | -0.100 (-0.200 to +0.050) | 4 of 6 |" in text
    assert "| still pixels that stay, % | -10.0 (-20.0 to +5.0) | 2 of 6 |" in text
    assert "| energy, % of the true | -10.0 (-20.0 to +5.0) |  |" in text and "inside / outside" not in text


def test_scenes_with_as_much_motion_as_in_truth_are_counted() -> None:
    result = made_up()
    energies = (0.34, 0.35, 1.5, 1.6, None)
    result["scenes"] = {str(number): {"rows": {SAMPLED: {"energy": value}}} for number, value in enumerate(energies)}
    text = video_tables.code_line(result)
    assert "explains 25.0 %" in text and "between 35 and 150 % of the true one in 2 of 5 scenes." in text


def test_scenes_say_what_the_true_code_explains() -> None:
    own = made_up()["scenes"]["lawn"]
    text = video_tables.scene_table({str(number): own for number in range(25)})
    assert "true code: explained, %" in text and "| 0 | 3 | 0.500 | 0.500 | 50.0 |" in text
    assert "\n\nThe JSON has the other 5 scenes." in text and "| 20 |" not in text


def test_a_result_of_an_earlier_protocol_does_not_stop_the_report() -> None:
    assert "of an earlier protocol" in video_tables.draw({"rows": {SAMPLED: {"best": 0.9}}}, Path())
