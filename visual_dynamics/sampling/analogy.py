"""Visual analogy: the motion between two frames, carried over to another image (the paper's zero-shot analogies)."""

from torch import Tensor

from visual_dynamics.sampling.predictor import Predictor


def apply_motion(predictor: Predictor, frame: Tensor, motion: Tensor) -> Tensor:
    """Move a frame (3, S, S) by a motion code (latent,): the next frame, (3, S, S)."""
    return predictor.decode(predictor.encode_image(frame), motion[None])[0]


def reconstruct(predictor: Predictor, frame: Tensor, next_frame: Tensor) -> Tensor:
    """Encode a pair and decode it on its own frame: what survives of the true motion, (3, S, S)."""
    return apply_motion(predictor, frame, predictor.encode(frame, next_frame).mean)


def analogy(predictor: Predictor, before: Tensor, after: Tensor, frame: Tensor) -> Tensor:
    """`before` is to `after` as `frame` is to the result; all (3, S, S). The mean of q(z | v, I) is the motion."""
    return apply_motion(predictor, frame, predictor.encode(before, after).mean)
