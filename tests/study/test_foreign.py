"""Studies of anyone's methods: what files become, what gives no method away, what is an error."""

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.cli.conftest import Fails, Run, fails, place, run, subprogram  # noqa: F401 - fixtures
from visual_dynamics.images import Pixels
from visual_dynamics.media import encode_animation, encode_png
from visual_dynamics.study.design import Design
from visual_dynamics.study.folder import Study, read_study
from visual_dynamics.study.foreign import in_step, list_clips, make_foreign_study, match_clips, read_clip, read_methods

Write = Callable[..., Path]


def moving(seed: int, frames: int = 3, size: int = 16) -> Pixels:
    """A bright square on a dark ground that moves to the right, (T, S, S, 3); a step never leaves the picture."""
    found = np.full((frames, size, size, 3), 20 + seed, np.uint8)
    for number in range(frames):
        found[number, 4:8, number + seed % 4 : number + seed % 4 + 4] = (240, 200 - seed, 40)
    return found


def write(path: Path, frames: Pixels) -> Path:
    """As the name says: a folder of frames if it has no ending."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix:
        path.write_bytes(encode_png(frames[0]) if len(frames) == 1 else encode_animation(frames, 10, path.suffix))
        return path
    path.mkdir()
    for number, frame in enumerate(frames, 1):  # frame_2 comes before frame_10
        (path / f"frame_{number}.png").write_bytes(encode_png(frame))
    return path


def folders(place: Path, count: int = 10, frames: int = 3, **methods: Callable[[Pixels], Pixels]) -> list[str]:  # noqa: F811
    """Real clips and those of methods that change them; the words of the command line."""
    for number in range(count):
        write(place / "real" / f"clip {number}.png", moving(number, frames))
        for name, change in methods.items():
            write(place / name / f"clip {number}.png", change(moving(number, frames)))
    return ["--real", "real", *(word for name in methods for word in ("--method", f"{name}={name}"))]


def dim(frames: Pixels) -> Pixels:
    return np.concatenate([frames[:1], frames[1:] // 2])


def shown(folder: Path, name: str) -> list[Pixels]:
    strip = np.array(Image.open(folder / f"{name}.png"))
    return np.split(strip, strip.shape[1] // strip.shape[0], axis=1)


@pytest.mark.parametrize("suffix", ["", ".gif", ".webp", ".png", ".apng"])
def test_clips_of_every_kind_are_read(tmp_path: Path, suffix: str) -> None:
    frames = moving(1, frames=12)
    found = read_clip(write(tmp_path / f"clip{suffix}", frames))
    assert np.array_equal(found.frames, frames)


def test_videos_are_read(tmp_path: Path) -> None:
    pytest.importorskip("cv2")
    frames = moving(1, frames=5, size=256)
    found = read_clip(write(tmp_path / "clip.mp4", frames))
    assert len(found.frames) == 5 and np.abs(np.array(found.frames, int) - frames).mean() < 4
    (tmp_path / "cut.mp4").write_bytes((tmp_path / "clip.mp4").read_bytes()[:-200])
    with pytest.raises(Exception, match=r"cut\.mp4"):
        read_clip(tmp_path / "cut.mp4")


def test_frames_that_a_gif_stores_as_one_are_still_in_step(tmp_path: Path) -> None:
    real = moving(0, frames=4)
    still, pause = np.repeat(real[:1], 4, axis=0), real[[0, 1, 1, 2]]
    clips = {name: read_clip(write(tmp_path / f"{name}.gif", each)) for name, each in (("real", real), ("copy", still))}
    assert len(clips["copy"].frames) == 1  # Pillow stores it once
    clips["pause"] = read_clip(write(tmp_path / "pause.gif", pause))
    clips["folder"] = read_clip(write(tmp_path / "folder", real))
    found = in_step(clips, "clip")
    for name, frames in (("real", real), ("copy", still), ("pause", pause), ("folder", real)):
        assert np.array_equal(found[name], frames), name


def test_a_study_shows_what_the_files_show(place: Path, run: Run) -> None:  # noqa: F811
    options = folders(place, A=dim, B=lambda frames: frames[[0, 1, 1]])
    made = run("study", "make", "new", *options, "--size", 16, "--size", 8, "--sessions", 6)
    assert made.code == 0 and made.err == "" and "6 sessions of 10 trials" in made.out, made
    study = read_study(Path("new"))
    assert study.source["folders"] == {"real": "real", "A": "A", "B": "B"} and study.frame_time == 100
    assert "{" not in study.title + study.question + study.consent and "two frames" not in study.consent
    methods = set()
    for name, clip in study.clips.items():
        frames = shown(Path("new"), name)
        real = moving(int(study.source["inputs"][clip.input].split()[1]))
        assert len(frames) == 3 and frames[0].shape == (clip.size, clip.size, 3)
        expected = {"real": real, "A": dim(real), "B": real[[0, 1, 1]]}.get(clip.method)
        if clip.size == 8:
            real, expected = (
                None if each is None else each.reshape(3, 8, 2, 8, 2, 3).mean((2, 4)) for each in (real, expected)
            )
        methods.add(clip.method)
        if expected is not None:
            assert np.abs(np.array(frames, float) - expected).max() <= 0.5, clip
        else:  # torn: the first frame as it is, the others in other places
            assert clip.method == "torn" and np.array_equal(frames[0], real[0])
            assert all(
                (np.sort(frame.flatten()) == np.sort(own.flatten())).all()
                for frame, own in zip(frames, real, strict=True)
            )
            assert not np.array_equal(frames[1], real[1])
    assert methods == {"real", "A", "B", "torn"}


def test_realistic_motions_of_anyone(place: Path, run: Run) -> None:  # noqa: F811
    options = folders(place, frames=2, A=dim)
    assert run("study", "make", "new", *options, "--kind", "realistic", "--sessions", 4).code == 0
    study = read_study(Path("new"))
    assert {clip.method for clip in study.clips.values()} == {"real", "A", "torn", "control"}
    assert study.frame_time == 500 and "two frames" in study.consent and "motion" in study.title


def test_still_pictures(place: Path, run: Run) -> None:  # noqa: F811
    options = folders(place, frames=1, A=lambda frames: frames // 2)
    assert run("study", "make", "new", *options).code == 0
    study = read_study(Path("new"))
    assert study.title == "Which picture is real?" and "flicker" not in study.consent
    torn = [name for name, clip in study.clips.items() if clip.method == "torn"]
    reals = [moving(int(study.source["inputs"][study.clips[name].input].split()[1]), 1)[0] for name in torn]
    assert torn and not any(
        np.array_equal(shown(Path("new"), name)[0], real) for name, real in zip(torn, reals, strict=True)
    )


def chunks(data: bytes) -> list[tuple[bytes, int]]:
    """Types and lengths of a PNG's chunks."""
    found, place_ = [], 8
    while place_ < len(data):
        (length,) = struct.unpack(">I", data[place_ : place_ + 4])
        found.append((data[place_ + 4 : place_ + 8], length))
        place_ += 12 + length
    return found


