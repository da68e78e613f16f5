"""Folders and zips of N_im1/N_im2 pairs: what is read, and what is said of what cannot be."""

from __future__ import annotations

import re
import struct
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from visual_dynamics.data import folders
from visual_dynamics.data.folders import held_out_share, read_pairs, validation_words
from visual_dynamics.errors import UserError
from visual_dynamics.images import read_image

SHARED = Path(__file__).parents[2].parent / "shared"
AUTHORS = SHARED / "data" / "shapes" / "pairs.zip"


def write(folder: Path, number: int | str, extension: str = "png", size: tuple[int, int] = (6, 4)) -> None:
    """One pair; the red of the first frame is N, of the second 100 + N."""
    folder.mkdir(parents=True, exist_ok=True)
    for which, red in ((1, int(number)), (2, 100 + int(number))):
        image = Image.new("RGB", size, (red, 20, 30))
        options = {"lossless": True} if extension == "webp" else {}
        image.save(folder / f"{number}_im{which}.{extension}", **options)


def zipped(folder: Path, inside: str = "") -> Path:
    path = folder.with_suffix(".zip")
    with zipfile.ZipFile(path, "w") as archive:
        for file in folder.iterdir():
            archive.write(file, inside + file.name)
    return path


def reds(frames: torch.Tensor) -> list[int]:
    return frames[:, 0, 0, 0].tolist()


def complaint(path: Path, **options: object) -> str:
    with pytest.raises(UserError) as error:
        read_pairs(path, **options)  # type: ignore[arg-type]
    text = str(error.value)
    assert "\n" not in text
    return text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "pairs"
    for number, extension in ((10, "png"), (2, "webp"), (1, "bmp"), (33, "PNG")):
        write(path, number, extension)
    (path / "notes.md").write_text("not a frame")
    (path / "train.txt").write_text("33\n2\n10\n")
    (path / "test.txt").write_text("1")
    return path


@pytest.mark.parametrize("kind", ["folder", "zip", "zip with a folder inside"])
def test_pairs_come_in_the_order_of_their_numbers(folder: Path, kind: str) -> None:
    path = folder if kind == "folder" else zipped(folder, "shapes/data/" if "inside" in kind else "")
    pairs = read_pairs(path)
    assert pairs.size == (4, 6)
    assert reds(pairs.frames) == [1, 2, 10, 33]
    assert reds(pairs.next_frames) == [101, 102, 110, 133]
    assert (pairs.frames[:, 1:, :, :].flatten(2) == torch.tensor([[20], [30]])).all()
    assert reds(read_pairs(path, "train").frames) == [2, 10, 33]
    assert reds(read_pairs(path, "test").frames) == [1]
    assert reds(read_pairs(path, limit=2).frames) == [1, 2]
    assert reds(read_pairs(path, "train", limit=2).frames) == [2, 10]
    assert read_pairs(path, size=8).size == (8, 8)


@pytest.mark.parametrize("extension", ["jpg", "jpeg", "gif", "tif"])
def test_other_formats(tmp_path: Path, extension: str) -> None:
    write(tmp_path, 7, extension)
    pairs = read_pairs(tmp_path)
    assert abs(reds(pairs.frames)[0] - 7) <= 3
    assert abs(reds(pairs.next_frames)[0] - 107) <= 3


def test_grey_and_transparent_images_become_rgb(tmp_path: Path) -> None:
    Image.new("L", (5, 5), 90).save(tmp_path / "1_im1.png")
    Image.new("RGBA", (5, 5), (90, 91, 92, 255)).save(tmp_path / "1_im2.png")
    pairs = read_pairs(tmp_path)
    assert pairs.frames[0, :, 0, 0].tolist() == [90, 90, 90]
    assert pairs.next_frames[0, :, 0, 0].tolist() == [90, 91, 92]


def test_progress_is_reported(folder: Path) -> None:
    reported: list[tuple[int, int]] = []
    read_pairs(folder, "train", progress=lambda done, total: reported.append((done, total)))
    assert reported == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize("kind", ["clear", "turned", "deep"])
