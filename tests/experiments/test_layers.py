"""The learned layers in small: what is chosen where, the figures, and tables from the JSON alone."""

import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

from visual_dynamics.api import load
from visual_dynamics.data import shapes
from visual_dynamics.evaluation.layers import BEST, COLOUR, KINDS, LEVELS, Choice, MaskedImages, segments, summary
from visual_dynamics.experiments import layers
from visual_dynamics.experiments.layers import LayersOptions
from visual_dynamics.reporting.base import Measured

CPU = torch.device("cpu")
SEED = 56  # an object is hidden behind another in a choosing and in a test image
ROWS = ("best map", BEST, "read-out of one scale", "read-out of all scales")
FLOORS = ("colour channel", COLOUR, "mean mask", "all objects together")


def make(path: Path, samples: int, seed: int = SEED) -> Measured:
    patch = pytest.MonkeyPatch()
    patch.setattr(layers, "CHOOSING", 10)
    options = LayersOptions(samples=samples, seed=seed, model=str(path))
    made = layers.compute(options, CPU, lambda step, share: None)
    patch.undo()
    return made


@pytest.fixture(scope="module")
def measured(tiny_weights_file: Path) -> Measured:
    return make(tiny_weights_file, 12)


@pytest.fixture(scope="module")
def result(measured: Measured) -> dict:
    return json.loads(json.dumps(measured.numbers))


def test_every_row_and_cell_is_there(result: dict) -> None:
    assert set(result["rows"]) == {*ROWS, *FLOORS, *(f"{name}, untrained" for name in ROWS)}
    for row in result["rows"].values():
        for kind in KINDS:
            assert list(row[kind]) == list(shapes.OBJECTS)
            for name, cell in row[kind].items():
                shares = {"iou", "iou_choosing", "inside", "covered"} & set(cell)
                assert "iou" in shares and all(0 <= cell[share] <= 1 for share in shares)
                assert cell["images"] == result["seen"][name] <= 12


def test_the_untrained_floor_is_of_other_weights(result: dict) -> None:
    for name in ROWS:
        assert result["rows"][name] != result["rows"][f"{name}, untrained"]


def test_the_best_map_is_measured_on_test_images(result: dict, tiny_weights_file: Path) -> None:
    """One image at a time, each map enlarged and cut by hand."""
    network = load(tiny_weights_file).predictor.network
    scenes = shapes.draw_scenes(12, SEED, "test")
    frames = shapes.images(scenes, rendering="smooth", size=16) / 255
    masks = shapes.masks(scenes, rendering="smooth", size=16)
    for kind, whole in zip(KINDS, masks, strict=True):
        for thing, (name, cell) in enumerate(result["rows"]["best map"][kind].items()):
            scale, number = divmod(cell["map"], network.config.maps)
            found = []
            for frame, mask, seen in zip(frames, whole[:, thing].numpy() >= 0.5, masks.visible[:, thing], strict=True):
                with torch.no_grad():
                    maps = network.encode_image(frame[None])[scale]
                high = F.interpolate(maps, size=(16, 16), mode="bilinear")[0, number].numpy() >= cell["threshold"]
                region = high if cell["sign"] == "high" else ~high
                if seen.mean() >= 12 / 64**2:
                    found.append((region & mask).sum() / max(1, (region | mask).sum()))
            assert len(found) == result["seen"][name]
            assert cell["iou"] == pytest.approx(
                np.mean(found), abs=0.02
            )  # a pixel on the threshold may fall either way


