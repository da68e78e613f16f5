"""Sheets of pictures, plots and tables."""

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from visual_dynamics.images import Pixels
from visual_dynamics.reporting.drawing import (
    FRAME,
    GAP,
    HEAD,
    PAPER,
    WIDE_GAP,
    Group,
    enlarged,
    footer,
    framed,
    listed,
    plot,
    sheet,
    table,
    to_pixels,
    zoomed,
)

RED, BLUE = np.full((4, 6, 3), (255, 0, 0), np.uint8), np.full((4, 6, 3), (0, 0, 255), np.uint8)


def opened(data: bytes) -> Pixels:
    return np.array(Image.open(io.BytesIO(data)).convert("RGB"))


def test_frames_become_pixels() -> None:
    frame = torch.tensor([-0.2, 0.5, 1.3])[:, None, None].expand(3, 2, 4)
    assert to_pixels(frame).tolist() == [[[0, 128, 255]] * 4] * 2


def test_pictures_stand_in_their_rows_and_groups() -> None:
    made = opened(sheet([Group("a", ["x"], [[RED], [BLUE]]), Group("b", ["1", "2"], [[BLUE, RED], [RED, BLUE]])]))
    assert made.shape == (HEAD + 2 * (4 + GAP), GAP + 3 * (6 + GAP) + WIDE_GAP - GAP, 3)
    second = HEAD + 4 + GAP
    for left, colours in (
        (GAP, (RED, BLUE)),
        (GAP + 6 + WIDE_GAP, (BLUE, RED)),
        (GAP + 12 + WIDE_GAP + GAP, (RED, BLUE)),
    ):
        for top, colour in zip((HEAD, second), colours, strict=True):
            assert (made[top : top + 4, left : left + 6] == colour).all()
    assert (made[-GAP:] == PAPER).all() and (made[:HEAD] != PAPER).any()


def test_labels_stand_before_the_rows() -> None:
    groups = [Group("", [""], [[RED], [BLUE]])]
    plain, labelled = opened(sheet(groups)), opened(sheet(groups, ["one", "another\nlabel"]))
    more = labelled.shape[1] - plain.shape[1]
    assert more > WIDE_GAP and (labelled[:, more:] == plain).all() and (labelled[:, :more] != PAPER).any()


def test_a_box_is_framed_and_enlarged() -> None:
    picture = np.zeros((8, 8, 3), np.uint8)
    picture[2:6, 4:8] = 200
    large, part = framed(picture, [4, 2, 4]), zoomed(picture, [4, 2, 4])
    assert large.shape == part.shape == enlarged(picture).shape == (192, 192, 3)
    assert tuple(large[48, 96]) == tuple(large[143, 191]) == tuple(part[0, 0]) == FRAME
    assert (part[2:-2, 2:-2] == 200).all() and (large[50:142, 98:190] == 200).all() and not large[:48].any()


def test_plots_are_saved(tmp_path: Path) -> None:
    with plot(tmp_path / "plot.png", 4, 3, columns=2, sharey=True) as axes:
        assert axes.shape == (1, 2)
        axes[0, 1].plot([1, 2])
    assert Image.open(tmp_path / "plot.png").size == (440, 330)
    with pytest.raises(ZeroDivisionError), plot(tmp_path / "no.png", 4, 3):
        raise ZeroDivisionError
    assert not (tmp_path / "no.png").exists()


def test_tables() -> None:
    made = table(["KL(a || b)", "x"], [["ours", "1"], ["copy", ""]], bold=("ours",))
    assert made.splitlines() == ["| KL(a \\|\\| b) | x |", "|---|---:|", "| **ours** | **1** |", "| copy |  |"]
    assert listed([1.234, None], 1) == "1.2 / none"


def test_the_footer_says_where_a_result_comes_from() -> None:
    result = {
        "seed": 1,
        "commit": "a" * 40,
        "weights": "b" * 64,
        "guide_weights": "c" * 64,
        "device": "CPU",
        "torch": "2",
    }
    words = (
        f"Seed 1; commit {'a' * 12}; weights (sha256) {'b' * 12}, guide {'c' * 12}; device CPU, torch 2; time 1,234 s."
    )
    assert footer(result | {"seconds": 1234.4}) == words
    sets = {"sets": {"Shapes": {"model": "shapes", "weights": "d" * 64}}}
    assert f"weights (sha256) shapes {'d' * 12};" in footer(result | sets)
