"""A studio: its settings, models and pictures, and the queue in which one thread computes, in order of arrival."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import torch
from anyio import to_thread
from fastapi import Depends, Request

from visual_dynamics.studio.decoding import decode_apart
from visual_dynamics.studio.kept import Kept, StoredFile
from visual_dynamics.studio.models import FIRST_MODEL, FIRST_SAMPLE, ImageBody, Models, Seen
from visual_dynamics.studio.pictures import Pictures, draw_samples
from visual_dynamics.studio.uploads import Uploads
from visual_dynamics.web import CLIENT_GONE, RETRY_AFTER, RequestError, client_of

if TYPE_CHECKING:
    from visual_dynamics.studio.motion_library import Library

T = TypeVar("T")
U = TypeVar("U")
CLOSING = 5.0  # seconds that a closing studio waits for the running job


@dataclass(frozen=True)
class Limits:
    """Bounds for every client."""

    upload_bytes: int = 10_000_000
    upload_pixels: int = 16_000_000  # decoded
    full_size_pixels: int = 8_000_000  # of all pictures of a response at the size of the picture
    unpacked_bytes: int = 2**25  # of the files in a ZIP
    unpacked_files: int = 500
    json_bytes: int = 2_000_000
    image_bytes: int = 256_000_000  # of all pictures in memory together
    file_bytes: int = 128_000_000  # of all uploaded and completed characters in memory together
    queue_length: int = 32  # jobs of all clients
    queue_per_client: int = 8
    requests_per_second: float = 25.0  # of one address, on average; a slider sends ten a second
    burst: int = 100  # requests of one address at once


@dataclass(frozen=True)
class Settings:
    """One studio."""

    store: Path  # folder of the library
    host: str = "127.0.0.1"
    port: int = 8200
    token: str | None = None  # needed in every request; there is one if other machines can connect
    allowed_hosts: tuple[str, ...] = ()  # further host names
    frames: tuple[str, ...] = ()  # origins whose pages may show the studio in a frame
    models: tuple[str, ...] = ()  # files or Hub ids (owner/name@revision) beside the shipped ones
    device: str = "cpu"
    study: Path | None = None  # folder of a study with people, served under /study/
    limits: Limits = field(default_factory=Limits)


class Studio:
    """Models, pictures, motions and the queue."""

    def __init__(self, settings: Settings, motions: Library) -> None:
        self.settings, self.motions = settings, motions
        self.queue = Queue(settings.limits.queue_length, settings.limits.queue_per_client)
        self.models = Models(settings.models, settings.device, self.queue.check)
        self.pictures = Pictures(draw_samples(), settings.limits.image_bytes)
        missing = "no character {} is here, or no longer: "
        self.characters = Kept[StoredFile](settings.limits.file_bytes // 2, missing + "upload it")
        self.uploads = Uploads()
        self.completed = Kept[StoredFile](settings.limits.file_bytes // 2, missing + "complete it again")

    def warm_up(self) -> None:
        """Load the first model while people look at the page: the first results come at once."""

        def work() -> None:
            seen = self.models.seen(FIRST_MODEL, self.pictures.samples[FIRST_SAMPLE])
            list(seen.moved(torch.zeros(1, seen.model.predictor.network.config.latent)))

        self.queue.add("studio", "", work)

    def most_pixels(self, full_size: bool) -> int | None:
        """Of all pictures of a response at full size; None for results of the model's size."""
        return self.settings.limits.full_size_pixels if full_size else None

    async def decode(self, request: Request, decode: Callable[[bytes], T], keep: Callable[[bytes, T], U]) -> U:
        """Decode the body of a request, beside the queue; `keep` gets the bytes, and what was decoded."""
        with self.uploads.place(client_of(request)) as alone:
            data = await request.body()
            async with alone:  # one client takes no more than one of the processes
                decoded = await self.uploads.decode(client_of(request), partial(decode_apart, decode, data))
            return await to_thread.run_sync(keep, data, decoded)

    async def compute(self, request: Request, work: Callable[[], T]) -> T:
        """Do the work of a request in the queue."""
        return await run_in_queue(self.queue, request, work)

    async def about_image(self, request: Request, body: ImageBody, work: Callable[[Seen], T]) -> T:
        """Work on an image as the model sees it. An unknown name is an error before the queue."""
        self.models.file(body.model)
        picture = self.pictures.find(body.image)
        return await self.compute(request, lambda: work(self.models.seen(body.model, picture)))


def _studio(request: Request) -> Studio:
    studio: Studio = request.app.state.studio
    return studio


Here = Annotated[Studio, Depends(_studio)]