def test_train_and_sample_see_the_same_pixels(tmp_path: Path, kind: str) -> None:
    rng, exif = np.random.default_rng(0), Image.Exif()
    exif[0x0112] = 6  # a photograph that lies on its side
    for which in (1, 2):
        if kind == "clear":
            image = Image.fromarray(rng.integers(0, 256, (8, 16, 4), dtype=np.uint8))
        elif kind == "turned":
            image = Image.fromarray(rng.integers(0, 256, (16, 8, 3), dtype=np.uint8))
        else:
            image = Image.fromarray(rng.integers(0, 65_536, (8, 16), dtype=np.uint16))
        image.save(tmp_path / (f"1_im{which}.jpg" if kind == "turned" else f"1_im{which}.png"), exif=exif)
    for background in ((255, 255, 255), (0, 0, 0)):
        pairs = read_pairs(tmp_path, background=background)
        for which, frames in (("1", pairs.frames), ("2", pairs.next_frames)):
            (path,) = tmp_path.glob(f"1_im{which}.*")
            assert np.array_equal(frames[0].permute(1, 2, 0).numpy(), read_image(path, background))
    assert pairs.frames.shape == ((1, 3, 16, 8) if kind != "turned" else (1, 3, 8, 16))
    assert kind != "deep" or len(pairs.frames.unique()) > 50


def test_frames_of_several_sizes_need_a_size(folder: Path) -> None:
    write(folder, 11, size=(9, 9))
    text = complaint(folder)
    assert "11_im1.png" in text
    assert "9x9" in text
    assert "6x4" in text
    assert read_pairs(folder, size=5).frames.shape == (5, 3, 5, 5)


def test_a_pair_has_one_size(folder: Path) -> None:
    Image.new("RGB", (9, 9)).save(folder / "10_im2.png")
    assert "the frames of pair 10 " in complaint(folder, size=4) and "6x4 and 9x9" in complaint(folder, size=4)


def test_without_lists_a_tenth_is_for_validation(tmp_path: Path) -> None:
    for number in range(40):
        write(tmp_path, number)
    train, held_out = (reds(read_pairs(tmp_path, part=part).frames) for part in ("train", "validation"))
    assert len(held_out) == 4 and sorted(train + held_out) == list(range(40)) and held_out != list(range(4))
    assert validation_words(tmp_path).startswith("validation: 4 of 40 pairs")
    assert len(held_out_share(100_000)) == 256 and not held_out_share(9)
    (tmp_path / "train.txt").write_text("1 2")
    assert validation_words(tmp_path) == "no pairs are for validation: 2 are too few"
    (tmp_path / "validation.txt").write_text("3")
    assert validation_words(tmp_path) == "validation: the pairs of validation.txt"


