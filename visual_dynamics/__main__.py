"""`python -m visual_dynamics` is the same as `visual-dynamics`."""

from visual_dynamics.cli.main import main

main()
