"""Sprite characters: both forms of their files, their splits and pairs, and what is said of what cannot be read."""

from __future__ import annotations

import lzma
import pickle
import re
import shutil
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.io import loadmat

from tests.sprites import noise_characters
from visual_dynamics.data.pair import IndexedPairs, Pairs
from visual_dynamics.data.sprites import (
    ANIMATIONS,
    CLIPS,
    FRAMES,
    SEX,
    VIEWS,
    WEAPON,
    Characters,
    pack_characters,
    paper_split,
    read_characters,
    reed_split,
    sprite_pairs,
)
from visual_dynamics.errors import UserError

SHARED = Path(__file__).parents[2].parent / "shared" / "data" / "sprites"
needs_shared = pytest.mark.skipif(not (SHARED / "frames.u16.xz").exists(), reason="the 672 characters are not here")


@pytest.fixture(scope="module")
def made() -> Characters:
    """Three characters of coloured noise: black where the mask is not, as in most of the real ones."""
    return noise_characters(3)


@pytest.fixture(scope="module")
def packed_once(made: Characters, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sprites") / "packed"
    pack_characters(made, folder)
    return folder


@pytest.fixture
def packed(packed_once: Path, tmp_path: Path) -> Path:
    """A packed folder that a test may spoil."""
    return shutil.copytree(packed_once, tmp_path / "packed")


@pytest.fixture(scope="module")
def real() -> Characters:
    return read_characters(SHARED)


def assert_same(some: Characters, others: Characters) -> None:
    assert len(some) == len(others)
    for place in range(len(some)):
        assert torch.equal(some.rgba(place), others.rgba(place))
    assert (some.attributes == others.attributes).all()
    assert (some.numbers == others.numbers).all()


def complaint(path: Path, **options: object) -> str:
    with pytest.raises(UserError) as error:
        read_characters(path, **options)  # type: ignore[arg-type]
    text = str(error.value)
    assert "\n" not in text
    return text


def test_the_clips_tile_the_frames() -> None:
    assert len(CLIPS) == 21
    assert [frame for clip in CLIPS for frame in range(1000)[clip.frames]] == list(range(FRAMES))
    assert [clip.view for clip in CLIPS] == [*VIEWS] * 5 + ["down"]
    assert [(clip.animation, clip.view) for clip in CLIPS if 100 in range(FRAMES)[clip.frames]] == [("slash", "up")]


class TestCharacters:
    def test_colours_and_alpha(self, made: Characters) -> None:
        rgba = made.rgba(1, CLIPS[5].frames)
        assert rgba.shape == (8, 4, 60, 60)
        assert rgba.dtype == torch.uint8
        assert torch.equal(rgba[:, :3], made.rgb(1)[36:44])
        index = made.frames[1, 38, 7, 50]
        assert rgba[2, :, 7, 50].tolist() == [*made.palette[index].tolist(), 255 * int(index > 0)]
        assert torch.equal(made.rgb(2, [170, 3])[1], made.rgb(2)[3])

    def test_subset(self, made: Characters) -> None:
        chosen = made.subset([2, 0])
        assert chosen.numbers.tolist() == [2, 0]
        assert torch.equal(chosen.rgba(0), made.rgba(2))
        assert made.subset(slice(1, 3)).numbers.tolist() == [1, 2]

    def test_parts_that_do_not_fit_are_refused(self, made: Characters) -> None:
        with pytest.raises(ValueError, match=re.escape("masks of 3 characters are (3, 178, 450), not (2, 178, 450)")):
            Characters(made.frames, made.palette, made.masks[:2], made.attributes, made.numbers)


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
    def test_broken_files_are_told_in_a_line(self, packed: Path, name: str) -> None:
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
    def test_other_sizes_are_refused(self, packed: Path, name: str) -> None:
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
    """Files as MATLAB writes them: cells are references to arrays, every array transposed; alpha 230 counts."""
    h5py = pytest.importorskip("h5py", reason="h5py is not installed: pip install 'visual-dynamics[sprites]'")
    folder.mkdir(exist_ok=True)
    for place, number in enumerate(characters.numbers):
        rgba = characters.rgba(place).double().numpy() / 255
        rgba[:, 3, ::2] *= 230 / 255
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
        told: list[tuple[int, int]] = []
        read = read_characters(tmp_path, progress=lambda done, total: told.append((done, total)))
        assert_same(read, made.subset([0, 2]))
        assert (read.palette == made.palette).all()
        assert told == [(1, 2), (2, 2)]
        assert_same(read_characters(tmp_path, [2]), made.subset([2]))
        assert complaint(tmp_path, numbers=[1]) == f"no sprite character 1 among the 2 in {tmp_path}"

    def test_without_h5py(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "h5py", None)
        (tmp_path / "sprites_0.mat").write_text("")
        assert "pip install 'visual-dynamics[sprites]'" in complaint(tmp_path)

    def test_broken_files_are_told_in_a_line(self, made: Characters, tmp_path: Path) -> None:
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
    def test_other_contents_are_refused(
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

    @needs_shared
    def test_the_real_ones_are_the_packed_ones(self, real: Characters, tmp_path: Path) -> None:
        pytest.importorskip("h5py")
        for number in (0, 1):
            (tmp_path / f"sprites_{number}.mat").symlink_to(SHARED / f"sprites_{number}.mat")
        assert_same(read_characters(tmp_path), real.subset([0, 1]))


class TestSplits:
    @pytest.mark.parametrize(("split", "counts"), [(paper_split, (652, 0, 20)), (reed_split, (500, 72, 100))])
    def test_every_character_once(self, split: Callable[[], tuple[NDArray[np.int64], ...]], counts: object) -> None:
        parts = split()
        assert tuple(map(len, parts)) == counts
        assert sorted(np.concatenate(parts).tolist()) == list(range(672))
        assert all((np.diff(part) > 0).all() for part in parts)

    @needs_shared
    def test_reeds_is_as_published(self) -> None:
        published = loadmat(SHARED / "sprites_splits.mat")
        for name, part in zip(("trainidx", "validx", "testidx"), reed_split(), strict=True):
            assert sorted(published[name].ravel() - 1) == part.tolist()

    @needs_shared
    def test_what_characters_share(self, real: Characters) -> None:
        """What the head of sprites.py says, and why the paper's 20 test characters are chosen as they are."""
        frames = np.array([[hash(frame.tobytes()) for frame in character] for character in real.frames])
        owners: dict[int, set[int]] = {}
        for number, own in enumerate(frames):
            for frame in own:
                owners.setdefault(frame, set()).add(number // 4)
        assert max(map(len, owners.values())) == 1
        equal = frames[0::2] == frames[1::2]  # (336, 178): those who differ in the weapon only
        assert (equal.all(0) == equal.any(0)).all()
        shared = dict.fromkeys(ANIMATIONS, 0)
        for clip in CLIPS:
            shared[clip.animation] += int(equal[0, clip.frames].sum())
        assert shared == {"spellcast": 27, "thrust": 0, "walk": 36, "slash": 24, "shoot": 0, "hurt": 6}
        assert (real.attributes[1::2] - real.attributes[0::2] == np.eye(7, dtype=int)[WEAPON]).all()
        hurt = CLIPS[-1].frames
        assert (real.palette[real.frames[:, hurt, -5:]] == 255).all()
        assert not np.unpackbits(real.masks[:, hurt], axis=-1)[..., -5 * 60 :].any()
        split = paper_split()
        assert not np.isin(frames[split.test], frames[split.train]).any()
        assert set(real.attributes[split.test, SEX]) == set(real.attributes[split.test, WEAPON]) == {0, 1}


class TestPairs:
    def test_neighbours(self, made: Characters) -> None:
        pairs = sprite_pairs(made)
        assert len(pairs) == 3 * 157
        assert pairs.size == (64, 64)
        expected = [frame for clip in CLIPS for frame in range(FRAMES)[clip.frames][:-1]]
        batch = pairs.batch(torch.arange(157, 314))
        frames = made.rgb(1).float() / 255
        assert torch.equal(batch.frame[:, :, 2:62, 2:62], frames[expected])
        assert torch.equal(batch.next_frame[:, :, 2:62, 2:62], frames[[frame + 1 for frame in expected]])
        assert batch.frame.count_nonzero() == frames[expected].count_nonzero()  # black around them

    def test_any_two_frames_of_some_animations(self, made: Characters) -> None:
        pairs = sprite_pairs(made.subset([2]), "any", ["hurt", "slash"], size=60)
        assert len(pairs) == 5 * 6 * 5
        assert len(pairs.store) == 5 * 6
        chosen = [*range(96, 120), *range(172, 178)]
        assert torch.equal(pairs.store, made.rgb(2, chosen))
        both = torch.stack([pairs.first, pairs.second], 1)
        assert len(both.unique(dim=0)) == 150
        assert (both[:, 0] // 6 == both[:, 1] // 6).all()
        assert (both[:, 0] != both[:, 1]).all()
        assert len(sprite_pairs(made.subset([0]), "any")) == 1454

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"animations": ["walk", "jump"]}, "not walk, jump"),
            ({"animations": []}, "not none"),
            ({"between": "all"}, "not 'all'"),
            ({"size": 59}, "do not fit into 59"),
        ],
    )
    def test_mistakes(self, made: Characters, options: dict[str, object], words: str) -> None:
        with pytest.raises(UserError, match=words):
            sprite_pairs(made, **options)  # type: ignore[arg-type]

    @needs_shared
    def test_the_papers_counts(self, real: Characters) -> None:
        split = paper_split()
        pairs = sprite_pairs(real.subset(split.test))
        assert len(pairs) == 3_140
        assert len(pairs) // len(split.test) * len(split.train) == 102_364
        moving = pairs.store[pairs.first] != pairs.store[pairs.second]
        assert moving.flatten(1).any(1).all()


