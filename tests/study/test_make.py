"""Studies made by a tiny model: what is in the folder, what its names show, what is an error."""

import io
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tests.cli.conftest import Fails, Run, fails, place, run  # noqa: F401 - fixtures
from tests.study.conftest import CHOICE, write_study
from visual_dynamics.data.pairs import Pairs
from visual_dynamics.errors import UserError
from visual_dynamics.study.answers import AnswerStore
from visual_dynamics.study.design import Design, StudyClip
from visual_dynamics.study.folder import Study, read_study
from visual_dynamics.study.make import ClipMaker, make_study
from visual_dynamics.study.writing import torn

DESIGN = Design("choice", ("ours", "copy"), (8, 16), inputs=4, trials=4, sessions=4, obvious=2, seed=3)
Make = Callable[..., Study]


@pytest.fixture
def make(tmp_path: Path, tiny_weights_file: Path) -> Make:
    def make(design: Design = DESIGN, data: str = "shapes", name: str = "study", overwrite: bool = False) -> Study:
        return make_study(design, str(tiny_weights_file), data, tmp_path / name, overwrite)

    return make


def write_pairs(folder: Path, pairs: Pairs, lists: bool) -> None:
    folder.mkdir()
    for number in range(len(pairs)):
        for which, frames in (("1", pairs.frames), ("2", pairs.next_frames)):
            Image.fromarray(frames[number].permute(1, 2, 0).numpy()).save(folder / f"{number}_im{which}.png")
    if lists:
        (folder / "train.txt").write_text(" ".join(map(str, range(20))))
        (folder / "test.txt").write_text(" ".join(map(str, range(20, 40))))


