"""A folder with a model in it for other people's programs.

encoder.onnx decoder.onnx motion_encoder.onnx      or .pt2, programs of torch.export
conditional.onnx posteriors.npz mixture.npz        where z comes from: what of these the model has
model.json                                         names, sizes and ranges
README.md                                          how to sample futures from these files
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from string import Template

import numpy as np
import numpy.typing as npt
import torch

from visual_dynamics.api import Model
from visual_dynamics.export.programs import OPSET, SUFFIXES, Format, Precision, exported, programs
from visual_dynamics.sampling.latents import LearnedPrior, TrainingPosteriors

VERSION = 1
README = Path(__file__).parent / "README.template.md"
Arrays = dict[str, npt.NDArray[np.generic]]

RUN: dict[Format, dict[str, str]] = {  # lines of the README
    "onnx": {
        "library": "onnxruntime",
        "open": 'onnxruntime.InferenceSession(f"{part}.onnx")',
        "encode": 'dict(zip([each.name for each in encoder.get_outputs()], encoder.run(None, {"frame": frame})))',
        "decode": 'decoder.run(None, {"frame": frame, **segments, "z": z})[0]',
        "look": 'conditional.run(None, {**segments, "noise": z})[0]',
    },
    "torch": {
        "library": "torch",
        "open": 'torch.export.load(f"{part}.pt2").module()',
        "encode": "encoder(torch.from_numpy(frame))",
        "decode": "decoder(torch.from_numpy(frame), segments, torch.from_numpy(z)).numpy()",
        "look": "conditional(segments, torch.from_numpy(z)).numpy()",
    },
}
CARRIES = "  # places: the dimensions of z that carry motion\n"
DRAW = {  # of each source: what is read, how a row is chosen, and how z follows from it and from noise
    "conditional": {
        "name": "conditional",  # of --source
        "parts": "encoder, decoder, conditional",
        "read": "",
        "choose": "",
        "move": "z = $look  # p(z | image)",
    },
    "posteriors": {
        "name": "posteriors",
        "parts": "encoder, decoder",
        "read": 'places, mean, deviation = np.load("posteriors.npz").values()' + CARRIES,
        "choose": "rows = [generator.integers(len(mean)) for generator in generators]\n",
        "move": "z[:, places] = mean[rows] + deviation[rows] * z[:, places]",
    },
    "mixture": {
        "name": "learned",
        "parts": "encoder, decoder",
        "read": 'places, weight, mean, factor = np.load("mixture.npz").values()' + CARRIES,
        "choose": "rows = np.searchsorted(np.cumsum(weight)[:-1], [generator.random() for generator in generators])\n",
        "move": "z[:, places] = mean[rows] + (factor[rows] * z[:, None, places]).sum(2)",
    },
}


def folder_files(model: Model, name: str, form: Format, precision: Precision) -> Iterator[tuple[str, bytes]]:
    """Name and content of each file, one after the other."""
    config, parts = model.weights.network.config, programs(model.weights, precision)
    for part, program in parts.items():
        yield part + SUFFIXES[form], exported(program, form)
    sources = {"mixture": mixture_arrays(model.learned_prior)}
    if len(model.weights.posteriors):
        sources = {"posteriors": posterior_arrays(model.weights.posteriors), **sources}
    for source, arrays in sources.items():
        yield f"{source}.npz", _npz(arrays)
    about = {
        "format": "visual-dynamics export",
        "version": VERSION,
        "model": name,
        "digest": model.weights.digest,
        "weights": precision,
        "opset": OPSET if form == "onnx" else None,
        "size": config.size,
        "picture_size": config.picture_size,
        "latent": config.latent,
        "background": config.background,
        "ranges": {"frame": [0, 1], "before": [0, 1], "after": [0, 1], "next_frame": [0, 1]},
        "programs": {
            part: {"file": part + SUFFIXES[form], "inputs": program.inputs, "outputs": program.outputs}
            for part, program in parts.items()
        },
        "sources": {
            source: {"file": f"{source}.npz", "arrays": {key: list(value.shape) for key, value in arrays.items()}}
            for source, arrays in sources.items()
        },
    }
    yield "model.json", (json.dumps(about, indent=1) + "\n").encode()
    source = "conditional" if "conditional" in parts else next(iter(sources))  # the package's own choice
    lines = {
        **RUN[form],
        **DRAW[source],
        "model": name,
        "size": config.picture_size,
        "side": config.size,
        "latent": config.latent,
    }
    lines["move"] = Template(DRAW[source]["move"]).substitute(lines)
    lines["names"] = ", ".join(f'"{part}"' for part in DRAW[source]["parts"].split(", "))
    yield "README.md", Template(README.read_text("utf-8")).substitute(lines).encode()


def posterior_arrays(stored: TrainingPosteriors) -> Arrays:
    """N Gaussians over the A dimensions that carry motion, one of which is picked at random."""
    places, every = stored.dimensions.long(), stored.posterior(torch.arange(len(stored)))
    mean, log_variance = every.mean[:, places], every.log_variance[:, places]
    return {
        "dimensions": stored.dimensions.numpy(),
        "mean": mean.numpy(),
        "deviation": torch.exp(0.5 * log_variance).numpy(),
    }


def mixture_arrays(prior: LearnedPrior) -> Arrays:
    """K Gaussians with weights; covariance k is factor k times its transpose."""
    return {
        "dimensions": prior.dimensions.numpy(),
        "weight": prior.weight.double().numpy(),
        "mean": prior.mean.numpy(),
        "factor": prior.factor.numpy(),
    }


def _npz(arrays: Arrays) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()