def test_no_file_gives_its_method_away(tmp_path: Path) -> None:
    """A method whose clips are flat, in GIF; real ones that are noise, in PNG."""
    draw = np.random.default_rng(0)
    for number in range(16):
        write(tmp_path / "real" / f"{number}.png", draw.integers(0, 256, (2, 32, 32, 3), dtype=np.uint8))
        write(tmp_path / "A" / f"{number}.gif", moving(number, frames=2, size=32))
    listings = match_clips(tmp_path / "real", {"A": tmp_path / "A"})
    design = Design("choice", ("A",), (32,), inputs=10, trials=10, sessions=4)
    study = make_foreign_study(design, listings, tmp_path / "new")
    files = {name: (tmp_path / "new" / f"{name}.png").read_bytes() for name in study.clips}
    assert len({len(data) for data in files.values()}) == 1
    assert len({data[:33] for data in files.values()}) == 1  # size, depth, colours, no interlacing
    assert {tuple(kind for kind, _ in chunks(data)) for data in files.values()} == {
        (b"IHDR", b"IDAT", b"paDd", b"IEND")
    }
    with Image.open(tmp_path / "new" / f"{next(iter(files))}.png") as image:
        image.verify()
    real = [study.clips[path.stem].method == "real" for path in sorted((tmp_path / "new").glob("*.png"))]
    half = len(real) // 2
    assert abs(np.mean(real[:half]) - np.mean(real[half:])) < 0.35  # names tell nothing, neither does their order
    written = sorted((tmp_path / "new").glob("*.png"), key=lambda path: path.stat().st_mtime_ns)
    assert [path.name for path in written] == sorted(path.name for path in written) or abs(
        np.mean([study.clips[path.stem].method == "real" for path in written[:half]]) - np.mean(real)
    ) < 0.35


def test_studies_of_models_are_as_discreet(tmp_path: Path, tiny_weights_file: Path) -> None:
    from visual_dynamics.study.make import make_study

    design = Design("choice", ("ours", "copy"), (8, 16), inputs=4, trials=4, sessions=4, obvious=2)
    study = make_study(design, str(tiny_weights_file), "shapes", tmp_path / "new")
    for size in (8, 16):
        names = [name for name, clip in study.clips.items() if clip.size == size]
        assert len({(tmp_path / "new" / f"{name}.png").stat().st_size for name in names}) == 1


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["A"], "NAME=FOLDER"),
        (["A="], "NAME=FOLDER"),
        (["real=x"], "cannot name a method"),
        (["=x"], "cannot name a method"),
        (["a/b=x"], "cannot name a method"),
        (["a\nb=x"], "cannot name a method"),
        (["<b>=x"], "cannot name a method"),
        (["A=x", "B=y", "A=z"], "two methods 'A'"),
        ([], "at least one method"),
    ],
)
def test_names_of_methods(fails: Fails, words: list[str], reason: str) -> None:  # noqa: F811
    assert reason in fails("study", "make", "new", "--real", "real", *(w for word in words for w in ("--method", word)))
    assert read_methods(["A=x=y", "B 2.1+=z"]) == {"A": Path("x=y"), "B 2.1+": Path("z")}