# --- the queue


class JobCancelledError(Exception):
    """Nobody waits for the running job any more."""


@dataclass
class Job:
    """A piece of work in the queue."""

    number: int  # in order of arrival, from 1
    client: str  # address
    ticket: str  # of the client's choice, to find its position
    work: Callable[[], Any]
    result: Future[Any] = field(default_factory=Future)
    finished: int = 0  # in order of completion, from 1
    progress: tuple[int, int] = 0, 0  # parts done, and all; 0 where they are not counted
    wanted: bool = True


class Queue:
    """Bounded, in total and per client. Only its one thread uses torch."""

    def __init__(self, length: int, per_client: int) -> None:
        self.length, self.per_client = length, per_client
        self._jobs: OrderedDict[int, Job] = OrderedDict()  # waiting and running; the first is running or next
        self._changed = threading.Condition()
        self._arrivals, self._completions = itertools.count(1), itertools.count(1)
        self._running: Job | None = None
        self._closed = True
        self.open()

    def open(self) -> None:
        """Start to work, or start again."""
        with self._changed:
            if self._closed:
                self._closed = False
                self._thread = threading.Thread(target=self._serve, name="studio-queue", daemon=True)
                self._thread.start()

    def add(self, client: str, ticket: str, work: Callable[[], Any]) -> Job:
        """Put work at the end of the queue; an error if that is full."""
        with self._changed:
            if self._closed:
                raise RequestError(503, "the studio is closing", RETRY_AFTER)
            if len(self._jobs) >= self.length:
                raise RequestError(503, f"the queue is full: {len(self._jobs)} jobs wait", RETRY_AFTER)
            if sum(job.client == client for job in self._jobs.values()) >= self.per_client:
                raise RequestError(429, f"{self.per_client} of your jobs wait already", RETRY_AFTER)
            job = Job(next(self._arrivals), client, ticket, work)
            self._jobs[job.number] = job
            self._changed.notify()
        return job

    def cancel(self, job: Job) -> None:
        """Remove a job; if it is running, it ends at its next `check`."""
        with self._changed:
            job.wanted = False
            if job.result.cancel():
                self._jobs.pop(job.number, None)

    def check(self) -> None:
        """Long work calls this now and then: it raises JobCancelledError if nobody waits for the result any more."""
        job = self._running if threading.current_thread() is self._thread else None  # other threads have no job
        if job and not job.wanted:
            raise JobCancelledError

    def report(self, done: int, total: int) -> None:
        """Long work calls this to say how far it is."""
        self.check()
        if self._running:
            self._running.progress = done, total

    def position(self, client: str, ticket: str) -> int | None:
        """The number of jobs before the one with that ticket; None if it is not in the queue."""
        return self._found(client, ticket)[0]

    def progress(self, client: str, ticket: str) -> tuple[int, int]:
        """How far the job with that ticket is: parts done, and all."""
        job = self._found(client, ticket)[1]
        return job.progress if job else (0, 0)

    def _found(self, client: str, ticket: str) -> tuple[int, Job] | tuple[None, None]:
        with self._changed:
            for position, job in enumerate(self._jobs.values()):
                if job.ticket == ticket and job.client == client:
                    return position, job
        return None, None

    def __len__(self) -> int:
        return len(self._jobs)

    def close(self) -> None:
        """Cancel all jobs."""
        with self._changed:
            self._closed = True
            for job in list(self._jobs.values()):
                self.cancel(job)
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
                self._running = job
            try:
                if wanted:
                    result = job.work()
                    job.finished = next(self._completions)
                    job.result.set_result(result)
            except BaseException as error:  # the client gets it; the queue goes on
                job.finished = next(self._completions)
                job.result.set_exception(error)
            finally:
                with self._changed:
                    self._running = None
                    self._jobs.pop(job.number, None)


async def run_in_queue(queue: Queue, request: Request, work: Callable[[], T]) -> T:
    """The result of a request's work. If the client disconnects, its job is cancelled."""
    job = queue.add(client_of(request), request.headers.get("x-ticket", ""), work)
    done = asyncio.wrap_future(job.result)
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({done, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not done.done():
            raise RequestError(CLIENT_GONE, "the client disconnected")
        if done.cancelled() or isinstance(done.exception(), JobCancelledError):
            raise RequestError(503, "the studio is closing", RETRY_AFTER)
        request.state.headers = {"X-Queue": f"{job.number} {job.finished}"}  # order of arrival and of completion
        return done.result()
    finally:
        gone.cancel()
        done.cancel()  # its result is not needed here any more
        queue.cancel(job)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
