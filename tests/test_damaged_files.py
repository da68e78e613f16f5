"""Every reader of files that others may have written: it reads them, or says in one line what is wrong.

Each gets the files of a small whole example with bytes cut out, put in and exchanged, and where they hold JSON, with
other values in it: of other types, nested deeply, larger than any machine number, or no numbers at all. Pictures,
pairs, sheets, Aseprite's files, poses and BVH have tests like this beside their own.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file, save

from tests.data.test_packed import character
from tests.footage.clips import encode
from tests.footage.scenes import moving_square
from tests.study.conftest import CHOICE, write_study
from visual_dynamics.data.packed import TABLE, pack, read_packed
from visual_dynamics.data.shards import MANIFEST, holds_footage, open_pairs, open_shard, shard_bytes
from visual_dynamics.errors import UserError
from visual_dynamics.footage.clips import Settings
from visual_dynamics.footage.prepare import prepare_videos
from visual_dynamics.footage.reading import Video
from visual_dynamics.footage.split import read_split
from visual_dynamics.media import encode_png
from visual_dynamics.sprites.character_files import read_character
from visual_dynamics.sprites.palette_files import read_palette
from visual_dynamics.study.answers import read_answers
from visual_dynamics.study.folder import ANSWERS_FORMAT, read_study
from visual_dynamics.training.config import TrainingConfig, read_config_file
from visual_dynamics.training.recipes import STAGES, read_stages, write_stages
from visual_dynamics.weights import load_weights


@dataclass(frozen=True)
class Example:
    """Whole files, made once, and how one of them is read."""

    make: Callable[[Path], object]  # into a folder
    file: str  # that is damaged
    read: Callable[[Path], object]  # from the folder
    times: int = 40  # that it is damaged


def footage(folder: Path) -> None:
    frames = np.random.default_rng(0).integers(0, 256, (6, 3, 8, 8), dtype=np.uint8)
    data = shard_bytes({"frames": frames, "first": np.arange(5), "second": np.arange(1, 6), "take": np.zeros(6, int)})
    (folder / "shards").mkdir()
    (folder / "shards" / "a.safetensors").write_bytes(data)


def prepared(folder: Path) -> None:
    (folder / "clips").mkdir()
    encode(folder / "clips" / "a.mp4", moving_square(9), rate=10)
    prepare_videos(folder / "clips", folder, Settings(size=16, crop="centre"), overwrite=True)


def prepare_again(folder: Path) -> None:
    prepare_videos(folder / "clips", folder, Settings(size=16, crop="centre"))


def clip(folder: Path) -> None:
    encode(folder / "a.mp4", moving_square(9), rate=10)


def answered(folder: Path) -> None:
    study = write_study(folder / "study", CHOICE)
    given = [{"trial": 0, "answer": "left", "milliseconds": 5}]
    content = {"format": ANSWERS_FORMAT, "study": study.id, "rater": "a" * 32, "session": 0, "answers": given}
    (folder / "answers.json").write_text(json.dumps(content))


def character_zip(folder: Path) -> None:
    with zipfile.ZipFile(folder / "hero.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("walk.png", encode_png(np.full((256, 576, 4), 200, np.uint8)))
        archive.writestr("credits.txt", "me")


def stages(folder: Path) -> None:
    write_stages(folder, [TrainingConfig(), TrainingConfig(preset="tiny", latent=None)])


def written(name: str, text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(text)


CONFIG = json.dumps(TrainingConfig().to_dict())
EXAMPLES = {
    "config": Example(written("config.json", CONFIG), "config.json", lambda f: read_config_file(f / "config.json")),
    "stages": Example(stages, STAGES, read_stages),
    "packed table": Example(lambda f: pack(f, [character(0)]), TABLE, read_packed),
    "packed frames": Example(lambda f: pack(f, [character(0)]), "frames-000.xz", read_packed),
    "shard": Example(footage, "shards/a.safetensors", lambda f: open_shard(f / "shards/a.safetensors").frames.sum()),
    "manifest": Example(prepared, MANIFEST, lambda f: holds_footage(f) and open_pairs(f, "train")),
    "record": Example(prepared, "records/*.json", prepare_again, times=6),
    "settings": Example(prepared, "settings.json", prepare_again, times=20),
    "clip": Example(clip, "a.mp4", lambda f: sum(frame.time for frame in Video(f / "a.mp4"))),
    "split": Example(written("s.csv", "scene,split\na,train\nb,test\n"), "s.csv", lambda f: read_split(f / "s.csv")),
    "study": Example(answered, "study/study.json", lambda f: read_study(f / "study")),
    "answers": Example(answered, "answers.json", lambda f: read_answers(f / "answers.json", read_study(f / "study"))),
    "character": Example(character_zip, "hero.zip", lambda f: read_character(f / "hero.zip")),
    "gpl": Example(written("p.gpl", "GIMP Palette\n1 2 3 a\n"), "p.gpl", lambda f: read_palette(f / "p.gpl")),
}
JSON = [name for name, example in EXAMPLES.items() if example.file.endswith(".json")]
ODD = (
    st.sampled_from(["", [], {}, None, True, -1, 0.5, 10**30, "\n", "../..", "\0", "x" * 10_000])
    | st.sampled_from(["@DEEP@", "@Infinity@", "@NaN@", "@1e999@", f"@1{'0' * 4000}@", f"@1{'0' * 5000}@"])
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4)
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of an example, each made once."""
    made: dict[str, Path] = {}

    def find(name: str) -> Path:
        if name not in made:
            made[name] = tmp_path_factory.mktemp(name.replace(" ", "_"))
            EXAMPLES[name].make(made[name])
        return made[name]

    return find