def test_the_best_channel_of_each_image_by_hand(result: dict) -> None:
    scenes = shapes.draw_scenes(12, SEED, "test")
    frames = shapes.images(scenes, rendering="smooth", size=16).numpy() / 255
    masks = shapes.masks(scenes, rendering="smooth", size=16)
    for number, thing in np.ndindex(2, 3):
        found = []
        for frame, mask, seen in zip(frames, masks[number][:, thing].numpy() >= 0.5, masks.visible, strict=True):
            if seen[thing].mean() < 12 / 64**2:
                continue
            tried = [channel >= step / (LEVELS + 1) for channel in frame for step in range(1, LEVELS + 1)]
            regions = [region if high else ~region for region in tried for high in (True, False)]
            found.append(max((region & mask).sum() / max(1, (region | mask).sum()) for region in regions))
        cell = result["rows"][COLOUR][KINDS[number]][shapes.OBJECTS[thing]]
        assert cell["iou"] == pytest.approx(np.mean(found), abs=0.005)
        best, one = (result["rows"][row][KINDS[number]][shapes.OBJECTS[thing]]["iou"] for row in (BEST, "best map"))
        assert best >= one


def test_floors_and_read_outs_by_hand(result: dict, tiny_weights_file: Path) -> None:
    """NumPy on all choosing images at once, then on all test images; hidden objects do not count in either."""
    network = load(tiny_weights_file).predictor.network
    pixels_of, seen, masks = {}, {}, {}
    for split, count in (("train", 10), ("test", 12)):
        scenes = shapes.draw_scenes(count, SEED, split)
        frames = shapes.images(scenes, rendering="smooth", size=16) / 255
        masks[split] = shapes.masks(scenes, rendering="smooth", size=16)
        pixels_of[split] = segments(network, frames).permute(0, 2, 3, 1).flatten(0, 2).double().numpy()
        pixels_of[split] = np.pad(pixels_of[split], ((0, 0), (0, 1)), constant_values=1)
        seen[split] = masks[split].visible.mean((2, 3)).numpy() >= 12 / 64**2
        assert not seen[split].all()

    def overlap(regions: np.ndarray, split: str, kind: str, thing: int) -> float:
        counted, mask = seen[split][:, thing], getattr(masks[split], kind)[:, thing].numpy() >= 0.5
        regions = np.broadcast_to(regions, mask.shape)
        pairs = zip(regions[counted], mask[counted], strict=True)
        return float(np.mean([(one & other).sum() / max(1, (one | other).sum()) for one, other in pairs]))

    for number, thing in np.ndindex(2, 3):
        kind, name = KINDS[number], shapes.OBJECTS[thing]
        place = masks["train"].visible[:, thing].mean(0).numpy()
        target = getattr(masks["train"], kind)[:, thing].flatten().numpy()
        weights = np.linalg.lstsq(pixels_of["train"], target, rcond=None)[0]
        for split, key in (("train", "iou_choosing"), ("test", "iou")):
            sums = (pixels_of[split] @ weights).reshape(-1, 16, 16)
            for row, values in (("mean mask", place), ("read-out of all scales", sums)):
                cell = result["rows"][row][kind][name]
                high = values >= cell["threshold"]
                by_hand = overlap(high if cell["sign"] == "high" else ~high, split, kind, thing)
                assert cell[key] == pytest.approx(by_hand, abs=0.005)


def test_test_images_have_no_say_in_the_choice(result: dict, tiny_weights_file: Path) -> None:
    fewer = make(tiny_weights_file, 5).numbers
    for name, row in result["rows"].items():
        for kind in KINDS:
            for thing, cell in row[kind].items():
                same = fewer["rows"][name][kind][thing]
                chosen = {"map", "sign", "threshold", "iou_choosing"} & set(cell)
                assert all(same[key] == cell[key] for key in chosen) and bool(chosen) == ("of the image" not in name)
    assert fewer["preferences"] == result["preferences"]


def test_all_objects_together_find_their_own_share(result: dict) -> None:
    cells = result["rows"]["all objects together"]["visible"].values()
    assert all(cell["covered"] > 0.8 for cell in cells)
    assert sum(cell["inside"] for cell in cells) == pytest.approx(1, abs=0.25)


def test_images_in_the_figures_show_every_object() -> None:
    whole = torch.ones(5, 3, 8, 8)
    visible = whole.clone()
    visible[0, 1, :4] = 0  # half of a square is hidden
    whole[2, 2, 1:] = visible[2, 2, 1:] = 0  # most of a triangle lies outside the frame
    assert layers.in_sight(MaskedImages(torch.zeros(5, 3, 8, 8), visible, whole)).tolist() == [1, 3, 4, 0]


