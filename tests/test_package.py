"""What people get: a wheel that carries its models, and an import that does not wait for torch."""

import json
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

from visual_dynamics.model_files import SHIPPED, find_weights, shipped_models
from visual_dynamics.weights import MAX_BYTES, load_weights

ROOT = Path(__file__).parents[1]


def test_the_wheel_carries_models_and_pages(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "-w", str(tmp_path), str(ROOT)], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("visual_dynamics-*.whl")
    assert wheel.stat().st_size < 100e6  # PyPI's limit for a file
    names = set(zipfile.ZipFile(wheel).namelist())
    for path in SHIPPED.iterdir():
        assert f"visual_dynamics/models/{path.name}" in names
    assert {"visual_dynamics/cli/demo.html", "visual_dynamics/py.typed"} <= names
    assert {f"visual_dynamics/study/page/study.{kind}" for kind in ("html", "js", "css")} <= names
    assert {"visual_dynamics/studio/page/main.js", "visual_dynamics/export/page/worker.js"} <= names
    assert "visual_dynamics/export/README.template.md" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not any(name.startswith(("tests/", "benchmarks/")) for name in names)


def test_every_shipped_model_is_small_whole_and_has_a_card() -> None:
    assert "shapes" in shipped_models()
    for name in shipped_models():
        path = find_weights(name)
        assert path.stat().st_size <= MAX_BYTES
        weights = load_weights(path)
        assert weights.training["device"] and weights.training["commit"]
        _, header, card = path.with_suffix(".md").read_text().split("---\n", 2)  # the Hub reads the header
        assert "license: apache-2.0\n" in header and "pipeline_tag: image-to-video\n" in header
        assert card.startswith(f"\n# Model card: {name}\n")


def pins(name: str, mark: str = "") -> dict[str, str]:
    """Package -> version of the lines of a file."""
    lines = [line.removesuffix(mark) for line in (ROOT / name).read_text().splitlines() if line.endswith(mark)]
    return {plain(line.split("==")[0]): line.split("==")[1] for line in lines if "==" in line}


def plain(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()


def test_floors_are_what_is_tested() -> None:
    """Each dependency is pinned for the tests, and promises nothing older; torch is that of published results."""
    project, tested = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"], pins("constraints.txt")
    extras = [words for extra in project["optional-dependencies"].values() for words in extra]
    for words in [*project["dependencies"], *extras]:
        if words.startswith("visual-dynamics["):
            continue
        name, floor = re.match(r"([\w.-]+)>=([\d.]+)", words).groups()  # type: ignore[union-attr]
        if name == "torch":
            made = [
                json.loads(path.read_text()).get("torch", "") for path in (ROOT / "docs" / "results").glob("*.json")
            ]
            assert any(version.startswith(f"{floor}.") for version in made)
            continue
        assert tested[plain(name)].split(".")[: floor.count(".") + 1] == floor.split("."), words


def test_the_lock_has_the_bytes_of_what_is_tested_but_for_torch() -> None:
    tested = pins("constraints.txt")
    assert tested.pop("torch")
    assert pins("requirements.lock", " \\") == tested, "run make lock"
    assert (ROOT / "requirements.lock").read_text().count("--hash=sha256:") > len(tested)


def test_importing_the_package_does_not_import_torch() -> None:
    code = "import sys, visual_dynamics; print('torch' in sys.modules, visual_dynamics.UserError.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split() == ["False", "UserError"]


def test_loading_a_model_does_not_import_torch_s_compiler() -> None:
    """That takes longer than the import of torch itself."""
    code = "import sys, visual_dynamics; visual_dynamics.load('shapes'); print('torch._dynamo' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "False\n"
