"""Pairs train a network."""
