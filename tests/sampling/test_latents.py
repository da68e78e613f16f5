"""Sources of z: the right distribution, one seed a sample; and the fit of the mixture."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from tests.conftest import seeded
from visual_dynamics.api import load
from visual_dynamics.errors import UserError
from visual_dynamics.model.motion_encoder import Posterior
from visual_dynamics.sampling import latents
from visual_dynamics.sampling.latents import (
    PRIOR_BYTES,
    LearnedPrior,
    Mixture,
    Prior,
    TrainingPosteriors,
    fit_mixture,
    fit_prior,
    sample_seeds,
)


def two_posteriors() -> TrainingPosteriors:
    """Dimension 0 differs between two training pairs, dimension 1 carries nothing."""
    mean = torch.tensor([[-3.0, 0.0], [3.0, 0.0]])
    log_variance = torch.tensor([[-4.0, 0.0], [-4.0, 0.0]])
    return TrainingPosteriors.compress(Posterior(mean, log_variance), max_bytes=100)


SOURCES = [
    two_posteriors(),
    fit_prior(two_posteriors()),
    Prior(2),
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
    z = two_posteriors().draw(sample_seeds(0, 4000))
    left = z[z[:, 0] < 0]
    assert abs(len(left) / len(z) - 0.5) < 0.04
    assert abs(left[:, 0].mean() + 3) < 0.02 and abs(left[:, 0].std() - 0.135) < 0.01
    assert abs(z[:, 1].mean()) < 0.06 and abs(z[:, 1].std() - 1) < 0.05


def test_stored_codes_that_are_not_finite_are_refused() -> None:
    good = two_posteriors()
    good.check()
    for row, value in enumerate((math.nan, math.inf, -math.inf, math.nan)):
        scales = good.scales.clone()
        scales[row, 0] = value
        with pytest.raises(ValueError, match="its training posteriors are malformed"):
            replace(good, scales=scales).check()


def test_prior_is_the_unit_gaussian() -> None:
    z = Prior(300).draw(sample_seeds(0, 100))
    assert z.shape == (100, 300)
    assert abs(z.mean()) < 0.02 and abs(z.std() - 1) < 0.02


# --- the learned prior ---

KNOWN = Mixture(
    weight=torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64),
    mean=torch.tensor([[-2.0, 0.0], [1.5, 1.0], [0.0, -1.5]], dtype=torch.float64),
    factor=torch.tensor(
        [[[0.4, 0.0], [0.1, 0.2]], [[0.3, 0.0], [-0.3, 0.3]], [[0.6, 0.0], [0.0, 0.1]]], dtype=torch.float64
    ),
)


def stored(mixture: Mixture, dimensions: list[int], latent: int) -> LearnedPrior:
    return LearnedPrior(torch.tensor(dimensions, dtype=torch.int32), *(part.float() for part in mixture), latent)


def samples(count: int, seed: int = 0) -> torch.Tensor:
    """Of the known mixture, (n, 2)."""
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.multinomial(KNOWN.weight, count, replacement=True, generator=generator)
    noise = torch.randn(count, 2, 1, generator=generator, dtype=torch.float64)
    return KNOWN.mean[chosen] + (KNOWN.factor[chosen] @ noise).squeeze(2)


def random_posteriors(count: int = 300, latent: int = 6, active: int = 3) -> TrainingPosteriors:
    mean, log_variance = torch.zeros(count, latent), torch.zeros(count, latent)
    mean[:, :active] = seeded(count, active) @ seeded(active, active, seed=1) + 5
    log_variance[:, :active] = -3
    return TrainingPosteriors.compress(Posterior(mean, log_variance), max_bytes=10_000)


def log_likelihood(mixture: Mixture, z: torch.Tensor) -> torch.Tensor:
    """Mean log-density of samples (n, D), in nats a sample."""
    return mixture.log_joint(z).logsumexp(1).mean()


def covariance(mixture: Mixture) -> torch.Tensor:
    return mixture.factor @ mixture.factor.mT


def test_density_is_that_of_the_gaussians() -> None:
    z = seeded(20, 2, dtype=torch.float64)
    expected = [
        [math.log(w) + multivariate_normal(mean, c).logpdf(point) for w, mean, c in zip(*parts, strict=True)]
        for parts in [(KNOWN.weight.numpy(), KNOWN.mean.numpy(), covariance(KNOWN).numpy())]
        for point in z.numpy()
    ]
    torch.testing.assert_close(KNOWN.log_joint(z), torch.tensor(expected, dtype=torch.float64))
    likelihood = torch.tensor(expected, dtype=torch.float64).logsumexp(1).mean()
    torch.testing.assert_close(log_likelihood(KNOWN, z), likelihood)


def test_a_known_mixture_is_found() -> None:
    z = samples(6000)
    found, _ = fit_mixture(z, 3, torch.Generator().manual_seed(0))
    order = torch.cdist(KNOWN.mean, found.mean).argmin(1)
    assert sorted(order.tolist()) == [0, 1, 2]
    torch.testing.assert_close(found.weight[order], KNOWN.weight, rtol=0, atol=0.02)
    torch.testing.assert_close(found.mean[order], KNOWN.mean, rtol=0, atol=0.04)
    torch.testing.assert_close(covariance(found)[order], covariance(KNOWN), rtol=0, atol=0.02)
    held_out = samples(4000, seed=1)
    assert abs(float(log_likelihood(found, held_out) - log_likelihood(KNOWN, held_out))) < 0.01


@pytest.mark.parametrize("components", [1, 2, 3, 20])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_no_iteration_loses(components: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latents, "LEAST_GAIN", -math.inf)
    _, reached = fit_mixture(samples(400, seed), components, torch.Generator().manual_seed(seed))
    assert len(reached) == latents.ITERATIONS
    assert np.diff(reached).min() > -1e-12


def test_the_likelihood_itself_does_not_fall(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no component is near its floor."""
    z, found = samples(2000), []
    for iterations in range(1, 15):
        monkeypatch.setattr(latents, "ITERATIONS", iterations)
        mixture, _ = fit_mixture(z, 3, torch.Generator().manual_seed(3))
        found.append(float(log_likelihood(mixture, z)))
    assert np.diff(found).min() > -1e-4 and found[-1] > found[0] + 0.05


