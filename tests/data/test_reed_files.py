"""Both forms of the files of sprite characters, packed and as published, and what is said of what cannot be read."""

from __future__ import annotations

import lzma
import pickle
import re
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.data.conftest import assert_same
from visual_dynamics.data.reed import CLIPS, Characters, pack_characters, read_characters
from visual_dynamics.errors import UserError


def complaint(path: Path, **options: object) -> str:
    with pytest.raises(UserError) as error:
        read_characters(path, **options)  # type: ignore[arg-type]
    text = str(error.value)
    assert "\n" not in text
    return text


class TestPackedForm:
    def test_reads_what_was_packed(self, made: Characters, packed_once: Path) -> None:
        read = read_characters(packed_once)
        assert_same(read, made)
        assert (read.frames == made.frames).all()
        assert read.frames.dtype == np.uint16

    def test_reads_some(self, made: Characters, packed_once: Path) -> None:
        assert_same(read_characters(packed_once, [2, 0]), made.subset([0, 2]))
        assert complaint(packed_once, numbers=[1, 7]) == f"no sprite character 7 among the 3 in {packed_once}"

    def test_only_a_set_without_gaps_can_be_packed(self, made: Characters, tmp_path: Path) -> None:
        with pytest.raises(UserError, match="without a gap"):
            pack_characters(made.subset([0, 2]), tmp_path / "out")
        assert not (tmp_path / "out").exists()

    @pytest.mark.parametrize("name", ["frames.u16.xz", "masks.packbits.xz", "palette.npy", "sprite_large_labels.txt"])
    def test_broken_files_are_an_error_of_one_line(self, packed: Path, name: str) -> None:
        file = packed / name
        whole = file.read_bytes()
        for content in (b"", b"\x80 something else entirely", whole[: len(whole) // 2 + 1]):
            file.write_bytes(content)
            assert str(file) in complaint(packed)
        file.unlink()
        if name != "frames.u16.xz":
            assert str(file) in complaint(packed)
            file.mkdir()
            assert str(file) in complaint(packed)

    @pytest.mark.parametrize("name", ["frames.u16.xz", "masks.packbits.xz"])
    def test_other_sizes_are_an_error(self, packed: Path, name: str) -> None:
        values = lzma.decompress((packed / name).read_bytes())
        (packed / name).write_bytes(lzma.compress(values[:-1], preset=0))
        assert f"{name} holds only 2 of the 3 characters" in complaint(packed)
        (packed / name).write_bytes(lzma.compress(values + b"x", preset=0))
        assert f"{name} holds more than the 3 characters" in complaint(packed)

    def test_colours_beyond_the_palette(self, packed: Path, made: Characters) -> None:
        np.save(packed / "palette.npy", made.palette[:3])
        assert complaint(packed).endswith("frames.u16.xz has colour 3, but palette.npy only 3 of them")

    @pytest.mark.parametrize(
        "palette", [np.zeros((4, 4), np.uint8), np.zeros((4, 3)), np.zeros(3, np.uint8), np.zeros((0, 3), np.uint8)]
    )
    def test_what_is_not_a_palette(self, packed: Path, palette: NDArray[np.uint8]) -> None:
        np.save(packed / "palette.npy", palette)
        assert "palette.npy: not a palette" in complaint(packed)

    def test_a_pickle_is_not_opened(self, packed: Path) -> None:
        (packed / "palette.npy").write_bytes(pickle.dumps(np.zeros((4, 3), np.uint8)))
        assert "palette.npy: not a palette" in complaint(packed)

    def test_a_palette_that_lies_about_its_size(self, packed: Path) -> None:
        header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999, 3)}".ljust(117) + b"\n"
        (packed / "palette.npy").write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + bytes(12))
        assert "palette.npy: not a palette" in complaint(packed)

    @pytest.mark.parametrize("labels", ["\n", "0,0,0,0,0,0\n" * 3, "0,0,0,0,0,-1,0\n", "0,0,0,0,0,0,0\n" * 5000])
    def test_what_is_not_a_list_of_attributes(self, packed: Path, labels: str) -> None:
        (packed / "sprite_large_labels.txt").write_text(labels)
        assert "is not a list of 1 to 4096 lines of 7 numbers" in complaint(packed)

    def test_no_sprites_at_all(self, tmp_path: Path) -> None:
        assert "neither frames.u16.xz nor sprites_0.mat" in complaint(tmp_path)
        assert str(tmp_path / "nowhere") in complaint(tmp_path / "nowhere")
        (tmp_path / "file").write_text("")
        assert str(tmp_path / "file") in complaint(tmp_path / "file")


