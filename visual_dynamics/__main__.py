"""`python -m visual_dynamics` is the same as `visual-dynamics`."""

from visual_dynamics.cli.main import main

if __name__ == "__main__":  # the studio's processes import this file, too
    main()
