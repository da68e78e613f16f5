"""Characters over the API: what is read, what is drawn, and every limit."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from tests.sprites.test_complete_command import in_hat, sheet, swapped
from tests.studio.conftest import GENEROUS
from visual_dynamics.data.aseprite import Tag
from visual_dynamics.data.aseprite_file import aseprite_file
from visual_dynamics.media import encode_png
from visual_dynamics.sprites.bodies import shipped_bodies
from visual_dynamics.sprites.characters import ROWS, Clips
from visual_dynamics.sprites.generator import ANIMATIONS, CELL
from visual_dynamics.studio import completion
from visual_dynamics.studio.app import create_app
from visual_dynamics.studio.state import Settings


def packed(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def zipped(clips: Clips, folder: str = "") -> bytes:
    """A sheet for each animation, and credits."""
    names = dict.fromkeys(animation for animation, _ in clips)
    sheets = {f"{folder}{name}.png": encode_png(sheet(name, clips)) for name in names}
    return packed(sheets | {f"{folder}credits.txt": b"drawn by me"})


def universal(clips: Clips) -> bytes:
    canvas = np.zeros((21 * CELL, 13 * CELL, 4), np.uint8)
    for animation in dict.fromkeys(name for name, _ in clips):
        laid = sheet(animation, clips, 13 * CELL)
        canvas[CELL * ROWS[animation] :][: len(laid)] = laid
    return encode_png(canvas)


def upload(client: TestClient, name: str, data: bytes, status: int = 201) -> Any:
    answer = client.post("/api/characters", params={"name": name}, content=data)
    assert answer.status_code == status, answer.text
    return answer.json()


def completed(client: TestClient, body: dict[str, Any], status: int = 200) -> Any:
    answer = client.post("/api/complete", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def files_of(client: TestClient, result: str) -> dict[str, bytes]:
    answer = client.get(f"/api/completed/{result}")
    assert answer.status_code == 200 and answer.headers["content-type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_a_zip_of_sheets_is_completed_as_the_verb_does(client: TestClient) -> None:
    data = zipped(swapped("walk", "idle"), "hero/")
    found = upload(client, "hero.zip", data)
    assert found["animations"] == [{"name": "walk", "frames": 36}, {"name": "idle", "frames": 8}]
    assert found["problem"] == "" and {each["name"] for each in found["missing"]} == {*ANIMATIONS} - {"walk", "idle"}
    assert {"name": "run", "frames": 32, "reference": "the male body of the LPC generator"} in found["missing"]
    made = completed(client, {"character": found["id"], "animations": ["sit", "climb"]})
    assert made["frames"] == 18 and made["marked"] == [] and made["limit"] == 0.25
    assert [(each["name"], len(each["clips"])) for each in made["animations"]] == [("climb", 1), ("sit", 4)]
    clip = made["animations"][0]["clips"][0]
    assert (clip["view"], clip["frames"], clip["doubts"]) == ("up", 6, [0] * 6)
    files = files_of(client, made["id"])
    assert set(files) == {*["walk.png", "idle.png", "credits.txt", "sit.png", "climb.png"], *completion_names()}
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert files["walk.png"] == archive.read("hero/walk.png")
    assert np.array_equal(np.array(Image.open(io.BytesIO(files["sit.png"]))), sheet("sit", swapped("sit")))
    assert b"drawn by me" in files["CREDITS.txt"] and b"the male body" in files["CREDITS.txt"]
    assert completed(client, {"character": found["id"], "animations": ["sit", "climb"]})["id"] == made["id"]


def completion_names() -> set[str]:
    return {"CREDITS.txt", "drafts.png", "drafts.json"}


@pytest.mark.parametrize("name", ["hero.png", "hero.ase"])
def test_other_layouts_come_back_as_they_are(client: TestClient, name: str) -> None:
    clips = swapped("walk")
    frames = np.concatenate(list(clips.values()))
    tags = tuple(Tag(f"walk {view}", 9 * k, 9 * k + 8) for k, (_, view) in enumerate(clips))
    data = universal(clips) if name == "hero.png" else aseprite_file(frames, [80] * 36, tags)
    found = upload(client, name, data)
    made = completed(client, {"character": found["id"], "animations": ["sit"]})
    assert set(files_of(client, made["id"])) == {name, *completion_names()}
    again = upload(client, name, files_of(client, made["id"])[name])
    assert [each["name"] for each in again["animations"]] == ["walk", "sit"]


def test_a_character_that_lacks_nothing_is_said_to(client: TestClient) -> None:
    found = upload(client, "whole.zip", zipped(shipped_bodies()[0].clips))
    assert found["missing"] == [] and "lacks no animation" in found["problem"]
    assert "lacks no animation" in completed(client, {"character": found["id"]}, 422)["error"]


def test_drawings_have_doubts_and_worthless_ones_are_made_only_on_request(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("visual_dynamics.sprites.complete.CHECKED", 2)
    found = upload(client, "hero.zip", zipped(in_hat(swapped("walk", "slash"))))
    body = {"character": found["id"], "animations": ["climb"], "model": "sprites-poses"}
    made = completed(client, body | {"force": True, "body": "female"})
    assert made["animations"][0]["reference"] == "the female body of the LPC generator"
    doubts = made["animations"][0]["clips"][0]["doubts"]
    assert len(made["marked"]) == sum(doubt > made["limit"] for doubt in doubts) > 0
    assert "known frames the error is" in made["remarks"][-1]
    monkeypatch.setattr("visual_dynamics.sprites.complete.WORTHLESS", 0.0)
    assert "or force it" in completed(client, body, 422)["error"]


def test_what_cannot_be_drawn(client: TestClient) -> None:
    found = upload(client, "hero.zip", zipped(swapped("walk")))
    body = {"character": found["id"], "animations": ["sit"]}
    assert "no reference has swim" in completed(client, body | {"animations": ["swim"]}, 422)["error"]
    assert "not drawn again" in completed(client, body | {"animations": ["walk"]}, 422)["error"]
    for model in ("sprites", "shapes"):
        assert "cannot complete a character" in completed(client, body | {"model": model}, 422)["error"]
    assert "upload it" in completed(client, body | {"character": "0" * 32}, 404)["error"]
    completed(client, body | {"character": "../hero"}, 422)
    assert "complete it again" in client.get(f"/api/completed/{'0' * 32}").json()["error"]
    models = {model["name"]: model["completes"] for model in client.get("/api/models").json()}
    assert {name for name, completes in models.items() if completes} == {"sprites-poses", "sprites-lpc-poses"}


def _bomb() -> bytes:
    return packed({f"{number}.bin": bytes(10_000_000) for number in range(4)})


def _many(count: int) -> bytes:
    return packed({f"{number}.txt": b"" for number in range(count)}, zipfile.ZIP_STORED)


def _lying() -> bytes:
    """It says of a file that it is small."""
    data = bytearray(packed({"walk.png": bytes(1_000_000)}))
    for place in (22, data.rindex(b"PK\1\2") + 24):
        data[place : place + 4] = struct.pack("<I", 10)
    return bytes(data)


def _encrypted() -> bytes:
    data = bytearray(packed({"walk.png": b"x"}))
    for place in (6, data.rindex(b"PK\1\2") + 8):
        data[place] |= 1
    return bytes(data)


def _large_cells() -> bytes:
    return aseprite_file(np.full((1, 8, 300, 4), 255, np.uint8), [80], (Tag("walk down", 0, 0),))


def _many_tags() -> bytes:
    tags = tuple(Tag(f"dance{number} down", 0, 0) for number in range(201))
    return aseprite_file(np.full((1, 8, 8, 4), 255, np.uint8), [80], tags)


def _sheet(size: tuple[int, int]) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGBA", size, "red").save(buffer, "PNG")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("name", "make", "message"),
    [
        ("hero.zip", lambda: b"", "hero.zip is no readable ZIP"),
        ("hero.zip", lambda: b"PK\3\4" + bytes(50), "hero.zip is no readable ZIP"),
        ("hero.zip", lambda: packed({"../walk.png": b"x", "run.png": b""}), "a file outside of itself: '../walk.png'"),
        ("hero.zip", lambda: packed({"/etc/walk.png": b"x", "a": b""}), "a file outside of itself"),
        ("hero.zip", lambda: packed({"a\nb.png": b"x"}), "signs in its name"),
        ("hero.zip", _bomb, "holds too much for one character (at most 500 files and 32 MiB)"),
        ("hero.zip", lambda: _many(600), "holds too much for one character"),
        ("hero.zip", lambda: _many(20_000), "holds too much for one character"),
        ("hero.zip", _lying, "hero.zip"),
        ("hero.zip", _encrypted, "hero.zip is no readable ZIP"),
        ("hero.zip", lambda: packed({"walk.png": b"x"}, zipfile.ZIP_LZMA), "may unpack without end"),
        ("hero.zip", lambda: packed({"walk.png": _sheet((9_000, 9_000))}), "walk.png in hero.zip"),
        ("hero.zip", lambda: packed({"walk.png": b"\x89PNG\r\n\x1a\n torn"}), "walk.png in hero.zip"),
        ("hero.png", lambda: _sheet((832, 20_000)), "hero.png"),
        ("hero.png", lambda: _sheet((64, 64)), "no universal sheet"),
        ("hero.gif", lambda: b"GIF89a", "hero.gif"),
        ("hero.json", lambda: b"{}", "save the sprite as an .aseprite file"),
        ("hero.ase", lambda: bytes(200), "hero.ase as an Aseprite file"),
        ("hero.ase", _large_cells, "1 frames of 300 x 8 pixels (at most 256 a side)"),
        ("hero.ase", _many_tags, "201 animations are too many"),
        ("..\\..\\evil\n.zip", lambda: b"", "evil.zip is no readable ZIP"),
    ],
)
def test_bad_uploads_are_told_in_a_line(client: TestClient, name: str, make: Callable[[], bytes], message: str) -> None:
    answer = upload(client, name, make(), 422)
    assert list(answer) == ["error"] and message in answer["error"] and "\n" not in answer["error"]


@pytest.mark.parametrize("name", ["C:\\heroes\\hero.zip", "/home/me/hero.zip", "../hero.zip", "hero.zip"])
def test_of_an_upload_s_name_only_the_last_part_is_kept(client: TestClient, name: str) -> None:
    assert upload(client, name, b"", 422)["error"].startswith("hero.zip is no readable ZIP")


def test_uploads_are_bounded_and_the_oldest_make_room(client: TestClient, studio_settings: Settings) -> None:
    assert client.post("/api/characters?name=hero.zip", content=bytes(10_000_001)).status_code == 413
    assert client.post("/api/characters", content=b"x").status_code == 422  # without a name
    data = [zipped(swapped("walk", each)) for each in ("sit", "run")]
    app = create_app(replace(studio_settings, limits=replace(GENEROUS, file_bytes=2 * len(data[1]))))
    small = TestClient(app, base_url="http://localhost")
    first, _ = (upload(small, "hero.zip", each) for each in data)
    assert "upload it" in completed(small, {"character": first["id"]}, 404)["error"]
    assert len(app.state.studio.characters._found) == 1
    app.state.studio.queue.close()


def test_a_ticket_tells_how_far_the_drawing_is(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("visual_dynamics.sprites.complete.CHECKED", 2)
    found = upload(client, "hero.zip", zipped(in_hat(swapped("walk", "slash"))))
    seen, real = list[dict[str, Any]](), completion.complete

    def watched(predictor: Any, parts: Any, force: bool, report: Any, progress: Callable[[int, int], object]) -> Any:
        def step(done: int, total: int) -> None:
            progress(done, total)
            seen.append(client.get("/api/queue?ticket=mine").json())

        return real(predictor, parts, force, report, step)

    monkeypatch.setattr(completion, "complete", watched)
    body = {"character": found["id"], "animations": ["climb"], "force": True}
    assert client.post("/api/complete", json=body, headers={"X-Ticket": "mine"}).status_code == 200
    assert [each["done"] for each in seen] == sorted(each["done"] for each in seen) and seen[0]["place"] == 0
    assert seen[-1]["total"] == 6 * (6 + 2) and client.get("/api/queue?ticket=other").json()["total"] == 0
