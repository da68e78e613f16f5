"""What notebooks show: `show`, and what objects draw of themselves."""

import base64
import io
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import visual_dynamics as vd
from visual_dynamics.display import GAP, SIDE, Shown
from visual_dynamics.media import LABEL_HEIGHT

CELL = SIDE + GAP


@pytest.fixture(scope="module")
def model(tiny_weights_file: Path) -> vd.Model:
    return vd.load(tiny_weights_file)


def frames(count: int = 3, height: int = 16, width: int = 16) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, height, width, 3), dtype=np.uint8)


def opened(shown: Shown) -> Image.Image:
    """What a browser gets."""
    (source,) = re.findall(r'^<img src="data:image/png;base64,([^"]+)" alt="[^"]+"', shown._repr_html_())
    return Image.open(io.BytesIO(base64.b64decode(source)))


def test_futures_are_a_grid_of_enlarged_pixels() -> None:
    picture = np.array(opened(vd.show(frames(3))))
    assert picture.shape == (CELL + GAP, 3 * CELL + GAP, 3)
    for number, frame in enumerate(frames(3)):  # each pixel is a square of 8 x 8: no smoothing
        left = GAP + number * CELL
        np.testing.assert_array_equal(picture[GAP : GAP + SIDE, left : left + SIDE], frame.repeat(8, 0).repeat(8, 1))


def test_clips_play_together() -> None:
    clips = np.stack([frames(4), frames(4)[::-1]])
    shown = opened(vd.show(clips, fps=5))
    assert shown.n_frames == 4 and shown.size == (2 * CELL + GAP, CELL + GAP) and shown.info["duration"] == 200
    shown.seek(3)
    last = np.array(shown.convert("RGB"))[GAP : GAP + SIDE : 8]
    np.testing.assert_array_equal(last[:, GAP : GAP + SIDE : 8], clips[0, 3])
    np.testing.assert_array_equal(last[:, GAP + CELL : GAP + CELL + SIDE : 8], clips[1, 3])
    for one in (clips[0], list(clips[0]), [clips[0]]):
        single = opened(vd.show(one, fps=5))
        assert single.n_frames == 4 and single.size == (CELL + GAP, CELL + GAP)


def test_tensors_files_and_lists_are_pictures_too(tmp_path: Path) -> None:
    Image.fromarray(frames()[0]).save(tmp_path / "picture.png")
    stored = torch.from_numpy(frames()).permute(0, 3, 1, 2)  # uint8 (3, 3, 16, 16), as data holds them
    wanted = vd.show(frames()).data
    for same in (
        stored,
        stored / 255,
        list(frames()),
        [stored[0], frames()[1:]],
        [tmp_path / "picture.png", stored[1:]],
    ):
        assert vd.show(same).data == wanted
    outside = 2 * stored.float() / 255 - 0.5  # as a network's sums may be
    assert vd.show(outside).data == vd.show(outside.clamp(0, 1)).data != wanted


def test_sizes_scales_and_columns() -> None:
    small, large = frames(1, 16, 16)[0], frames(1, 64, 32)[0]
    assert opened(vd.show([small, large])).size == (2 * CELL + GAP, CELL + GAP)  # each enlarged to the same height
    assert opened(vd.show(frames(4), columns=2, scale=1)).size == (2 * 20 + GAP, 2 * 20 + GAP)
    assert opened(vd.show(frames(1, 300, 200))).size == (200 + 2 * GAP, 300 + 2 * GAP)  # never made smaller


def test_labels_stand_below_and_in_words() -> None:
    shown = vd.show(frames(2), labels=["<now>", 7])
    assert opened(shown).size[1] == CELL + GAP + LABEL_HEIGHT
    assert 'alt="&lt;now&gt;, 7"' in shown._repr_html_()
    assert "data" not in repr(shown)


@pytest.mark.parametrize(
    ("given", "options", "words"),
    [
        ([], {}, "nothing to show"),
        (np.zeros((0, 4, 4, 3), np.uint8), {"fps": 2}, "nothing to show"),
        (np.zeros((4, 4, 3)), {}, "cannot read the array"),
        (torch.zeros(4, 4), {}, r"tensors are \(3, H, W\)"),
        ("nowhere.png", {}, "no such file"),
        ("nowhere.gif", {"fps": 2}, "a clip is an array"),
        ([frames(2), frames(3)], {"fps": 2}, "one length, not 2, 3"),
        (frames(2), {"labels": "abc"}, "3 labels do not fit 2 pictures"),
        (frames(2), {"columns": 0}, "1 column or more"),
        (frames(2), {"scale": 0}, "1 or more"),
        (frames(2), {"fps": 0}, "cannot write a clip with 0 frames"),
        (frames(2), {"scale": 2_000}, "too many to show"),
    ],
)
def test_what_cannot_be_shown(given: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(vd.UserError, match=words):
        vd.show(given, **options)


def test_results_stay_plain_arrays(model: vd.Model) -> None:
    image = frames()[0]
    motion = model.encode(image, image)
    for result in (model.sample(image), model.apply(image, motion), model.extrapolate(image), motion.mean):
        assert type(result) is np.ndarray


def test_strips_stand_one_below_the_other(model: vd.Model) -> None:
    strips = model.traverse(frames()[0], n=2)
    assert opened(vd.show(strips)).size == (9 * CELL + GAP, 2 * CELL + GAP)
    assert 'alt="-3, -2.2,' in strips[0]._repr_html_()


def test_a_motion_draws_its_strongest_dimensions() -> None:
    mean, variance = np.zeros(40, np.float32), np.ones(40, np.float32)
    mean[[3, 39]], variance[39] = (2.0, -3.0), 0.01
    drawn = vd.Motion(mean, variance)._repr_html_()
    assert "motion code of 40 dimensions, 8.3 nats from the prior" in drawn  # 2 + (9 + 0.01 + 4.605 - 1) / 2
    assert drawn.count("<circle") == 32
    assert ">3</text>" in drawn and ">39</text>" in drawn
    heights = [float(height) for height in re.findall(r'width="6" height="([\d.]+)"', drawn)]
    assert heights[-1] == pytest.approx(0.1 * heights[0], abs=0.06)  # deviations of 0.1 and 1


def test_a_model_says_what_it_is(model: vd.Model) -> None:
    text = re.sub("<[^>]+>", " ", model._repr_html_())
    assert "16 x 16 pixels" in text and "200 dimensions" in text and model.weights.digest[:12] in text


def test_show_needs_no_model() -> None:
    code = "import sys, visual_dynamics as vd; vd.show; print('visual_dynamics.api' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
