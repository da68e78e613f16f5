"""A static page: the studio in a browser tab, with no server behind it.

    index.html page.js style.css parts.css icon.svg     the studio's page; its requests are answered by page/api.js
    engine-wasm.js engine-webgpu.js, with -binary.js    ONNX Runtime with the page's worker
    MODEL-encoder.js MODEL-decoder.js ...               the parts of each model
    README.md                                           how to open it, and licences

The last two kinds are assets: scripts that bring gzip as base64. Scripts load from a disk as from any file server.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from visual_dynamics.api import Model, load
from visual_dynamics.errors import UserError
from visual_dynamics.export.programs import exported, programs
from visual_dynamics.export.quick import QuickDecoder
from visual_dynamics.model_files import find_weights
from visual_dynamics.sampling.latents import TrainingPosteriors
from visual_dynamics.sampling.moves import stored_usage
from visual_dynamics.studio.models import ModelFile
from visual_dynamics.studio.pictures import as_url, draw_samples, samples_like

HERE = Path(__file__).parent / "page"
STUDIO = Path(__file__).parents[1] / "studio" / "page"
MODELS = ("shapes", "sprites", "people")
MOST_SLIDERS = 16
IMPORT = re.compile(r'^import \{([^}]+)\} from "\./([\w.]+)";\n', re.M)
EXPORT = re.compile(r"^export (async function|function|const|class) (\w+)", re.M)
LIBRARY = re.compile(r"export\{([^}]+)\};\s*(//.*)?\s*$")
ABSENT = re.compile(r'^.* data-studio="absent".*\n', re.M)  # lines of the studio's page that need the studio


def page_files(models: Sequence[str], runtime: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """Name and content of each file, one after the other."""
    about, samples = [], draw_samples()
    for name in dict.fromkeys(models):
        file = ModelFile(Path(name).stem if name.endswith(".safetensors") else name, find_weights(name))
        model = load(name, "cpu")
        about.append(_about(file, model))
        yield from (_asset(name, data) for name, data in _model_assets(file.name, model))
    used = {sample for model_about in about for sample in model_about["samples"]}
    shown = [
        {"id": name, "url": as_url(pixels), "height": pixels.shape[0], "width": pixels.shape[1]}
        for name, pixels in samples.items()
        if name in used
    ]
    for kind, data in runtime.items():
        yield _asset(f"engine-{kind}", data if kind.endswith("binary") else _worker(data))
    for name in ("style.css", "parts.css", "icon.svg"):
        yield name, (STUDIO / name).read_bytes()
    yield "README.md", (HERE / "README.md").read_bytes()
    yield "page.js", bundle("main.js").encode()
    yield "index.html", _html({"models": about, "samples": shown}).encode()


def bundle(first: str) -> str:
    """A module and all that it imports as one script, which pages may load from a disk; modules they may not.

    A module of the folder page/ stands in for the studio's of the same name.
    """
    done: dict[str, str] = {}

    def add(name: str) -> None:
        if name in done:
            return
        path = HERE / name
        text = (path if path.exists() else STUDIO / name).read_text("utf-8")
        for _, other in IMPORT.findall(text):
            add(other)
        text = IMPORT.sub(lambda found: f"const {{{found[1]}}} = {_variable(found[2])};\n", text)
        names = ", ".join(name for _, name in EXPORT.findall(text))
        body = EXPORT.sub(r"\1 \2", text)
        done[name] = f"const {_variable(name)} = (() => {{\n{body}\nreturn {{ {names} }};\n}})();\n"

    add(first)
    return '"use strict";\n{\n' + "".join(done.values()) + "}\n"


def _variable(name: str) -> str:
    return f"module_{name.removesuffix('.js')}"


def _html(about: dict[str, Any]) -> str:
    text = ABSENT.sub("", (STUDIO / "index.html").read_text("utf-8")).replace('data-studio="hidden"', "hidden")
    data = json.dumps(about).replace("</", "<\\/")
    script = f'<script type="application/json" id="about-page">{data}</script>\n<script defer src="page.js"></script>'
    text = text.replace('<script type="module" src="/page/main.js"></script>', script)
    return text.replace('"/page/', '"')


def _worker(library: bytes) -> bytes:
    """ONNX Runtime's module and the page's worker as one classic script: Chromium starts no others from a disk."""
    text = library.decode()
    found = LIBRARY.search(text)
    if found is None:
        raise UserError("this onnxruntime-web ends in no list of exports")
    names = ", ".join(f"{name}: {local}" for local, name in re.findall(r"([\w$]+) as (\w+)", found[1]))
    plain = text[: found.start()].replace("import.meta.url", "self.location.href")
    return "\n".join([plain, f"const ort = {{ {names} }};", bundle("worker.js")]).encode()


def _about(file: ModelFile, model: Model) -> dict[str, Any]:
    """What the page knows of a model before it fetches any of its parts."""
    config, stored = file.config, model.weights.posteriors
    if config.warp:
        raise UserError(f"{file.name} warps its pictures: the page has no models of this kind yet")
    if not len(stored) or not model.weights.encodes_motion:
        raise UserError(f"{file.name} is a lighter copy: the page needs its training posteriors and its motion encoder")
    used = stored_usage(stored)
    return {
        "name": file.name,
        "about": file.about,
        "digest": file.digest,
        "size": config.size,
        "latent": config.latent,
        "maps": config.maps,
        # The segments that say whether a picture is familiar: those of the last scale but one.
        "familiar": f"segments_{config.size >> max(0, config.scales - 2)}" if model.weights.familiarity else None,
        "background": config.background,
        "sources": ["posteriors", "prior"],
        "sprites": False,  # animations of sheets need the studio
        "reads_motion": True,
        "samples": [name for name in samples_like(file.data, file.of_sprites) if not name.endswith("-sheet")],
        "posteriors": {"count": len(stored), "stored": stored.dimensions.tolist()},
        "dimensions": [
            {"dimension": dimension, "nats": float(used.nats[dimension]), "scale": float(used.scale[dimension])}
            for dimension in used.active[:MOST_SLIDERS]
        ],
    }


def _model_assets(name: str, model: Model) -> Iterator[tuple[str, bytes]]:
    weights = model.weights
    parts = programs(weights, "float16")
    decoder = parts["decoder"]
    parts["decoder"] = decoder._replace(module=QuickDecoder(decoder.module.network))  # type: ignore[arg-type]
    for part, program in parts.items():
        yield f"{name}-{part}", exported(program, "onnx")
    yield f"{name}-posteriors", _posterior_bytes(weights.posteriors)
    if known := weights.familiarity:
        tensors = (known.mean, known.factor, known.limits, known.colours)
        yield f"{name}-familiar", b"".join(part.numpy().tobytes() for part in tensors)


def _posterior_bytes(stored: TrainingPosteriors) -> bytes:
    """As files of models hold them: scales (4, A) in float32, then means and log-variances, (N, A) bytes each."""
    return b"".join(part.numpy().tobytes() for part in (stored.scales, stored.mean, stored.log_variance))


def _asset(name: str, data: bytes) -> tuple[str, bytes]:
    packed = base64.b64encode(gzip.compress(data, mtime=0)).decode()
    return f"{name}.js", f"provide({json.dumps(name)}, {json.dumps(packed)});\n".encode()