def test_one_test_image_will_do(tiny_weights_file: Path, tmp_path: Path) -> None:
    text = layers.draw(make(tiny_weights_file, 1, seed=2).numbers, tmp_path)
    assert "nan" not in text


def test_what_is_never_seen_has_no_numbers() -> None:
    cell = summary(Choice(0, 0, 0.5, 0.5), torch.zeros(4, 0))
    assert [cell[name] for name in ("iou", "interval", "inside", "covered", "images")] == [None] * 4 + [0]


def test_tables_come_from_the_json_alone(result: dict, tmp_path: Path) -> None:
    text = layers.draw(result, tmp_path)
    assert text.count("floor: ") == 8 and f"{result['rows']['mean mask']['visible']['circle']['iou']:.2f}" in text
    assert not list(tmp_path.iterdir())


def test_the_headline_has_both_protocols_each_with_its_floors(result: dict) -> None:
    def ious(row: str) -> str:
        return " / ".join(f"{cell['iou']:.2f}" for cell in result["rows"][row]["visible"].values())

    line, cell = layers.headline(result), result["rows"]["best map"]["visible"]["circle"]
    low, high = cell["interval"]
    assert low <= cell["iou"] <= high
    assert line.ours.startswith(f"one map for all images: {cell['iou']:.2f} ({low:.2f} to {high:.2f}) / ")
    assert re.sub(r" \(\S+ to \S+\)", "", line.ours).endswith(f"chosen on it: {ious(BEST)}")
    assert line.floor == (
        f"one for all images: {ious('best map, untrained')} (random weights), {ious('colour channel')} (colour "
        f"channel); the best of each image: {ious(f'{BEST}, untrained')} (random weights), {ious(COLOUR)} (colour "
        "channel)"
    )


def test_a_result_without_intervals_is_drawn(result: dict, tmp_path: Path) -> None:
    older = json.loads(json.dumps(result))
    for row in older["rows"].values():
        for cells in row.values():
            for cell in cells.values():
                del cell["interval"]
    assert " to " not in layers.headline(older).ours and "| **one map for all images** |" in layers.draw(
        older, tmp_path
    )


def test_every_scale_has_a_gallery(measured: Measured, result: dict) -> None:
    names = {f"layers_scale_{number + 1}.png" for number in range(result["protocol"]["scales"])}
    assert set(measured.pictures) == names | {"layers_regions.png"}
    regions = Image.open(io.BytesIO(measured.pictures["layers_regions.png"]))
    assert regions.width > 10 * 192 and regions.height > len(result["protocol"]["shown"]) * 192


def test_regions_are_white_where_both_agree() -> None:
    region, mask = torch.tensor([[True, True], [False, False]]), torch.tensor([[True, False], [True, False]])
    colours = [[[255, 255, 255], [255, 0, 0]], [[0, 0, 255], [0, 0, 0]]]
    assert layers.both_regions(region, mask).tolist() == colours


def test_a_gallery_is_in_the_order_of_preference() -> None:
    """Maps of one grey each: ground, circle, triangle, more of a circle."""
    greys, shares = (250, 64, 160, 16), [[0, 0, 0, 1], [0.6, 0.4, 0, 0], [0, 0, 0.9, 0.1], [0.8, 0, 0.2, 0]]
    maps = (torch.tensor(greys) / 255)[None, :, None, None].expand(1, 4, 16, 16)
    made = layers.gallery([np.full((16, 16, 3), 255, np.uint8)], maps, torch.tensor(shares))
    line = np.array(Image.open(io.BytesIO(made)))[-50, :, 0]
    seen = [value for value, before in zip(line[1:], line, strict=False) if value != before and value != 255]
    assert seen == [round((255 * grey) ** 0.5) for grey in (16, 64, 160, 250)]
