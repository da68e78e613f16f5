"""The figure of futures in small: what is shown, where it zooms, and figures from the JSON alone."""

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

pytest.importorskip("cv2")

from tests.characters import noise_characters
from visual_dynamics.api import load
from visual_dynamics.data import reed as sprites
from visual_dynamics.data import shapes
from visual_dynamics.data.pairs import Pairs, resize_frames
from visual_dynamics.errors import UserError
from visual_dynamics.experiments import futures
from visual_dynamics.experiments.futures import FuturesOptions, SpriteFuturesOptions
from visual_dynamics.reporting.base import Measured
from visual_dynamics.reporting.drawing import FutureRow, zoom_box

CPU = torch.device("cpu")


class Shown:
    """The result of a run, and the pictures of its rows before they were enlarged."""

    def __init__(self, options: Any, compute: Any = None) -> None:
        self.rows: list[FutureRow] = []
        show = futures.show

        def kept(*given: Any) -> FutureRow:
            self.rows.append(show(*given))
            return self.rows[-1]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(futures, "FLOW_SCENES", 20)
            patch.setattr(futures, "show", kept)
            self.made: Measured = (compute or futures.compute)(options, CPU, lambda step, share: None)
        self.result = self.made.numbers | {"seed": options.seed, "model": "tiny"}

    def picture(self, name: str) -> Image.Image:
        return Image.open(io.BytesIO(self.made.pictures[name])).convert("RGB")


def make(options: FuturesOptions) -> Shown:
    return Shown(options)


def write_pairs(folder: Path, pairs: Pairs) -> None:
    for number, frames in enumerate(zip(pairs.frames, pairs.next_frames, strict=True), 1):
        for name, frame in zip(("im1", "im2"), frames, strict=True):
            Image.fromarray(frame.permute(1, 2, 0).numpy()).save(folder / f"{number}_{name}.png")


@pytest.fixture(scope="module")
def shown(tiny_weights_file: Path) -> Shown:
    return make(FuturesOptions(model=str(tiny_weights_file), samples=3, seed=4))


def test_every_row_and_picture_is_there(shown: Shown) -> None:
    assert len(shown.rows) == len(shown.result["rows"]) == 3
    for row, numbers in zip(shown.rows, shown.result["rows"], strict=True):
        assert len(row.samples) == 3 and row.flow is not None and row.zoom == numbers["zoom"]
        assert {picture.shape for picture in (*row[:3], *row.samples, row.flow)} == {(16, 16, 3)}
        error = ((row.input / 255 - row.truth / 255) ** 2).sum()
        assert numbers["errors"]["copy"] == pytest.approx(error) and numbers["errors"]["reconstruction"] > 0
    assert shown.result["protocol"]["flow"] == {"pairs": 20, "source": "training scenes"}


def test_each_row_has_codes_of_its_own(shown: Shown, tiny_weights_file: Path) -> None:
    """Those of `sample --seed`, from the row's own seed; the reconstruction is the pair encoded and decoded."""
    model = load(tiny_weights_file)
    for place, (row, numbers) in enumerate(zip(shown.rows, shown.result["rows"], strict=True)):
        assert numbers["seed"] == 4 + place
        assert np.array_equal(row.samples, model.sample(row.input, 3, 4 + place))
        assert not np.array_equal(row.samples, model.sample(row.input, 3, 5 + place))
        assert len({sample.tobytes() for sample in row.samples}) == 3
        reconstruction = model.apply(row.input, model.encode(row.input, row.truth))
        error = ((reconstruction / 255 - row.truth / 255) ** 2).sum()
        assert numbers["errors"]["reconstruction"] == pytest.approx(error)


def test_the_headline_says_the_range() -> None:
    errors = [{"reconstruction": 1.0, "copy": 30.0}, {"reconstruction": 4.0, "copy": 10.0}]
    line = futures.headline({"rows": [{"errors": each} for each in errors]})
    assert (line.ours, line.floor) == ("2.5 (1.0 to 4.0)", "20.0 (10.0 to 30.0) (copying the input)")
    assert "mean (range) of 2 rows" in line.measure


def test_the_seed_decides(shown: Shown, tiny_weights_file: Path) -> None:
    options = FuturesOptions(model=str(tiny_weights_file), samples=2, seed=4)
    again, other = make(options), make(replace(options, seed=5))
    assert again.result["rows"] == shown.result["rows"][:2]
    assert len({row.input.tobytes() for one in (again, other) for row in one.rows}) == 4


def test_figures_show_the_rows(shown: Shown, tmp_path: Path) -> None:
    text = futures.draw(shown.result, tmp_path)
    assert text.count("test scene") == 3 + 1 and "Flow: a sample of flow transfer from 20 pairs" in text
    figure, strips = shown.picture("futures.png"), shown.picture("futures_extrapolation.png")
    assert figure.width > 11 * 192 and strips.width > 7 * 192 and figure.height == strips.height > 3 * 192
    pixels = np.array(strips)[-600:]  # three rows of 192 + 8 pixels
    for place, expected in ((8, shown.rows[0].input), (8 + 192 + 28, shown.rows[0].samples[0])):
        assert np.array_equal(pixels[:192, place : place + 192], expected.repeat(12, 0).repeat(12, 1))


