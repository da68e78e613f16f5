"""Verbs as tools of the Model Context Protocol, for one folder. See docs/mcp.md.

A tool calls the function of its verb, whose files are copied in and out of a private folder (allowed_folder.py).
"""

from __future__ import annotations

import base64
import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, ImageContent, TextContent, ToolAnnotations
from pydantic import Field, ValidationError

from visual_dynamics.cli import animate as animate_verb
from visual_dynamics.cli import check as check_verb
from visual_dynamics.cli import complete as complete_verb
from visual_dynamics.cli import models as models_verb
from visual_dynamics.cli import pictures
from visual_dynamics.cli.allowed_folder import AllowedFolder
from visual_dynamics.cli.results import Output, Result
from visual_dynamics.errors import UserError
from visual_dynamics.images import read_image, shrink
from visual_dynamics.media import encode_png
from visual_dynamics.model_files import shipped_models
from visual_dynamics.provenance import package_version

MAX_FUTURES = 64
PREVIEW_SIDE = 512  # pixels
ABOUT = (
    "From one picture, many plausible next frames; motions carried over to other pictures; animations of sprites. "
    "Files lie in one folder and are named from it. Results go into a new folder in it; nothing is replaced."
)
ModelName = Annotated[str, Field(description="A shipped model (see the tool models), or a .safetensors file.")]
Picture = Annotated[str, Field(description="A picture: PNG, JPEG, WebP, ...")]
SheetName = Annotated[
    str, Field(description="An Aseprite file or JSON, a folder of frames, an animation, or a picture with cell.")
]
Cell = Annotated[str, Field(description="Width and height of a picture's cells: 64x64.")]
Poke = Annotated[str, Field(description="X,Y:DX,DY: only futures in which what is at X, Y goes by DX, DY.")]
Pose = Annotated[int | None, Field(ge=0, description="Frame of the reference whose pose the target has.")]
Seed = Annotated[int, Field(ge=0, le=2**63 - 1)]
Out = Annotated[str, Field(description="Name of the new folder for the results; empty: the verb and a number.")]
AnyContext: TypeAlias = Context[Any, Any]
Heard: TypeAlias = Callable[[str, float, float], object]  # what a progress bar shows: words, done, total


@dataclass(frozen=True)
class Call:
    """One call of a tool: private folders for what is given and for what comes out of it."""

    allowed: AllowedFolder
    given: Path
    results: Path
    out: str  # name of the new folder

    def take(self, name: str) -> Path:
        return self.allowed.take(name, self.given)

    def model(self, name: str) -> str:
        return name if name in shipped_models() else str(self.take(name))

    def named(self, text: str) -> str:
        """A text of a verb, with paths as the client knows them."""
        return text.replace(f"{self.given}{os.sep}", "").replace(str(self.results), self.out)

    def values(self, result: Result) -> dict[str, Any]:
        shown = {key: self.named(value) if isinstance(value, str) else value for key, value in result.values.items()}
        return shown | {"folder": self.out, "notes": [self.named(words) for words in Output.notes]}


def do(allowed: AllowedFolder, verb: str, out: str, work: Callable[[Call], Result], heard: Heard) -> CallToolResult:
    """The work of a call; a mistake is one sentence. One at a time: verbs note and report into one place."""
    name = out or allowed.free_name(verb)
    with tempfile.TemporaryDirectory(prefix="visual-dynamics-") as private:
        place = Path(private).resolve()
        call = Call(allowed, place / "given", place / "results", name)
        Output.notes.clear()
        Output.heard = heard
        try:
            allowed.check_new(name)
            values = call.values(work(call))
            picture = shrink(read_image(call.results / values["see"]), PREVIEW_SIDE)
            values["files"] = allowed.put(call.results, name)
        except (UserError, OSError) as error:
            return failed(call.named(str(error)))
        except MemoryError:
            return failed("there is not enough memory for this")
        finally:
            Output.heard = None
    shown = ImageContent(type="image", data=base64.b64encode(encode_png(picture)).decode(), mime_type="image/png")
    return CallToolResult(content=[as_text(values), shown])


def as_text(values: dict[str, Any]) -> TextContent:
    return TextContent(type="text", text=json.dumps(values, default=str, ensure_ascii=False))


def failed(message: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=" ".join(message.split()))], is_error=True)


class Server(MCPServer[Any]):
    """Says in one sentence which argument is wrong."""

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None) -> Any:
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if not isinstance(error.__cause__, ValidationError):
                raise
            first = error.__cause__.errors()[0]
            return failed(f"{'.'.join(map(str, first['loc']))}: {first['msg']}")


