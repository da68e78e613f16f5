"""Clips of sprites as a real browser reads them: every frame, its time, its colours and its transparency."""

import base64
from typing import Any

import numpy as np
import pytest

from tests.browser import chromium
from visual_dynamics.data.sheets import Sheet
from visual_dynamics.sprites.files import encode_sprite_clip

COLOURS = ((250, 20, 20), (20, 250, 20), (20, 20, 250), (250, 250, 20))
DURATIONS = (100, 200, 300, 400)  # milliseconds
PAGE = "https://sprites.test/"  # browsers decode pictures for scripts on secure pages only
DECODE = """async ([data, type]) => {
    const bytes = Uint8Array.from(atob(data), letter => letter.charCodeAt(0));
    const decoder = new ImageDecoder({data: bytes, type});
    await decoder.tracks.ready;
    await decoder.completed;
    const track = decoder.tracks.selectedTrack, frames = [];
    for (let index = 0; index < track.frameCount; index++) {
        const {image} = await decoder.decode({frameIndex: index});
        const canvas = new OffscreenCanvas(image.displayWidth, image.displayHeight);
        const context = canvas.getContext("2d");
        context.drawImage(image, 0, 0);
        const pixel = (x, y) => Array.from(context.getImageData(x, y, 1, 1).data);
        frames.push({inside: pixel(4, 4), outside: pixel(0, 0), ms: image.duration / 1000});
    }
    return {animated: track.animated, repeats: track.repetitionCount, frames};
}"""


def moving_square() -> Sheet:
    """A square of another colour in each frame, on nothing."""
    frames = np.zeros((len(COLOURS), 8, 8, 4), np.uint8)
    for frame, colour in zip(frames, COLOURS, strict=True):
        frame[2:6, 2:6] = (*colour, 255)
    return Sheet(frames, np.array(DURATIONS), ())


@pytest.mark.parametrize(("suffix", "kind"), [(".gif", "image/gif"), (".png", "image/png"), (".webp", "image/webp")])
def test_a_browser_plays_the_clip(suffix: str, kind: str) -> None:
    data = encode_sprite_clip(moving_square(), suffix)
    with chromium() as browser:
        page = browser.new_page()
        page.route(PAGE, lambda route: route.fulfill(body="<p>clips</p>", content_type="text/html"))
        page.goto(PAGE)
        played: dict[str, Any] = page.evaluate(DECODE, [base64.b64encode(data).decode(), kind])
    assert played["animated"]
    assert played["repeats"] is None or played["repeats"] > 1000  # Infinity has no JSON
    assert [frame["ms"] for frame in played["frames"]] == pytest.approx(DURATIONS, abs=1)
    for frame, colour in zip(played["frames"], COLOURS, strict=True):
        assert frame["outside"][3] == 0
        assert frame["inside"] == pytest.approx([*colour, 255], abs=2)
