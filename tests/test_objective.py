"""The objective against torch.distributions."""

import torch
from torch.distributions import Independent, Normal, kl_divergence

from tests.conftest import seeded
from visual_dynamics import objective
from visual_dynamics.model.motion_encoder import Posterior


def test_kl_equals_torch_distributions() -> None:
    mean, log_variance = seeded(5, 7, dtype=torch.float64), seeded(5, 7, seed=1, dtype=torch.float64)
    q = Independent(Normal(mean, (0.5 * log_variance).exp()), 1)
    p = Independent(Normal(torch.zeros_like(mean), torch.ones_like(mean)), 1)
    torch.testing.assert_close(objective.kl_to_unit_gaussian(Posterior(mean, log_variance)), kl_divergence(q, p))


def test_kl_is_zero_at_the_prior_only() -> None:
    zero = torch.zeros(1, 4)
    assert objective.kl_to_unit_gaussian(Posterior(zero, zero)) == 0
    assert objective.kl_to_unit_gaussian(Posterior(zero + 0.1, zero)) > 0
    assert objective.kl_to_unit_gaussian(Posterior(zero, zero - 0.1)) > 0


def test_reconstruction_term_is_the_log_likelihood_up_to_a_constant() -> None:
    predicted, target, sigma = seeded(3, 3, 4, 4), seeded(3, 3, 4, 4, seed=1), 0.3
    term = objective.reconstruction_weight(sigma) * objective.squared_error(predicted, target)
    log_likelihood = Normal(predicted, sigma).log_prob(target).flatten(1).sum(1)
    best = Normal(target, sigma).log_prob(target).flatten(1).sum(1)
    torch.testing.assert_close(term, best - log_likelihood, rtol=1e-4, atol=1e-3)


def test_terms_are_sums_per_example() -> None:
    posterior = Posterior(torch.ones(2, 10), torch.zeros(2, 10))
    terms = objective.bound(posterior, torch.zeros(2, 3, 2, 2), torch.full((2, 3, 2, 2), 0.5))
    torch.testing.assert_close(terms.kl, torch.full((2,), 5.0))
    torch.testing.assert_close(terms.squared_error, torch.full((2,), 3.0))
    torch.testing.assert_close(objective.loss(terms, sigma=0.5), torch.full((2,), 5.0 + 2 * 3.0))
    torch.testing.assert_close(objective.loss(terms, sigma=0.5, kl_weight=0.0), torch.full((2,), 6.0))
