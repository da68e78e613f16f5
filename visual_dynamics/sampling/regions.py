"""Connected components: which of many things hang together through links between two of them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]


def connected(count: int, first: Indices, second: Indices) -> Indices:
    """The component of each of `count` things, by the least index in it: (count,).

    Link k joins `first[k]` and `second[k]`. In every round the roots of linked components are joined, the larger index
    to the smaller one; then every thing is taken to its root.
    """
    root = np.arange(count)
    while True:
        one, other = root[first], root[second]
        if np.array_equal(one, other):
            return root
        np.minimum.at(root, np.maximum(one, other), np.minimum(one, other))
        while not np.array_equal(root[root], root):
            root = root[root]
