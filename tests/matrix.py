"""A fast part of the tests with each Python and torch that is supported: make test-matrix.

Each pair of a Python (3.11 to 3.14) and a torch (the oldest of pyproject.toml, the newest of constraints.txt) gets an
environment. What cannot be had is said, and fails nothing. torch comes from --torch-index, whose builds are for CPUs:
the usual one has gigabytes for GPUs. --python adds an interpreter that has a torch already, Debian's say.
"""

import argparse
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = "test_api.py model test_images.py test_images_bad.py test_weights.py cli/test_verbs.py::test_help_and_version"
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
OWN_PACKAGES = "import sys; print(*(path for path in sys.path if path.endswith('-packages')), sep='\\n')"


def called(*command: object) -> tuple[bool, str]:
    """Whether a command succeeded, and all that it said."""
    try:
        words = [str(word) for word in command]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=3_600, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return False, str(error)
    return not done.returncode, done.stdout + done.stderr


def answer_of(python: object, code: str) -> str:
    right, said = called(python, "-c", code)
    return said.strip() if right else ""


def find_python(version: str) -> str:
    """An interpreter of that version: on the path, of pyenv, or of uv; "" where there is none."""
    places = [f"python{version}", *map(str, sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python")))]
    places += [called("uv", "python", "find", version)[1].strip()] if shutil.which("uv") else []
    right = f"import sys; print(sys.version_info[:2] == ({version.replace('.', ', ')}))"
    return next((place for place in places if answer_of(place, right) == "True"), "")


def torches() -> list[str]:
    """The oldest and the newest version."""
    (oldest,) = re.findall(r'"torch>=([\d.]+)"', (ROOT / "pyproject.toml").read_text("utf-8"))
    return [f"{oldest}.0", *re.findall(r"^torch==([\d.]+)", (ROOT / "constraints.txt").read_text("utf-8"), re.M)]


def tested(python: str, torch: str, index: str, folder: Path) -> tuple[bool | None, str]:
    """Whether the tests passed, None where they could not be run; and a line on it. No torch: the interpreter's own."""
    shutil.rmtree(folder, ignore_errors=True)
    right, said = called(python, "-m", "venv", folder)
    if not right:
        return None, f"could not be had: no environment: {said.strip().splitlines()[-1]}"
    own, pip = folder / "bin" / "python", (folder / "bin" / "python", "-m", "pip", "install", "--quiet")
    if torch:
        options = ("--retries", 0, "--timeout", 30, "--no-deps", "--only-binary", ":all:", "--index-url", index)
        if not called(*pip, *options, f"torch=={torch}")[0]:
            return None, "could not be had: no such build of torch could be fetched"
    else:
        (site,) = folder.glob("lib/*/site-packages")
        (site / "shared.pth").write_text(answer_of(python, OWN_PACKAGES), "utf-8")
    pins = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pins = [pin for pin in pins if not re.match("(torch|triton)=", pin)]
    (folder / "constraints.txt").write_text("\n".join(pins), "utf-8")
    right, said = called(*pip, "-c", folder / "constraints.txt", "-e", ".", "pytest", "hypothesis")
    found = answer_of(own, "import torch; print(torch.__version__)")
    if not right or not found:
        return None, f"could not be had: {(said.strip().splitlines() or ['torch cannot be imported'])[-1][:200]}"
    paths = [f"tests/{name}" for name in TESTS.split()]
    right, said = called(own, "-m", "pytest", "-q", "-o", "addopts=", "-p", "no:cacheprovider", *paths)
    (folder / "tests.log").write_text(said, "utf-8")
    counts = re.findall(r"(?m)^.*\b\d+ (?:passed|failed|error).*$", said) or said.strip().splitlines()
    return right, f"torch {found}: {counts[-1].strip('= ')}"


def main() -> bool:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch-index", default="https://download.pytorch.org/whl/cpu")
    parser.add_argument("--python", action="append", default=[], help="has a torch already; may be repeated")
    parser.add_argument("--only", action="store_true", help="nothing but --python")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "matrix")
    given = parser.parse_args()
    jobs = [] if given.only else [(find_python(each), each, torch) for each in VERSIONS for torch in torches()]
    jobs += [(each, answer_of(each, "import platform; print(platform.python_version())"), "") for each in given.python]
    failed = False
    print(f"{platform.platform()}\n\n| Python | torch | result |\n|---|---|---|", flush=True)
    for number, (python, version, torch) in enumerate(jobs):
        right, words = None, "could not be had: no such Python"
        if python:
            right, words = tested(python, torch, given.torch_index, given.out.absolute() / str(number))
        failed |= right is False
        print(f"| {version} | {torch or 'its own'} | {words} |", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