class TestIndexedPairs:
    @staticmethod
    def some() -> IndexedPairs:
        generator = torch.Generator().manual_seed(0)
        store = torch.randint(0, 256, (5, 3, 8, 6), dtype=torch.uint8, generator=generator)
        return IndexedPairs(store, torch.tensor([0, 1, 1, 4]), torch.tensor([1, 0, 3, 2]))

    def test_are_the_same_as_plain_pairs(self) -> None:
        indexed = self.some()
        plain = Pairs(indexed.store[indexed.first], indexed.store[indexed.second])
        assert len(indexed) == len(plain) == 4
        assert indexed.size == plain.size == (8, 6)
        assert plain.nbytes == 2 * 4 * 144
        assert indexed.nbytes == 5 * 144 + 2 * 4 * 8
        indices = torch.tensor([3, 0, 0])
        for ours, theirs in (
            (indexed, plain),
            (indexed.subset(indices), plain.subset(indices)),
            (indexed.to("cpu"), plain.to("cpu")),
            (indexed.resized(4), plain.resized(4)),
        ):
            order = torch.arange(len(theirs)).flip(0)
            for mine, other in zip(ours.batch(order), theirs.batch(order), strict=True):
                assert torch.equal(mine, other)
        assert indexed.resized(4).size == (4, 4)

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"store": torch.zeros(5, 3, 8, 6)}, "uint8"),
            ({"store": torch.zeros(5, 8, 6, dtype=torch.uint8)}, r"\(M, 3, H, W\)"),
            ({"first": torch.tensor([0, 1])}, r"\(N,\) twice"),
            ({"first": torch.tensor([0, 1, 1, 5])}, "within the 5 frames"),
            ({"second": torch.tensor([0, 1, 1, -1])}, "within the 5 frames"),
            ({"second": torch.zeros(4)}, "int64"),
        ],
    )
    def test_bad_tensors_are_refused(self, change: dict[str, torch.Tensor], words: str) -> None:
        with pytest.raises(ValueError, match=words):
            IndexedPairs(**{**vars(self.some()), **change})
