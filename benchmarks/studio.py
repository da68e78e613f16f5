"""The studio under load, and how fast it answers: `python benchmarks/studio.py [--seconds 60] [--out FILE]`.

Starts a studio on a free port, as people do, and sends it requests over HTTP:

- first futures: from the begin of an upload to the arrival of eight futures, a fresh picture each time;
- slider preview: one motion code after the other for one picture, by one client;
- uploads: 500 malformed ones, drawn from a seed; then a good one;
- load: many clients at once, of one address and of many (Linux); every response must be good, or a 429 or 503,
  and the order of arrival kept.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import torch
from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.studio.malformed import uploads
from visual_dynamics.provenance import provenance

MB = 1e6
SEED = 0  # of the malformed uploads


def picture(seed: int) -> bytes:
    draw = np.random.default_rng(seed)
    pixels = np.full((128, 128, 3), draw.integers(180, 255, 3), np.uint8)
    x, y = draw.integers(10, 80, 2)
    pixels[y : y + 36, x : x + 36] = draw.integers(0, 200, 3)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def memory(process: int) -> float:
    """Megabytes that the studio holds (Linux)."""
    status = Path(f"/proc/{process}/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1e3 for line in lines if line.startswith("VmRSS")), float("nan"))


def first_futures(client: httpx.Client, rounds: int = 10) -> dict[str, float]:
    times = []
    for number in range(rounds):
        data = picture(number)
        start = time.perf_counter()
        image = client.post("/api/images", content=data).json()["id"]
        client.post("/api/futures", json={"image": image}).raise_for_status()
        times.append(time.perf_counter() - start)
    return {"first_seconds": times[0], "median_seconds": statistics.median(times), "largest_seconds": max(times)}


def slider(client: httpx.Client, rounds: int = 50) -> dict[str, float]:
    body: dict[str, Any] = {"image": "shapes-1", "codes": [[0.0] * 8]}
    client.post("/api/decode", json=body).raise_for_status()
    times = []
    for number in range(rounds):
        body["codes"][0][0] = number / rounds
        start = time.perf_counter()
        client.post("/api/decode", json=body).raise_for_status()
        times.append(time.perf_counter() - start)
    return {
        "median_seconds": statistics.median(times),
        "largest_seconds": max(times),
        "frames_a_second": rounds / sum(times),
    }


def malformed(client: httpx.Client, process: int, count: int = 500) -> dict[str, Any]:
    before, peak, statuses, wordless = memory(process), 0.0, Counter[int](), 0
    for _, data in uploads(count, seed=SEED):
        answer = client.post("/api/images", content=data)
        while answer.status_code == 429:  # the client is too fast
            time.sleep(float(answer.headers["retry-after"]))
            answer = client.post("/api/images", content=data)
        statuses[answer.status_code] += 1
        wordless += answer.status_code >= 400 and not answer.json().get("error")
        peak = max(peak, memory(process))
    good = client.post("/api/images", content=picture(0)).status_code
    return {
        "statuses": statuses,
        "wordless": wordless,
        "good_one_after": good,
        "megabytes": [before, peak, memory(process)],
    }


async def load(address: str, process: int, clients: int, seconds: float, many: bool) -> dict[str, Any]:
    statuses, faults, served, held = Counter[int](), Counter[str](), list[tuple[int, int]](), list[float]()
    end = time.monotonic() + seconds

    async def one(number: int) -> None:
        transport = httpx.AsyncHTTPTransport(local_address=f"127.0.0.{2 + number % 250}" if many else None)
        async with httpx.AsyncClient(base_url=address, timeout=120, transport=transport) as client:
            seed = 0
            while time.monotonic() < end:
                seed += 1
                body = {"image": f"shapes-{1 + number % 4}", "count": 1 + number % 4, "seed": 1000 * number + seed}
                try:
                    answer = await client.post("/api/futures", json=body)
                except httpx.HTTPError as error:
                    faults[type(error).__name__] += 1
                    continue
                statuses[answer.status_code] += 1
                if answer.status_code == 200:
                    arrival, completion = map(int, answer.headers["x-queue"].split())
                    served.append((arrival, completion))
                else:
                    await asyncio.sleep(float(answer.headers.get("retry-after", 1)))

    async def watch() -> None:
        while time.monotonic() < end:
            held.append(memory(process))
            await asyncio.sleep(1)

    await asyncio.gather(watch(), *(one(number) for number in range(clients)))
    completions = [completion for _, completion in sorted(served)]
    return {
        "clients": clients,
        "seconds": seconds,
        "statuses": statuses,
        "faults": faults,
        "order_kept": completions == sorted(completions),
        "served_a_second": statuses[200] / seconds,
        "megabytes": [held[0], max(held), held[-1]],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as store:
        command = [sys.executable, "-m", "visual_dynamics", "studio", "--port", "0", "--store", store]
        studio = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert studio.stdout is not None
            address = studio.stdout.readline().split()[4].rstrip("/")
            with httpx.Client(base_url=address, timeout=120) as client:
                time.sleep(5)  # people look at the page first, while the model is loaded
                result: dict[str, Any] = {
                    "date": time.strftime("%Y-%m-%d"),
                    "machine": f"{os.cpu_count()} cores, {platform.machine()}",
                    "load_at_the_start": os.getloadavg()[0],
                    "seed": SEED,
                    **provenance(torch.device("cpu")),
                    "first_futures": first_futures(client),
                    "slider": slider(client),
                    "malformed": malformed(client, studio.pid),
                }
            time.sleep(5)  # the rates of this address recover
            for name, many in (("load", False), ("load_of_many_addresses", True)):
                result[name] = asyncio.run(load(address, studio.pid, options.clients, options.seconds, many))
        finally:
            studio.terminate()
            studio.wait(20)
    text = json.dumps(result, indent=1)
    print(text)
    if options.out:
        options.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
