"""Data that are drawn from a seed, by name; all other data are paths. Without torch: mistakes are found before it."""

from __future__ import annotations

from pathlib import Path

from visual_dynamics.errors import UserError

GENERATED = ("shapes", "shapes-texture", "figures")


def check_data(data: str) -> None:
    """Raise UserError for what is neither a name nor a path."""
    if data not in GENERATED and not Path(data).exists():
        raise UserError(
            f"no data {data!r}: give {' or '.join(map(repr, GENERATED))}, "
            "a folder or zip of N_im1 / N_im2 pairs, of prepared videos, or of sprites, or a pose file"
        )
