"""Whether threads that share a model get what one thread gets: `python benchmarks/threads.py [MODEL ...] [--out FILE]`

Eight threads make 200 calls of each model at once, of several verbs, pictures and seeds. Then one thread makes the same
calls with a model of its own. All results are compared to the last bit. Some four minutes a model on two CPU cores.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))
from visual_dynamics.api import Model, load
from visual_dynamics.files import write_atomically
from visual_dynamics.provenance import provenance

THREADS, CALLS, PICTURES = 8, 200, 5


def pictures(size: int) -> NDArray[np.uint8]:
    """Squares before black, (PICTURES, S, S, 3): what they show does not matter here."""
    frames = np.zeros((PICTURES, size, size, 3), np.uint8)
    for number, frame in enumerate(frames):
        frame[size // 4 + number : size // 2, size // 4 : size // 2 + 2 * number] = (200, 80 + 30 * number, 40)
    return frames


def call(model: Model, shown: NDArray[np.uint8], number: int) -> NDArray[Any]:
    """One of 200 calls: numbers choose the verb, the picture and the seed."""
    seed, place = divmod(number, PICTURES)
    image = model.open(shown[place], check=False)
    verbs: tuple[Callable[[], NDArray[Any]], ...] = (
        lambda: model.sample(image, n=1 + seed % 3, seed=seed),
        lambda: model.extrapolate(image, steps=2, seed=seed),
        lambda: model.apply(image, model.encode(shown[place], shown[place - 1])),
        lambda: model.encode(shown[place], shown[place - 2]).mean,
    )
    return verbs[seed % len(verbs)]()


def compare(name: str, calls: int) -> dict[str, Any]:
    shared, alone, shown = load(name), load(name), pictures(load(name).size)
    with ThreadPoolExecutor(THREADS) as pool:  # what a model makes when it is first used is made by several threads
        found = list(pool.map(lambda number: call(shared, shown, number), range(calls)))
    expected = [call(alone, shown, number) for number in range(calls)]
    equal = sum(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))
    return {"model": name, "weights": alone.weights.digest, "threads": THREADS, "calls": calls, "equal": equal}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("models", nargs="*", default=["shapes", "sprites", "people"])
    options.add_argument("--calls", type=int, default=CALLS)
    options.add_argument("--out", type=Path)
    given = options.parse_args()
    found = []
    for name in given.models:
        found.append(compare(name, given.calls))
        print(f"{name}: {found[-1]['equal']} of {given.calls} calls equal", flush=True)
    if given.out:
        result = {"experiment": "threads", "models": found, **provenance(torch.device("cpu"))}
        write_atomically(given.out, json.dumps(result, indent=1).encode() + b"\n")


if __name__ == "__main__":
    main()