def test_one_component_is_mean_and_covariance() -> None:
    z = samples(500)
    found, _ = fit_mixture(z, 1, torch.Generator().manual_seed(0))
    scatter = 500 * torch.cov(z.T, correction=0)
    torch.testing.assert_close(found.weight, torch.ones(1, dtype=torch.float64))
    torch.testing.assert_close(found.mean[0], z.mean(0))
    floor = latents.FLOOR * torch.eye(2, dtype=torch.float64)
    torch.testing.assert_close(covariance(found)[0], (scatter + floor) / 501)


def test_points_and_copies_do_not_break_it() -> None:
    few = torch.tensor([[0.0, 1.0], [2.0, -1.0]], dtype=torch.float64).repeat(10, 1)
    for components in (1, 2, 5):
        found, _ = fit_mixture(few, components, torch.Generator().manual_seed(0))
        assert all(bool(torch.isfinite(part).all()) for part in found)
        assert abs(float(found.weight.sum()) - 1) < 1e-9


def test_samples_have_the_mixture_s_moments() -> None:
    z = stored(KNOWN, [3, 1], 5).draw(sample_seeds(0, 20_000)).double()
    moved, still = z[:, [3, 1]], z[:, [0, 2, 4]]
    mean = KNOWN.weight @ KNOWN.mean
    spread = torch.einsum("k,kij->ij", KNOWN.weight, covariance(KNOWN) + KNOWN.mean[:, :, None] * KNOWN.mean[:, None])
    torch.testing.assert_close(moved.mean(0), mean, rtol=0, atol=0.04)
    torch.testing.assert_close(moved.T.cov(), spread - mean[:, None] * mean, rtol=0, atol=0.06)
    torch.testing.assert_close(z[:, [0, 2, 4]].T.cov(), torch.eye(3, dtype=torch.float64), rtol=0, atol=0.04)
    assert abs(float(still.mean())) < 0.02 and abs(float((moved[:, :1] * still).mean())) < 0.03
    assert abs(float(log_likelihood(KNOWN, moved) - log_likelihood(KNOWN, samples(20_000)))) < 0.03


def test_posteriors_are_fitted_where_they_carry_motion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latents, "COMPONENTS", 1)
    posteriors = random_posteriors()
    prior = fit_prior(posteriors)
    assert prior.dimensions.tolist() == [0, 1, 2] and prior.latent == 6
    mean, log_variance = (part[:, :3] for part in posteriors.posterior(torch.arange(300)))
    expected = mean.T.cov() + log_variance.exp().mean(0).diag()
    torch.testing.assert_close(prior.mean[0], mean.mean(0), rtol=0, atol=0.03)
    torch.testing.assert_close(prior.factor[0] @ prior.factor[0].T, expected, rtol=0.03, atol=0.05)


def test_the_same_seed_gives_the_same_prior() -> None:
    one, two, other = (fit_prior(random_posteriors(), seed) for seed in (1, 1, 2))
    torch.manual_seed(5)
    names = ("weight", "mean", "factor")
    assert len(one.weight) == 20  # 1,200 samples, 20 a component and dimension
    assert all(torch.equal(getattr(one, name), getattr(two, name)) for name in names)
    assert not torch.equal(one.mean, other.mean)


def test_posteriors_that_tell_nothing_leave_the_unit_gaussian() -> None:
    empty = TrainingPosteriors.compress(Posterior(torch.zeros(10, 4), torch.zeros(10, 4)), max_bytes=1000)
    z = fit_prior(empty).draw(sample_seeds(0, 2000))
    assert z.shape == (2000, 4) and abs(z.mean()) < 0.05 and abs(z.std() - 1) < 0.03


def test_large_codes_keep_to_the_space() -> None:
    prior = fit_prior(random_posteriors(count=30, latent=120, active=100))
    assert sum(part.nbytes for name, part in vars(prior).items() if name != "latent") <= PRIOR_BYTES
    with pytest.raises(UserError, match="a learned prior of 600 dimensions does not fit into 1 MB"):
        fit_prior(random_posteriors(count=4, latent=600, active=600))


def test_the_shipped_model_s_prior(monkeypatch: pytest.MonkeyPatch) -> None:
    """Far closer to the training posteriors than N(0, I) is, after a few iterations already."""
    monkeypatch.setattr(latents, "ITERATIONS", 5)
    posteriors = load("shapes").weights.posteriors
    prior = fit_prior(posteriors)
    assert len(prior.weight) == latents.COMPONENTS
    assert sum(part.nbytes for name, part in vars(prior).items() if name != "latent") < 100_000
    z = posteriors.posterior(torch.arange(0, 20_000, 20)).sample(seeded(1000, 8))[:, prior.dimensions.long()].double()
    fitted = Mixture(prior.weight.double(), prior.mean.double(), prior.factor.double())
    count = z.shape[1]
    unit = Mixture(*(part.double() for part in (torch.ones(1), torch.zeros(1, count), torch.eye(count)[None])))
    assert log_likelihood(fitted, z) > log_likelihood(unit, z) + 3
