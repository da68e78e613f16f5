"""Nothing changes by accident: pictures of a seed, the studio's API, verbs and options (see freeze.py)."""

import numpy as np

from tests.golden.freeze import command_line, openapi, recorded, samples


def test_one_seed_one_picture() -> None:
    """To within rounding of another processor; on the same one the digests agree, too."""
    old, new = recorded("samples"), samples()
    assert old.keys() == new.keys()
    for model, verbs in old.items():
        for verb, record in verbs.items():
            difference = np.abs(np.array(record["blocks"]) - np.array(new[model][verb]["blocks"])).max()
            assert difference <= 0.5, (model, verb)


def test_the_api_of_the_studio() -> None:
    assert openapi() == recorded("openapi")


def test_verbs_and_options() -> None:
    """A new option, or one that is gone, shows up in the golden file, too: python -m tests.golden.make_golden ..."""
    old, new = recorded("command_line"), command_line()
    assert old.keys() == new.keys()
    for verb in old:
        assert old[verb] == new[verb], verb
