"""The verb `models`."""

from __future__ import annotations

from pathlib import Path

from visual_dynamics.cli.results import Result


def models() -> Result:
    """List the models that come with the package."""
    from visual_dynamics.model_files import digest_of, find_weights, read_header, shipped_models

    lines, found = [], []
    for name in shipped_models():
        path = find_weights(name)
        header = read_header(path)
        config = header.config
        latents = f"{header.posteriors:,} posteriors" if header.posteriors else "learned prior"
        latents += ", p(z | image)" if header.knows_images else ""
        card = _read_card(path.with_suffix(".md"))
        licence = card.get("licence", "").replace(", as the code", "")
        digest, size = digest_of(path.read_bytes()), path.stat().st_size
        lines.append(
            f"{name:15} {config.size}x{config.size}  z {config.latent}  {latents}  "
            f"{size / 1e6:.1f} MB  {licence}  sha256 {digest[:12]}"
        )
        if purpose := card.get("what it does", card.get("what it is", "")):
            lines.append(f"    {purpose}")
        about = {"name": name, "size": config.size, "latent": config.latent, "posteriors": header.posteriors}
        about |= {"conditional": header.knows_images, "bytes": size, "licence": licence, "sha256": digest}
        found.append(about | {"purpose": purpose})
    return Result("\n".join(lines), {"models": found})


def _read_card(path: Path) -> dict[str, str]:
    """The rows of a model card's table; none where there is no card."""
    rows = {}
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) == 4 and cells[1] and not cells[1].startswith("-"):
            rows[cells[1]] = cells[2].replace("`", "")
    return rows
