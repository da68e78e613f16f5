"""The verbs `export` and `export-page`: a model for other programs, and the studio as a page without a server."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from visual_dynamics.cli.options import OUT, OutOption, OverwriteOption, need, progress_bar
from visual_dynamics.cli.pictures import ResultFolder
from visual_dynamics.cli.results import Result

PAGE_MODELS = "shapes, sprites and people"


class FormatChoice(StrEnum):
    onnx = "onnx"
    torch = "torch"


class PrecisionChoice(StrEnum):
    float32 = "float32"
    float16 = "float16"


def export(
    model: Annotated[str, typer.Argument(help="A shipped model, the weights of a run, or owner/name@main on the Hub.")],
    form: Annotated[
        FormatChoice, typer.Option("--format", help="ONNX, or programs that torch.export.load reads.")
    ] = FormatChoice.onnx,
    weights: Annotated[
        PrecisionChoice, typer.Option(help="How weights are stored; everything is computed in float32.")
    ] = PrecisionChoice.float32,
    out: OutOption = OUT / "export",
    overwrite: OverwriteOption = False,
) -> Result:
    """Write a model as programs for other software, with a README that samples futures from them without PyTorch."""
    if form == FormatChoice.onnx:
        need("onnx", "onnx", "onnxscript")
    from visual_dynamics.model_files import find_weights, read_header

    read_header(find_weights(model))  # a mistake is reported before torch is imported
    from visual_dynamics.api import load
    from visual_dynamics.export.folder import folder_files

    with ResultFolder(out, overwrite) as folder, progress_bar(f"writing {model} as {form.value}") as progress:
        loaded = load(model, "cpu")
        name = Path(model).stem if model.endswith(".safetensors") else model
        for done, (file, data) in enumerate(folder_files(loaded, name, form.value, weights.value), 1):
            folder.write(file, data)
            progress(done, 7 + bool(loaded.weights.conditional))
    return folder.result(f"{model} in", "README.md")


def export_page(
    model: Annotated[
        list[str] | None,
        typer.Option("--model", help="A model of the page; may be repeated.", show_default=PAGE_MODELS),
    ] = None,
    runtime: Annotated[
        Path | None,
        typer.Option(help="onnxruntime-web's .tgz from npm, where it cannot be fetched.", show_default="fetched once"),
    ] = None,
    out: OutOption = OUT / "page",
    overwrite: OverwriteOption = False,
) -> Result:
    """Write the studio as a static page: it runs in the browser alone, from any file server or from a disk."""
    need("onnx", "onnx", "onnxscript")
    need("studio", "fastapi")
    from visual_dynamics.model_files import find_weights, read_header

    for name in model or ():
        read_header(find_weights(name))  # a mistake is reported before torch is imported
    from visual_dynamics.export.page import MODELS, page_files
    from visual_dynamics.export.runtime import runtime_files

    models = model or MODELS
    with ResultFolder(out, overwrite) as folder:
        with progress_bar("fetching ONNX Runtime for browsers") as progress:
            files = runtime_files(runtime, progress)
        with progress_bar("writing the page") as progress:
            for done, (name, data) in enumerate(page_files(models, files), 1):
                folder.write(name, data)
                progress(done, 4 * len(models) + 10)
    words = f"open {out / 'index.html'} in a browser, or put {out} on any file server: see README.md"
    return Result(words, folder.values() | {"see": "index.html"})
