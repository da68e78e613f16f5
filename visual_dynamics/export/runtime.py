"""ONNX Runtime for browsers: onnxruntime-web from npm, of one version, checked, and kept for the next time."""

from __future__ import annotations

import base64
import hashlib
import os
import sys
import tarfile
import urllib.request
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

from visual_dynamics.errors import UserError
from visual_dynamics.files import write_atomically

VERSION = "1.30.0"
ADDRESS = f"https://registry.npmjs.org/onnxruntime-web/-/onnxruntime-web-{VERSION}.tgz"
SHA512 = "q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZClzcV7svNc4rKY3jL02Vb7QmRMDs1SigqR4CXAfKYQ=="
FILES = {  # what a page needs of it
    "wasm": "package/dist/ort.wasm.bundle.min.mjs",
    "wasm-binary": "package/dist/ort-wasm-simd-threaded.wasm",
    "webgpu": "package/dist/ort.webgpu.bundle.min.mjs",
    "webgpu-binary": "package/dist/ort-wasm-simd-threaded.asyncify.wasm",
}
PART = 1 << 20  # bytes that are fetched at a time


def runtime_files(given: Path | None, progress: Callable[[float, int], None]) -> dict[str, bytes]:
    """The files by the names of their assets; from `given`, from the cache, or else from the network."""
    path = given or cache_folder() / ADDRESS.rpartition("/")[2]
    if path.is_file():
        data = path.read_bytes()
        check(data, f"{path} is not onnxruntime-web {VERSION} as npm has it")
    elif given:
        raise UserError(f"there is no file {given}")
    else:
        data = _fetched(progress)
        check(data, f"what {ADDRESS} gave is not onnxruntime-web {VERSION}")
        write_atomically(path, data)
    with tarfile.open(fileobj=BytesIO(data)) as archive:
        found = {name: archive.extractfile(member) for name, member in FILES.items()}
        return {name: file.read() for name, file in found.items() if file is not None}


def check(data: bytes, words: str) -> None:
    if base64.b64encode(hashlib.sha512(data).digest()).decode() != SHA512:
        raise UserError(f"{words}: its checksum differs")


def cache_folder() -> Path:
    """The system's folder for files that can be fetched again."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "visual-dynamics"


def _fetched(progress: Callable[[float, int], None]) -> bytes:
    parts: list[bytes] = []
    try:
        with urllib.request.urlopen(ADDRESS, timeout=60) as response:
            total = int(response.headers.get("Content-Length") or 0)
            while part := response.read(PART):
                parts.append(part)
                progress(PART * len(parts), total)
    except OSError as error:
        raise UserError(
            f"cannot fetch {ADDRESS} ({error}): it is needed once, and kept then; without a network, "
            "fetch it elsewhere and give --runtime FILE"
        ) from error
    return b"".join(parts)
