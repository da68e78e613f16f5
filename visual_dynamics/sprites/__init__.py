"""Sprites: animations carried from one character to another, and the files they come in."""
