"""The figure of futures in small: what is shown, where it zooms, and figures from the JSON alone."""

import base64
import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

pytest.importorskip("cv2")

from tests.characters import noise_characters
from visual_dynamics.data import reed as sprites
from visual_dynamics.data import shapes
from visual_dynamics.data.pairs import Pairs, resize_frames
from visual_dynamics.errors import UserError
from visual_dynamics.experiments import EXPERIMENTS, futures_figure, futures_sprites
from visual_dynamics.experiments.futures_figure import Options

CPU = torch.device("cpu")
SINGLE = ("input", "truth", "reconstruction", "flow")


def pixels(text: str) -> np.ndarray:
    return np.array(Image.open(io.BytesIO(base64.b64decode(text))))


def make(options: Options) -> dict:
    patch = pytest.MonkeyPatch()
    patch.setattr(futures_figure, "FLOW_SCENES", 20)
    made = futures_figure.compute(options, CPU, lambda what, share: None)
    patch.undo()
    return json.loads(json.dumps(made))


def write_pairs(folder: Path, pairs: Pairs) -> None:
    for number, frames in enumerate(zip(pairs.frames, pairs.next_frames, strict=True), 1):
        for name, frame in zip(("im1", "im2"), frames, strict=True):
            Image.fromarray(frame.permute(1, 2, 0).numpy()).save(folder / f"{number}_{name}.png")


@pytest.fixture(scope="module")
def result(tiny_weights_file: Path) -> dict:
    return make(Options(str(tiny_weights_file), samples=3, seed=4))


def test_every_row_and_picture_is_there(result: dict) -> None:
    assert len(result["rows"]) == 3
    for row in result["rows"]:
        pictures = row["pictures"]
        assert (len(pictures["samples"]), len(pictures["steps"])) == (3, 6)
        for text in (*(pictures[name] for name in SINGLE), *pictures["samples"], *pictures["steps"]):
            assert pixels(text).shape == (16, 16, 3)
        assert pictures["steps"][0] == pictures["samples"][0]  # the clip repeats the first sample's motion
        frame, truth = (pixels(pictures[name]) / 255 for name in ("input", "truth"))
        assert row["errors"]["copy"] == pytest.approx(((frame - truth) ** 2).sum())
        assert row["errors"]["reconstruction"] > 0
    assert result["protocol"]["flow"] == {"pairs": 20, "source": "training scenes"}


def test_provenance_is_there(result: dict) -> None:
    assert all(result[name] is not None for name in ("seed", "commit", "weights", "device", "seconds", "protocol"))


def test_the_seed_decides(result: dict, tiny_weights_file: Path) -> None:
    again = make(Options(str(tiny_weights_file), samples=2, seed=4))
    assert again["rows"] == result["rows"][:2]
    other = make(Options(str(tiny_weights_file), samples=2, seed=5))
    inputs = {row["pictures"]["input"] for made in (again, other) for row in made["rows"]}
    assert len(inputs) == 4


def test_figures_come_from_the_json_alone(result: dict, tmp_path: Path) -> None:
    text = EXPERIMENTS["futures"].draw(result, tmp_path)
    assert (tmp_path / "futures.md").read_text() == text and text.count("test scene") == 3 + 1
    assert "Flow a sample of flow transfer from 20 pairs" in text and result["weights"][:12] in text
    figure, strips = (
        Image.open(tmp_path / name).convert("RGB") for name in ("futures.png", "futures_extrapolation.png")
    )
    assert figure.width > 11 * 192 and strips.width > 7 * 192 and figure.height == strips.height > 3 * 192
    still = np.array(Image.fromarray(pixels(result["rows"][0]["pictures"]["input"])).resize((192, 192), 0))
    assert np.array_equal(np.array(strips)[-600:, 8:200][:192], still)  # three rows of 192 + 8 pixels


def test_it_zooms_where_most_moves() -> None:
    draw = np.random.default_rng(0)
    for _ in range(5):
        frame, truth = draw.integers(0, 256, (2, 20, 20, 3), dtype=np.uint8)
        left, top, side = futures_figure.zoom_box(frame, truth)
        motion = ((frame.astype(float) - truth) ** 2).sum(2)
        every = [motion[y : y + 8, x : x + 8].sum() for y in range(13) for x in range(13)]
        assert side == 8 and motion[top : top + 8, left : left + 8].sum() == max(every)
    still = np.zeros((20, 20, 3), np.uint8)
    moved = still.copy()
    moved[5:7, 15:17] = 9
    assert futures_figure.zoom_box(still, moved) == [10, 2, 8]  # of lefts 9 ... 12 and tops 0 ... 5 the middle
    assert futures_figure.zoom_box(still, still) == [6, 6, 8]


