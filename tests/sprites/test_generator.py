"""The LPC generator's checkout, against an invented one whose pixels are known, and against Pillow's compositing."""

import csv
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.sprites.checkout import write_checkout
from visual_dynamics.data.packed import read_packed
from visual_dynamics.errors import UserError
from visual_dynamics.sprites.cast import write_cast
from visual_dynamics.sprites.generator import ANIMATIONS, CELLS, Generator, Worn
from visual_dynamics.sprites.outfits import (
    Composed,
    Outfit,
    cells_of,
    compose,
    draw_held_out,
    draw_outfit,
    families,
    held_out_items,
)

ROOT = Path(__file__).parents[2]
LAYERS = (  # of the worked example, the lowest first
    "body/bodies/male",
    "legs/leggings2/male",
    "feet/boots/fold/male",
    "torso/clothes/longsleeve/longsleeve2/male",
    "head/heads/human/male",
    "hair/pigtails/adult",
)
SHARED = ROOT.parent / "shared/data/lpc_generator"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkout(tmp_path_factory.mktemp("generator"))


@pytest.fixture(scope="module")
def generator(checkout: Path) -> Generator:
    return Generator(checkout)


def worn(generator: Generator, key: str, *colours: str, variant: str = "") -> Worn:
    item = generator.items[key]
    choices = zip(item.recolours, colours, strict=True)
    return Worn(item, tuple(next(p for p in part.palettes if p.name == name) for part, name in choices), variant)


def dressed(generator: Generator) -> Composed:
    body, head = (worn(generator, key, "ulpc.dark") for key in ("body/body", "head/heads/human"))
    legs, veil = worn(generator, "legs/trousers", "ulpc.blue"), worn(generator, "hat/veil", variant="pale green")
    return compose(generator, Outfit("male", (veil, head, legs, body)))


def test_items_of_a_checkout(generator: Generator) -> None:
    assert set(generator.items) == {"body/body", "head/heads/human", "legs/trousers", "hat/veil"}
    assert set(generator.wearable("child")) == {"body", "head"} and set(generator.wearable("teen")) == set()
    assert generator.items["hat/veil"].variants == ("pale green",)  # the other variant has no file
    assert any("broken" in line and "cannot be read" in line for line in generator.remarks)
    assert any("axe" in line and "larger than 64 x 64" in line for line in generator.remarks)
    assert generator.animations(generator.items["body/body"], "child") == {"walk"}


def test_a_character_is_what_pillow_makes_of_its_layers(generator: Generator, checkout: Path) -> None:
    made = dressed(generator)
    assert made.animations == ("walk",)  # the veil of run has the wrong size
    assert any("veil/m/run/pale_green.png is left out: it is 8 x 8 not 512 x 256" in line for line in generator.remarks)
    assert not made.index[cells_of("run")].any()
    expected = Image.new("RGBA", (576, 256))
    for name in ("body/male/walk", "legs/m/walk", "head/m/walk", "veil/m/walk/pale_green"):  # by rising zPos
        pixels = np.array(Image.open(checkout / "spritesheets" / f"{name}.png"))
        swaps = {
            (16, 32, 48): (128, 32, 16),
            (64, 80, 96): (160, 64, 48),
            (240,) * 3: (0, 0, 255),
            (128,) * 3: (0, 0, 136),
        }
        before = pixels[..., :3].copy()
        for old, new in swaps.items():
            pixels[(before == old).all(-1), :3] = new
        expected.alpha_composite(Image.fromarray(pixels))
    found, expected = made.sheet("walk").astype(int), np.array(expected).astype(int)
    assert (found[..., 3] == expected[..., 3]).all()
    assert np.abs(found - expected)[found[..., 3] > 0].max() <= 1  # both round the mixed colours


def test_colours_one_level_off_are_recoloured(generator: Generator) -> None:
    from visual_dynamics.sprites.generator import recoloured

    colours = np.array([[17, 31, 48, 255], [18, 32, 48, 255], [64, 80, 96, 90]], np.uint8)
    changed = recoloured(colours, worn(generator, "body/body", "ulpc.dark"))
    assert changed.tolist() == [[128, 32, 16, 255], [18, 32, 48, 255], [160, 64, 48, 90]]


def test_draws_depend_on_their_number_alone(generator: Generator) -> None:
    def keys(outfit: Outfit) -> list:
        return [outfit.body, *((one.item.key, one.palettes, one.variant) for one in outfit.worn)]

    outfits = [draw_outfit(generator, 3, number, bodies=("male", "child")) for number in range(40)]
    assert keys(outfits[7]) == keys(draw_outfit(generator, 3, 7, bodies=("male", "child")))
    for outfit in outfits:
        skins = {one.palettes[0].name for one in outfit.worn if one.item.matches_body}
        assert len(skins) == 1  # head and body have one skin
        slots = [one.item.slot for one in outfit.worn]
        assert slots[:2] == ["body", "head"] and len(set(slots)) == len(slots)
    assert {outfit.body for outfit in outfits} == {"male", "child"}


