"""Runs experiments, and shows their results beside those of the paper."""
