"""The objective against torch.distributions."""

import torch
import torch.nn.functional as F
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


def pyramid(picture: torch.Tensor) -> list[torch.Tensor]:
    """The plain reading: what each size has beyond the next smaller one, and at last the smallest."""
    levels = []
    for _ in range(3):
        smaller = F.avg_pool2d(picture, 2)
        levels.append(picture - F.interpolate(smaller, scale_factor=2, mode="bilinear", align_corners=False))
        picture = smaller
    return [*levels, picture]


def test_pyramid_error_is_the_distance_of_two_pyramids() -> None:
    predicted, target = seeded(2, 3, 16, 16, dtype=torch.float64), seeded(2, 3, 16, 16, seed=1, dtype=torch.float64)
    both = zip(pyramid(predicted), pyramid(target), strict=True)
    expected = sum(4**level * (a - b).abs().sum((1, 2, 3)) for level, (a, b) in enumerate(both))
    torch.testing.assert_close(objective.pyramid_error(predicted, target), expected)
    flat = torch.full((1, 3, 16, 16), 0.1)
    torch.testing.assert_close(objective.pyramid_error(flat, torch.zeros_like(flat)), torch.tensor([0.1 * 3 * 256]))
    assert objective.pyramid_error(torch.rand(2, 3, 9, 15), torch.zeros(2, 3, 9, 15)).isfinite().all()


def test_pyramid_error_does_not_prefer_a_blurred_edge() -> None:
    near, far = torch.zeros(2, 1, 3, 16, 16)
    near[..., 6:], far[..., 10:] = 1, 1
    for error, preferred in ((objective.squared_error, True), (objective.pyramid_error, False)):
        blurred, sharp = (float(error(guess, near) + error(guess, far)) for guess in ((near + far) / 2, near))
        assert (blurred < 0.9 * sharp) == preferred


def test_a_weight_adds_the_pyramid_error_to_the_loss() -> None:
    terms = objective.Bound(torch.tensor([1.0]), torch.tensor([2.0]))
    assert objective.loss(terms, sigma=0.5, pyramid_weight=3.0) == objective.loss(terms, sigma=0.5) == 5
    assert objective.loss(terms._replace(pyramid_error=torch.tensor([4.0])), sigma=0.5, pyramid_weight=3.0) == 17