def test_a_cast_is_packed_with_its_credits(checkout: Path, tmp_path: Path) -> None:
    cast = write_cast(checkout, tmp_path / "one", 6, workers=1)
    again = write_cast(checkout, tmp_path / "two", 4, workers=2)
    assert cast.written == 6 and again.written == 4
    six, four = (read_packed(tmp_path / name) for name in ("one", "two"))
    assert len({one.facts["sha256"] for one in six}) == 6
    for one, same in zip(six, four, strict=False):  # neither the count nor the workers change a character
        assert one.facts == same.facts and (one.index == same.index).all()
    assert {"walk"} <= {clip.animation for one in six for clip in one.clips} <= {"walk", "run"}
    rows = list(csv.DictReader((tmp_path / "one/CREDITS.csv").open()))
    assert {row["filename"] for row in rows} == cast.files and not cast.uncredited
    assert all(row["authors"] == f"author of {row['filename']}" for row in rows)


def test_too_few_items_and_no_checkout(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("visual_dynamics.sprites.cast.ATTEMPTS", 3)
    with pytest.raises(UserError, match="no checkout of the LPC generator"):
        Generator(tmp_path)
    with pytest.raises(UserError, match="distinct characters, not 200"):
        write_cast(checkout, tmp_path / "many", 200)
    assert not (tmp_path / "many/packed.json").exists()


def test_cells_follow_each_other() -> None:
    places = [cells_of(name) for name in ANIMATIONS]
    assert [p.start for p in places] == [0, *(p.stop for p in places[:-1])] and places[-1].stop == CELLS == 352


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Generator:
    if not SHARED.exists():
        pytest.skip("needs the layers of the LPC generator")
    folder = tmp_path_factory.mktemp("real")
    patch = pytest.MonkeyPatch()
    with zipfile.ZipFile(SHARED / "layers.zip") as archive:
        sheets = [name.removeprefix("spritesheets/") for name in archive.namelist() if name.endswith(".png")]
        for name in archive.namelist():
            if not name.endswith(".png") or name.removeprefix("spritesheets/").startswith(LAYERS):
                archive.extract(name, folder)
    patch.setattr("visual_dynamics.sprites.generator._pngs", lambda folder: sheets)  # the others need not be unpacked
    generator = Generator(folder)
    patch.undo()
    return generator


def test_the_worked_example(real: Generator) -> None:
    """The README of the data: six items of a male figure, all in their base colours, against Pillow."""
    keys = (
        "body/body",
        "legs/leggings/legs_leggings2",
        "feet/boots/feet_boots_fold",
        "torso/shirts/longsleeve/torso_clothes_longsleeve2",
        "head/heads/human/heads_human_male",
        "hair/pigtails/hair_pigtails",
    )
    items = [real.items[key] for key in keys]
    base = tuple(
        Worn(item, tuple(p._replace(colours=part.base) for part in item.recolours for p in part.palettes[:1]))
        for item in items
    )
    made = compose(real, Outfit("male", base))
    for animation in ("walk", "run", "sit", "hurt"):
        expected = Image.new("RGBA", made.sheet(animation).shape[1::-1])
        for place in LAYERS:
            expected.alpha_composite(Image.open(real.folder / f"spritesheets/{place}/{animation}.png").convert("RGBA"))
        found, wanted = made.sheet(animation).astype(int), np.array(expected).astype(int)
        assert (found[..., 3] == wanted[..., 3]).all()
        assert np.abs(found - wanted)[found[..., 3] > 0].max() <= 1
    assert len(made.animations) == len(ANIMATIONS)


def test_the_held_out_items_are_the_drawn_ones(real: Generator) -> None:
    """Whole families, as the committed list says; no training character wears one of them."""
    assert draw_held_out(real) == sorted(held_out_items())
    family = families(real.items.values())
    held_out = {family[key] for key in held_out_items()}
    assert not held_out & {family[key] for key in real.items.keys() - held_out_items()}
    for number in range(60):
        assert not held_out_items() & {one.item.key for one in draw_outfit(real, 0, number, items="train").worn}
    fresh = [held_out_items() & {o.item.key for o in draw_outfit(real, 0, n, items="held-out").worn} for n in range(60)]
    assert sum(map(bool, fresh)) >= 55
