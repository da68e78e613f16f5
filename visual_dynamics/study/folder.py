"""A study as a folder: study.json (the plan with its key) and one picture per clip, under a random name.

A picture holds the two frames of its clip side by side. Title, question and consent in study.json may be edited.
The same study can be written as one HTML file.
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
import re
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from visual_dynamics.errors import UserError
from visual_dynamics.files import read_json
from visual_dynamics.study.design import (
    MAX_PLANNED,
    MAX_SESSIONS,
    MAX_TRIALS,
    OBVIOUS,
    REAL,
    TORN,
    Design,
    Kind,
    Session,
    StudyClip,
    clips_of,
)

FILE = "study.json"
FORMAT = {"name": "visual-dynamics study", "version": 1}
ANSWERS_FORMAT = {"name": "visual-dynamics study answers", "version": 1}  # of the files that the HTML file saves
PAGE = Path(__file__).parent / "page"
MAX_BYTES = 64 * 2**20  # of study.json
MAX_TEXT = 20_000  # letters
MAX_PICTURES = 60 * 10**6  # bytes of all pictures in the HTML file
CHOICES: dict[str, tuple[str, ...]] = {"choice": ("left", "right"), "realistic": ("yes", "no")}
FORGIVING = 4  # from this many obvious trials on, one wrong answer is allowed
TEXTS = ("title", "question", "consent")
CLIP_ID = re.compile(r"[0-9a-f]{16}")

TITLE = {"choice": "Which animation is real?", "realistic": "Is this motion realistic?"}
QUESTION = {
    "choice": "One of these two animations is real, the other was made by a computer. Which one is real?",
    "realistic": "Does this animation show a realistic motion?",
}
CONSENT = """\
In this study you will look at short animations of two frames and answer the same question about each.

Taking part is voluntary, and you may stop at any time. What is stored: your answers, how long each of them took, and \
a random number that tells your answers from those of others. Your name or address is not asked for or stored. The \
answers are used to measure how realistic computed animations look.

The animations alternate between two frames about once a second. If flickering pictures trouble you, please do not \
take part.