def test_it_zooms_where_most_moves() -> None:
    draw = np.random.default_rng(0)
    for _ in range(5):
        frame, truth = draw.integers(0, 256, (2, 20, 20, 3), dtype=np.uint8)
        left, top, side = zoom_box(frame, truth)
        motion = ((frame.astype(float) - truth) ** 2).sum(2)
        every = [motion[y : y + 8, x : x + 8].sum() for y in range(13) for x in range(13)]
        assert side == 8 and motion[top : top + 8, left : left + 8].sum() == max(every)
    still = np.zeros((20, 20, 3), np.uint8)
    moved = still.copy()
    moved[5:7, 15:17] = 9
    assert zoom_box(still, moved) == [10, 2, 8]  # of lefts 9 ... 12 and tops 0 ... 5 the middle
    assert zoom_box(still, still) == [6, 6, 8]


def test_all_shapes_are_in_sight() -> None:
    names = futures.shapes_inputs(4, 2, 16, flow_scenes=1).names
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
    options = SpriteFuturesOptions(model=str(tiny_weights_file), sprites=tmp_path / "packed")
    made = Shown(options, futures.compute_sprites)
    assert len(made.rows) == 3  # of the five wanted: no character twice
    shown = set()
    for row, pictures in zip(made.result["rows"], made.rows, strict=True):
        number, animation, view, place = (row["name"].split(", ")[i].split()[-1] for i in range(4))
        clip = next(clip for clip in sprites.CLIPS if clip[:2] == (animation, view))
        frames = torch.nn.functional.pad(characters.rgb(int(number), clip.frames), (2, 2, 2, 2))
        expected = resize_frames(frames, 16).permute(0, 2, 3, 1).numpy()[int(place) - 1 :]
        assert np.array_equal(np.stack(pictures[:2]), expected[:2])
        shown.add((number, animation, view))
    assert {number for number, *_ in shown} == {"2", "3", "5"}
    assert {animation for _, animation, _ in shown} == {"spellcast", "thrust", "walk"}
    assert made.result["protocol"]["flow"]["pairs"] == 157
    flow = futures.sprite_inputs(tmp_path / "packed", 3, 0, 64, lambda step, share: None).flow
    assert flow is not None and torch.equal(flow.store, sprites.sprite_pairs(characters.subset([0])).store)
    assert "Liberated Pixel Cup" in futures.draw(made.result, tmp_path)
    assert set(made.made.pictures) == {"futures-sprites.png", "futures-sprites_extrapolation.png"}


def test_sprites_are_spread_over_all_clips() -> None:
    moments = futures.sprite_moments(24, seed=1)
    assert {clip for clip, _ in moments} == set(range(21))
    for clip, frame in moments:
        frames = range(sprites.FRAMES)[sprites.CLIPS[clip].frames]
        assert frame in frames and frame + 1 in frames


def test_pairs_with_and_without_lists(tiny_weights_file: Path, tiny_pairs: Pairs, tmp_path: Path) -> None:
    write_pairs(tmp_path, tiny_pairs)
    options = FuturesOptions(model=str(tiny_weights_file), pairs=tmp_path, samples=2)
    without = make(options)
    (tmp_path / "test.txt").write_text("3\n7\n")
    (tmp_path / "train.txt").write_text("\n".join(map(str, range(8, 40))))
    listed = make(options)
    assert without.result["protocol"]["flow"] is None and all(row.flow is None for row in without.rows)
    assert listed.result["protocol"]["flow"]["pairs"] == 32
    shown = {row.input.tobytes() for row in listed.rows}
    assert shown == {tiny_pairs.frames[place].permute(1, 2, 0).numpy().tobytes() for place in (2, 6)}
    for made in (without, listed):
        assert ("flow transfer" in futures.draw(made.result, tmp_path)) == (made is listed)
    widths = [made.picture("futures.png").width for made in (without, listed)]
    assert widths[1] - widths[0] > 192  # a column more


def test_a_trained_model_reconstructs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(futures, "STEPS", 1)
    errors = make(FuturesOptions(samples=1)).result["rows"][0]["errors"]
    assert errors["reconstruction"] < errors["copy"] / 20


def test_mistakes_are_reported(tiny_weights_file: Path, tmp_path: Path) -> None:
    tiny = str(tiny_weights_file)
    for options, compute, words in (
        (FuturesOptions(samples=51), futures.compute, "at most 50 rows"),
        (FuturesOptions(model=tiny, pairs=tmp_path), futures.compute, "no N_im1/N_im2 pairs"),
        (SpriteFuturesOptions(), futures.compute_sprites, "give their folder with --sprites"),
        (SpriteFuturesOptions(model=tiny, sprites=tmp_path), futures.compute_sprites, "no sprites in"),
    ):
        with pytest.raises(UserError, match=words):
            Shown(options, compute)
