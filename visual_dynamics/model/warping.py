"""The other output of the motion decoder (`warp`, not in the paper): it moves the picture's own pixels.

    J = m warp(I, u) + (1 - m) (I + v)

A difference image that minimises a squared error is blurred wherever the motion is not certain to the pixel. Pixels
that are moved stay sharp. What a flow u cannot bring, the mask m leaves to the residual v.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from visual_dynamics.model.image_encoder import resize

LAYERS = (2, 1, 3)  # flow (dx, dy) in pixels of the frame, mask before its sigmoid, residual


def warped_difference(layers: Tensor, picture: Tensor) -> Tensor:
    """J - I from layers (B, 6, S, S) and the picture I (B or 1, 3, k S, k S), which is moved first, then averaged."""
    size, times = layers.shape[-1], picture.shape[-1] // layers.shape[-1]
    flow, mask, residual = layers.split(LAYERS, dim=1)
    moved = warp(picture, times * resize(flow, times * size))  # (B, 3, k S, k S)
    mask = mask.sigmoid()
    return mask * resize(moved - picture, size) + (1 - mask) * residual


def warp(picture: Tensor, flow: Tensor) -> Tensor:
    """Pixel (y, x) shows the picture at (y + dy, x + dx), bilinear; its edge goes on beyond it.

    picture (B or 1, C, H, W), flow (B, 2, H, W) -> (B, C, H, W)
    """
    batch, _, height, width = flow.shape
    x = torch.arange(width, device=flow.device) + flow[:, 0]  # (B, H, W)
    y = torch.arange(height, device=flow.device)[:, None] + flow[:, 1]
    places = torch.stack([(2 * x + 1) / width - 1, (2 * y + 1) / height - 1], dim=3)  # the picture is [-1, 1]
    picture = picture.expand(batch, -1, -1, -1).to(flow)
    return F.grid_sample(picture, places, padding_mode="border", align_corners=False)
