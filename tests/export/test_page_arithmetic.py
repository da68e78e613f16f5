"""What the static page computes by itself, in JavaScript, against Python: random numbers, motions, familiarity."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

import visual_dynamics as vd
from tests.browser import chromium
from tests.conftest import seeded
from visual_dynamics.data.figures import figure_pairs
from visual_dynamics.data.shapes import clear_scenes, images
from visual_dynamics.errors import UserError
from visual_dynamics.export.page import HERE
from visual_dynamics.images import Box
from visual_dynamics.sampling.familiarity import Familiarity, summaries_of
from visual_dynamics.sampling.latents import noise_of, sample_seeds
from visual_dynamics.sampling.poke import PokedCodes, fitting, in_frame, motion_at, part_at

if TYPE_CHECKING:
    from playwright.sync_api import Page

REACH = 7


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with chromium() as browser:
        yield browser.new_page()


def call(page: Page, module: str, body: str, *given: Any) -> Any:
    """What a function body gives that sees a module of the page as `it` and `given`."""
    text = (HERE / module).read_text("utf-8")
    for name in ("random.js", "messages.js"):  # a module in an address cannot import its neighbours
        text = text.replace(f"./{name}", address(name)) if name in text else text
    return page.evaluate(
        f"async ([address, given]) => {{ const it = await import(address); {body} }}", [as_url(text), list(given)]
    )


def address(name: str) -> str:
    if name == "messages.js":
        return as_url("export class RequestError extends Error {}")
    return as_url((HERE / name).read_text("utf-8"))


def as_url(text: str) -> str:
    return f"data:text/javascript;base64,{base64.b64encode(text.encode()).decode()}"


def test_random_numbers_are_those_of_numpy(page: Page) -> None:
    draw = """return given[1].map((number) => {
        const generator = new it.Generator(it.sampleSeed(given[0], number)), row = generator.integer(18007);
        const normals = Array.from({ length: 2000 }, () => generator.normal());
        return [row, normals, new it.Generator(it.sampleSeed(given[0], number), 1).double()];
    });"""
    for seed in (0, 1, 2**32 + 5, 2**53 - 1):
        found = call(page, "random.js", draw, seed, [0, 1, 63])
        seeds = [sample_seeds(seed, 1, number)[0] for number in (0, 1, 63)]
        generators = [np.random.default_rng(each) for each in seeds]
        assert [row for row, _, _ in found] == [generator.integers(18007) for generator in generators]
        np.testing.assert_array_equal(np.float32([z for _, z, _ in found]), noise_of(generators, 2000).numpy())
        assert [place for _, _, place in found] == [np.random.default_rng([each, 1]).random() for each in seeds]


# --- poke ---


def test_motions_of_parts_are_those_of_the_package(page: Page) -> None:
    model = vd.load("shapes")
    frame = images(clear_scenes(1, 0), False, "smooth", 64)[0].float() / 255
    futures = model.predictor.decode(model.predictor.encode_image(frame), model.source("prior").draw(range(8)))
    places = [(16, 31), (36.5, 30.2), (37, 54), (23.5, 30), (4.5, 12.5), (63, 0)]  # objects, a border, ground, a corner
    body = """const [frame, futures] = given.slice(1).map((each) => Float32Array.from(each));
        return given[0].map((place) => {
            const part = it.partAt(frame, 64, place), motions = it.motionsOf(frame, 64, part, 7, futures);
            return [[...part.mask], [...motions].map((value) => (Number.isNaN(value) ? null : value))];
        });"""
    found = call(page, "matching.js", body, places, frame.flatten().tolist(), futures.flatten().tolist())
    known = []
    for place, (mask, motions) in zip(places, found, strict=True):
        expected = motion_at(frame, futures, place, REACH).numpy()
        np.testing.assert_array_equal(np.reshape(mask, (64, 64)).astype(bool), part_at(frame, place).mask.numpy())
        np.testing.assert_allclose(np.array(motions, np.float32).reshape(-1, 2), expected, atol=1 / 16 + 1e-6)
        known.append(np.isfinite(expected).all(1).sum())
    assert min(known[:3]) >= 4 and min(known) < 4, known


def test_parts_of_a_person_with_soft_edges_are_those_of_the_package(page: Page) -> None:
    frame = figure_pairs(1, 0, "test", 64).frames[0].float() / 255
    places = [(x, y) for x in range(8, 64, 12) for y in range(8, 64, 12)]
    body = """const frame = Float32Array.from(given[1]);
        return given[0].map((place) => [...it.partAt(frame, 64, place).mask]);"""
    found = np.array(call(page, "matching.js", body, places, frame.flatten().tolist()), bool)
    expected = np.stack([part_at(frame, place).mask.flatten().numpy() for place in places])
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("spread", [0.3, 2.0, 0.0])  # the narrowest kernel that leaves enough codes differs
def test_codes_are_weighted_and_drawn_as_by_the_package(page: Page, spread: float) -> None:
    motions = (torch.tensor([0.5, 1.0]) + spread * seeded(300, 2)).numpy()
    motions[::7] = np.nan
    weights, width = fitting(torch.from_numpy(motions), (0.5, 1.2))
    source, seeds = PokedCodes(torch.zeros(300, 1), weights, width), sample_seeds(0, 200)
    body = """const motions = given[0].map((value) => value ?? NaN);
        const { weights, effective } = it.fitting(motions, [0.5, 1.2]);
        return [weights, effective, given[1].map((seed) => it.chosen(weights, BigInt(seed)))];"""
    given = [None if np.isnan(value) else float(value) for value in motions.flatten()]
    found, effective, chosen = call(page, "poked.js", body, given, [str(seed) for seed in seeds])
    np.testing.assert_allclose(found, weights.numpy(), rtol=1e-6, atol=1e-12)
    assert effective == pytest.approx(source.effective) and chosen == source.chosen(seeds).tolist()


def test_a_poke_is_placed_and_refused_as_by_the_package(page: Page) -> None:
    shape, box = (30, 60), Box(top=16, left=0, height=32, width=64)
    placed = {"pixels": {"width": 60, "height": 30}, "box": box._asdict(), "size": 64}
    body = """try { return it.inFrame(given[0], given[1]); } catch (error) { return error.message; }"""
    found = call(page, "poked.js", body, {"x": 12.5, "y": 7, "dx": 9, "dy": -2}, placed)
    expected = in_frame(((12.5, 7), (9, -2)), shape, box)
    np.testing.assert_allclose([found["place"], found["motion"]], expected)
    assert found["reach"] == 12  # two more than the longer way, 9.6
    assert call(page, "poked.js", body, {"x": 1, "y": 1, "dx": 1, "dy": 1}, placed)["reach"] == REACH
    with pytest.raises(UserError) as refused:
        in_frame(((60, 7), (0, 1)), shape, box)
    assert call(page, "poked.js", body, {"x": 60, "y": 7, "dx": 0, "dy": 1}, placed) == str(refused.value)
    assert "more than 1/4 of" in call(page, "poked.js", body, {"x": 1, "y": 1, "dx": 16, "dy": 0}, placed)
    weigh = """try { it.fitting(given[0], [0, 0]); } catch (error) { return error.message; }"""
    for motions in ([[3, 4], [5, 6]], [[torch.nan, torch.nan]]):
        with pytest.raises(UserError) as refused:
            fitting(torch.tensor(motions), (0, 0))
        given = [None if np.isnan(value) else float(value) for value in np.ravel(motions)]
        said = call(page, "poked.js", weigh.replace("given[0]", "given[0].map((value) => value ?? NaN)"), given)
        assert said == str(refused.value)


# --- familiarity ---


def test_familiarity_is_that_of_the_package(page: Page) -> None:
    maps, side, size = 8, 12, 24
    summaries = seeded(40, 4 * maps, seed=1)
    known = Familiarity(
        mean=summaries.mean(0),
        factor=torch.linalg.inv(torch.linalg.cholesky(torch.cov(summaries.T) + 0.1 * torch.eye(4 * maps))),
        limits=torch.zeros(3),
        colours=torch.from_numpy(np.random.default_rng(0).integers(0, 256, 512, dtype=np.uint8)),
    )
    segments, box = seeded(1, maps, side, side, seed=2).relu(), Box(top=4, left=0, height=15, width=size)
    frame = (seeded(1, 3, size // 2, size, seed=3).sigmoid() * 255).round().repeat_interleave(2, 2) / 255
    frame[..., 1::2] = frame[..., ::2]
    body = """const [known, data, dims, frame, box, size] = given, typed = (each) => Float32Array.from(each);
        known.colours = Uint8Array.from(known.colours);
        return it.strangeness(known, { data: typed(data), dims }, { frame: typed(frame), box, size });"""
    for limits in ([40, 1e6, 1e6], [1e9, 300, 1e6], [1e9, 1e6, 0.3]):  # one of the three counts
        familiarity = replace(known, limits=torch.tensor(limits))
        expected = familiarity.strangeness(summaries_of(segments), frame, box)
        arrays = {name: value.flatten().tolist() for name, value in vars(familiarity).items()}
        picture = frame.flatten().tolist(), box._asdict(), size
        found = call(page, "familiar.js", body, arrays, segments.flatten().tolist(), [*segments.shape], *picture)
        assert found == pytest.approx(float(expected), rel=1e-5) and 0.1 < found < 10
