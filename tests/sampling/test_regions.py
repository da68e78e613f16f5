"""Connected components against SciPy's, on random graphs and on known ones."""

import numpy as np
import pytest

from visual_dynamics.sampling.regions import connected


@pytest.mark.parametrize("links", [0, 20, 60, 300])
def test_components_are_those_of_scipy(links: int) -> None:
    graph = pytest.importorskip("scipy.sparse.csgraph")
    sparse = pytest.importorskip("scipy.sparse")
    first, second = np.random.default_rng(links).integers(0, 80, (2, links))
    _, expected = graph.connected_components(
        sparse.coo_array((np.ones(links), (first, second)), (80, 80)), directed=False
    )
    least = np.array([np.flatnonzero(expected == label).min() for label in expected])
    assert np.array_equal(connected(80, first, second), least)


def test_a_long_chain_is_one() -> None:
    order = np.random.default_rng(0).permutation(500)
    assert not connected(500, order[:-1], order[1:]).any()


def test_things_without_links_stay_alone() -> None:
    none = np.empty(0, np.int64)
    assert connected(3, none, none).tolist() == [0, 1, 2] and len(connected(0, none, none)) == 0
