"""Frames become pairs."""
