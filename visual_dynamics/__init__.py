"""Visual Dynamics: from one image, many plausible next frames.

import visual_dynamics as vd

model = vd.load("shapes")
frames = model.sample("image.png", n=8, seed=0)
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from visual_dynamics.api import Model, Motion, load
    from visual_dynamics.display import show
    from visual_dynamics.errors import UnfamiliarPicture, UserError

    __version__: str

__all__ = ["Model", "Motion", "UnfamiliarPicture", "UserError", "__version__", "load", "show"]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """Import on first use: torch takes a second, and `--help` should not wait for it."""
    if name in ("Model", "Motion", "load"):
        from visual_dynamics import api

        return getattr(api, name)
    if name == "show":
        from visual_dynamics.display import show

        return show
    if name in ("UnfamiliarPicture", "UserError"):
        from visual_dynamics import errors

        return getattr(errors, name)
    if name == "__version__":
        from importlib.metadata import version

        return version("visual-dynamics")
    raise AttributeError(f"module 'visual_dynamics' has no attribute {name!r}")
