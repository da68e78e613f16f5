"""Preparing a clip takes no more memory when it is longer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.footage.clips import encode, texture

ROOT = Path(__file__).parents[2]
CODE = """
import resource, sys
from pathlib import Path
from visual_dynamics.footage import clips, plan, prepare

clips.SHARD_BYTES, plan.PIECE = 2**20, 20
prepare.prepare_videos(Path(sys.argv[1]), Path(sys.argv[2]), clips.Settings(size=64))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def peak(tmp_path: Path, count: int) -> float:
    """Megabytes."""
    ground, front = texture(480, 640), 255 - texture(80, 80, 1) // 3
    frames = []
    for number in range(60):
        frame = ground.copy()
        frame[200:280, 20 + 8 * number : 100 + 8 * number] = front
        frames.append(frame)
    whole = [frames[min(number % 118, 118 - number % 118)] for number in range(count)]  # to and fro
    folder = tmp_path / str(count)
    folder.mkdir()
    encode(folder / "clip.mp4", whole, rate=10)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", CODE, str(folder), str(tmp_path / f"{count} out")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert len(list((tmp_path / f"{count} out" / "shards").iterdir())) == (2 if count > 100 else 1)
    return int(done.stdout) / 1024


def test_a_longer_clip_takes_no_more_memory(tmp_path: Path) -> None:
    short, long = peak(tmp_path, 30), peak(tmp_path, 130)
    assert long < short + 40  # 100 more frames of 640 x 480 have 88
