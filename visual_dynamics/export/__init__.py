"""A model for programs that have neither this package nor PyTorch's Python: ONNX, or programs of torch.export.

`programs.py` turns the network into programs; `folder.py` puts them into a folder with all that sampling needs.
"""
