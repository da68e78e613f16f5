"""Do readers stand damaged files? `python -m tests.fuzz.run [--share 0.1] [--seed N]`, or `make fuzz`.

Each case (corpus.py) is read in a process of its own. What is no UserError of one line, takes more than 10 seconds of
processor time, or more than 1.2 GB of memory, is a failure: its files are kept, and the case can be made again.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any, NamedTuple

import torch

from tests.fuzz.corpus import SIZES, case
from visual_dynamics.errors import UserError
from visual_dynamics.provenance import commit

ROOT = Path(__file__).parents[2]
SECONDS, MEGABYTES = 10.0, 1_200.0  # of a reader
LONGEST = 60  # seconds by the clock, and of the processor, after which a case is ended
WORDS = {0: "read", 3: "error", 4: "foreign", 5: "lines"}  # by exit status


class Result(NamedTuple):
    outcome: str  # read, error; or a failure: foreign, lines, ended
    seconds: float  # of the processor
    megabytes: float  # the most that was held
    words: str = ""

    @property
    def failed(self) -> bool:
        return self.outcome not in ("read", "error") or self.seconds > SECONDS or self.megabytes > MEGABYTES


def tried(kind: str, seed: int, number: int, keep: Path | None = None) -> Result:
    files, read = case(kind, seed, number)
    with tempfile.TemporaryDirectory(prefix="visual-dynamics-fuzz-") as name:
        folder, log = Path(name) / "case", Path(name) / "log"
        for file, data in files.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(data)
        if not (child := os.fork()):
            os._exit(_child(read, folder, log))
        _, status, used = os.wait4(child, 0)
        words = log.read_text(errors="replace") if log.exists() else ""
    code = os.waitstatus_to_exitcode(status)
    seconds = used.ru_utime + used.ru_stime
    result = Result(WORDS.get(code, f"ended by {code}"), round(seconds, 3), round(used.ru_maxrss / 1024, 1), words)
    if result.failed and keep:
        for file, data in files.items():
            (keep / f"{kind}-{seed}-{number}" / file).parent.mkdir(parents=True, exist_ok=True)
            (keep / f"{kind}-{seed}-{number}" / file).write_bytes(data)
    return result


def _child(read: Any, folder: Path, log: Path) -> int:
    signal.alarm(LONGEST)
    resource.setrlimit(resource.RLIMIT_CPU, (LONGEST, LONGEST))
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1), os.dup2(quiet, 2)  # decoders print
    try:
        read(folder)
        return 0
    except UserError as error:
        log.write_text(str(error), errors="replace")
        return 5 if len(str(error).splitlines()) > 1 else 3
    except BaseException:
        log.write_text(traceback.format_exc()[-4_000:], errors="replace")
        return 4


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--share", type=float, default=1.0, help="of the whole corpus")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--only", choices=SIZES, help="one kind")
    options.add_argument("--first", type=int, default=0, help="number of the first case of each kind")
    options.add_argument("--out", type=Path, default=ROOT / "out" / "fuzz", help="failures, and the result as JSON")
    given = options.parse_args()
    torch.set_num_threads(1)  # threads do not survive a fork
    summary: dict[str, Any] = {}
    failures: list[dict[str, Any]] = []
    for kind in [given.only] if given.only else SIZES:
        found: list[Result] = []
        for number in range(given.first, given.first + max(1, round(given.share * SIZES[kind]))):
            found.append(result := tried(kind, given.seed, number, given.out))
            if result.failed:
                failures.append({"kind": kind, "number": number} | result._asdict())
                print(
                    f"{kind} {number}: {result.outcome}, {result.seconds} s, {result.megabytes} MB\n{result.words}",
                    flush=True,
                )
        summary[kind] = {
            "cases": len(found),
            **collections.Counter(each.outcome for each in found),
            "most_seconds": max(each.seconds for each in found),
            "most_megabytes": max(each.megabytes for each in found),
        }
        print(kind, summary[kind], flush=True)
    given.out.mkdir(parents=True, exist_ok=True)
    result = {
        "date": time.strftime("%Y-%m-%d"),
        "commit": commit(),
        "seed": given.seed,
        "kinds": summary,
        "failures": failures,
    }
    (given.out / "fuzz.json").write_text(json.dumps(result, indent=1) + "\n")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
