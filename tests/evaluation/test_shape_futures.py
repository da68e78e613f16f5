"""Motions of true and of sampled futures."""

import torch

from visual_dynamics.baselines import Copy
from visual_dynamics.data import shapes
from visual_dynamics.evaluation.motion_distribution import motion_correlations, motion_table
from visual_dynamics.evaluation.shape_futures import ShapeImages, generated_images, sampled_motions, true_motions


def test_truth_measured_twice_is_close() -> None:
    """The floor of the table is small where there are samples enough."""
    scenes = shapes.draw_scenes(40, 1, "test")
    images = ShapeImages(shapes.images(scenes).float() / 255, shapes.visible_masks(scenes))
    one, two = (true_motions(scenes, "integer", images, 12, seed, lambda share: None) for seed in (1, 2))
    assert motion_table(one, two)["squares"] < 0.6
    assert motion_correlations(one)["circle_triangle"] > 0.97


def test_copies_do_not_move() -> None:
    shares: list[float] = []
    _, images = generated_images(5, "smooth", 1, torch.device("cpu"))
    moved = sampled_motions(Copy(), images, 600, 0, shares.append)  # one image a group
    assert moved.shape == (3000, 3, 2) and moved.nan_to_num(0).abs().max() == 0
    assert shares == [0.2, 0.4, 0.6, 0.8, 1.0]
