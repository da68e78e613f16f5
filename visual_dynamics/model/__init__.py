"""The network of the paper, one file per component."""