def test_no_other_program_is_started(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n%%EOF\n"
    (folder / "10_im1.png").write_bytes(eps)

    def started(*command: object, **_: object) -> None:
        raise AssertionError(f"started {command}")

    monkeypatch.setattr("subprocess.Popen", started)
    for path in (folder, zipped(folder)):
        assert "10_im1.png" in complaint(path, size=4)


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
def test_zips_unpack_no_more_than_the_limit(folder: Path, monkeypatch: pytest.MonkeyPatch, compression: int) -> None:
    monkeypatch.setattr(folders, "MAX_BYTES", 100_000)
    path = folder.with_suffix(".zip")
    with zipfile.ZipFile(path, "w", compression) as archive:
        for file in folder.iterdir():
            archive.writestr(file.name, bytes(50_000_000) if file.name == "33_im1.PNG" else file.read_bytes())
    tracemalloc.start()
    text = complaint(path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 5_000_000
    assert ("33_im1.PNG" in text and "too large" in text) or compression == zipfile.ZIP_LZMA
    if compression == zipfile.ZIP_DEFLATED:  # and now it says that it is small
        path.write_bytes(path.read_bytes().replace(struct.pack("<I", 50_000_000), struct.pack("<I", 90)))
        assert "33_im1.PNG" in complaint(path)


def test_lists_are_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "MAX_LIST_BYTES", 1_000)
    (folder / "train.txt").write_text("2\n" * 501)
    assert "train.txt" in complaint(folder, split="train") and "too large" in complaint(folder, split="train")


def test_a_resized_frame_is_the_average(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    for which in (1, 2):
        Image.fromarray(values).save(tmp_path / f"1_im{which}.png")
    expected = values.astype(float).reshape(4, 2, 4, 2, 3).mean((1, 3)).transpose(2, 0, 1)
    assert np.abs(read_pairs(tmp_path, size=4).frames[0].numpy() - expected).max() <= 0.5


def test_missing_and_empty(tmp_path: Path) -> None:
    assert str(tmp_path / "nowhere") in complaint(tmp_path / "nowhere")
    assert complaint(tmp_path) == f"no N_im1/N_im2 pairs in {tmp_path}"
    (tmp_path / "empty").mkdir()
    path = zipped(tmp_path / "empty")
    assert complaint(path) == f"no N_im1/N_im2 pairs in {path}"


@pytest.mark.parametrize("which", ["1", "2"])
def test_half_a_pair(folder: Path, which: str) -> None:
    (folder / f"10_im{which}.png").unlink()
    text = complaint(folder)
    assert f"10_im{'21'[int(which) - 1]}.png" in text
    assert f"no partner 10_im{which}" in text
    assert reds(read_pairs(folder, "test").frames) == [1]  # not asked for, not in the way


def test_a_frame_twice(folder: Path) -> None:
    write(folder, "010", "png")
    assert "twice" in complaint(folder)


def test_lists(folder: Path) -> None:
    assert "no valid.txt" in complaint(folder, split="valid")
    (folder / "train.txt").write_text("2\n77\n")
    assert "77" in complaint(folder, split="train")
    (folder / "train.txt").write_text("2\nbanana\n")
    assert "'banana'" in complaint(folder, split="train")
    (folder / "train.txt").write_text("9" * 5000)
    assert "not a number" in complaint(folder, split="train")
    (folder / "train.txt").write_bytes(b"\xff\xfe2")
    assert "not a number" in complaint(folder, split="train")
    (folder / "train.txt").write_text("\n")
    assert "empty" in complaint(folder, split="train")
    assert "limit" in complaint(folder, limit=0)
    assert "size" in complaint(folder, size=0)


@pytest.mark.parametrize("content", [b"", b"not an image", "half"])
@pytest.mark.parametrize("kind", ["folder", "zip"])
def test_broken_images_are_named(folder: Path, content: bytes | str, kind: str) -> None:
    rng = np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 256, (40, 60, 3), dtype=np.uint8)).save(folder / "33_im2.PNG")
    whole = (folder / "33_im2.PNG").read_bytes()
    (folder / "33_im2.PNG").write_bytes(whole[: len(whole) // 2] if isinstance(content, str) else content)
    text = complaint(folder if kind == "folder" else zipped(folder), size=4)
    assert "33_im2.PNG" in text
    assert re.search("the file is empty|not a readable PNG|truncated", text)


def huge_png(side: int) -> bytes:
    """A few bytes that claim to be side x side pixels."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


@pytest.mark.parametrize("side", [8_001, 12_000, 100_000])
@pytest.mark.filterwarnings("error")
def test_giant_images_are_an_error_before_decoding(folder: Path, side: int) -> None:
    (folder / "2_im1.webp").unlink()
    (folder / "2_im1.png").write_bytes(huge_png(side))
    text = complaint(folder, size=4)
    assert "2_im1.png" in text
    assert "64 million in all" in text


def test_broken_zips(folder: Path, tmp_path: Path) -> None:
    path = zipped(folder)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert "readable zip" in complaint(path)
    path.write_bytes(b"\0" * 100)
    assert "readable zip" in complaint(path)
    place = whole.index((folder / "10_im1.png").read_bytes())
    path.write_bytes(whole[: place + 20] + b"\xff\xff\xff" + whole[place + 23 :])  # its checksum no longer fits
    assert "10_im1.png" in complaint(path)
    place = whole.index(b"33\n2\n10")
    path.write_bytes(whole[:place] + b"44" + whole[place + 2 :])
    assert "train.txt" in complaint(path, split="train")


def test_a_zip_with_two_folders_of_pairs(folder: Path) -> None:
    path = zipped(folder, "a/")
    with zipfile.ZipFile(path, "a") as archive:
        archive.write(folder / "2_im1.webp", "b/2_im1.webp")
    assert "several folders" in complaint(path)


@settings(max_examples=60, deadline=None)
@given(cut=st.integers(0, 2000), junk=st.binary(max_size=8))
def test_a_damaged_zip_is_read_or_an_error(tmp_path_factory: pytest.TempPathFactory, cut: int, junk: bytes) -> None:
    folder = tmp_path_factory.mktemp("damaged") / "pairs"
    write(folder, 1)
    write(folder, 2)
    path = zipped(folder)
    whole = path.read_bytes()
    path.write_bytes(whole[:cut] + junk + whole[cut + len(junk) :])
    try:
        assert len(read_pairs(path)) in (1, 2)
    except UserError as error:
        assert "\n" not in str(error)


@pytest.mark.skipif(not AUTHORS.exists(), reason="the authors' pairs are not here")
def test_the_authors_pairs_are_read() -> None:
    pairs = read_pairs(AUTHORS, size=64, limit=50)
    assert pairs.frames.shape == (50, 3, 64, 64)
    assert (pairs.frames != pairs.next_frames).flatten(1).any(1).all()
