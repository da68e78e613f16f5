"""Whether small results of all experiments are still those that were recorded.

python -m tests.golden.check_experiments FOLDER, where `reproduce all --small --sprites SPRITES --out FOLDER` wrote. It
takes minutes, and is no part of the tests. Numbers may differ by TOLERANCE (rounding of another processor). Where a
result comes from is left out.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).with_name("experiments.json")
ORIGIN = {"commit", "version", "device", "torch", "python", "seconds", "small"}
MOST = 64  # numbers of a list that are kept
TOLERANCE = 1e-3


def numbers(path: Path) -> Any:
    """A result without its origin; long lists by their first numbers."""
    return _without(json.loads(path.read_text()))


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: _without(part) for key, part in value.items() if key not in ORIGIN}
        return {key: part for key, part in kept.items() if part is not None}
    if isinstance(value, list):
        kept = [_without(part) for part in value[:MOST]]
        return [part for part in kept if part is not None]
    return value


def differences(old: Any, new: Any, where: str = "") -> Iterator[str]:
    """Lines on what is gone, or is another number; what is new may be."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key, value in old.items():
            if key not in new:
                yield f"{where}.{key} is gone"
            else:
                yield from differences(value, new[key], f"{where}.{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for place, (one, two) in enumerate(zip(old, new, strict=True)):
            yield from differences(one, two, f"{where}[{place}]")
    elif isinstance(old, float) or isinstance(new, float):
        if not isinstance(new, int | float) or not math.isclose(old, new, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
            yield f"{where}: {old} was recorded, now {new}"
    elif old != new:
        yield f"{where}: {str(old)[:80]} was recorded, now {str(new)[:80]}"


if __name__ == "__main__":
    folder, found = Path(sys.argv[1]), []
    for name, old in json.loads(GOLDEN.read_text()).items():
        path = folder / f"{name}.json"
        found += list(differences(old, numbers(path), name)) if path.is_file() else [f"{name} was not made"]
    print("\n".join(found) or "all as recorded")
    sys.exit(bool(found))
