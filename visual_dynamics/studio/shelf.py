"""The models of a studio: loaded when they are first asked for, the latest few kept, and images as they see them.

Loading and encoding happen in the one thread of the line, so nothing here is locked.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from safetensors import SafetensorError, safe_open

from visual_dynamics.api import Frames, Model, load
from visual_dynamics.catalogue import find_weights, shipped_models
from visual_dynamics.errors import UserError
from visual_dynamics.images import Box, Pixels
from visual_dynamics.model.presets import NetworkConfig
from visual_dynamics.sampling.predictor import EncodedImage
from visual_dynamics.studio.pictures import Picture
from visual_dynamics.web.refusals import Refused
from visual_dynamics.weights import MOTION_ENCODER

MODELS = 3  # in memory: about 100 MB each
ENCODED = 64  # images as a model sees them: 0.7 MB each


@dataclass(frozen=True)
class Entry:
    """What is known of a model before it is loaded."""

    name: str
    path: Path

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.path.read_bytes()).hexdigest()

    @cached_property
    def config(self) -> NetworkConfig:
        return NetworkConfig.from_dict(json.loads(self._header[0]["network"]))

    @property
    def sources(self) -> list[str]:
        """Where z may come from; the first is the usual one."""
        stored = any(name.startswith("posteriors.") for name in self._header[1])
        return [*(["posteriors"] if stored else []), "learned", "prior"]

    @property
    def reads_motion(self) -> bool:
        return any(name.startswith(MOTION_ENCODER) for name in self._header[1])

    @property
    def of_sprites(self) -> bool:
        return self.config.background == 0

    @property
    def about(self) -> str:
        """What the model does, by its card."""
        card = self.path.with_suffix(".md")
        lines = card.read_text(encoding="utf-8").splitlines() if card.is_file() else []
        start = "| what it does |"
        words = next((line.removeprefix(start).strip(" |") for line in lines if line.startswith(start)), "")
        return words[:1].upper() + words[1:]

    @cached_property
    def _header(self) -> tuple[dict[str, str], list[str]]:
        """Metadata, and names of tensors."""
        try:
            with safe_open(self.path, "pt") as file:
                return file.metadata() or {}, list(file.keys())
        except (SafetensorError, OSError) as error:
            raise UserError(f"{self.path} is not a complete safetensors file: {error}") from error


@dataclass(frozen=True)
class Seen:
    """A picture as a model sees it."""

    model: Model
    pixels: Pixels
    encoded: EncodedImage
    box: Box  # where it lies in the model's square

    @property
    def still(self) -> Frames:
        """(H, W, 3), in the size of the results"""
        return self.model.finish(self.encoded.frame[None], self.box)[0]


class Shelf:
    """Models by name."""

    def __init__(self, others: tuple[str, ...], device: str, check: Callable[[], None]) -> None:
        """check: called whenever a part of a network is about to work; what it raises ends that."""
        self.device, self.check = device, check
        self.entries = {name: Entry(name, find_weights(name)) for name in shipped_models()}
        for other in others:
            path = find_weights(other)
            name = path.stem if path.stem != "weights" else path.parent.name
            if name in self.entries:
                raise UserError(f"two models are called {name}: rename {path}")
            self.entries[name] = Entry(name, path)
        for entry in self.entries.values():
            _ = entry.config  # a file that is no model is told now
        self._loaded: OrderedDict[str, Model] = OrderedDict()
        # Without the pictures themselves, whose memory is counted elsewhere.
        self._encoded: OrderedDict[tuple[str, str], tuple[EncodedImage, Box]] = OrderedDict()

    def entry(self, name: str) -> Entry:
        if name not in self.entries:
            raise Refused(404, f"no model {name!r}: there are {', '.join(self.entries)}")
        return self.entries[name]

    def model(self, name: str) -> Model:
        model = self._loaded.pop(name, None) or self._load(name)
        self._loaded[name] = model
        while len(self._loaded) > MODELS:
            dropped, _ = self._loaded.popitem(last=False)
            for key in [key for key in self._encoded if key[0] == dropped]:
                del self._encoded[key]
        return model

    def seen(self, name: str, picture: Picture) -> Seen:
        """The picture encoded by the model, now or before: decoding motions of it is all that is left to do."""
        model, key = self.model(name), (name, picture.id)
        encoded = self._encoded.pop(key, None)
        if encoded is None:
            frame, box = model.prepare(picture.pixels)
            encoded = model.predictor.encode_image(frame), box
        self._encoded[key] = encoded
        if len(self._encoded) > ENCODED:
            self._encoded.popitem(last=False)
        return Seen(model, picture.pixels, *encoded)

    def _load(self, name: str) -> Model:
        model = load(self.entry(name).path, self.device)
        for part in model.predictor.network.children():
            part.register_forward_pre_hook(lambda *_: self.check())
        return model
