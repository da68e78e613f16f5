"""How far exported programs are from the package: `python benchmarks/export.py [--out FILE] [MODEL ...]`.

For every model, format and kind of weights: the largest difference between frames of the decoder and those of the
package (`sample`, `apply`), for 1, 7 and 64 motion codes of one random frame, in levels of 255; and the largest
difference of the motion code of a random pair, as a share of the largest number in it. With p(z | image), the codes are
those of its program and of the package.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args

import numpy as np
import numpy.typing as npt
import onnxruntime
import torch
from torch.utils._pytree import tree_unflatten

sys.path.insert(0, str(Path(__file__).parents[1]))
from visual_dynamics.api import Model, load
from visual_dynamics.export.programs import Format, Precision, exported, programs
from visual_dynamics.model_files import shipped_models
from visual_dynamics.provenance import provenance

Floats = npt.NDArray[np.float32]
COUNTS = (1, 7, 64)


def run(form: Format, data: bytes, *inputs: Floats) -> list[Floats]:
    """The outputs of a program, read from its file."""
    if form == "onnx":
        session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
        return session.run(None, dict(zip([each.name for each in session.get_inputs()], inputs, strict=True)))
    program = torch.export.load(io.BytesIO(data))
    # Segments are one argument.
    arguments = tree_unflatten([torch.from_numpy(each) for each in inputs], program.call_spec.in_spec)[0]
    found = program.module()(*arguments)
    return [each.numpy() for each in ((found,) if isinstance(found, torch.Tensor) else found)]


def differences(
    model: Model, form: Format, files: Mapping[str, bytes], counts: Sequence[int] = COUNTS
) -> dict[str, float]:
    """`n = 1`, ...: of frames, in levels; `code`: of the mean of a motion code, as a share of its largest number."""
    side = model.predictor.picture_size
    pair = torch.rand(2, 3, side, side, generator=torch.Generator().manual_seed(0))
    before, after = pair[:1].numpy(), pair[1:].numpy()
    image, found = model.predictor.encode_image(pair[0]), {}
    z, noise = (source.draw(range(max(counts)), image) for source in (model.source(), model.source("prior")))
    segments = run(form, files["encoder"], before)
    for count in counts:
        codes = z[:count].numpy()
        if "conditional" in files:
            (codes,) = run(form, files["conditional"], *segments, noise[:count].numpy())
        (frames,) = run(form, files["decoder"], before, *segments, codes)
        expected = model.predictor.decode(image, z[:count]).numpy()
        found[f"n = {count}"] = 255 * float(np.abs(frames - expected).max())
    if "motion_encoder" in files:
        mean, _ = run(form, files["motion_encoder"], before, after)
        expected = model.predictor.encode(pair[0], pair[1]).mean.numpy()
        found["code"] = float(np.abs(mean[0] - expected).max() / np.abs(expected).max())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = []
    print("| model | format | weights |", " | ".join(f"n = {count}" for count in COUNTS), "| code |")
    print("|---|---|---|---:|---:|---:|---:|")
    for name in options.models or shipped_models():
        model = load(name)
        for form in get_args(Format):
            for precision in get_args(Precision):
                parts = programs(model.weights, precision)
                files = {part: exported(program, form) for part, program in parts.items()}
                found = differences(model, form, files)
                rows.append({"model": name, "format": form, "weights": precision, **found})
                print(f"| `{name}` | {form} | {precision} |", " | ".join(f"{each:.2g}" for each in found.values()), "|")
    if options.out:
        where = {"date": time.strftime("%Y-%m-%d"), "onnxruntime": onnxruntime.__version__}
        result = {**where, **provenance(torch.device("cpu")), "rows": rows}
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
