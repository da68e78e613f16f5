"""Sources of z: the right distribution, and one seed a sample."""

import pytest
import torch

from tests.conftest import seeded
from visual_dynamics.errors import UserError
from visual_dynamics.model.motion_encoder import Posterior
from visual_dynamics.posteriors import StoredPosteriors
from visual_dynamics.sampling.latents import PairPosterior, Prior, TrainingPosteriors, sample_seeds
from visual_dynamics.sampling.learned_prior import fit_prior


def two_posteriors() -> StoredPosteriors:
    """Dimension 0 tells two training pairs apart, dimension 1 tells nothing."""
    mean = torch.tensor([[-3.0, 0.0], [3.0, 0.0]])
    log_variance = torch.tensor([[-4.0, 0.0], [-4.0, 0.0]])
    return StoredPosteriors.compress(Posterior(mean, log_variance), max_bytes=100)


SOURCES = [
    TrainingPosteriors(two_posteriors()),
    fit_prior(two_posteriors()),
    Prior(2),
    PairPosterior(Posterior(torch.tensor([1.0, -1.0]), torch.tensor([-2.0, 0.0]))),
]


@pytest.mark.parametrize("source", SOURCES, ids=lambda s: type(s).__name__)
def test_a_sample_depends_on_its_seed_alone(source) -> None:
    seeds = sample_seeds(5, 12)
    together = source.draw(seeds)
    torch.testing.assert_close(torch.cat([source.draw([seed]) for seed in seeds]), together, rtol=0, atol=0)
    torch.testing.assert_close(source.draw(seeds[7:9]), together[7:9], rtol=0, atol=0)
    assert len(torch.unique(together[:, 1])) == 12


def test_seeds_of_samples() -> None:
    assert sample_seeds(3, 5)[2:] == sample_seeds(3, 3, first=2)
    assert len({*sample_seeds(0, 500), *sample_seeds(1, 500)}) == 1000


def test_training_posteriors_are_a_mixture() -> None:
    z = TrainingPosteriors(two_posteriors()).draw(sample_seeds(0, 4000))
    left = z[z[:, 0] < 0]
    assert abs(len(left) / len(z) - 0.5) < 0.04
    assert abs(left[:, 0].mean() + 3) < 0.02 and abs(left[:, 0].std() - 0.135) < 0.01
    assert abs(z[:, 1].mean()) < 0.06 and abs(z[:, 1].std() - 1) < 0.05


def test_a_file_without_posteriors() -> None:
    with pytest.raises(UserError, match="holds no training posteriors"):
        TrainingPosteriors(StoredPosteriors.none(2))


def test_prior_is_the_unit_gaussian() -> None:
    z = Prior(300).draw(sample_seeds(0, 100))
    assert z.shape == (100, 300)
    assert abs(z.mean()) < 0.02 and abs(z.std() - 1) < 0.02


def test_pair_posterior_has_its_mean_and_spread() -> None:
    posterior = Posterior(seeded(1)[0].expand(2), torch.tensor([-2.0, 1.0]))
    z = PairPosterior(posterior).draw(sample_seeds(0, 4000))
    torch.testing.assert_close(z.mean(0), posterior.mean, rtol=0, atol=0.1)
    torch.testing.assert_close(z.var(0).log(), posterior.log_variance, rtol=0, atol=0.1)