def read_or_told(read: Callable[[], object]) -> None:
    try:
        read()
    except UserError as error:
        assert "\n" not in str(error) and len(str(error)) < 1_000


def exchanged(data: bytes, cuts: list[tuple[int, int, bytes]]) -> bytes:
    for place, length, junk in cuts:
        place %= len(data) + 1
        data = data[:place] + junk + data[place + length :]
    return data


CUTS = st.lists(
    st.tuples(st.integers(0, 2**20), st.sampled_from([0, 1, 4, 100, 10_000]), st.binary(max_size=8)),
    min_size=1,
    max_size=3,
)


def tried(times: int) -> settings:
    return settings(max_examples=times, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("name", EXAMPLES)
def test_damaged_bytes(whole: Callable[[str], Path], name: str) -> None:
    folder, example = whole(name), EXAMPLES[name]
    (path,) = folder.glob(example.file)
    data = path.read_bytes()

    @tried(example.times)
    @given(CUTS)
    def check(cuts: list[tuple[int, int, bytes]]) -> None:
        path.write_bytes(exchanged(data, cuts))
        read_or_told(lambda: example.read(folder))

    check()
    path.write_bytes(data)
    example.read(folder)


def with_odd(content: Any, way: list[int], odd: Any) -> Any:
    """The content with another value in one place; `way` says where."""
    if way and isinstance(content, dict) and content:
        key = list(content)[way[0] % len(content)]
        return content | {key: with_odd(content[key], way[1:], odd)}
    if way and isinstance(content, list) and content:
        place = way[0] % len(content)
        return [*content[:place], with_odd(content[place], way[1:], odd), *content[place + 1 :]]
    return odd


def odd_json(content: Any, way: list[int], odd: Any) -> str:
    """`with_odd` as text; what stands between two @ is written without quotes."""
    text = json.dumps(with_odd(content, way, odd)).replace('"@', "").replace('@"', "")
    return text.replace("DEEP", "[" * 50_000 + "]" * 50_000)


@pytest.mark.parametrize("name", JSON)
def test_odd_values(whole: Callable[[str], Path], name: str) -> None:
    folder, example = whole(name), EXAMPLES[name]
    (path,) = folder.glob(example.file)
    data = path.read_bytes()
    content = json.loads(data)

    @tried(example.times)
    @given(st.lists(st.integers(0, 50), max_size=5), ODD)
    def check(way: list[int], odd: Any) -> None:
        path.write_text(odd_json(content, way, odd))
        read_or_told(lambda: example.read(folder))

    check()
    path.write_bytes(data)
    example.read(folder)


@tried(40)
@given(st.sampled_from(["format", "network", "training"]), st.lists(st.integers(0, 50), max_size=4), ODD)
def test_odd_values_in_the_metadata_of_weights(
    tiny_weights_file: Path, tmp_path_factory: pytest.TempPathFactory, name: str, way: list[int], odd: Any
) -> None:
    tensors = load_file(tiny_weights_file)
    with safe_open(tiny_weights_file, "pt") as file:
        metadata = file.metadata()
    path = tmp_path_factory.mktemp("weights") / "odd.safetensors"
    path.write_bytes(save(tensors, metadata | {name: odd_json(json.loads(metadata[name]), way, odd)}))
    read_or_told(lambda: load_weights(path))


@tried(40)
@given(CUTS)
def test_damaged_weights(
    tiny_weights_file: Path, tmp_path_factory: pytest.TempPathFactory, cuts: list[tuple[int, int, bytes]]
) -> None:
    path = tmp_path_factory.mktemp("weights") / "damaged.safetensors"
    path.write_bytes(exchanged(tiny_weights_file.read_bytes(), cuts))
    read_or_told(lambda: load_weights(path))
