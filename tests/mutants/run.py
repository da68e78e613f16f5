"""Do the tests notice small faults? `python -m tests.mutants.run [--only PATTERN] [--workers N]`, or `make mutants`.

The faults are data: `tests/mutants/*.toml` has a table for each file of the package, with the tests that should notice,
and for each fault [old text, new text, reason]; a fourth place names other tests. Each fault is put into a private copy
of the tree, and its tests run there until one fails: it is caught. An old text that is not in its file exactly once is
stale, and an error: the list follows the code. Tests that fail without a fault are an error, too. What was caught, or
passed, is not tried again until its line in the file of results is removed.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from visual_dynamics.provenance import commit

ROOT = Path(__file__).parents[2]
WARM = (
    "torch",
    "matplotlib.pyplot",
    "PIL.Image",
    "scipy.ndimage",
    "cv2",
    "av",
    "h5py",
    "hypothesis",
    "fastapi.testclient",
)
LIMIT = 900  # seconds of all tests of a fault; each test has 300
OPTIONS = ("-x", "-q", "-rfE", "--tb=short", "-p", "no:cacheprovider", "--hypothesis-seed=0")
NONE = "without a fault"  # in place of a file: the tests by themselves


class Fault(NamedTuple):
    file: str  # below visual_dynamics
    old: str
    new: str
    reason: str
    tests: tuple[str, ...]  # below tests, files or folders


def all_faults() -> list[Fault]:
    tables = [tomllib.loads(path.read_text()) for path in sorted(Path(__file__).parent.glob("*.toml"))]
    return [
        Fault(file, old, new, reason, tuple((other[0] if other else table["tests"]).split()))
        for named in tables
        for file, table in named.items()
        for old, new, reason, *other in table["faults"]
    ]


def begin_worker() -> None:
    """A copy of the tree for this process, and the slow imports, once: each fault is tried in a fork of it."""
    global tree
    tree = Path(tempfile.mkdtemp(prefix="visual-dynamics-mutants-"))
    multiprocessing.util.Finalize(None, shutil.rmtree, (tree, True), exitpriority=1)
    listed = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in filter(None, subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split("\0")):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    for name in [name for name in sys.modules if name.split(".")[0] in ("tests", "visual_dynamics")]:
        del sys.modules[name]
    sys.path[:] = [str(tree), *(place for place in sys.path if Path(place or ".").resolve() != ROOT)]
    os.environ |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(tree)}
    os.chdir(tree)
    for name in WARM:
        with suppress(ImportError):
            importlib.import_module(name)


def tried(fault: Fault) -> dict[str, Any]:
    """The fault as a record, with its outcome: caught (and by which test), survived, passed, stale or error."""
    started = time.monotonic()
    if fault.file == NONE:
        code, log = run_tests(fault.tests)
        outcome = "passed" if code == 0 else "error"
    else:
        path = tree / "visual_dynamics" / fault.file
        good = path.read_text() if path.is_file() else ""
        if good.count(fault.old) != 1 or fault.old == fault.new:
            return fault._asdict() | {"outcome": "stale"}
        replace_text(path, good.replace(fault.old, fault.new))
        code, log = run_tests(fault.tests)
        replace_text(path, good)
        outcome = {0: "survived", 1: "caught", 2: "caught", None: "caught"}.get(code, "error")
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", log, re.MULTILINE) or [
        "time limit" if code is None else log[-2000:]
    ]
    more = {"by": failed[0]} if outcome in ("caught", "error") else {}
    return fault._asdict() | {"outcome": outcome, "seconds": round(time.monotonic() - started, 1)} | more


def replace_text(path: Path, text: str) -> None:
    """Python tells whether a compiled copy is old by time and size of the text: neither need change within a second."""
    path.write_text(text)
    Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)


def run_tests(tests: tuple[str, ...]) -> tuple[int | None, str]:
    """The exit status of pytest (None: over the time limit), and what it printed."""
    with tempfile.TemporaryDirectory(prefix="visual-dynamics-mutants-") as folder:
        log = Path(folder) / "log"
        if not (child := os.fork()):
            os.setsid()
            multiprocessing.current_process()._config["daemon"] = False  # tests start processes of their own
            for stream in (1, 2):
                os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
            import pytest

            code = pytest.main([*OPTIONS, f"--basetemp={folder}/temporary", *(f"tests/{name}" for name in tests)])
            sys.stdout.flush()
            os._exit(code)
        end, ended = time.monotonic() + LIMIT, (0, 0)
        while not ended[0] and time.monotonic() < end:
            time.sleep(0.05)
            ended = os.waitpid(child, os.WNOHANG)
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # and what the tests left running
        if not ended[0]:
            os.waitpid(child, 0)
        return (os.waitstatus_to_exitcode(ended[1]) if ended[0] else None), log.read_text(errors="replace")


def table(records: list[dict[str, Any]]) -> list[str]:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for record in records:
        for name in (record["file"].split("/")[0] if "/" in record["file"] else "core", "~all"):
            counts[name][record["outcome"]] += 1
    shares = {name: 100 * each["caught"] / max(1, each.total() - each["untried"]) for name, each in counts.items()}
    return [f"{name.strip('~'):12} {shares[name]:5.1f} %  {dict(each)}" for name, each in sorted(counts.items())]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", default="", help="faults with this regular expression in file, texts or reason")
    options.add_argument("--some", type=int, help="that many of them, drawn once and for all")
    options.add_argument("--workers", type=int, default=1, help="0: try nothing, show what is known")
    options.add_argument("--out", type=Path, default=ROOT / "out" / "mutants.jsonl", help="one line for each trial")
    options.add_argument("--summary", type=Path, help="also write a JSON of the last outcome of each fault")
    given = options.parse_args()
    chosen = [each for each in all_faults() if re.search(given.only, "\n".join(each[:4]))]
    chosen = sorted(random.Random(0).sample(chosen, min(given.some, len(chosen)))) if given.some else chosen
    alone = dict.fromkeys(Fault(NONE, "", "", "", (test,)) for each in chosen for test in each.tests)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    known = {each: each._asdict() | {"outcome": "untried"} for each in (*chosen, *alone)}
    for line in given.out.read_text().splitlines() if given.out.exists() else ():
        known |= {of(record): record for record in [json.loads(line)] if of(record) in known}
    left = [each for each, record in known.items() if record["outcome"] not in ("caught", "passed")]
    if given.workers:
        with multiprocessing.Pool(given.workers, begin_worker) as pool, given.out.open("a", buffering=1) as file:
            for number, record in enumerate(pool.imap_unordered(tried, left), 1):
                known[of(record)] = record
                file.write(json.dumps(record | {"commit": commit()}) + "\n")
                words = record["reason"] or " ".join(record["tests"])
                print(f"{number}/{len(left)} {record['outcome']:8} {record['file']}: {words}", flush=True)
            pool.close()
            pool.join()
    print("\n".join(lines := table([known[each] for each in chosen])))
    if given.summary:
        result = {"date": time.strftime("%Y-%m-%d"), "table": lines, "records": list(known.values())}
        given.summary.write_text(json.dumps(result, indent=1) + "\n")
    sys.exit(any(record["outcome"] in ("stale", "error") for record in known.values()))


def of(record: dict[str, Any]) -> Fault:
    return Fault(*(record[name] for name in Fault._fields[:-1]), tuple(record["tests"]))


if __name__ == "__main__":
    main()
