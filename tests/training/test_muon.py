"""Muon against a singular value decomposition, Adam against PyTorch's."""

import copy
from pathlib import Path

import pytest
import torch
from torch import nn

from visual_dynamics.training.muon import Muon, copy_all, orthogonalise, stacks_like
from visual_dynamics.training.trainer import load_state, state_bytes


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


def small_network() -> nn.Sequential:
    """Wide, tall and square matrices, of equal and of different rows; channels last."""
    torch.manual_seed(0)
    convolutions = [nn.Conv2d(3, 8, 5), nn.BatchNorm2d(8), nn.Conv2d(8, 8, 3), nn.Conv2d(8, 4, 3), nn.Conv2d(4, 4, 1)]
    linear = [nn.Linear(4, 40), nn.Linear(40, 8), nn.Linear(40, 16), nn.Linear(16, 3)]
    return nn.Sequential(*convolutions, *linear).to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def move(network: nn.Module, optimizer: Muon, steps: range, frozen: str = "") -> None:
    """Steps with gradients and a learning rate that depend on the number of the step alone."""
    for step in steps:
        generator = torch.Generator().manual_seed(step)
        for name, value in network.named_parameters():
            gradient = torch.empty_like(value).copy_(torch.randn(value.shape, generator=generator))
            value.grad = None if name == frozen else gradient
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * (1 + step)
        optimizer.step()


def same(one: nn.Module, other: nn.Module) -> bool:
    return all(torch.equal(*pair) for pair in zip(one.parameters(), other.parameters(), strict=True))


def test_the_form_for_a_cuda_graph_moves_alike() -> None:
    """Stacked gradients and numbers in tensors give what plain ones give, to rounding."""
    plain, static = small_network(), small_network()
    move(plain, Muon(plain, 1e-3, 0.01, ["8.weight"], static=False), range(5))
    optimizer = Muon(static, 1e-3, 0.01, ["8.weight"], static=True)
    move(static, optimizer, range(3))
    places = [value.data_ptr() for part in optimizer._parts for value in (*part.gradients, *part.numbers.values())]
    move(static, optimizer, range(3, 5))
    assert places == [
        value.data_ptr() for part in optimizer._parts for value in (*part.gradients, *part.numbers.values())
    ]
    for mine, other in zip(plain.parameters(), static.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("static", [False, True])
def test_a_saved_state_continues_bit_for_bit(static: bool, tmp_path: Path) -> None:
    whole, first, second = small_network(), small_network(), small_network()
    made = [Muon(network, 1e-3, 0.01, ["8.weight"], static=static) for network in (whole, first, second)]
    move(whole, made[0], range(7))
    move(first, made[1], range(3))
    (tmp_path / "state").write_bytes(state_bytes(first, made[1], 3, 1.0))
    move(second, made[2], range(1))  # what it has done before is forgotten
    assert load_state(tmp_path / "state", second, made[2]) == (3, 1.0)
    move(second, made[2], range(3, 7))
    assert same(whole, second)
    kept = [value for value in made[2].state.values() if "step" in value]
    assert [float(state["step"]) for state in kept] == [7.0] * len(kept)
    assert {name for state in made[2].state.values() for name in state} == {"momentum", "step", "mean", "square"}


@pytest.mark.parametrize("static", [False, True])
def test_a_parameter_without_a_gradient_stays_and_counts_its_own_steps(static: bool) -> None:
    network, free = small_network(), small_network()
    optimizer = Muon(network, 1e-3, 0.01, ["8.weight"], static=static)
    before = copy.deepcopy(network)
    move(network, optimizer, range(2), frozen="8.bias")
    assert torch.equal(network[8].bias, before[8].bias) and not torch.equal(network[7].bias, before[7].bias)
    move(network, optimizer, range(2, 4))
    assert [int(optimizer.state[network[index].bias]["step"]) for index in (7, 8)] == [4, 2]
    move(free, Muon(free, 1e-3, 0.01, ["8.weight"], static=static), range(4))
    others = [name for name, _ in network.named_parameters() if name != "8.bias"]
    assert all(torch.equal(network.get_parameter(name), free.get_parameter(name)) for name in others)


def test_stacks_hold_matrices_of_as_many_columns_as_they_lie_in_memory() -> None:
    values = [value for value in small_network().parameters() if value.ndim > 1]
    stacks, places = stacks_like(values)
    assert [tuple(stack.shape) for stack in stacks] == [
        (1, 8, 75),
        (2, 8, 72),
        (1, 4, 4),
        (1, 40, 4),  # tall
        (2, 16, 40),
        (1, 3, 16),
    ]
    assert all(place.stride() == value.stride() for place, value in zip(places, values, strict=True))
    copy_all(places, values)
    assert all(torch.equal(*pair) for pair in zip(places, values, strict=True))
    assert torch.equal(stacks[1][1, :4], values[2].permute(0, 2, 3, 1).flatten(1)) and not stacks[1][1, 4:].any()


def test_copies_between_layouts() -> None:
    sources = [torch.randn(2, 3, 4, 4), torch.randn(5), torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)]
    targets = [torch.zeros(2, 3, 4, 4), torch.zeros(5), torch.zeros(2, 3, 4, 4)]
    copy_all(targets, sources)
    assert all(torch.equal(*pair) for pair in zip(targets, sources, strict=True))
