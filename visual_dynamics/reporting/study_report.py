"""A study's result as a page, shaped like the paper's: one table by method and size, and how it was measured."""

from __future__ import annotations

from typing import Any

from visual_dynamics.reporting.drawing import table
from visual_dynamics.study.design import CONTROL, OBVIOUS
from visual_dynamics.study.folder import Study
from visual_dynamics.study.foreign import unlike_formats
from visual_dynamics.study.score import over_images, percent

PAPER = {
    "choice": (
        "The paper's study of Sprites: ours was labelled real in 41.2 % of the answers at 32x32 and 35.7 % at 64x64, "
        "of Exercise in 36.7 % and 31.3 %; a perfect method reaches 50 %. Its inputs and raters were others."
    ),
    "realistic": (
        "The paper's study of Exercise: 44.3 % of the motions were called realistic, averaged over 100 images, with a "
        "standard deviation of 4.3 %. Its inputs and raters were others."
    ),
}


def report_text(study: Study, result: dict[str, Any]) -> str:
    """Markdown."""
    raters, answers = result["raters"], result["answers"]
    parts = [
        f"# {study.title}",
        protocol(study),
        f"Raters: {raters['counted']} count of {raters['answered']} who answered, with {answers['counted']:,} of "
        f"{answers['all']:,} answers. {_sentence(raters['rule'])} This rule was fixed before the study.",
        f"## Percentage {result['measure']}",
        "95 % intervals, for other raters and inputs, in brackets.",
        _by_size(result["rows"]),
    ]
    if result["kind"] == "realistic":
        names = [
            (f"{row['method']}, {_pixels(row['size'])}", str(row["images"]), over_images(row)) for row in result["rows"]
        ]
        parts += ["## Mean over images", table(("method", "images", "mean"), names)]
    if result["differences"]:
        parts += ["## Differences", _differences(result["differences"])]
    parts += ["## All numbers", _all_numbers(result), "## Exclusions", _exclusions(raters)]
    parts += [PAPER[study.kind], *_warnings(result["source"])]
    return "\n\n".join(parts) + "\n"


def protocol(study: Study) -> str:
    """How it was measured, in a sentence or two."""
    trials = [study.trial_clip(number, trial) for number, one in enumerate(study.sessions) for trial in range(len(one))]
    asked = trials[: len(study.sessions[0])]  # in one session
    shown = [clip for clip in trials if clip.method not in OBVIOUS]
    inputs, sizes = len({clip.input for clip in shown}), sorted({clip.size for clip in shown})
    task = (
        "saw a real clip and a synthetic one of the same input side by side and said which one is real"
        if study.kind == "choice"
        else "saw one clip at a time and said whether its motion is realistic"
    )
    obvious = [clip.method for clip in asked if clip.method in OBVIOUS]
    what = "a torn clip" if CONTROL not in obvious else "a torn or a real clip of another input"
    checks = f", {len(obvious)} of them with an obvious answer ({what})" if obvious else ""
    return (
        f"Each rater {task}, in one of {len(study.sessions)} sessions of {len(asked)} trials{checks}; {inputs} inputs, "
        f"each at most once in a session, at {' and '.join(map(_pixels, sizes))} pixels, {study.frame_time} ms a frame."
    )


def _by_size(rows: list[dict[str, Any]]) -> str:
    sizes = sorted({row["size"] for row in rows})
    cells = {(row["method"], row["size"]): f"**{100 * row['share']:.1f}** [{_range(row)}]" for row in rows}
    methods = dict.fromkeys(row["method"] for row in rows)
    return table(
        ("method", *map(_pixels, sizes)),
        [(method, *(cells.get((method, size), "") for size in sizes)) for method in methods],
    )


def _range(row: dict[str, Any]) -> str:
    """Wilson's interval stands in where all answers agree, or raters are too few."""
    return percent(row["interval"]) if row["interval"] else f"{percent(row['wilson'])}, Wilson"


def _differences(differences: list[dict[str, Any]]) -> str:
    rows = []
    for one in differences:
        methods, points = " - ".join(one["methods"]), f"{100 * one['difference']:+.1f}"
        rows.append((methods, _pixels(one["size"]), points, percent(one["interval"])))
    return table(("methods", "size", "points", "95 %"), rows)


def _all_numbers(result: dict[str, Any]) -> str:
    everyone = {(row["method"], row["size"]): row for row in result["everyone"]["rows"]}
    rows = []
    for row in result["rows"]:
        every = everyone[row["method"], row["size"]]
        shares = (f"{100 * row['share']:.1f}", percent(row["interval"]), percent(row["wilson"]), str(row["answers"]))
        rows.append(
            (row["method"], _pixels(row["size"]), *shares, f"{100 * every['share']:.1f}", percent(every["interval"]))
        )
    head = ("method", "size", "%", "95 %", "Wilson's 95 %", "answers", "% of all raters", "95 % of all raters")
    return table(head, rows)


def _exclusions(raters: dict[str, Any]) -> str:
    if not raters["excluded"]:
        return "Nobody was excluded."
    rows = [[str(one[name]) for name in ("rater", "right", "asked")] for one in raters["excluded"]]
    return table(("excluded rater", "right answers in obvious trials", "obvious trials answered"), rows)


def _warnings(source: dict[str, Any]) -> list[str]:
    found = []
    if not source.get("held_out", True):
        found.append("The data have no test set: the model may know these pictures.")
    if unlike := unlike_formats(source.get("formats", {})):
        found.append(_sentence(unlike))
    return found


def _pixels(size: int) -> str:
    return f"{size}x{size}"


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."
