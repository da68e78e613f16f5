"""What the network makes of pairs it was not trained on: one number and one picture, while it trains."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from visual_dynamics.data.pairs import Pair, Pairs
from visual_dynamics.model.network import VisualDynamics
from visual_dynamics.objective import squared_error


class HeldOut(NamedTuple):
    reconstruction: float  # squared error from the mean of q(z | v, I), summed over pixels, mean over pairs
    copying: float  # the same for the frame itself
    picture: Tensor  # (R, 3 + R, 3, H, W): frame, next frame, reconstruction, then the motion of each row on it


@torch.no_grad()
def look_at(network: VisualDynamics, pairs: Pairs, device: torch.device, rows: int = 5) -> HeldOut:
    """Reconstruct held-out pairs, and carry motions between the first few of them; in evaluation mode."""
    network.eval()
    errors, copies = [], []
    for indices in torch.arange(len(pairs)).split(64):
        pair = Pair(*(x.to(device) for x in pairs.batch(indices)))
        predicted = network(pair.frame, pair.difference, None).difference
        errors.append(squared_error(predicted, pair.difference))
        copies.append(squared_error(torch.zeros_like(predicted), pair.difference))
    pair = Pair(*(x.to(device) for x in pairs.batch(torch.arange(min(rows, len(pairs))))))
    prediction = network(pair.frame, pair.difference, None)
    columns = [pair.frame, pair.next_frame, pair.frame + prediction.difference]
    for motion in prediction.posterior.mean:
        kernels = network.kernel_decoder(motion.expand(len(pair.frame), -1))
        columns.append(pair.frame + network.decode(prediction.features, kernels))
    network.train()
    return HeldOut(float(torch.cat(errors).mean()), float(torch.cat(copies).mean()), torch.stack(columns, dim=1))