With the button below you agree to this."""


@dataclass(frozen=True)
class Study:
    """A plan with its clips by name. Trials are tuples of one or two names."""

    kind: Kind
    clips: dict[str, StudyClip]
    sessions: tuple[tuple[tuple[str, ...], ...], ...]
    least_right: int  # right answers in the obvious trials of a session, or the rater does not count
    title: str
    question: str
    consent: str
    source: dict[str, Any]  # model, data, seed: what it was made from

    @cached_property
    def id(self) -> str:
        """Of the plan, its key and the rule of exclusion; texts may change during a study."""
        clips = {name: asdict(clip) for name, clip in self.clips.items()}
        plan = json.dumps([self.kind, clips, self.sessions, self.least_right])
        return hashlib.sha256(plan.encode()).hexdigest()[:16]

    @property
    def choices(self) -> tuple[str, ...]:
        return CHOICES[self.kind]

    def trial_clip(self, session: int, trial: int) -> StudyClip:
        """The clip that a trial is about: in a forced choice, the one that is not real."""
        shown = [self.clips[name] for name in self.sessions[session][trial]]
        return next((clip for clip in shown if clip.method != REAL), shown[0])

    def right_answer(self, session: int, trial: int) -> str | None:
        """None for a matter of opinion."""
        shown = [self.clips[name].method for name in self.sessions[session][trial]]
        if self.kind == "choice":
            return self.choices[shown.index(REAL)]
        return None if shown[0] not in OBVIOUS else "no" if shown[0] == TORN else "yes"

    def to_json(self) -> bytes:
        """One line per clip and session, for people who edit the texts."""
        parts = []
        for name, value in ({"format": FORMAT, "id": self.id} | asdict(self)).items():
            if name == "clips":
                rows = [f"  {json.dumps(key)}: {json.dumps(clip)}" for key, clip in value.items()]
                parts.append(f' "{name}": {{\n' + ",\n".join(rows) + "\n }")
            elif name == "sessions":
                parts.append(f' "{name}": [\n' + ",\n".join(f"  {json.dumps(session)}" for session in value) + "\n ]")
            else:
                parts.append(f' "{name}": {json.dumps(value, ensure_ascii=False)}')
        return ("{\n" + ",\n".join(parts) + "\n}\n").encode()


def name_clips(design: Design, sessions: tuple[Session, ...], source: dict[str, Any]) -> Study:
    """The study of a plan: every clip gets a random name, and clips are sorted by name."""
    clips, chance = clips_of(sessions), random.Random(f"clips {design.seed}")
    drawn: dict[str, None] = {}
    while len(drawn) < len(clips):
        drawn[f"{chance.getrandbits(64):016x}"] = None
    names = dict(zip(clips, drawn, strict=True))
    return Study(
        kind=design.kind,
        clips=dict(sorted((name, clip) for clip, name in names.items())),
        sessions=tuple(tuple(tuple(names[clip] for clip in trial) for trial in session) for session in sessions),
        least_right=design.obvious - (design.obvious >= FORGIVING),
        title=TITLE[design.kind],
        question=QUESTION[design.kind],
        consent=CONSENT,
        source=source,
    )


def read_study(folder: Path) -> Study:
    """The study of a folder; an error says in one line what is wrong with it."""
    path = folder / FILE
    if not path.is_file():
        raise UserError(f"{folder} holds no study: there is no {FILE} in it (visual-dynamics study make writes one)")
    try:
        study = _from_json(read_json(path, MAX_BYTES))
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise UserError(f"cannot read {path}: {reason(error)}") from error
    for name in study.clips:
        if not picture_path(folder, name).is_file():
            raise UserError(f"the picture {picture_path(folder, name)} of the study is missing")
    return study


def reason(error: Exception) -> str:
    """What is wrong with a JSON file, in one line."""
    return f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error).splitlines()[0]


def picture_path(folder: Path, clip: str) -> Path:
    return folder / f"{clip}.png"


def _from_json(data: Any) -> Study:
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError(f"it is not a {FORMAT['name']} of version {FORMAT['version']}")
    if data["kind"] not in CHOICES:
        raise ValueError(f"a study's kind is {' or '.join(CHOICES)}")
    for name in TEXTS:
        if not isinstance(data[name], str) or not 0 < len(data[name]) <= MAX_TEXT:
            raise ValueError(f"{name} is a text of at most {MAX_TEXT:,} letters")
    clips = {str(name): StudyClip(**clip) for name, clip in data["clips"].items()}
    if not all(CLIP_ID.fullmatch(name) for name in clips):
        raise ValueError("the name of a clip is 16 hexadecimal digits")
    study = Study(
        kind=cast(Kind, data["kind"]),
        clips=clips,
        sessions=tuple(tuple(tuple(trial) for trial in session) for session in data["sessions"]),
        least_right=int(data["least_right"]),
        **{name: data[name] for name in TEXTS},
        source=dict(data["source"]),
    )
    _check_sessions(study)
    if study.id != data["id"]:
        raise ValueError("its plan was changed after it was made; only title, question and consent may be")
    return study


def _check_sessions(study: Study) -> None:
    width = len(study.choices) if study.kind == "choice" else 1
    lengths = [len(session) for session in study.sessions]
    if not 0 < len(lengths) <= MAX_SESSIONS or sum(lengths) > MAX_PLANNED or min(lengths) < 1:
        raise ValueError("it has too many sessions, or empty ones")
    if max(lengths) > 2 * MAX_TRIALS:
        raise ValueError(f"a session has at most {2 * MAX_TRIALS} trials")
    for trial in (trial for session in study.sessions for trial in session):
        if len(trial) != width or not all(name in study.clips for name in trial):
            raise ValueError("a trial shows clips that do not exist")
        if study.kind == "choice" and [study.clips[name].method for name in trial].count(REAL) != 1:
            raise ValueError("in a forced choice one clip is real")


# --- one HTML file


def offline_page(folder: Path, study: Study) -> bytes:
    """The study as one HTML file that works offline; its content security policy allows only its own script and style.

    The file does not hold the key. Somebody who takes it apart can still find the key: the real clip of an input
    appears beside several methods in other sessions. (A served page gets one session only.)
    """
    pictures = {name: picture_path(folder, name).read_bytes() for name in study.clips}
    if sum(map(len, pictures.values())) > MAX_PICTURES:
        raise UserError(
            f"the pictures take more than {MAX_PICTURES // 10**6} MB, too much for one page: serve the study"
        )
    data = {
        "about": {"study": study.id} | {name: getattr(study, name) for name in ("kind", *TEXTS)},
        "answers": ANSWERS_FORMAT,
        "sessions": study.sessions,
        "pictures": {name: f"data:image/png;base64,{base64.b64encode(x).decode()}" for name, x in pictures.items()},
    }
    style, script = (f"\n{(PAGE / name).read_text('utf-8')}" for name in ("study.css", "study.js"))
    policy = f"default-src 'none'; img-src data:; style-src {_digest(style)}; script-src {_digest(script)}"
    inside = json.dumps(data).replace("<", "\\u003c")  # no text can end the element that holds it
    html = (PAGE / "study.html").read_text("utf-8")
    for old, new in {
        "<title>": f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<title>',
        '<link rel="stylesheet" href="study.css">': f"<style>{style}</style>",
        '<script src="study.js" defer></script>': (
            f'<script type="application/json" id="offline">{inside}</script>\n<script>{script}</script>'
        ),
    }.items():
        html = html.replace(old, new)
    return html.encode()


def _digest(text: str) -> str:
    """The name of an element in a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
