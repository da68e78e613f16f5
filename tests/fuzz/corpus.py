"""Damaged files, drawn from a seed: small valid ones are made by code, and then changed.

A case is a folder of files and a reader of it. The same kind, seed and number give the same case.
"""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image

from tests.data.test_aseprite_file import cel, file_of, layer
from tests.footage.clips import encode
from tests.footage.scenes import film, moving_square
from tests.fuzz.damage import Files, bytes_of, json_of, png, safetensors, zip_of, zipped
from tests.study.conftest import CHOICE, write_study
from visual_dynamics.api import Model
from visual_dynamics.data.aseprite import Tag
from visual_dynamics.data.aseprite_file import aseprite_file
from visual_dynamics.data.folders import read_pairs
from visual_dynamics.data.packed import Clip, PackedCharacter, pack, packed_pairs, read_packed
from visual_dynamics.data.shards import open_pairs, split_takes
from visual_dynamics.data.sheets import read_frames, read_sheet
from visual_dynamics.errors import UserError
from visual_dynamics.footage.clips import ListedClip, Settings, prepare_clip
from visual_dynamics.footage.prepare import prepare_videos
from visual_dynamics.images import read_image
from visual_dynamics.model.network import VisualDynamics
from visual_dynamics.model.presets import TINY
from visual_dynamics.sprites.character_files import read_character
from visual_dynamics.study.answers import read_answers
from visual_dynamics.study.folder import read_study
from visual_dynamics.training.config import TrainingConfig, read_config
from visual_dynamics.training.recipes import read_stages, write_stages
from visual_dynamics.weights import load_weights, weights_bytes

SIZES = {"pictures": 10_000, "weights": 2_000, "json": 2_000, "folders": 1_000, "clips": 500}


class Seed(NamedTuple):
    """A small valid folder, which of its files is damaged, and what reads it."""

    files: Files
    damaged: str
    read: Callable[[Path], object]
    damage: Callable[[random.Random, bytes], bytes]


def case(kind: str, seed: int, number: int) -> tuple[Files, Callable[[Path], object]]:
    draw = random.Random(f"{kind} {seed} {number}")
    chosen = draw.choice(seeds(kind))
    return chosen.files | {chosen.damaged: chosen.damage(draw, chosen.files[chosen.damaged])}, chosen.read


@lru_cache
def seeds(kind: str) -> list[Seed]:
    return {"pictures": pictures, "weights": weights, "json": texts, "folders": folders, "clips": clips}[kind]()


def image(mode: str = "RGB", side: int = 24) -> Image.Image:
    values = np.random.default_rng(0).integers(0, 256, (side, side, 4), dtype=np.uint8)
    if mode in ("I;16", "F"):
        return Image.fromarray(
            values[..., 0].astype("f4") / 255 if mode == "F" else values[..., 0].astype("uint16") * 257
        )
    return Image.fromarray(values).convert(mode)


def saved(form: str, mode: str = "RGB", **options: Any) -> bytes:
    buffer = io.BytesIO()
    image(mode).save(buffer, form, **options)
    return buffer.getvalue()


def pictures() -> list[Seed]:
    more = [image("RGB", 24).rotate(90 * turn) for turn in (1, 2)]
    moving = {"save_all": True, "append_images": more, "duration": 40}
    turned = Image.Exif()
    turned[274] = 6
    made = [saved("PNG", mode) for mode in ("RGB", "RGBA", "L", "LA", "P", "1", "I;16")] + [saved("PNG", **moving)]
    found = [Seed({"a.png": data}, "a.png", shown, png) for data in made]
    others = {
        "jpg": [saved("JPEG"), saved("JPEG", progressive=True, exif=turned), saved("JPEG", "CMYK"), saved("JPEG", "L")],
        "webp": [saved("WEBP"), saved("WEBP", "RGBA", lossless=True), saved("WEBP", **moving)],
        "gif": [saved("GIF"), saved("GIF", **moving)],
        "bmp": [saved("BMP"), saved("BMP", "P")],
        "tif": [saved("TIFF"), saved("TIFF", "F"), saved("TIFF", compression="tiff_lzw"), saved("TIFF", "I;16")],
        "ppm": [saved("PPM"), saved("PPM", "I;16")],
        "jp2": [saved("JPEG2000")],
        "avif": [saved("AVIF")],
    }
    found += [Seed({f"a.{end}": data}, f"a.{end}", shown, bytes_of) for end, made in others.items() for data in made]
    frames = np.stack([np.array(image("RGBA", 12).rotate(90 * turn)) for turn in range(3)])
    sprites = [
        aseprite_file(frames, [100] * 3, (Tag("walk", 0, 2),)),
        file_of([layer(), layer(blend=1), cel(0, 0, 0, frames[0])]),
    ]
    return found + [Seed({"a.aseprite": data}, "a.aseprite", sheet, bytes_of) for data in sprites]


def only(folder: Path) -> Path:
    return next(iter(sorted(folder.iterdir())))


def shown(folder: Path) -> None:
    read_image(only(folder))
    read_frames(only(folder))


def sheet(folder: Path) -> None:
    read_sheet(only(folder))


def weights() -> list[Seed]:
    torch.manual_seed(0)
    network = VisualDynamics(TINY)
    pair = torch.rand(2, 40, 3, 16, 16)
    with torch.no_grad():
        posterior = network.encode_motion(pair[0], pair[1] - pair[0])
    data = weights_bytes(
        network, posterior, {"step": 0, "config": TrainingConfig(preset="tiny", latent=None).to_dict()}
    )
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.safetensors"
        path.write_bytes(data)
        Model(load_weights(path)).save_copy(path, eight_bits=True, learned_prior=True)
        return [
            Seed({"a.safetensors": each}, "a.safetensors", sampled, safetensors) for each in (data, path.read_bytes())
        ]


