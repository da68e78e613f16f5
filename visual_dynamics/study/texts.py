"""What people read in a study, as it is made; study.json holds the texts, and anyone may edit them there."""

from __future__ import annotations

TITLE = {"choice": "Which {thing} is real?", "realistic": "Is this {seen} realistic?"}
QUESTION = {
    "choice": "One of these two {thing}s is real, the other was made by a computer. Which one is real?",
    "realistic": "{asked} realistic{end}?",
}
STILL = {"thing": "picture", "seen": "picture", "asked": "Does this picture look", "end": ""}
MOVING = {"thing": "animation", "seen": "motion", "asked": "Does this animation show a", "end": " motion"}
LOOK_AT = {1: "pictures", 2: "short animations of two frames"}
FLICKER = {
    1: "",
    2: """\
The animations alternate between two frames about once a second. If flickering pictures trouble you, please do not \
take part.

""",
}
LONG_FLICKER = "The animations repeat without a pause. If flickering pictures trouble you, please do not take part.\n\n"
CONSENT = """\
In this study you will look at {look_at} and answer the same question about each.

Taking part is voluntary, and you may stop at any time. What is stored: your answers, how long each of them took, and \
{number}. Your name or address is not asked for or stored. The answers are used to measure how realistic computed \
{thing}s look.

{flicker}With the button below you agree to this."""
NUMBER = "a random number that tells your answers from those of others"
DIGEST = """\
a random number and a code that tell your answers from those of others; the code is computed from your id at the \
recruiting service, which is not stored itself"""


def texts(kind: str, frames: int, recruited: bool) -> dict[str, str]:
    """Title, question and consent of a study whose longest clip has so many frames."""
    words = STILL if frames == 1 else MOVING
    consent = CONSENT.format(
        thing=words["thing"],
        look_at=LOOK_AT.get(frames, "short animations"),
        number=DIGEST if recruited else NUMBER,
        flicker=FLICKER.get(frames, LONG_FLICKER),
    )
    return {"title": TITLE[kind].format(**words), "question": QUESTION[kind].format(**words), "consent": consent}
