"""The studio for an hour: `python benchmarks/soak.py [--minutes 60] [--clients 50] [--out FILE]` (Linux).

Starts a studio on a free port of this machine, as people do. Clients, each of an address of its own, look at futures,
move sliders, upload pictures, and come again when they are told to (429, 503 with Retry-After). Now and then all of
them ask for futures at once. In seven of every ten minutes others sit beside them, of three more addresses:

- idle: 500 connections that send nothing, or half of a head, and are opened again;
- slow: 16 uploads of a byte a second;
- bombs: pictures that would be decoded for a minute, one after the other.

Exit code 1 if a status is a 5xx but 503, a client gets no response, memory (medians of a minute) is not flat within
100 MB after the first sixth, descriptors are left, or a request waits more than 2 seconds longer beside the others than
without them: median and 95th percentile of each kind, from the first try to the response; of a rush they are written
down only. It ends by itself, and ends its studio.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import io
import itertools
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import torch
from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.studio import memory, picture
from tests.studio.test_decoding import gif_of_comments
from visual_dynamics.files import write_atomically
from visual_dynamics.provenance import provenance

IDLE, SLOW = 500, 16  # connections
CYCLE, ALONE = 10, 3  # of each so many parts of the time, in the first ones clients are alone
CYCLES = 6
THINK = 20.0  # seconds between two requests of a client, on average
MOST_MEGABYTES, MOST_SECONDS, MOST_DESCRIPTORS = 100.0, 2.0, 5
MOST_CLIENTS, MOST_MINUTES = 200, 240.0
AFTER = 30.0  # seconds until what was held open has been closed
EXPECTED = ("200", "201", "429", "503")
KINDS = {"page": 2, "queue": 2, "slider": 3, "futures": 2, "upload": 1, "rush": 0}  # how often, of ten


class Soak:
    """What clients and others do to a studio at an address, and what is measured."""

    def __init__(self, address: str, process: int, seconds: float) -> None:
        self.address, self.process, self.seconds = address, process, seconds
        self.statuses, self.faults, self.others = Counter[str](), Counter[str](), Counter[str]()
        self.times: dict[str, dict[str, list[float]]] = {name: defaultdict(list) for name in ("alone", "beside")}
        self.samples: list[dict[str, float]] = []
        self.start = time.monotonic()
        self.disturbed, self.rush = asyncio.Event(), asyncio.Condition()

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.start

    async def run(self, clients: int) -> None:
        """Everybody, until the time is over."""
        hostile = (self.idle, IDLE), (self.slow, SLOW), (self.bomb, 2)
        everybody = [
            *(self.client(number) for number in range(clients)),
            *(self.again(other, number) for other, count in hostile for number in range(count)),
            self.switch(),
            self.watch(),
        ]
        tasks = [asyncio.create_task(each) for each in everybody]
        done, _ = await asyncio.wait(tasks, timeout=self.seconds, return_when=asyncio.FIRST_EXCEPTION)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            task.result()

    async def switch(self) -> None:
        """Let the others in, and out again; in the middle of each period there is a rush."""
        part = self.seconds / CYCLES / CYCLE
        for _ in range(CYCLES):
            for parts in (ALONE, CYCLE - ALONE):
                (self.disturbed.clear if parts == ALONE else self.disturbed.set)()
                await asyncio.sleep(parts * part / 2)
                async with self.rush:
                    self.rush.notify_all()
                await asyncio.sleep(parts * part / 2)

    async def client(self, number: int) -> None:
        """Somebody who looks at futures, and comes again when told to."""
        draw = random.Random(number)
        transport = httpx.AsyncHTTPTransport(local_address=f"127.0.1.{1 + number}")
        async with httpx.AsyncClient(base_url=self.address, timeout=120, transport=transport) as client:
            for turn in itertools.count():
                (kind,) = draw.choices(list(KINDS), list(KINDS.values()))
                with suppress(TimeoutError):
                    async with asyncio.timeout(draw.expovariate(1 / THINK)), self.rush:
                        await self.rush.wait()
                        kind = "rush"
                start, disturbed = time.monotonic(), self.disturbed.is_set()
                answer = await self.served(lambda kind=kind, turn=turn: send(client, kind, number, turn))
                if answer is not None and disturbed == self.disturbed.is_set():  # in one period as a whole
                    self.times["beside" if disturbed else "alone"][kind].append(time.monotonic() - start)

    async def served(self, request: Callable[[], Awaitable[httpx.Response]]) -> httpx.Response | None:
        while True:
            try:
                answer = await request()
            except httpx.HTTPError as error:
                self.faults[type(error).__name__] += 1
                return None
            self.statuses[str(answer.status_code)] += 1
            if answer.status_code not in (429, 503):
                return answer
            await asyncio.sleep(float(answer.headers["retry-after"]))

    # --- the others

    async def again(self, other: Callable[[int], Awaitable[str]], number: int) -> None:
        """One of the others, again and again while they are let in."""
        while True:
            await self.disturbed.wait()
            work = asyncio.ensure_future(other(number))
            try:
                while not work.done() and self.disturbed.is_set():
                    await asyncio.wait({work}, timeout=1)
                if work.done():
                    error = work.exception()
                    self.others[f"{other.__name__}: {type(error).__name__ if error else work.result()}"] += 1
            finally:
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)
            await asyncio.sleep(1)

    async def idle(self, number: int) -> str:
        async with self.opened("127.0.2.1") as (reader, writer):
            if number % 2:
                writer.write(b"GET / HTTP/1.1\r\nHost: local")
            await reader.read()
        return "closed"

    async def slow(self, number: int) -> str:
        async with self.opened("127.0.2.2") as (reader, writer):
            writer.write(b"POST /api/images HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n")
            response = asyncio.ensure_future(reader.read(12))
            while not response.done():
                writer.write(b"x")
                await asyncio.wait({response}, timeout=1)
            return response.result().decode() or "closed"

    async def bomb(self, number: int) -> str:
        transport = httpx.AsyncHTTPTransport(local_address="127.0.2.3")
        async with httpx.AsyncClient(base_url=self.address, timeout=120, transport=transport) as client:
            return str((await client.post("/api/images", content=BOMBS[number % len(BOMBS)]())).status_code)

    @asynccontextmanager
    async def opened(self, source: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        url = httpx.URL(self.address)
        reader, writer = await asyncio.open_connection(url.host, url.port, local_addr=(source, 0))
        try:
            yield reader, writer
        finally:
            writer.close()

    # --- what is measured

    async def watch(self) -> None:
        while True:
            seconds = round(time.monotonic() - self.start)
            self.samples.append(sample(self.process) | {"seconds": seconds, "beside": int(self.disturbed.is_set())})
            await asyncio.sleep(5)

    def result(self) -> dict[str, Any]:
        waits = {kind: {name: waiting(times[kind]) for name, times in self.times.items()} for kind in KINDS}
        minutes = defaultdict(list)
        for each in self.samples:
            if each["seconds"] >= self.seconds / CYCLES:
                minutes[each["seconds"] // 60].append(each["megabytes"])
        settled = [statistics.median(values) for values in minutes.values()]
        return {
            "seconds": self.seconds,
            "statuses": self.statuses,
            "faults": self.faults,
            "others": self.others,
            "waits": waits,
            "megabytes_after_the_first_sixth": [min(settled), max(settled)],
            "samples": self.samples,
        }


async def send(client: httpx.AsyncClient, kind: str, number: int, turn: int) -> httpx.Response:
    """One request of a client."""
    image, seed = f"shapes-{1 + number % 4}", 100_000 * number + turn
    if kind == "page":
        return await client.get("/")
    if kind == "queue":
        return await client.get("/api/queue")
    if kind == "upload":
        return await client.post("/api/images", content=picture(seed))
    if kind == "slider":
        return await client.post("/api/decode", json={"image": image, "codes": [[turn % 7 / 3] + [0.0] * 7]})
    return await client.post("/api/futures", json={"image": image, "count": 1 + number % 4, "seed": seed})


def many_scans() -> bytes:
    """A progressive JPEG of 312 kB that would be decoded as often as it has scans."""
    buffer = io.BytesIO()
    Image.new("RGB", (2000, 2000)).save(buffer, "JPEG", progressive=True)
    data = buffer.getvalue()
    scan = data[data.rindex(b"\xff\xda") : -2]
    return data[:-2] + scan * ((312_000 - len(data)) // len(scan)) + data[-2:]


BOMBS = [functools.cache(many_scans), functools.cache(functools.partial(gif_of_comments, 1_900_000))]


def waiting(times: list[float]) -> dict[str, float]:
    """Seconds from the first try to the response."""
    shares = {"median": 0.5, "p95": 0.95, "p99": 0.99, "largest": 1.0}
    return {"count": len(times)} | {
        name: round(float(np.quantile(times, share)), 3) for name, share in shares.items() if times
    }


def sample(process: int) -> dict[str, float]:
    """What a studio holds: memory of its own and of its processes, and descriptors."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return {
        "megabytes": memory(process),
        "megabytes_of_processes": sum(memory(int(child)) for child in children),
        "descriptors": sum(1 for _ in Path(f"/proc/{process}/fd").iterdir()),
        "load": os.getloadavg()[0],
    }


