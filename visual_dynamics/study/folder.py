"""A study as a folder: study.json (the plan with its key) and one picture per clip, under a random name.

A picture holds the frames of its clip side by side. Title, question, consent and recruiting in study.json may
be edited. The same study can be written as one HTML file.
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
from visual_dynamics.study.texts import texts

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

FRAME_TIME, LONG_FRAME_TIME = 500, 100  # milliseconds of a frame; the latter in clips of more than two
FRAME_TIMES = (20, 5_000)
PARAMETER = re.compile(r"[A-Za-z0-9_.-]{1,64}")  # of the page's address
MAX_COMPLETION = 500  # letters


@dataclass(frozen=True)
class Recruiting:
    """How people come from a recruiting service and go back to it. Empty: without one."""

    parameter: str = ""  # of the page's address, with the rater's id; then nobody takes part without one, or twice
    completion: str = ""  # a code, or an https link, shown after the last answer

    def __post_init__(self) -> None:
        if self.parameter and (not PARAMETER.fullmatch(self.parameter) or self.parameter == "token"):
            raise UserError("the name of the rater's id has at most 64 letters, digits, _ . or -, and is not 'token'")
        text = self.completion
        if len(text) > MAX_COMPLETION or not text.isprintable() or text.strip() != text:
            raise UserError(f"a completion code or link is one line of at most {MAX_COMPLETION} letters")
        if ":" in text and (not text.startswith("https://") or " " in text):
            raise UserError("a completion link begins with https:// and has no spaces; a code has no colon")


ON_ONES_OWN = Recruiting()


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
    frame_time: int = FRAME_TIME  # milliseconds
    recruiting: Recruiting = ON_ONES_OWN

    @cached_property
    def id(self) -> str:
        """Of the plan, its key and the rule of exclusion; texts may change during a study."""
        clips = {name: asdict(clip) for name, clip in self.clips.items()}
        times = [] if self.frame_time == FRAME_TIME else [self.frame_time]  # older studies did not say it
        plan = json.dumps([self.kind, clips, self.sessions, self.least_right, *times])
        return hashlib.sha256(plan.encode()).hexdigest()[:16]

    @property
    def rule(self) -> str:
        """Who does not count, in a sentence."""
        asked = sum(self.trial_clip(0, trial).method in OBVIOUS for trial in range(len(self.sessions[0])))
        if not self.least_right:
            return "every rater counts"
        return f"raters with fewer than {self.least_right} right answers in the {asked} obvious trials do not count"

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
        for name, value in ({"format": FORMAT, "id": self.id, "rule": self.rule} | asdict(self)).items():
            if name == "clips":
                rows = [f"  {json.dumps(key)}: {json.dumps(clip)}" for key, clip in value.items()]
                parts.append(f' "{name}": {{\n' + ",\n".join(rows) + "\n }")
            elif name == "sessions":
                parts.append(f' "{name}": [\n' + ",\n".join(f"  {json.dumps(session)}" for session in value) + "\n ]")
            else:
                parts.append(f' "{name}": {json.dumps(value, ensure_ascii=False)}')
        return ("{\n" + ",\n".join(parts) + "\n}\n").encode()


def name_clips(
    design: Design,
    sessions: tuple[Session, ...],
    source: dict[str, Any],
    frames: int = 2,
    recruiting: Recruiting = ON_ONES_OWN,
    frame_time: int | None = None,
) -> Study:
    """The study of a plan, with texts for clips of so many frames: every clip gets a random name, and clips are sorted
    by name."""
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
        **texts(design.kind, frames, bool(recruiting.parameter)),
        source=source,
        frame_time=frame_time or (FRAME_TIME if frames <= 2 else LONG_FRAME_TIME),
        recruiting=recruiting,
    )


def read_study(folder: Path) -> Study:
    """The study of a folder; an error says in one line what is wrong with it."""
    path = folder / FILE
    if not path.is_file():
        raise UserError(f"{folder} holds no study: there is no {FILE} in it (visual-dynamics study make writes one)")
    try:
        study = _from_json(read_json(path, MAX_BYTES))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, UserError) as error:
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
        frame_time=int(data.get("frame_time", FRAME_TIME)),
        recruiting=Recruiting(**data.get("recruiting", {})),
    )
    if not FRAME_TIMES[0] <= study.frame_time <= FRAME_TIMES[1]:
        raise ValueError(f"a frame is shown for {FRAME_TIMES[0]} to {FRAME_TIMES[1]:,} milliseconds")
    _check_sessions(study)
    if study.id != data["id"]:
        raise ValueError("its plan was changed after it was made; only title, question, consent and recruiting may be")
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
    if study.recruiting.parameter:
        raise UserError("a file cannot see to it that nobody takes part twice: serve a study with rater ids")
    pictures = {name: picture_path(folder, name).read_bytes() for name in study.clips}
    if sum(map(len, pictures.values())) > MAX_PICTURES:
        raise UserError(
            f"the pictures take more than {MAX_PICTURES // 10**6} MB, too much for one page: serve the study"
        )
    data = {
        "about": {"study": study.id} | {name: getattr(study, name) for name in ("kind", "frame_time", *TEXTS)},
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
