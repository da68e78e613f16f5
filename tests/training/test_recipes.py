"""How every shipped model is made: each recipe runs, on tiny data with a tiny network, and names what it needs."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.characters import noise_characters
from tests.cli.conftest import Run, one_line, place, run  # noqa: F401 - fixtures
from tests.data.test_packed import character
from tests.footage.scenes import film
from visual_dynamics.api import load
from visual_dynamics.data import reed, shapes, sources
from visual_dynamics.data.packed import PackedCharacter, pack
from visual_dynamics.data.pairs import Pairs
from visual_dynamics.data.shards import open_pairs
from visual_dynamics.footage import carry_over
from visual_dynamics.footage.clips import Settings
from visual_dynamics.footage.prepare import prepare_videos
from visual_dynamics.model.presets import PRESETS, TINY
from visual_dynamics.model_files import SHIPPED, shipped_models
from visual_dynamics.training.recipes import RECIPES, STAGES
from visual_dynamics.weights import load_weights

QUICK = ["--steps", "2", "--batch", "8", "--preset", "tiny", "--pairs", "24", "--device", "cpu", "--set", "log_every=1"]
NOT_SHIPPED = {
    "sprites-lpc",
    "people-next",
    "people-128",
    "shapes-128",
    "shapes-small",
}  # recipes without a released run
SPLIT = reed.Split(np.arange(3), np.array([3]), np.array([4]))


@pytest.fixture(scope="module")
def footage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    clips = tmp_path_factory.mktemp("footage") / "clips"
    for number, count in enumerate((20, 13, 9)):
        film(clips / f"{number}.mp4", count, seed=number)
    prepare_videos(clips, clips.parent / "data", Settings(size=32, crop="centre", held_out=0.3))
    return clips.parent / "data"


def data_for(name: str, footage: Path, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    if name.startswith("people"):
        return ["--data", footage, "--set", "also_pairs=8"]
    if name.startswith("sprites-lpc"):
        pack(Path("packed"), map(character, range(12)))
        return ["--data", "packed"]
    if name.startswith("sprites"):
        monkeypatch.setattr(sources, "sprite_split", lambda name: SPLIT)
        reed.pack_characters(noise_characters(5), Path("packed"))
        return ["--data", "packed"]
    return []


def watch_data(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The splits of all data that are drawn or read from now on, wherever this is asked for."""
    opened: set[str] = set()
    draw_scenes, draw_figures, read_characters = shapes.draw_scenes, sources.figure_pairs, reed.read_characters
    read_packed = sources.read_packed

    def scenes(count: int, seed: int, split: shapes.Split = "train") -> shapes.Scenes:
        opened.add(split)
        return draw_scenes(count, seed, split)

    def people(count: int, seed: int, split: str = "train", *others: Any) -> Pairs:
        opened.add(split)
        return draw_figures(count, seed, split, *others)

    def characters(folder: Path, numbers: reed.Numbers | None = None, *others: Any) -> reed.Characters:
        wanted = numbers if numbers is not None else np.concatenate(SPLIT)
        opened.update(name for name, part in SPLIT._asdict().items() if np.isin(part, wanted).any())
        return read_characters(folder, numbers, *others)

    def packed(folder: Path, wanted: Callable[[int], bool]) -> list[PackedCharacter]:
        opened.add({10: "validation"}.get(next(filter(wanted, range(12))), "train"))
        assert {wanted(10), wanted(0)} == {True, False}
        return read_packed(folder, wanted)

    def footage(folder: Path, split: str) -> Pairs | None:
        opened.add(split)
        return open_pairs(folder, split)

    monkeypatch.setattr(shapes, "draw_scenes", scenes)
    monkeypatch.setattr(sources, "figure_pairs", people)
    monkeypatch.setattr(reed, "read_characters", characters)
    monkeypatch.setattr(sources, "read_packed", packed)
    for module in (sources, carry_over):
        monkeypatch.setattr(module, "open_pairs", footage)
    return opened


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_runs_and_opens_no_test_data(
    run: Run,  # noqa: F811
    name: str,
    footage: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = data_for(name, footage, monkeypatch)
    opened = watch_data(monkeypatch)
    answer = run("train", "made", "--recipe", name, *QUICK, *given)
    assert answer.code == 0, answer.err
    # People: clips that are held out, and drawn people for validation where limits of familiar pictures are set.
    assert opened == {"train", "validation"} | ({"held-out"} if name.startswith("people") else set())
    assert answer.err.endswith(f"weights in made/{name}.safetensors\n")
    recipe, made = RECIPES[name], load_weights(Path(f"made/{name}.safetensors"))
    assert made.training["config"]["recipe"] == name and made.training["step"] == 2
    assert made.encodes_motion == recipe.motion_encoder and ("carried_over" in made.training) == recipe.carry_over
    folders = [Path("made"), *sorted(Path("made").glob("stage?"))]
    assert len(folders) == len(recipe.stages) and all((folder / "weights.safetensors").exists() for folder in folders)
    if len(recipe.stages) > 1:
        assert json.loads(Path("made/config.json").read_text())["start"] == "made/stage1/weights.safetensors"


def test_shipped_models_are_those_with_recipes() -> None:
    assert RECIPES.keys() - NOT_SHIPPED == set(shipped_models())
    for name in shipped_models():
        assert f"--recipe {name}`" in (SHIPPED / f"{name}.md").read_text(), name


def test_configurations_of_shipped_models_are_those_of_the_recipes() -> None:
    for name in ("shapes", "shapes-texture", "sprites", "sprites-poses"):
        stage, network = RECIPES[name].stages[-1], load_weights(SHIPPED / f"{name}.safetensors").network.config
        assert stage.network == network, name
        assert stage.steps == load_weights(SHIPPED / f"{name}.safetensors").training["step"], name


def test_a_recipe_is_resumed_in_any_of_its_trainings(run: Run) -> None:  # noqa: F811
    assert run("train", "made", "--recipe", "shapes-integer", *QUICK).code == 0
    whole = Path("made/weights.safetensors").read_bytes()
    for part in Path("made").iterdir():  # as if it was stopped before the second training
        if not part.name.startswith("stage"):
            shutil.rmtree(part) if part.is_dir() else part.unlink()
    assert Path("made", STAGES).exists()
    answer = run("train", "made", "--resume", "--device", "cpu")
    assert answer.code == 0 and answer.err.endswith("weights in made/shapes-integer.safetensors\n")
    again = load_weights(Path("made/weights.safetensors"))
    assert again.training["config"]["start"] == "made/stage1/weights.safetensors"
    assert len(whole) == len(Path("made/weights.safetensors").read_bytes())
    Path("made/stages.json").write_text("[")
    assert "cannot read made/stages.json" in one_line(run("train", "made", "--resume", "--device", "cpu"))


def test_another_configuration_is_the_start_of_a_run(run: Run) -> None:  # noqa: F811
    assert run("train", "one", *QUICK).code == 0
    answer = run("train", "two", "--config", "one/config.json", "--steps", "3", "--device", "cpu")
    assert answer.code == 0, answer.err
    one, two = (json.loads(Path(name, "config.json").read_text()) for name in ("one", "two"))
    assert two == one | {"steps": 3}


def test_without_options_a_run_is_the_shapes_recipe(run: Run) -> None:  # noqa: F811
    assert run("train", "one", *QUICK).code == 0
    found = json.loads(Path("one/config.json").read_text())
    assert (found["rendering"], found["augment"], found["recipe"]) == ("smooth", ["permute-channels"], None)


def test_five_scales_train_sample_and_compact(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """As the paper's footnote has it for frames of 128x128, in small: the largest scale is four times the frame."""
    *motion, last = TINY.motion_layers
    layers = (*motion, replace(last, channels=2 * 5 * TINY.maps))
    five = replace(TINY, size=32, scales=5, motion_layers=layers, latent=500)
    assert five.latent == five.natural_latent and five.pyramid_sizes() == (128, 64, 32, 16, 8)
    monkeypatch.setitem(PRESETS, "tiny", five)
    assert run("train", "made", "--recipe", "shapes-128", *QUICK, "--latent", "8").code == 0
    assert run("compact", "made/weights.safetensors", "small.safetensors").code == 0
    assert load_weights(Path("small.safetensors")).network.config == replace(five, latent=8)
    image = np.full((32, 32, 3), 200, np.uint8)
    assert load("small.safetensors").sample(image, n=3).shape == (3, 32, 32, 3)
