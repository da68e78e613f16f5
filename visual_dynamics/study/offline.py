"""A study as one HTML file that works offline, and the files of answers that it saves.

The file holds the pictures and the sessions, but not the key. Somebody who takes it apart can still find the key: the
real clip of an input appears beside several methods in other sessions. (A served page gets one session only.)
"""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

from visual_dynamics.errors import UserError
from visual_dynamics.files import why_no_file
from visual_dynamics.study.answers import MAX_MILLISECONDS, RATER, Answer
from visual_dynamics.study.folder import TEXTS, Study, picture_path, reason

PAGE = Path(__file__).parent / "page"
MAX_PICTURES = 60 * 10**6  # bytes of all pictures in the file
MAX_ANSWERS = 10**6  # bytes of a file of answers
FORMAT = {"name": "visual-dynamics study answers", "version": 1}


def offline_page(folder: Path, study: Study) -> bytes:
    """The whole study as HTML; its content security policy allows nothing but its own script and style."""
    pictures = {name: picture_path(folder, name).read_bytes() for name in study.clips}
    if sum(map(len, pictures.values())) > MAX_PICTURES:
        raise UserError(
            f"the pictures take more than {MAX_PICTURES // 10**6} MB, too much for one page: serve the study"
        )
    data = {
        "about": {"study": study.id} | {name: getattr(study, name) for name in ("kind", *TEXTS)},
        "answers": FORMAT,
        "sessions": study.sessions,
        "pictures": {name: f"data:image/png;base64,{base64.b64encode(x).decode()}" for name, x in pictures.items()},
    }
    style, script = (f"\n{(PAGE / name).read_text()}" for name in ("study.css", "study.js"))
    policy = f"default-src 'none'; img-src data:; style-src {_digest(style)}; script-src {_digest(script)}"
    inside = json.dumps(data).replace("<", "\\u003c")  # no text can end the element that holds it
    html = (PAGE / "study.html").read_text()
    for old, new in {
        "<title>": f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<title>',
        '<link rel="stylesheet" href="study.css">': f"<style>{style}</style>",
        '<script src="study.js" defer></script>': (
            f'<script type="application/json" id="offline">{inside}</script>\n<script>{script}</script>'
        ),
    }.items():
        html = html.replace(old, new)
    return html.encode()


def read_answers(path: Path, study: Study) -> tuple[str, int, list[Answer]]:
    """Rater, session and answers of one file, for `AnswerStore.add_sessions`."""
    try:
        if not path.is_file():
            raise ValueError(why_no_file(path))
        if path.stat().st_size > MAX_ANSWERS:
            raise ValueError(f"it is larger than {MAX_ANSWERS:,} bytes")
        return _checked(json.loads(path.read_bytes()), study)
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise UserError(f"cannot take answers from {path}: {reason(error)}") from error


def _checked(data: Any, study: Study) -> tuple[str, int, list[Answer]]:
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError(f"it is not a file of {FORMAT['name']} of version {FORMAT['version']}")
    if data["study"] != study.id:
        raise ValueError("it belongs to another study")
    rater, session = data["rater"], data["session"]
    if not isinstance(rater, str) or not RATER.fullmatch(rater):
        raise ValueError("its rater is not 32 hexadecimal digits")
    if type(session) is not int or not 0 <= session < len(study.sessions):
        raise ValueError(f"its session is not one of the {len(study.sessions)}")
    answers = [Answer(one["trial"], one["answer"], one["milliseconds"]) for one in data["answers"]]
    for one in answers:
        if type(one.trial) is not int or not 0 <= one.trial < len(study.sessions[session]):
            raise ValueError(f"{str(one.trial)[:20]} is not a trial of session {session}")
        if one.answer not in study.choices:
            raise ValueError(f"an answer is {' or '.join(study.choices)}, not {str(one.answer)[:20]}")
        if type(one.milliseconds) is not int or not 0 <= one.milliseconds <= MAX_MILLISECONDS:
            raise ValueError("the time of an answer is in milliseconds, at most a week")
    return rater, session, answers


def _digest(text: str) -> str:
    """The name of an element in a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
