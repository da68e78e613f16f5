"""Muon against a singular value decomposition, Adam against PyTorch's."""

import copy

import pytest
import torch
from torch import nn

from visual_dynamics.training.muon import Muon, orthogonalise


@pytest.mark.parametrize("shape", [(8, 40), (40, 8), (16, 16)])
def test_orthogonal_matrices_turn_as_the_decomposition_says(shape: tuple[int, int]) -> None:
    matrix = torch.randn(3, *shape, generator=torch.Generator().manual_seed(0))
    u, s, vh = torch.linalg.svd(matrix, full_matrices=False)
    found = torch.linalg.svdvals(orthogonalise(matrix))
    assert found.shape == s.shape and found.min() > 0.6 and found.max() < 1.3
    # same singular vectors: U^T X V is diagonal, and positive
    inner = u.mT @ orthogonalise(matrix) @ vh.mT
    off = inner - torch.diag_embed(inner.diagonal(dim1=1, dim2=2))
    assert off.abs().max() < 1e-4 and inner.diagonal(dim1=1, dim2=2).min() > 0.6


def test_a_step_does_not_know_the_gradient_s_size() -> None:
    def moved(scale: float) -> torch.Tensor:
        torch.manual_seed(0)
        layer = nn.Conv2d(3, 8, 5)
        before = layer.weight.detach().clone()
        layer.weight.grad = scale * torch.randn(8, 3, 5, 5, generator=torch.Generator().manual_seed(1))
        Muon(layer, 1e-2, 0.0, adam_only=[]).step()
        return layer.weight.detach() - before

    torch.testing.assert_close(moved(1.0), moved(1e3), rtol=1e-3, atol=1e-6)
    assert 0.7e-2 < moved(1.0).square().mean().sqrt() < 1.3e-2  # the learning rate


def test_what_is_no_matrix_takes_adam_s_steps() -> None:
    torch.manual_seed(0)
    ours = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Conv2d(4, 3, 1))
    theirs = copy.deepcopy(ours)
    muon = Muon(ours, 1e-2, 0.01, adam_only=["2.weight"])
    adam = torch.optim.AdamW([p for n, p in theirs.named_parameters() if n != "0.weight"], 1e-2, weight_decay=0.01)
    for seed in range(5):
        generator = torch.Generator().manual_seed(seed)
        for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            mine.grad = torch.randn(mine.shape, generator=generator)
            other.grad = mine.grad.clone()
        muon.step()
        adam.step()
    for (name, mine), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        same = torch.allclose(mine, other, atol=1e-6)
        assert same == (name != "0.weight")
