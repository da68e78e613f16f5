"""How weights files hold tensors: weights in one byte each, and groups that are added or taken out of the bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

BLOCK = 32  # weights of eight bits that share a step
SMALLEST_STEP = 2.0**-24  # of float16
TYPES = {torch.float32: "F32", torch.uint8: "U8"}
METADATA = "__metadata__"


def with_group(data: bytes, group: str, tensors: Mapping[str, Tensor]) -> bytes:
    """The file with these tensors, named `group.*`, in place of those that it has; with none of them where none are.

    They come first. Each of them, but the last, takes a multiple of 8 bytes: others stay aligned.
    """
    start = 8 + int.from_bytes(data[:8], "little")
    entries: dict[str, Any] = json.loads(data[8:start])
    kept = {name: entry for name, entry in entries.items() if not name.startswith(f"{group}.")}
    if not tensors and len(kept) == len(entries):
        return data
    header: dict[str, Any] = {METADATA: kept.pop(METADATA)} if METADATA in kept else {}
    parts: list[bytes] = []
    for name, value in tensors.items():
        header[f"{group}.{name}"] = {"dtype": TYPES[value.dtype], "shape": list(value.shape)}
        parts.append(value.contiguous().numpy().tobytes())
    for name, entry in kept.items():
        header[name] = entry
        first, last = entry["data_offsets"]
        parts.append(data[start + first : start + last])
    end = 0
    for name, part in zip((name for name in header if name != METADATA), parts, strict=True):
        header[name]["data_offsets"] = [end, end + len(part)]
        end += len(part)
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(parts)


def to_eight_bits(value: Tensor) -> tuple[Tensor, Tensor]:
    """Float16 weights as whole numbers from -127 to 127, and for each block the step between two numbers."""
    blocks = _in_blocks(value.float())
    step = (blocks.abs().amax(1, keepdim=True) / 127).half().clamp_min(SMALLEST_STEP)
    numbers = (blocks / step).round().clamp(-127, 127).to(torch.int8)
    return numbers.flatten()[: value.numel()].view(value.shape), step.flatten()


def of_eight_bits(value: Tensor, step: Tensor) -> Tensor:
    blocks = _in_blocks(value.float())
    if step.shape != (len(blocks),) or not torch.isfinite(step).all():
        raise ValueError("the steps of its weights are malformed")
    return (blocks * step[:, None].float()).flatten()[: value.numel()].view(value.shape)


def _in_blocks(value: Tensor) -> Tensor:
    """Any shape -> (blocks, BLOCK), in the order of memory; zeros fill the last block."""
    flat = value.flatten()
    return F.pad(flat, (0, -len(flat) % BLOCK)).view(-1, BLOCK)