def test_folders_that_do_not_match(place: Path, fails: Fails) -> None:  # noqa: F811
    options = ["study", "make", "new", *folders(place, A=dim)]
    assert "is missing" in fails(*options, "--method", "B=nowhere")
    assert "is a file" in fails(*options, "--method", "B=picture.png")
    assert "has the folder of the real clips" in fails(*options, "--method", "B=./real")
    (place / "empty").mkdir()
    (place / "empty" / "notes.txt").write_text("mine")
    assert "no clips in empty" in fails(*options, "--method", "B=empty")
    moved = (place / "A" / "clip 3.png").rename(place / "A" / "clip é.png")
    assert "no counterpart of 'clip 3' in A" in fails(*options)
    write(place / "A" / "clip 3.gif", dim(moving(3)))
    assert "A has 'clip é' in A, which the real clips have not" in fails(*options)
    moved.unlink()
    write(place / "A" / "clip 3.webp", dim(moving(3)))
    assert "two clips 'clip 3'" in fails(*options)
    (place / "A" / "clip 3.webp").unlink()
    (place / "A" / "clip\n3.webp").write_bytes(b"")
    assert r"rename 'clip\n3.webp'" in fails(*options)


@pytest.mark.parametrize(
    ("frames", "reason"),
    [
        (moving(2, frames=4), "4 frames by A, but 3 frames in the real clip"),
        (moving(2, frames=1), "one frame by A, but 3 frames"),
        (moving(2, size=32), "32 x 32 pixels by A, but 16 x 16 pixels"),
        (moving(2)[:, :12], "16 x 12 pixels by A"),
        (
            np.zeros((65, 16, 16, 3), np.uint8) + np.arange(65, dtype=np.uint8)[:, None, None, None],
            "more than 64 frames",
        ),
    ],
)
def test_clips_that_do_not_match(place: Path, fails: Fails, frames: Pixels, reason: str) -> None:  # noqa: F811
    options = folders(place, A=dim)
    (place / "A" / "clip 2.png").unlink()
    write(place / "A" / "clip 2", frames)
    assert reason in fails("study", "make", "new", *options, "--inputs", 4)


def test_other_mistakes(place: Path, fails: Fails) -> None:  # noqa: F811
    options = ["study", "make", "new", *folders(place, A=dim)]
    assert "--real and --model make different studies" in fails(*options, "--model", "shapes")
    assert "--real and --data" in fails(*options, "--data", "shapes")
    assert "leave --samples out" in fails(*options, "--samples", 3)
    assert "frames a second" in fails(*options, "--fps", 100)
    assert "needs 11 clips" in fails(*options, "--inputs", 5)
    assert "multiple" in fails(*options, "--inputs", 4, "--trials", 3)
    assert "16 pixels large, less than 32" in fails(*options, "--size", 32)
    assert "need --real" in fails("study", "make", "new", "--method", "A=A")
    assert "need --real" in fails("study", "make", "new", "--fps", 5)
    for number in range(5):
        (place / "A" / f"clip {number}.png").unlink()
        (place / "real" / f"clip {number}.png").unlink()
    assert "real has 5 clips: a study needs 6 for its obvious trials" in fails(*options)
    (place / "A" / "clip 9.png").write_bytes(b"no picture")
    write(place / "real" / "clip 0.png", moving(0)), write(place / "real" / "clip 1.png", moving(1))
    write(place / "A" / "clip 0.png", moving(0)), write(place / "A" / "clip 1.png", moving(1))
    assert "clip 9.png" in fails(*options)


def test_names_are_compared_as_people_read_them(tmp_path: Path) -> None:
    write(tmp_path / "real" / "caf\u00e9.png", moving(0))
    write(tmp_path / "A" / "cafe\u0301.gif", moving(0))  # as macOS writes it
    assert list(match_clips(tmp_path / "real", {"A": tmp_path / "A"})["A"]) == ["caf\u00e9"]
    (tmp_path / "A" / ".DS_Store.png").write_bytes(b"")
    assert len(list_clips(tmp_path / "A", "A")) == 1


def test_files_that_are_stored_otherwise_are_named(place: Path, run: Run) -> None:  # noqa: F811
    options = folders(place, A=dim)
    for number in range(10):
        (place / "A" / f"clip {number}.png").unlink()
        write(place / "A" / f"clip {number}.gif", dim(moving(number)))
    made = run("study", "make", "new", *options, "--inputs", 3)
    assert made.code == 0 and "traces of compression may tell A (.gif) from the real clips (.png)" in made.err
    assert "9 of 10 clips are used" in made.err


def test_nothing_of_it_needs_torch(place: Path) -> None:  # noqa: F811
    options = folders(place, A=dim)
    (place / "torch").mkdir()
    (place / "torch" / "__init__.py").write_text("raise SystemExit('torch was imported')")
    done = subprogram("study", "make", "new", *options)
    assert done.code == 0, done
    assert subprogram("study", "plan").code == 0 and isinstance(read_study(place / "new"), Study)
