"""Batch normalisation over two processes equals batch normalisation over the whole batch; values and gradients."""

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

from tests.conftest import seeded
from visual_dynamics.data.pairs import Pairs
from visual_dynamics.training.config import TrainingConfig
from visual_dynamics.training.distributed import Processes, SharedBatchNorm, share_batch_norm
from visual_dynamics.training.trainer import Trainer


def layer(kind: type[nn.BatchNorm2d]) -> nn.BatchNorm2d:
    made = kind(3).double()
    with torch.no_grad():
        made.weight.copy_(seeded(3, seed=1))
        made.bias.copy_(seeded(3, seed=2))
    return made


def run(norm: nn.BatchNorm2d, x: torch.Tensor, target: torch.Tensor) -> dict[str, torch.Tensor]:
    x = x.clone().requires_grad_()
    out = norm(x)
    (out * target).sum().backward()
    assert norm.running_mean is not None and norm.running_var is not None and x.grad is not None
    return {"out": out.detach(), "gradient": x.grad, "mean": norm.running_mean, "variance": norm.running_var}


def one_of_two(rank: int, address: str, folder: str) -> None:
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=2)
    x, target = seeded(6, 3, 4, 5, dtype=torch.float64), seeded(6, 3, 4, 5, seed=3, dtype=torch.float64)
    mine = slice(3 * rank, 3 * rank + 3)
    torch.save(run(layer(SharedBatchNorm), x[mine], target[mine]), f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def test_two_processes_normalise_as_one(tmp_path) -> None:
    mp.spawn(one_of_two, args=(f"file://{tmp_path}/meeting", str(tmp_path)), nprocs=2)
    halves = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    x, target = seeded(6, 3, 4, 5, dtype=torch.float64), seeded(6, 3, 4, 5, seed=3, dtype=torch.float64)
    whole = run(layer(nn.BatchNorm2d), x, target)
    for name in ("out", "gradient"):
        torch.testing.assert_close(torch.cat([half[name] for half in halves]), whole[name])
    for name in ("mean", "variance"):
        for half in halves:
            torch.testing.assert_close(half[name], whole[name])


def noise_pairs() -> Pairs:
    generator = torch.Generator().manual_seed(0)
    return Pairs.of(*torch.randint(0, 256, (2, 32, 3, 16, 16), generator=generator, dtype=torch.uint8))


def five_steps(rank: int, count: int) -> dict[str, torch.Tensor]:
    """The gradients of the first step and the loss that is logged of it; the weights after five."""
    config = TrainingConfig(preset="tiny", latent=None, augment=(), batch=16, steps=5, kl_warmup=2)
    trainer = Trainer(config, noise_pairs(), torch.device("cpu"), Processes(rank, count), compiled=False)
    found: dict[str, torch.Tensor] = {}
    for step in range(5):
        terms = trainer.step(step, step / 5)
        if step == 0:
            found |= {f"logged {name}": torch.tensor(trainer.processes.mean(value)) for name, value in terms.items()}
            for name, value in trainer.network.named_parameters():
                assert value.grad is not None
                found[f"gradient {name}"] = value.grad.clone()
            found |= {f"statistic {name}": value.clone() for name, value in trainer.network.named_buffers()}
    return found | {f"weight {name}": value.detach() for name, value in trainer.network.named_parameters()}


def train_one_of_two(rank: int, address: str, folder: str) -> None:
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=2)
    torch.save(five_steps(rank, 2), f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def test_two_processes_train_as_one(tmp_path) -> None:
    """Gradients of one step: a few steps later, a ReLU that rounding turned on or off may have led elsewhere."""
    mp.spawn(train_one_of_two, args=(f"file://{tmp_path}/meeting", str(tmp_path)), nprocs=2)
    one, other = (torch.load(tmp_path / f"{rank}.pt") for rank in range(2))
    whole = five_steps(0, 1)
    assert one.keys() == other.keys() == whole.keys()
    for name, value in whole.items():
        torch.testing.assert_close(one[name], other[name], rtol=0, atol=0)
        if not name.startswith("weight"):
            apart, size = (each.double().norm() for each in (one[name] - value, value))
            assert apart <= 1e-3 * size + 1e-7, name


def test_sharing_keeps_parameters_and_evaluation() -> None:
    network = nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3)).eval()
    x = seeded(2, 3, 4, 4)
    before = network(x)
    share_batch_norm(network)
    assert isinstance(network[1], SharedBatchNorm)
    torch.testing.assert_close(network(x), before)