def publish(characters: Characters, folder: Path) -> None:
    """Files as MATLAB writes them: cells are references to arrays, every array transposed; alpha 230 and 1 count."""
    h5py = pytest.importorskip("h5py", reason="h5py is not installed: pip install 'visual-dynamics[sprites]'")
    folder.mkdir(exist_ok=True)
    for place, number in enumerate(characters.numbers):
        rgba = characters.rgba(place).double().numpy() / 255
        rgba[:, 3, ::4] *= 230 / 255
        rgba[:, 3, 2::4] /= 255
        with h5py.File(folder / f"sprites_{number}.mat", "w") as file:
            for name, channels in (("sprites", slice(0, 3)), ("masks", slice(3, 4))):
                cells = file.create_dataset(name, (len(CLIPS), 1), dtype=h5py.ref_dtype)
                for cell, clip in enumerate(CLIPS):
                    columns = rgba[clip.frames, channels].swapaxes(2, 3)  # each channel column by column
                    stored = file.create_dataset(f"#refs#/{name}{cell}", data=columns.reshape(len(columns), -1))
                    cells[cell, 0] = stored.ref
            file["labels"] = characters.attributes[place][:, None].astype(float)


class TestPublishedFiles:
    def test_reads_what_was_published(self, made: Characters, tmp_path: Path) -> None:
        publish(made.subset([2, 0]), tmp_path)
        (tmp_path / "sprites_splits.mat").write_text("not a character")
        reported: list[tuple[int, int]] = []
        read = read_characters(tmp_path, progress=lambda done, total: reported.append((done, total)))
        assert_same(read, made.subset([0, 2]))
        assert (read.palette == made.palette).all()
        assert reported == [(1, 2), (2, 2)]
        assert_same(read_characters(tmp_path, [2]), made.subset([2]))
        assert complaint(tmp_path, numbers=[1]) == f"no sprite character 1 among the 2 in {tmp_path}"

    def test_without_h5py(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "h5py", None)
        (tmp_path / "sprites_0.mat").write_text("")
        assert "pip install 'visual-dynamics[sprites]'" in complaint(tmp_path)

    def test_broken_files_are_an_error_of_one_line(self, made: Characters, tmp_path: Path) -> None:
        publish(made.subset([0]), tmp_path)
        file = tmp_path / "sprites_0.mat"
        whole = file.read_bytes()
        for content in (b"", b"something else", whole[: len(whole) // 2]):
            file.write_bytes(content)
            assert complaint(tmp_path) == f"{file} is not a readable file of the published sprites"

    @pytest.mark.parametrize(
        ("place", "shape", "value"),
        [
            ("#refs#/sprites4", (8, 10801), 0.0),
            ("#refs#/sprites4", (7, 10800), 0.0),
            ("#refs#/sprites4", (8, 10800), 1.5),
            ("#refs#/masks20", (6, 3600), float("nan")),
            ("labels", (7, 1), -1.0),
            ("labels", (8, 1), 0.0),
            ("sprites", (21, 1), 0.0),
            ("masks", (20, 1), 0.0),
        ],
    )
    def test_other_contents_are_an_error(
        self, made: Characters, tmp_path: Path, place: str, shape: tuple[int, int], value: float
    ) -> None:
        publish(made.subset([0]), tmp_path)
        import h5py

        with h5py.File(tmp_path / "sprites_0.mat", "a") as file:
            replacement = file.create_dataset("other", data=np.full(shape, value))
            if place.startswith("#refs#"):
                name, cell = re.fullmatch(r"#refs#/([a-z]+)([0-9]+)", place).groups()  # type: ignore[union-attr]
                file[name][int(cell), 0] = replacement.ref
            else:
                del file[place]
                file[place] = replacement
        assert "sprites_0.mat is not a readable file of the published sprites" in complaint(tmp_path)

    def test_more_colours_than_a_palette_holds(self, made: Characters, tmp_path: Path) -> None:
        publish(made.subset([0]), tmp_path)
        import h5py

        with h5py.File(tmp_path / "sprites_0.mat", "a") as file:
            for cell in (16, 17):
                file[f"#refs#/sprites{cell}"][()] = np.random.default_rng(cell).random((13, 10800))
        assert "too many for a palette" in complaint(tmp_path)