def fill(address: str) -> None:
    """Three models and a full cache of pictures are in memory from the start, as after days."""
    with httpx.Client(base_url=address, timeout=120) as client:
        for model, image in (("shapes", "shapes-1"), ("people", "person-1"), ("sprites", "figure-blue")):
            client.post("/api/futures", json={"model": model, "image": image}).raise_for_status()
        draw = np.random.default_rng(0)
        for _ in range(22):
            buffer = io.BytesIO()
            Image.fromarray(draw.integers(0, 256, (64, 64, 3), np.uint8)).resize((2048, 2048)).save(buffer, "JPEG")
            client.post("/api/images", content=buffer.getvalue()).raise_for_status()


def missed(result: dict[str, Any]) -> list[str]:
    """What does not hold."""
    found = [f"{count} x status {status}" for status, count in result["statuses"].items() if status not in EXPECTED]
    found += [f"{count} x no response ({fault})" for fault, count in result["faults"].items()]
    least, most = result["megabytes_after_the_first_sixth"]
    if most - least > MOST_MEGABYTES:
        found.append(f"memory between {least:.0f} and {most:.0f} MB")
    left = result["after"]["descriptors"] - result["before"]["descriptors"]
    if left > MOST_DESCRIPTORS:
        found.append(f"{left} descriptors are left")
    for kind in (kind for kind, often in KINDS.items() if often):
        waits = result["waits"][kind]
        for share in ("median", "p95"):
            alone, beside = (waits[name].get(share) for name in ("alone", "beside"))
            if alone is None or beside is None or beside - alone > MOST_SECONDS:
                found.append(f"{kind}: {share} of {beside} seconds beside others, {alone} alone")
    return found


def about() -> dict[str, Any]:
    return {
        "date": time.strftime("%Y-%m-%d"),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "load_at_the_end": os.getloadavg()[0],
        **provenance(torch.device("cpu")),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    seconds = 60 * min(options.minutes, MOST_MINUTES)
    with tempfile.TemporaryDirectory() as store:
        command = [sys.executable, "-m", "visual_dynamics", "studio", "--port", "0", "--store", store]
        studio = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert studio.stdout is not None
            address = studio.stdout.readline().split()[4].rstrip("/")
            fill(address)
            before = sample(studio.pid)
            soak = Soak(address, studio.pid, seconds)
            asyncio.run(soak.run(min(options.clients, MOST_CLIENTS)))
            time.sleep(AFTER)
            result = about() | soak.result() | {"before": before, "after": sample(studio.pid)}
        finally:
            studio.terminate()
            studio.wait(20)
    result["missed"] = missed(result)
    text = json.dumps(result, indent=1)
    print(text)
    if options.out:
        write_atomically(options.out, text.encode() + b"\n")
    sys.exit(bool(result["missed"]))


if __name__ == "__main__":
    main()
