"""What a studio keeps in memory for requests that name it: the least recently used is dropped first."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Generic, TypeVar

from visual_dynamics.web import RequestError

T = TypeVar("T")


@dataclass(frozen=True)
class StoredFile:
    """A file, its id and its name."""

    id: str
    name: str
    data: bytes


class Kept(Generic[T]):
    """Things by id, up to a number of bytes; the latest stays even if it is larger. Safe for threads."""

    def __init__(self, max_bytes: int, missing: str) -> None:
        """missing: the error for an id that is not here, with {} for the id."""
        self.max_bytes, self.missing = max_bytes, missing
        self._found: OrderedDict[str, tuple[T, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def keep(self, name: str, thing: T, size: int) -> T:
        """The same id stands for the same thing: the first one stays."""
        with self._lock:
            if name not in self._found:
                self._found[name] = thing, size
                self._bytes += size
            self._found.move_to_end(name)
            while self._bytes > self.max_bytes and len(self._found) > 1:
                _, (_, oldest) = self._found.popitem(last=False)
                self._bytes -= oldest
            return self._found[name][0]

    def find(self, name: str) -> T:
        with self._lock:
            if name not in self._found:
                raise RequestError(404, self.missing.format(repr(name)))
            self._found.move_to_end(name)
            return self._found[name][0]

    def clear(self) -> None:
        with self._lock:
            self._found.clear()
            self._bytes = 0


def id_of(*parts: bytes) -> str:
    """The same content has the same id; nobody can guess the ids of others."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()[:32]