class Tools:
    """A method for each tool, with the words that a client reads."""

    def __init__(self, allowed: AllowedFolder) -> None:
        self._allowed = allowed
        self._one = anyio.CapacityLimiter(1)

    async def sample(
        self,
        context: AnyContext,
        image: Picture,
        model: ModelName = "shapes",
        count: Annotated[int, Field(ge=1, le=MAX_FUTURES)] = 8,
        seed: Seed = 0,
        poke: Poke = "",
        out: Out = "",
    ) -> CallToolResult:
        """Sample plausible next frames of a picture: future_000.png, ..., all of them in futures.png."""

        def work(call: Call) -> Result:
            picture, weights = call.take(image), call.model(model)
            return pictures.sample(picture, weights, count, seed, poke=poke or None, out=call.results)

        return await self._answer(context, "sample", out, work)

    async def apply(
        self,
        context: AnyContext,
        before: Picture,
        after: Picture,
        image: Picture,
        model: ModelName = "shapes",
        out: Out = "",
    ) -> CallToolResult:
        """Carry the motion between two frames, before and after, over to another image: result.png."""

        def work(call: Call) -> Result:
            first, second, still = call.take(before), call.take(after), call.take(image)
            return pictures.analogy(first, second, still, call.model(model), call.results)

        return await self._answer(context, "apply", out, work)

    async def animate(
        self,
        context: AnyContext,
        reference: SheetName,
        target: Annotated[str, Field(description="One frame of another character, or a sheet.")],
        model: ModelName = "sprites-poses",
        cell: Cell = "",
        tag: Annotated[str, Field(description="The animation to make; empty: all that can be.")] = "",
        pose: Pose = None,
        force: Annotated[bool, Field(description="Draw where the model has not learned from such sprites.")] = False,
        out: Out = "",
    ) -> CallToolResult:
        """Animate a sprite: carry the motions of a character over to another one. Results are drafts."""

        def work(call: Call) -> Result:
            moving, still, weights = call.take(reference), call.take(target), call.model(model)
            options: dict[str, Any] = {"cell": cell or None, "tag": tag or None, "pose": pose, "force": force}
            return animate_verb.animate(moving, still, weights, out=call.results, **options)

        return await self._answer(context, "animate", out, work)

    async def complete(
        self,
        context: AnyContext,
        character: Annotated[str, Field(description="A folder or ZIP with a sheet for each animation, or one sheet.")],
        animations: Annotated[str, Field(description="What to draw: run,jump; empty: all that it lacks.")] = "",
        reference: Annotated[str, Field(description="Another character that has them; empty: a shipped body.")] = "",
        model: ModelName = "sprites-lpc-poses",
        force: Annotated[bool, Field(description="Draw where known frames come out badly.")] = False,
        out: Out = "",
    ) -> CallToolResult:
        """Draw the animations that a character lacks, as drafts: drafts.png shows them with a doubt each."""

        def work(call: Call) -> Result:
            given, weights = call.take(character), call.model(model)
            references = [call.take(reference)] if reference else None
            options: dict[str, Any] = {"reference": references, "out": call.results, "force": force}
            return complete_verb.complete_character(given, animations, model=weights, **options)

        return await self._answer(context, "complete", out, work)

    async def check(self, context: AnyContext, sheet: SheetName, cell: Cell = "", out: Out = "") -> CallToolResult:
        """Look for faults in a sprite sheet: report.json, and contact.png, on which frames with a fault are marked."""

        def work(call: Call) -> Result:
            return check_verb.check(call.take(sheet), cell or None, out=call.results)

        return await self._answer(context, "check", out, work)

    async def models(self) -> CallToolResult:
        """The models that come with the package."""
        return CallToolResult(content=[as_text(dict(models_verb.models().values))])

    async def _answer(self, context: AnyContext, verb: str, out: str, work: Callable[[Call], Result]) -> CallToolResult:
        steps: list[str] = []

        def heard(words: str, done: float, total: float) -> None:
            """Progress never falls: it is the number of bars that are full, and the share of the last one."""
            if words not in steps:
                steps.append(words)
            share = len(steps) - 1 + (done / total if total else 0)
            anyio.from_thread.run(context.report_progress, share, None, f"{words}: {done:g} of {total:g}")

        return await anyio.to_thread.run_sync(do, self._allowed, verb, out, work, heard, limiter=self._one)


def make_server(allowed: AllowedFolder) -> MCPServer[Any]:
    server = Server("visual-dynamics", instructions=ABOUT, version=package_version(), log_level="WARNING")
    tools = Tools(allowed)
    for tool in (tools.sample, tools.apply, tools.animate, tools.complete, tools.check, tools.models):
        kind = ToolAnnotations(read_only_hint=tool == tools.models, destructive_hint=False, open_world_hint=False)
        server.add_tool(tool, annotations=kind)
    return server
