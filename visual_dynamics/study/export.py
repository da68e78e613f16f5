"""Answers with what they were about: one row an answer, as CSV, too."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict, dataclass, fields

from visual_dynamics.study.plan import OBVIOUS
from visual_dynamics.study.store import Store


@dataclass(frozen=True)
class Row:
    """One answer and what it was about."""

    rater: int  # in the order of joining, from 1
    session: int
    trial: int
    input: int
    method: str
    size: int
    sample: int
    answer: str
    right: str | None  # the true answer, where there is one
    milliseconds: int

    @property
    def obvious(self) -> bool:
        return self.method in OBVIOUS


def answer_rows(store: Store) -> list[Row]:
    """All answers, rater by rater."""
    study, rows = store.study, []
    for number, rater in enumerate(store.raters(), 1):
        for given in store.answers(rater.id):
            clip = study.asked(rater.session, given.trial)
            about = (clip.input, clip.method, clip.size, clip.sample)
            right = study.right_answer(rater.session, given.trial)
            rows.append(Row(number, rater.session, given.trial, *about, given.answer, right, given.milliseconds))
    return rows


def to_csv(rows: list[Row]) -> str:
    """A line an answer. Raters are numbered: whoever knows a rater's own name could answer for them."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [*(field.name for field in fields(Row)), "obvious"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) | {"obvious": int(row.obvious)} for row in rows)
    return text.getvalue()
