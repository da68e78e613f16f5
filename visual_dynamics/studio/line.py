"""The line of work: one thread computes, first come, first served; whoever waits can ask for their place."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from starlette.requests import Request

from visual_dynamics.web.refusals import Refused

T = TypeVar("T")
RETRY_AFTER = 2  # seconds until a client should ask again
CLOSING = 5.0  # seconds that a closing studio waits for the work at hand
CLIENT_GONE = 499  # nobody reads this answer


class UnwantedError(Exception):
    """Nobody waits any more for the work at hand."""


@dataclass
class Job:
    """A piece of work in the line."""

    number: int  # in the order of arrival, from 1
    client: str  # address
    ticket: str  # by which its owner may ask for its place
    work: Callable[[], Any]
    result: Future[Any] = field(default_factory=Future)
    finished: int = 0  # in the order of completion, from 1
    wanted: bool = True


class Line:
    """Bounded, in all and for each client. Torch is used by its one thread alone."""

    def __init__(self, length: int, per_client: int) -> None:
        self.length, self.per_client = length, per_client
        self._jobs: OrderedDict[int, Job] = OrderedDict()  # waiting and running; the first is running or next
        self._changed = threading.Condition()
        self._arrivals, self._completions = itertools.count(1), itertools.count(1)
        self._at_hand: Job | None = None
        self._closed = True
        self.open()

    def open(self) -> None:
        """Begin to work, or begin again."""
        with self._changed:
            if self._closed:
                self._closed = False
                self._thread = threading.Thread(target=self._serve, name="studio-line", daemon=True)
                self._thread.start()

    def join(self, client: str, ticket: str, work: Callable[[], Any]) -> Job:
        """Put work at the end of the line, or refuse it where that is full."""
        with self._changed:
            if self._closed:
                raise Refused(503, "the studio is closing", RETRY_AFTER)
            if len(self._jobs) >= self.length:
                raise Refused(503, f"the line is full: {len(self._jobs)} pieces of work wait", RETRY_AFTER)
            if sum(job.client == client for job in self._jobs.values()) >= self.per_client:
                raise Refused(429, f"{self.per_client} pieces of your work wait already", RETRY_AFTER)
            job = Job(next(self._arrivals), client, ticket, work)
            self._jobs[job.number] = job
            self._changed.notify()
        return job

    def leave(self, job: Job) -> None:
        """Drop a job that nobody waits for any more; one that is being computed ends at its next `check`."""
        with self._changed:
            job.wanted = False
            if job.result.cancel():
                self._jobs.pop(job.number, None)

    def check(self) -> None:
        """What long work calls now and then: raises UnwantedError where nobody waits for it any more."""
        job = self._at_hand if threading.current_thread() is self._thread else None  # others compute for themselves
        if job and not job.wanted:
            raise UnwantedError

    def place(self, client: str, ticket: str) -> int | None:
        """How many are before the work of that ticket; None where it is not in the line."""
        with self._changed:
            for place, job in enumerate(self._jobs.values()):
                if job.ticket == ticket and job.client == client:
                    return place
        return None

    def __len__(self) -> int:
        return len(self._jobs)

    def close(self) -> None:
        """Send everybody home, and end the work at hand."""
        with self._changed:
            self._closed = True
            for job in list(self._jobs.values()):
                job.wanted = False
                if job.result.cancel():
                    del self._jobs[job.number]
            self._changed.notify()
        self._thread.join(CLOSING)

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._jobs or self._closed)
                if self._closed:
                    return
                job = next(iter(self._jobs.values()))
                wanted = job.result.set_running_or_notify_cancel()
                self._at_hand = job
            try:
                if wanted:
                    result = job.work()
                    job.finished = next(self._completions)
                    job.result.set_result(result)
            except BaseException as error:  # whoever waits is told; the line goes on
                job.finished = next(self._completions)
                job.result.set_exception(error)
            finally:
                with self._changed:
                    self._at_hand = None
                    self._jobs.pop(job.number, None)


async def in_line(line: Line, request: Request, work: Callable[[], T]) -> T:
    """The result of a request's work once it had its turn. A client that goes away leaves the line."""
    client = request.client.host if request.client else "nobody"
    job = line.join(client, request.headers.get("x-ticket", ""), work)
    done = asyncio.wrap_future(job.result)
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({done, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not done.done():
            raise Refused(CLIENT_GONE, "the client went away")
        if done.cancelled() or isinstance(done.exception(), UnwantedError):
            raise Refused(503, "the studio is closing", RETRY_AFTER)
        request.state.line = f"{job.number} {job.finished}"  # told in a header: the order of arrival and completion
        return done.result()
    finally:
        gone.cancel()
        done.cancel()  # what comes of the work concerns nobody here any more
        line.leave(job)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
