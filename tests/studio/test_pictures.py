"""Malformed uploads: none is a fault of the studio's, and the next good one is served."""

from __future__ import annotations

import io
from collections import Counter

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from tests.studio.malformed import good, uploads
from visual_dynamics.errors import UserError
from visual_dynamics.studio.decoding import LONGEST_SIDE, decode_upload
from visual_dynamics.studio.pictures import Pictures, stored
from visual_dynamics.web import RequestError

PIXELS = 16_000_000


def test_malformed_uploads_are_refused_in_words(client: TestClient) -> None:
    taken = Counter[str]()
    for kind, data in uploads(60, seed=0):
        answer = client.post("/api/images", content=data)
        assert answer.status_code in (201, 413, 422), (kind, answer.text)
        if answer.status_code != 201:
            assert list(answer.json()) == ["error"] and len(answer.json()["error"]) > 10
        taken[kind] += answer.status_code == 201
    assert taken["animated"] == 6  # its first frame
    assert not any(taken[kind] for kind in ("bomb", "huge dimensions", "wrong type", "zero bytes", "noise", "zeros"))
    answer = client.post("/api/images", content=good(np.random.default_rng(0)))
    assert answer.status_code == 201
    assert client.post("/api/futures", json={"image": answer.json()["id"], "count": 1}).status_code == 200


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP", "GIF", "BMP"])
def test_five_formats_are_read(form: str) -> None:
    assert decode_upload(good(np.random.default_rng(1), form), PIXELS).ndim == 3


def test_other_formats_are_not() -> None:
    for form in ("TIFF", "PPM"):
        with pytest.raises(UserError, match="not a readable PNG, JPEG, WebP, GIF or BMP picture"):
            decode_upload(good(np.random.default_rng(1), form), PIXELS)


def test_large_photographs_are_made_smaller() -> None:
    buffer = io.BytesIO()
    Image.new("RGB", (4000, 1000), (10, 200, 30)).save(buffer, "JPEG")
    assert decode_upload(buffer.getvalue(), PIXELS).shape == (LONGEST_SIDE // 4, LONGEST_SIDE, 3)
    assert decode_upload(buffer.getvalue(), PIXELS, exact=True).shape == (1000, 4000, 3)  # as sheets are kept
    with pytest.raises(UserError, match="too large"):
        decode_upload(buffer.getvalue(), 1_000_000, exact=True)


def test_the_pictures_that_nobody_uses_make_room() -> None:
    one = stored("one", np.zeros((10, 10, 3), np.uint8))
    assert one.bytes == 300 + len(one.url)  # pixels, and the thumbnail as a data URL
    pictures = Pictures({}, max_bytes=3 * one.bytes + 20)
    kept = [pictures.keep(np.full((10, 10, 3), shade, np.uint8)).id for shade in range(3)]
    pictures.find(kept[0])
    pictures.keep(np.full((10, 10, 3), 9, np.uint8))
    assert pictures.find(kept[0]) and pictures.find(kept[2])
    with pytest.raises(RequestError):
        pictures.find(kept[1])


def test_a_part_of_a_large_picture_does_not_keep_the_whole() -> None:
    whole = np.zeros((2, 100, 100, 3), np.uint8)
    assert Pictures({}, max_bytes=10**6).keep(whole[0]).pixels.base is None