def clip_frames(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    both = np.array(Image.open(folder / f"{name}.png"))
    return both[:, : both.shape[0]], both[:, both.shape[0] :]


def test_a_study_of_drawn_shapes(make: Make, tmp_path: Path) -> None:
    study = make()
    folder = tmp_path / "study"
    assert read_study(folder) == study and study.source["held_out"] is True
    files = {path.name for path in folder.iterdir()}
    assert files == {"study.json", *(f"{name}.png" for name in study.clips)}
    assert all(re.fullmatch("[0-9a-f]{16}", name) for name in study.clips)
    frames = {}
    for name, clip in study.clips.items():
        first, second = clip_frames(folder, name)
        assert first.shape == second.shape == (clip.size, clip.size, 3)
        assert (frames.setdefault((clip.input, clip.size), first) == first).all()  # all begin with the same frame
        assert (clip.method == "copy") == (first == second).all()
    made_again = make(name="again")
    assert made_again == study
    for name in files:
        assert (folder / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_names_are_in_no_order_that_tells_the_key(make: Make) -> None:
    study = make(Design("choice", ("ours", "copy"), (8, 16), inputs=40, trials=40, sessions=4, obvious=2))
    real = np.array([clip.method == "real" for clip in study.clips.values()])  # in the order of their names
    half = len(real) // 2
    assert abs(real[:half].mean() - real[half:].mean()) < 0.25
    left = [
        study.right_answer(number, trial)
        for number, session in enumerate(study.sessions)
        for trial in range(len(session))
    ]
    assert left.count("left") == left.count("right")


def test_flow_knows_the_training_pairs_or_those_that_are_left(make: Make, tmp_path: Path, tiny_pairs: Pairs) -> None:
    pytest.importorskip("cv2")
    design = Design("choice", ("ours", "flow"), (16,), inputs=3, trials=3, sessions=2, obvious=1)
    for lists in (True, False):
        write_pairs(tmp_path / f"pairs_{lists}", tiny_pairs, lists)
        study = make(design, str(tmp_path / f"pairs_{lists}"), f"study_{lists}")
        assert study.source["held_out"] is lists
        real = [
            clip_frames(tmp_path / f"study_{lists}", name)
            for name, clip in study.clips.items()
            if clip.method == "real"
        ]
        assert all((first != second).any() for first, second in real)  # pairs that do not move are left out


def test_samples_of_realistic_motion(make: Make, tmp_path: Path) -> None:
    design = Design("realistic", ("ours", "real"), (16,), inputs=2, trials=2, samples=3, sessions=12, obvious=2)
    study = make(design)
    kinds = sorted((clip.method, clip.sample) for clip in study.clips.values())
    assert kinds == [("control", 0), *[("ours", n) for n in (0, 0, 1, 1, 2, 2)], ("real", 0), ("real", 0), ("torn", 0)]
    pictures = {(tmp_path / "study" / f"{name}.png").read_bytes() for name in study.clips}
    assert len(pictures) == len(study.clips)


def test_each_input_and_sample_has_a_seed_of_its_own(tiny_pairs: Pairs) -> None:
    """The same z for all inputs would make one motion's luck that of a method."""
    asked: list[int] = []

    class Spy:
        def sample(self, frame: torch.Tensor, seeds: list[int]) -> torch.Tensor:
            asked.extend(seeds)
            return frame.repeat(len(seeds), 1, 1, 1)

    maker = ClipMaker(tiny_pairs, {"ours": Spy()}, snapped=False, seed=3)
    for number in range(4):
        maker.clips_of(number, [StudyClip(number, "ours", 16, sample) for sample in range(3)])
    assert len(asked) == len(set(asked)) == 12


@pytest.mark.parametrize("snapped", [False, True])
def test_predicted_frames_of_pixel_art_take_its_colours(tiny_pairs: Pairs, snapped: bool) -> None:
    class Faded:
        def sample(self, frame: torch.Tensor, seeds: list[int]) -> torch.Tensor:
            return (0.9 * frame).repeat(len(seeds), 1, 1, 1)

    maker = ClipMaker(tiny_pairs, {"ours": Faded()}, snapped=snapped, seed=3)
    (clip,) = maker.clips_of(0, [StudyClip(0, "ours", tiny_pairs.size[0], 0)]).values()
    both = np.array(Image.open(io.BytesIO(clip)).convert("RGB"))
    first, second = (set(map(tuple, half.reshape(-1, 3).tolist())) for half in np.split(both, 2, axis=1))
    assert (second <= first) is snapped


def test_from_four_obvious_trials_on_one_may_be_answered_wrongly(make: Make) -> None:
    for obvious, least in ((3, 3), (4, 3)):
        design = replace(DESIGN, obvious=obvious)
        assert make(design, name=str(obvious)).least_right == least


def test_no_tile_of_a_torn_picture_stays() -> None:
    frame = np.kron(np.arange(16, dtype=np.uint8).reshape(4, 4), np.ones((4, 4), np.uint8))[..., None].repeat(3, 2)
    for seed in range(20):
        result = torn(frame, seed)
        assert (result != frame).all() and (np.sort(result.flatten()) == np.sort(frame.flatten())).all()
    assert torn(np.zeros((18, 18, 3), np.uint8), 0).shape == (18, 18, 3)


def test_nothing_is_overwritten_unasked(make: Make, tmp_path: Path) -> None:
    first = make()
    with pytest.raises(UserError, match="--overwrite"):
        make()
    (tmp_path / "study" / "notes.txt").write_text("mine")
    second = make(Design("choice", ("ours",), (16,), inputs=2, trials=2, sessions=2, obvious=0), overwrite=True)
    assert second.id != first.id and (tmp_path / "study" / "notes.txt").read_text() == "mine"
    assert len(list((tmp_path / "study").glob("*.png"))) == len(second.clips)  # none of the old ones is left
    AnswerStore(tmp_path / "study", second).close()
    with pytest.raises(UserError, match="people's answers"):
        make(overwrite=True)


def test_mistakes(fails: Fails, tiny_weights_file: Path, tmp_path: Path, tiny_pairs: Pairs) -> None:  # noqa: F811
    model = ["--model", tiny_weights_file, "--method", "ours"]
    write_pairs(tmp_path / "few", tiny_pairs.subset(torch.arange(4)), lists=False)
    for words, reason in {
        ("--data", "nowhere"): "no data",
        ("--data", str(tmp_path / "few")): "pairs that move",
        ("--size", "64"): "are too large",
        ("--size", "4"): "8 to 256 pixels",
        ("--method", "magic"): "no method 'magic'",
        ("--method", "real"): "no method 'real'",
        ("--inputs", "10", "--trials", "4"): "multiple",
        ("--samples", "2"): "one sample",
        ("--inputs", "5000", "--trials", "500", "--sessions", "190"): "at most 12,000",
        ("--kind", "other"): "choice",
    }.items():
        assert reason in fails("study", "make", "new", *model, *words), words
    assert "no model" in fails("study", "make", "new", "--model", "nothing")
    for verb in ("serve", "offline", "score", "export"):
        assert "holds no study" in fails("study", verb, "nowhere")


def test_commands(run: Run, fails: Fails, tiny_weights_file: Path, tmp_path: Path) -> None:  # noqa: F811
    options = ["--method", "ours", "--size", "16", "--inputs", "4", "--sessions", "2"]
    made = run("study", "make", "new", "--model", tiny_weights_file, *options)
    assert made.code == 0 and "2 sessions of 10 trials" in made.out, made
    written = Path("new/study.json")
    written.write_text(written.read_text().replace("In this study", "We store <b>nothing</b>. In this study"))
    assert run("study", "offline", "new").code == 0
    page = Path("study.html").read_text()
    assert "We store \\u003cb>nothing" in page and "src=" not in page and '"real"' not in page and '"ours"' not in page
    assert "exists already" in fails("study", "offline", "new")
    assert "no answers" in fails("study", "score", "new")
    study = read_study(Path("new"))
    answers = ", ".join(
        f'{{"trial": {n}, "answer": "{study.right_answer(1, n)}", "milliseconds": 5}}' for n in range(10)
    )
    good = (
        '{"format": {"name": "visual-dynamics study answers", "version": 1}, "study": "STUDY", "rater": "RATER", '
        '"session": 1, "answers": [ANSWERS]}'
    )
    good = good.replace("STUDY", study.id).replace("RATER", "ab" * 16).replace("ANSWERS", answers)
    for change in [(study.id, "f" * 16), ("ab" * 16, "../x"), (': 1, "answers', ': 2, "answers'), ("left", "yes")]:
        Path("bad.json").write_text(good.replace(*change))
        assert "cannot take answers from bad.json" in fails("study", "import", "new", "bad.json")
    for text in ("", "[]", "{", "[" * 100_000, good[:-1], good.replace('"trial": 5', '"trial": 10')):
        Path("bad.json").write_text(text)
        fails("study", "import", "new", "bad.json")
    Path("answers.json").write_text(good)
    assert "10 new answers" in run("study", "import", "new", "answers.json").out
    assert "0 new answers" in run("study", "import", "new", "answers.json").out
    assert "1 of 1 raters count, with 4 of 10 answers" in run("study", "score", "new").out
    assert run("study", "score", "new", "--json").out.startswith("{")
    assert len(run("study", "export", "new").out.splitlines()) == 11
    assert run("study", "export", "new", "--out", "answers.csv").code == 0
    assert "exists already" in fails("study", "export", "new", "--out", "answers.csv")
    assert "cannot serve" in fails("study", "serve", "new", "--host", "203.0.113.7")
    assert "people's answers" in fails("study", "make", "new", "--model", tiny_weights_file, "--overwrite", *options)


def test_serving_needs_the_extra(fails: Fails, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install 'visual-dynamics[studio]'" in fails("study", "serve", "new")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (('"version": 1', '"version": 2'), "version 1"),
        (('"kind": "choice"', '"kind": "x"'), "kind"),
        (('"method": "ours"', '"method": "flow"'), "plan was changed"),
        (('"title": "Which', '"title": 3, "old": "Which'), "title"),
        (('"sessions": [', '"sessions": [[["../../x", "y"]],'), "do not exist"),
        (('"least_right": 2', '"least": 2'), "'least_right' is missing"),
        (("{", "["), "cannot read"),
    ],
)
def test_a_study_file_that_is_wrong(tmp_path: Path, change: tuple[str, str], reason: str) -> None:
    write_study(tmp_path / "study", CHOICE)
    path = tmp_path / "study" / "study.json"
    path.write_text(path.read_text().replace(*change, 1))
    with pytest.raises(UserError, match=reason):
        read_study(tmp_path / "study")


def test_texts_may_be_edited_and_pictures_may_not_be_missing(tmp_path: Path) -> None:
    study = write_study(tmp_path / "study", CHOICE)
    path = tmp_path / "study" / "study.json"
    path.write_text(path.read_text().replace("Which animation is real?", "Welches Bild ist echt?"))
    assert read_study(tmp_path / "study").id == study.id
    next((tmp_path / "study").glob("*.png")).unlink()
    with pytest.raises(UserError, match="missing"):
        read_study(tmp_path / "study")
