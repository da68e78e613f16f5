"""What people get: a wheel that carries its models, and an import that does not wait for torch."""

import subprocess
import sys
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


def test_importing_the_package_does_not_import_torch() -> None:
    code = "import sys, visual_dynamics; print('torch' in sys.modules, visual_dynamics.UserError.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split() == ["False", "UserError"]


def test_loading_a_model_does_not_import_torch_s_compiler() -> None:
    """That takes longer than the import of torch itself."""
    code = "import sys, visual_dynamics; visual_dynamics.load('shapes'); print('torch._dynamo' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "False\n"
