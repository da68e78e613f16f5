"""The verbs `models`, `compact` and `push`: what is shipped, lighter copies, and the Hugging Face Hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from visual_dynamics.cli.options import busy
from visual_dynamics.errors import UserError


def models() -> None:
    """List the models that come with the package."""
    from visual_dynamics.weights import find_weights, load_weights, shipped_models

    for name in shipped_models():
        path = find_weights(name)
        weights = load_weights(path)
        config = weights.network.config
        latents = f"{len(weights.posteriors):,} posteriors" if len(weights.posteriors) else "learned prior"
        card = read_card(path.with_suffix(".md"))
        licence = card.get("licence", "").replace(", as the code", "")
        typer.echo(
            f"{name:15} {config.size}x{config.size}  z {config.latent}  {latents}  "
            f"{path.stat().st_size / 1e6:.1f} MB  {licence}  sha256 {weights.digest[:12]}"
        )
        if purpose := card.get("what it does", card.get("what it is")):
            typer.echo(f"    {purpose}")


def read_card(path: Path) -> dict[str, str]:
    """The rows of a model card's table; none where there is no card."""
    rows = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) == 4 and cells[1] and not cells[1].startswith("-"):
            rows[cells[1]] = cells[2].replace("`", "")
    return rows


def compact(
    model: Annotated[str, typer.Argument(help="A shipped model, the weights of a run, or a Hugging Face Hub id.")],
    file: Annotated[Path, typer.Argument(help="The copy to write, a .safetensors file.")],
    eight_bits: Annotated[
        bool, typer.Option("--eight-bits/--float16", help="One byte for most weights, or two.")
    ] = True,
    motion_encoder: Annotated[
        bool, typer.Option(help="Keep what reads the motion of a pair; sampling does without it.")
    ] = True,
    learned_prior: Annotated[
        bool, typer.Option("--learned-prior", help="A fitted mixture of Gaussians in place of training posteriors.")
    ] = False,
) -> None:
    """Write a lighter copy of a model, to share it."""
    from visual_dynamics.api import load

    if file.suffix != ".safetensors":
        raise UserError(f"a model is a .safetensors file, and {file} would not be one")
    if file.exists():
        raise UserError(f"{file} exists already: remove it, or give another file")
    load(model, "cpu").save_copy(file, eight_bits, motion_encoder, learned_prior)
    typer.echo(f"{file}: {file.stat().st_size / 1e6:.1f} MB")


def push(
    file: Annotated[Path, typer.Argument(help="A .safetensors file; FILE.md beside it becomes the model card.")],
    hub_id: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="The repository; made if it is missing.")],
) -> None:
    """Upload a model to the Hugging Face Hub, as the account that `huggingface-cli login` has stored."""
    from visual_dynamics import weights

    with busy("uploading"):
        address = weights.push(file, hub_id)
    typer.echo(address)