def test_all_shapes_are_in_sight() -> None:
    names = futures_figure.shapes_inputs(4, 2, 16, known=1).names
    chosen = [int(name.removeprefix("test scene ")) for name in names]
    scenes = shapes.draw_scenes(80, 2, "test").subset(chosen)
    assert len(chosen) == 4 and chosen == sorted(chosen)
    for moved in (False, True):
        visible, whole = (mask.sum((2, 3)) for mask in shapes.masks(scenes, moved, "smooth", 64))
        assert (visible / whole).min() > 0.78


def test_sprites_are_neighbouring_frames_of_test_characters(
    tiny_weights_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    characters = noise_characters(6)
    sprites.pack_characters(characters, tmp_path / "packed")
    monkeypatch.setattr(sprites, "reed_split", lambda: sprites.Split(*map(np.arange, (1, 0)), np.array([2, 3, 5])))
    options = futures_sprites.Options(str(tiny_weights_file), sprites=tmp_path / "packed")
    made = json.loads(json.dumps(futures_sprites.compute(options, CPU, lambda what, share: None)))
    assert len(made["rows"]) == 3  # of five that were asked for: no character twice
    shown = set()
    for row in made["rows"]:
        number, animation, view, place = (row["name"].split(", ")[i].split()[-1] for i in range(4))
        clip = next(clip for clip in sprites.CLIPS if clip[:2] == (animation, view))
        frames = torch.nn.functional.pad(characters.rgb(int(number), clip.frames), (2, 2, 2, 2))
        expected = resize_frames(frames, 16).permute(0, 2, 3, 1).numpy()[int(place) - 1 :]
        for name, frame in zip(("input", "truth"), expected, strict=False):
            assert np.array_equal(pixels(row["pictures"][name]), frame)
        shown.add((number, animation, view))
    assert {number for number, *_ in shown} == {"2", "3", "5"}
    assert {animation for _, animation, _ in shown} == {"spellcast", "thrust", "walk"}
    assert made["protocol"]["flow"]["pairs"] == 157
    assert "Liberated Pixel Cup" in EXPERIMENTS["futures-sprites"].draw(made, tmp_path)
    assert {path.name for path in tmp_path.glob("*.png")} == {
        "futures-sprites.png",
        "futures-sprites_extrapolation.png",
    }


def test_sprites_are_spread_over_all_clips() -> None:
    moments = futures_sprites.sprite_moments(24, seed=1)
    assert {clip for clip, _ in moments} == set(range(21))
    for clip, frame in moments:
        frames = range(sprites.FRAMES)[sprites.CLIPS[clip].frames]
        assert frame in frames and frame + 1 in frames


def test_pairs_with_and_without_lists(tiny_weights_file: Path, tiny_pairs: Pairs, tmp_path: Path) -> None:
    write_pairs(tmp_path, tiny_pairs)
    options = Options(str(tiny_weights_file), pairs=tmp_path, samples=2)
    without = make(options)
    (tmp_path / "test.txt").write_text("3\n7\n")
    (tmp_path / "train.txt").write_text("\n".join(map(str, range(8, 40))))
    listed = make(options)
    assert without["protocol"]["flow"] is None and all(row["pictures"]["flow"] is None for row in without["rows"])
    assert listed["protocol"]["flow"]["pairs"] == 32
    shown = {pixels(row["pictures"]["input"]).tobytes() for row in listed["rows"]}
    assert shown == {tiny_pairs.frames[place].permute(1, 2, 0).numpy().tobytes() for place in (2, 6)}
    widths = []
    for made in (without, listed):
        assert ("flow transfer" in futures_figure.draw(made, tmp_path)) == (made is listed)
        widths.append(Image.open(tmp_path / "futures.png").width)
    assert widths[1] - widths[0] > 192  # a column more


def test_a_trained_model_reconstructs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(futures_figure, "STEPS", 1)
    errors = make(Options(samples=1))["rows"][0]["errors"]
    assert errors["reconstruction"] < errors["copy"] / 20


def test_mistakes_are_told(tiny_weights_file: Path, tmp_path: Path) -> None:
    for options, words in (
        (Options(samples=51), "at most 50 rows"),
        (Options(str(tiny_weights_file), pairs=tmp_path), "no N_im1/N_im2 pairs"),
    ):
        with pytest.raises(UserError, match=words):
            make(options)
    for sprites_options, words in (
        (futures_sprites.Options(), "give their folder with --sprites"),
        (futures_sprites.Options(str(tiny_weights_file), sprites=tmp_path), "no sprites in"),
    ):
        with pytest.raises(UserError, match=words):
            futures_sprites.compute(sprites_options, CPU, lambda what, share: None)