def sampled(folder: Path) -> None:
    Model(load_weights(only(folder))).sample(np.zeros((20, 30, 3), np.uint8), 1)


def contents(folder: Path) -> Files:
    """Files by their path below a folder."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".lock")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def texts() -> list[Seed]:
    box = {"frame": {"x": 0, "y": 0, "w": 8, "h": 8}, "duration": 100, "sourceSize": {"w": 8, "h": 8}, "rotated": False}
    tags = [{"name": "walk", "from": 0, "to": 1, "direction": "pingpong"}]
    layout = {"frames": {"a": box, "b": box}, "meta": {"image": "a.png", "frameTags": tags}}
    found = [Seed({"a.json": json.dumps(layout).encode(), "a.png": saved("PNG", "RGBA")}, "a.json", sheet, json_of)]
    config = json.dumps(TrainingConfig(preset="tiny", latent=None).to_dict()).encode()
    found.append(Seed({"config.json": config}, "config.json", lambda folder: read_config(folder).network, json_of))
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_stages(folder, [TrainingConfig(), TrainingConfig(seed=1)])
        found.append(Seed(contents(folder), "stages.json", read_stages, json_of))
        study = write_study(folder / "study", CHOICE)
        answers = {"rater": "0" * 32, "session": 0, "answers": [{"trial": 0, "answer": "left", "milliseconds": 5}]}
        given = {"format": {"name": "visual-dynamics study answers", "version": 1}, "study": study.id} | answers
        found.append(Seed(contents(folder / "study"), "study.json", read_study, json_of))
        take = lambda folder: read_answers(folder / "a.json", study)  # noqa: E731
        found.append(Seed({"a.json": json.dumps(given).encode()}, "a.json", take, json_of))
        index = np.random.default_rng(0).integers(0, 4, (5, 16, 16), dtype=np.uint8)
        clips = (Clip("walk", "down", 2), Clip("run", "down", 3))
        colours = np.array([[0, 0, 0, 0], [9, 9, 9, 255], [90, 0, 9, 255], [0, 90, 9, 255]], np.uint8)
        pack(folder / "packed", [PackedCharacter(index, colours, clips, {"body": "male"})])
        found.append(Seed(contents(folder / "packed"), "packed.json", packed, json_of))
        files = apart(footage_files)
        found += [Seed(files, name, footage, json_of) for name in ("manifest.json", "settings.json")]
        shard = next(name for name in files if name.endswith(".safetensors"))
        found.append(Seed(files, shard, footage, safetensors))
    return found


def packed(folder: Path) -> None:
    packed_pairs(read_packed(folder), "any", 16, 0.0).read(torch.arange(2))


def footage(folder: Path) -> None:
    for split in ("train", "held-out"):
        pairs = open_pairs(folder, split)
        split_takes(folder, split)
        if pairs is not None:
            pairs.read(torch.arange(len(pairs)))


def folders() -> list[Seed]:
    files = {f"{number}_im{which}.png": saved("PNG") for number in (1, 2, 30) for which in (1, 2)}
    files |= {"train.txt": b"1\n2\n", "test.txt": b"30\n"}
    found = [
        *(
            Seed(files, name, lambda folder: read_pairs(folder, "train", 16), bytes_of)
            for name in ("train.txt", "1_im1.png")
        ),
        Seed({"a.zip": zipped(files)}, "a.zip", lambda folder: read_pairs(folder / "a.zip", "train", 16), zip_of),
        Seed(
            {"a.zip": zipped({f"in/{name}": data for name, data in files.items()})}, "a.zip", character_or_pairs, zip_of
        ),
    ]
    cells = np.zeros((256, 576, 4), np.uint8)
    cells[20::64, 20:600:64] = cells[40::64, 30:600:64] = (200, 50, 90, 255)
    buffer = io.BytesIO()
    Image.fromarray(cells).save(buffer, "PNG")
    sheets = {"walk.png": buffer.getvalue(), "credits.txt": b"by me"}
    found += [Seed({"a.zip": zipped(sheets)}, "a.zip", character_or_pairs, zip_of)] * 2
    return [*found, Seed(sheets, "walk.png", read_character, png)]


def character_or_pairs(folder: Path) -> None:
    (read_character if b"walk" in (folder / "a.zip").read_bytes() else read_pairs)(folder / "a.zip")


def footage_files() -> Files:
    with TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(2):
            film(folder / "clips" / f"{number}.mp4", 8, number)
        prepare_videos(folder / "clips", folder / "data", Settings(size=16, crop="centre", held_out=0.5))
        return contents(folder / "data")


def clip_files() -> Files:
    frames = moving_square(6, height=64, width=80)
    moving = [Image.fromarray(frame) for frame in frames]
    codecs = {"mp4": "libx264", "mkv": "libx264", "avi": "mjpeg", "webm": "libvpx", "mov": "mpeg4"}
    with TemporaryDirectory() as name:
        for end, codec in codecs.items():
            encode(Path(name) / f"a.{end}", frames, 10, codec)
        moving[0].save(Path(name) / "a.gif", save_all=True, append_images=moving[1:], duration=100)
        return contents(Path(name))


def apart(make: Callable[[], Files]) -> Files:
    """Made in a process of its own: encoders leave threads behind, which do not survive the forks of run.py."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(make)


def clips() -> list[Seed]:
    return [Seed({name: data}, name, prepared, bytes_of) for name, data in apart(clip_files).items()]


def prepared(folder: Path) -> None:
    path = only(folder)
    found = prepare_clip(ListedClip(path.name, path, "scene"), Settings(size=16, crop="motion"), folder / "out")
    if isinstance(found, str):  # why it gives no pair
        raise UserError(found)
