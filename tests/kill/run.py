"""Is anything lost when a process is killed, or the disk is full? `python -m tests.kill.run`, or `make kill`.

Each piece of work runs in a process of its own, is killed after a random time, and started again.

training   a run is resumed until it ends: state, weights and log are those of an unbroken run, bit for bit. A
           checkpoint that was there stays readable, and never goes back.
prepare    clips are prepared until all are: the folder has the bytes of an unbroken run
motions    all motions of a studio that were acknowledged are kept
votes      all answers to a study that were acknowledged are kept
full disk  a file of training or of `prepare` cannot be written: the error is one sentence, and the next run ends as the
           unbroken one. Files of motions and votes cannot grow: what was acknowledged is kept.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tests.kill.stores import killed_stores
from tests.kill.work import Prepare, Training
from visual_dynamics.provenance import commit

ROOT = Path(__file__).parents[2]
KILLS = {"training": 100, "prepare": 20, "motions": 40, "votes": 40, "full disk": 20}


def no_larger_than(size: int) -> Callable[[], object]:
    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return limit


def full_at(number: int) -> Callable[[], object]:
    """The n-th file that is to be on the disk, and all after it, cannot be written."""

    def limit() -> None:
        count, real = 0, os.fsync

        def fsync(handle: int) -> None:
            nonlocal count
            count += 1
            if count >= number:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            real(handle)

        os.fsync = fsync  # type: ignore[assignment]

    return limit


def fill_disks(folder: Path, places: int, draw: random.Random) -> dict[str, Any]:
    """A quarter of the places for each kind of work."""
    each = max(1, places // 4)
    at = [full_at(number) for number in sorted(draw.sample(range(1, 30), each))]
    found: dict[str, Any] = {"training": Training(folder / "training").fill_disk(at)}
    found["prepare"] = Prepare(folder / "prepare").fill_disk([full_at(number) for number in range(1, 1 + each)])
    for name in ("motions", "votes"):
        sizes = [no_larger_than(draw.randrange(20_000, 200_000)) for _ in range(each)]
        found[name] = killed_stores(name, folder, each, draw, sizes)
    return found | {"problems": {name: kind["problems"] for name, kind in found.items() if kind["problems"]}}


def tried(kind: str, folder: Path, count: int, draw: random.Random) -> dict[str, Any]:
    if kind == "full disk":
        return fill_disks(folder, count, draw)
    if kind in ("training", "prepare"):
        return (Training if kind == "training" else Prepare)(folder / kind).run(count, draw)
    return killed_stores(kind, folder, count, draw)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--share", type=float, default=1.0, help="of all kills")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--only", choices=KILLS)
    options.add_argument("--out", type=Path, default=ROOT / "out" / "kill.json")
    given = options.parse_args()
    torch.set_num_threads(1)  # threads do not survive a fork
    kinds: dict[str, Any] = {}
    for kind in [given.only] if given.only else KILLS:
        draw, count = random.Random(f"{kind} {given.seed}"), max(1, round(given.share * KILLS[kind]))
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="visual-dynamics-kill-") as name:
            kinds[kind] = tried(kind, Path(name), count, draw)
        kinds[kind]["seconds"] = round(time.monotonic() - started, 1)
        print(kind, kinds[kind], flush=True)
    result = {"date": time.strftime("%Y-%m-%d"), "commit": commit(), "seed": given.seed, "kinds": kinds}
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(result, indent=1) + "\n")
    sys.exit(any(found["problems"] for found in kinds.values()))


if __name__ == "__main__":
    main()
