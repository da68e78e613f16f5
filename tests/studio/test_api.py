"""The API: what each route gives, and that every error is JSON."""

from __future__ import annotations

import base64
import io
import zipfile
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fastapi import FastAPI
from PIL import Image
from starlette.testclient import TestClient

from visual_dynamics.api import Model
from visual_dynamics.data.aseprite import Tag
from visual_dynamics.data.sheets import cut_grid
from visual_dynamics.sprites.files import sheet_files
from visual_dynamics.studio import motion_library, transfer
from visual_dynamics.studio.motion import ENDS

PAIR = ("before", "after", "target")
FORMS = {"gif": "GIF", "webp": "WEBP", "apng": "PNG", "sheet": "PNG"}


def pixels(url: str) -> np.ndarray:
    head, _, data = url.partition(",")
    assert head == "data:image/png;base64"
    return np.array(Image.open(io.BytesIO(base64.b64decode(data))))


def post(client: TestClient, path: str, body: dict[str, Any], status: int = 200) -> Any:
    answer = client.post(path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


@pytest.fixture(scope="module")
def model(app: FastAPI, client: TestClient) -> Model:
    post(client, "/api/futures", {"image": "shapes-1", "count": 1})
    model: Model = app.state.studio.models.model("shapes")
    return model


@pytest.fixture(scope="module")
def futures(client: TestClient) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = post(client, "/api/futures", {"image": "shapes-1", "count": 4, "seed": 3})["futures"]
    return found


def test_a_warning_of_pictures_that_the_model_does_not_know(client: TestClient) -> None:
    def warning(image: str) -> str:
        found: str = post(client, "/api/familiar", {"image": image, "model": "shapes"})["warning"]
        return found

    assert warning("shapes-1") == ""
    assert warning("person-1").startswith("the model has not learned from pictures like this one")
    post(client, "/api/familiar", {"image": "person-1", "model": "none"}, 404)


def test_models_and_samples(client: TestClient) -> None:
    models = {model["name"]: model for model in client.get("/api/models").json()}
    samples = {sample["id"] for sample in client.get("/api/samples").json()}
    assert models["shapes"]["latent"] == 8 and not models["shapes"]["sprites"] and models["sprites"]["sprites"]
    assert models["shapes"]["about"].startswith("From one")
    assert all(set(model["samples"]) <= samples for model in models.values())
    kinds = {"shapes": "shapes", "shapes-texture": "texture", "people": "person", "sprites": "figure"}
    assert all(models[name]["samples"][0].startswith(kind) for name, kind in kinds.items())
    assert client.get("/api/line").json() == client.get("/api/queue").json()  # its name in the first release


def test_futures_are_those_of_the_python_api(
    app: FastAPI, client: TestClient, model: Model, futures: list[dict[str, Any]]
) -> None:
    image = app.state.studio.pictures.find("shapes-1").pixels
    expected = model.sample(image, 4, seed=3)
    assert all((pixels(future["url"]) == frame).all() for future, frame in zip(futures, expected, strict=True))
    later = post(client, "/api/futures", {"image": "shapes-1", "count": 2, "seed": 3, "first": 2})["futures"]
    assert later == futures[2:]


def test_strength_and_source_change_futures(client: TestClient, futures: list[dict[str, Any]]) -> None:
    weak = post(client, "/api/futures", {"image": "shapes-1", "count": 1, "seed": 3, "strength": 0.5})["futures"][0]
    assert weak["z"] == pytest.approx([value / 2 for value in futures[0]["z"]])
    prior = post(client, "/api/futures", {"image": "shapes-1", "count": 1, "seed": 3, "source": "prior"})["futures"][0]
    assert prior["z"] != futures[0]["z"]


def test_a_poke_is_that_of_the_python_api(app: FastAPI, client: TestClient, model: Model) -> None:
    picture = app.state.studio.pictures.samples["shapes-1"].pixels
    height, width = picture.shape[:2]
    place, motion = (width / 3, height / 2), (0.0, 0.0)
    source = model.poke(picture, (place, motion), seed=3, codes=32)
    poke = {"x": place[0], "y": place[1], "dx": 0, "dy": 0, "codes": 32}
    answer = post(client, "/api/futures", {"image": "shapes-1", "count": 2, "seed": 3, "poke": poke})
    frames = model.sample(picture, 2, 3, source)
    assert all((pixels(one["url"]) == frame).all() for one, frame in zip(answer["futures"], frames, strict=True))
    assert answer["fitting"] == pytest.approx(source.effective, abs=0.06)
    refused = client.post("/api/futures", json={"image": "shapes-1", "poke": poke | {"x": 10 * width}})
    assert refused.status_code == 422 and "lies outside the picture" in refused.json()["error"]


def test_going_on_gives_the_future_as_an_image(client: TestClient, futures: list[dict[str, Any]]) -> None:
    step = post(client, "/api/continue", {"image": "shapes-1", "z": futures[1]["z"]}, 201)
    assert (pixels(step["url"]) == pixels(futures[1]["url"])).all()
    assert len(post(client, "/api/futures", {"image": step["id"], "count": 2})["futures"]) == 2


def test_an_upload_with_alpha_keeps_it(client: TestClient) -> None:
    sprite = np.zeros((20, 16, 4), np.uint8)
    sprite[4:16, 4:12] = (200, 40, 30, 255)
    buffer = io.BytesIO()
    Image.fromarray(sprite).save(buffer, "PNG")
    answer = client.post("/api/images", content=buffer.getvalue())
    assert answer.status_code == 201 and (answer.json()["width"], answer.json()["height"]) == (16, 20)
    moved = post(client, "/api/futures", {"image": answer.json()["id"], "model": "sprites", "count": 1})
    assert pixels(moved["futures"][0]["url"]).shape == (20, 16, 4)
    body = {"image": answer.json()["id"], "model": "sprites", "codes": [moved["futures"][0]["z"]], "form": "zip"}
    files = zipfile.ZipFile(io.BytesIO(client.post("/api/export", json=body).content))
    assert all(Image.open(files.open(name)).mode == "RGBA" for name in ("input.png", "frame_01.png"))


def test_futures_at_the_size_of_the_picture(app: FastAPI, client: TestClient, model: Model) -> None:
    image = app.state.studio.pictures.find("shapes-1").pixels
    request = {"image": "shapes-1", "seed": 3, "full_size": True}
    found = post(client, "/api/futures", request | {"count": 2})
    futures = [pixels(future["url"]) for future in found["futures"]]
    assert (np.stack(futures) == model.sample(image, 2, seed=3, full_size=True)).all()
    assert (pixels(found["input"]) == image).all()
    z = found["futures"][1]["z"]
    step = post(client, "/api/continue", {"image": "shapes-1", "z": z, "full_size": True}, 201)
    assert (pixels(step["url"]) == futures[1]).all() and (step["width"], step["height"]) == (128, 128)
    body = {"image": "shapes-1", "codes": [z], "form": "webp", "full_size": True}
    clip = Image.open(io.BytesIO(client.post("/api/export", json=body).content))
    assert clip.size == (128, 128) and clip.n_frames == 2  # type: ignore[attr-defined]
    path = {"images": ["shapes-1", step["id"]], "form": "zip", "full_size": True}
    files = zipfile.ZipFile(io.BytesIO(client.post("/api/export/path", json=path).content))
    assert (np.array(Image.open(files.open("frame_01.png"))) == futures[1]).all()
    buffer = io.BytesIO()
    Image.new("RGB", (2000, 1000)).save(buffer, "PNG")
    large = client.post("/api/images", content=buffer.getvalue()).json()["id"]
    assert "choose fewer" in post(client, "/api/futures", request | {"image": large, "count": 5}, 422)["error"]


def test_dimensions_tell_which_way_things_move(client: TestClient) -> None:
    found = post(client, "/api/dimensions", {"image": "shapes-1"})
    assert found["latent"] == 8 and 3 <= len(found["dimensions"]) <= 8
    nats = [each["nats"] for each in found["dimensions"]]
    assert nats == sorted(nats, reverse=True)
    first = found["dimensions"][0]
    assert first["arrows"] and first["words"] and (pixels(first["low"]) != pixels(first["high"])).any()
    resting = post(client, "/api/decode", {"image": "shapes-1", "codes": [found["rest"]]})["urls"][0]
    assert np.abs(pixels(resting).astype(int) - pixels(found["input"])).mean() < 1  # of 255: nothing moves
    for end, url in ((ENDS[0], first["low"]), (ENDS[1], first["high"])):  # what its slider shows at both ends
        code = list(found["rest"])
        code[first["dimension"]] += end * first["scale"]
        shown = post(client, "/api/decode", {"image": "shapes-1", "codes": [code]})["urls"][0]
        assert np.abs(pixels(shown).astype(int) - pixels(url)).max() <= 1
    unread = post(client, "/api/dimensions", {"image": "shapes-1", "model": "shapes-integer"})
    assert unread["rest"] == [0.0] * 8  # it comes without its motion encoder


def test_the_library_keeps_applies_and_exchanges_motions(client: TestClient, futures: list[dict[str, Any]]) -> None:
    z = futures[0]["z"]
    kept = post(client, "/api/motions", {"name": "jump", "z": z, "origin": "future"}, 201)
    assert post(client, "/api/motions", {"name": "jump", "z": z}, 409)["error"]
    pair = post(client, "/api/motions/pair", {"name": "read", "before": "shapes-1", "after": "shapes-1-next"}, 201)
    assert [motion["name"] for motion in client.get("/api/motions?model=shapes").json()] == ["jump", "read"]
    applied = post(client, f"/api/motions/{kept['id']}/apply", {"image": "shapes-1"})
    assert (pixels(applied["url"]) == pixels(futures[0]["url"])).all()
    answer = client.get(f"/api/motions/{pair['id']}/file")
    assert "attachment" in answer.headers["content-disposition"]
    file = answer.json()
    for motion in (kept, pair):
        assert client.delete(f"/api/motions/{motion['id']}").status_code == 204
    again = post(client, "/api/motions/import", file, 201)
    assert again["z"] == pair["z"] and again["origin"] == "file"
    assert "does not have" in post(client, "/api/motions/import", file | {"digest": "0" * 64}, 409)["error"]
    assert "numbers" in post(client, "/api/motions/import", file | {"name": "short", "z": [1.0]}, 422)["error"]
    client.delete(f"/api/motions/{again['id']}")
    assert client.get("/api/motions").json() == []


def test_a_library_has_an_end(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(motion_library, "MOST", 1)
    kept = post(client, "/api/motions", {"name": "only", "z": [0.0] * 8}, 201)
    assert "is full" in post(client, "/api/motions", {"name": "more", "z": [0.0] * 8}, 409)["error"]
    client.delete(f"/api/motions/{kept['id']}")


def test_transfer_is_the_analogy_of_the_python_api(app: FastAPI, client: TestClient, model: Model) -> None:
    found = post(client, "/api/transfer", {"before": "shapes-1", "after": "shapes-1-next", "target": "shapes-2"})
    before, after, target = (app.state.studio.pictures.find(f"shapes-{name}").pixels for name in ("1", "1-next", "2"))
    assert (pixels(found["result"]) == model.apply(target, model.encode(before, after))).all()


def test_a_sprite_stands_where_the_model_knows_sprites(client: TestClient) -> None:
    """As in `animate`: sprites that stand 5 and 7 pixels too low give the same result, 2 pixels apart."""
    samples = {sample["id"]: pixels(sample["url"]) for sample in client.get("/api/samples").json()}

    def lowered(name: str, rows: int) -> str:
        cell, buffer = np.pad(samples[name], ((2, 2), (2, 2), (0, 0))), io.BytesIO()
        Image.fromarray(np.roll(cell, rows, axis=0)).save(buffer, "PNG")
        return str(client.post("/api/images", content=buffer.getvalue()).json()["id"])

    results = []
    for rows in (5, 7):
        ids = {
            key: lowered(name, rows)
            for key, name in zip(PAIR, ("figure-red", "figure-red-next", "figure-blue"), strict=True)
        }
        results.append(pixels(post(client, "/api/transfer", {"model": "sprites", **ids})["result"]))
    assert results[0].shape == (64, 64, 4) and (results[0][:-2] == results[1][2:]).all()
    assert (results[0] != np.roll(np.pad(samples["figure-blue"], ((2, 2), (2, 2), (0, 0))), 5, axis=0)).any()


def test_a_sprite_takes_over_an_animation(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = {sample["id"]: pixels(sample["url"]) for sample in client.get("/api/samples").json()}
    buffer = io.BytesIO()
    Image.fromarray(samples["walk-sheet"][:, :180]).save(buffer, "PNG")
    reference = client.post("/api/images", content=buffer.getvalue()).json()["id"]
    request = {"reference": reference, "target": "figure-green", "cell_width": 60, "cell_height": 60, "guided": False}
    found = post(client, "/api/animate", request)
    assert len(found["frames"]) == len(found["reference"]) == 3
    assert (pixels(found["frames"][0]) == samples["figure-green"]).all()
    assert {file["name"] for file in found["files"]} >= {"sheet.png", "sheet.json", "animation.gif"}
    assert "not for sprites" in post(client, "/api/animate", request | {"model": "shapes"}, 422)["error"]
    monkeypatch.setattr(transfer, "MAX_FRAMES", 2)
    assert "3 frames are too many" in post(client, "/api/animate", request, 422)["error"]


def test_a_sheet_with_the_layout_of_aseprite(client: TestClient) -> None:
    samples = {sample["id"]: pixels(sample["url"]) for sample in client.get("/api/samples").json()}
    cells = cut_grid(samples["walk-sheet"], (60, 60))
    tags = (Tag("stand", 0, 1), Tag("walk", 2, 4), Tag("run", 5, 7))
    files = sheet_files("hero", replace(cells, durations=10 * np.arange(1, 9), tags=tags))
    reference = client.post("/api/images?exact=true", content=files["hero.png"]).json()["id"]
    request = {"reference": reference, "target": "figure-green", "guided": False, "layout": files["hero.json"].decode()}
    found = post(client, "/api/animate", request | {"tag": "walk", "pose": 1})
    assert found["durations"] == [30, 40, 50] and (pixels(found["frames"][1]) == samples["figure-green"]).all()
    assert (np.stack([pixels(url) for url in found["reference"]]) == cells.frames[2:5]).all()
    assert "'stand', 'walk', 'run'" in post(client, "/api/animate", request | {"tag": "fly"}, 422)["error"]
    assert "not valid JSON" in post(client, "/api/animate", request | {"layout": "{"}, 422)["error"]
    assert "leaves the picture" in post(client, "/api/animate", request | {"reference": "figure-red"}, 422)["error"]
    tiny = {"reference": "walk-sheet", "target": "figure-red", "cell_width": 1, "cell_height": 1}
    assert "too many" in post(client, "/api/animate", tiny, 422)["error"]


def test_inside_and_relations(client: TestClient) -> None:
    found = post(client, "/api/inside", {"image": "shapes-1", "z": [0] * 8})
    assert [scale["side"] for scale in found["scales"]] == [64, 32, 16, 8]
    assert all(scale["kernels"] for scale in found["scales"])
    graph = post(client, "/api/relations", {"image": "shapes-1"})
    assert len(graph["nodes"]) == 3 and len(graph["edges"]) == 1  # the circle and the triangle


def test_places_of_parts_are_shares_of_the_width(app: FastAPI, client: TestClient) -> None:
    buffer = io.BytesIO()  # of a picture twice as wide as high: the middle rows of a sample
    Image.fromarray(app.state.studio.pictures.samples["shapes-1"].pixels[32:96]).save(buffer, "PNG")
    image = client.post("/api/images", content=buffer.getvalue()).json()
    nodes = post(client, "/api/relations", {"image": image["id"]})["nodes"]
    assert (image["width"], image["height"]) == (128, 64) and nodes
    for node in nodes:
        y, x = (places.mean() + 0.5 for places in pixels(node["mask"])[..., 3].nonzero())  # in a square of 64
        assert (node["x"], node["y"]) == pytest.approx((x / 64, (y - 16) / 64))


@pytest.mark.parametrize("form", ["gif", "webp", "apng", "mp4", "sheet", "zip"])
@pytest.mark.parametrize("count", [1, 3])
def test_files_can_be_read_back(client: TestClient, futures: list[dict[str, Any]], form: str, count: int) -> None:
    codes = [future["z"] for future in futures[:count]]
    answer = client.post("/api/export", json={"image": "shapes-1", "codes": codes, "form": form, "scale": 2})
    assert answer.status_code == 200 and "attachment" in answer.headers["content-disposition"]
    if form == "zip":
        names = zipfile.ZipFile(io.BytesIO(answer.content)).namelist()
        assert names == ["input.png", *(f"frame_{number:02d}.png" for number in range(1, count + 1)), "about.json"]
    elif form == "mp4":
        import av

        with av.open(io.BytesIO(answer.content)) as container:
            assert sum(1 for _ in container.decode(video=0)) == 2
    else:
        image = Image.open(io.BytesIO(answer.content))
        assert image.format == FORMS[form] and getattr(image, "n_frames", 1) == (1 if form == "sheet" else 2)


def test_a_path_becomes_a_clip(client: TestClient) -> None:
    answer = client.post("/api/export/path", json={"images": ["shapes-1", "shapes-1-next", "shapes-2"], "form": "gif"})
    assert Image.open(io.BytesIO(answer.content)).n_frames == 3  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/nothing", None, 404),
        ("GET", "/page/../app.py", None, 404),
        ("PUT", "/api/models", None, 405),
        ("POST", "/api/futures", {"image": "../../etc/passwd"}, 422),
        ("POST", "/api/futures", {"image": "unknown"}, 404),
        ("POST", "/api/futures", {"image": "shapes-1", "model": "/etc/passwd"}, 404),
        ("POST", "/api/futures", {"image": "shapes-1", "count": 1000}, 422),
        ("POST", "/api/futures", {"image": "shapes-1", "colour": "red"}, 422),
        ("POST", "/api/decode", {"image": "shapes-1", "codes": [[1, 2]]}, 422),
        ("POST", "/api/decode", {"image": "shapes-1", "codes": [[1e9] * 8]}, 422),
        ("POST", "/api/motions", {"name": "\n", "z": [0] * 8}, 422),
        ("POST", "/api/motions/999/apply", {"image": "shapes-1"}, 404),
        ("DELETE", "/api/motions/999", None, 404),
    ],
)
def test_mistakes_are_told(client: TestClient, method: str, path: str, body: Any, status: int) -> None:
    answer = client.request(method, path, json=body)
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["error"] and len(answer.json()["error"]) > 10
