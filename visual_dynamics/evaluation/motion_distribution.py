"""How far each flat object moved, and how well a distribution of such motions matches the true one.

The paper bins the mean motion of each shape over [-5, 5]^2 and compares the histograms by KL divergence. It measures
motion by optical flow, which is poor on flat colours; here each object is matched as a whole (`measure_displacement`).

Letters: B images, K objects, N = B K objects in a row, H x W the frame, S the side of a window around an object,
d = (dx, dy) a displacement in pixels, x to the right and y down.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from visual_dynamics.baselines import full_precision
from visual_dynamics.errors import UserError
from visual_dynamics.sampling.matching import best_mix

BINS = 41  # a side
RANGE = 5.0  # pixels: the histograms cover [-RANGE, RANGE]^2
OUTSIDE = BINS * BINS  # the number of the bin of all that is further out
EPSILON = 1e-6  # probability added to every bin of the predicted histogram before a KL divergence

SEARCH = 7  # pixels: displacements are looked for in [-SEARCH, SEARCH]^2
MIN_VISIBLE = 12.0  # pixels: an object with a smaller visible area is not measured
MIN_EDGE = 0.3  # least squared slope of the seen outline, summed across the worst direction; a pixel of edge has 0.2
MIN_CONTRAST = 0.1  # least distance between the colours of object and background, in [0, sqrt(3)]
RING = 3  # pixels of background around an object that are matched as well: they show where it ends
OFF_COLOUR = 0.3  # units of contrast: a colour at this distance from the line object-background belongs to neither
HIDDEN = 0.1  # cost of a pixel that the displacement puts under another object or outside the frame (a miss: 1)
NO_MASK = 0.05  # coverage below this is none

SHAPES = ("circles", "squares", "triangles")  # the order of the objects in tables of displacements (N, 3, 2)
TIED = "circles_triangles"  # the joint column: (circle dy, triangle dx)


def measure_displacement(frames: Tensor, masks: Tensor, next_frames: Tensor, *, chunk: int | None = None) -> Tensor:
    """How far each object moved from `frames` to `next_frames`: (B, K, 2), [dx, dy] in pixels, y down.

    `frames`, `next_frames`: float (B, 3, H, W) in [0, 1], objects of one flat colour each on a background of another.
    `masks`: float (B, K, H, W), the visible coverage of each object in `frames`. `chunk`: images at a time;
    it changes speed and memory, not the result.

    1. Each colour becomes the coverage by one object: its place on the line from background to object colour.
    2. Pixels off that line, in either frame, belong to other objects and are left out, as is what leaves the frame.
    3. Both coverages are blurred alike: otherwise bilinear sampling pulls edges towards whole pixels by up to 0.15 px.
    4. The displacement minimises the squared difference of the coverages, over the object's pixels and a ring of
       background: first among whole pixels, then among sixteenths (bilinear).

    NaN in three cases: less than MIN_VISIBLE pixels are seen; the object has the background's colour; or the seen
    part of its outline is one straight line, along which any displacement fits.
    """
    _check_pictures(frames, masks, next_frames)
    chunk = chunk or (32 if frames.device.type == "cpu" else 1024)  # fits a processor's cache; 0.6 GB elsewhere
    if not len(frames):
        return frames.new_zeros(0, masks.shape[1], 2)
    chunks = zip(frames.split(chunk), masks.split(chunk), next_frames.split(chunk), strict=True)
    with torch.no_grad(), full_precision(frames.device):  # sixteenths of a pixel depend on it
        return torch.cat([_measure_chunk(*part) for part in chunks])


def _check_pictures(frames: Tensor, masks: Tensor, next_frames: Tensor) -> None:
    if frames.ndim != 4 or frames.shape[1] != 3 or frames.shape != next_frames.shape:
        raise ValueError(f"frames are (B, 3, H, W) twice, not {tuple(frames.shape)} and {tuple(next_frames.shape)}")
    if masks.ndim != 4 or masks.shape[0] != frames.shape[0] or masks.shape[2:] != frames.shape[2:]:
        raise ValueError(f"masks are (B, K, H, W) like the frames {tuple(frames.shape)}, not {tuple(masks.shape)}")
    if not (frames.is_floating_point() and masks.is_floating_point() and next_frames.is_floating_point()):
        raise ValueError("frames and masks are floats in [0, 1]")


def _measure_chunk(frames: Tensor, masks: Tensor, next_frames: Tensor) -> Tensor:
    frames, masks, next_frames = frames.float(), masks.float(), next_frames.float()
    colours, background = _flat_colours(frames, masks)  # (B, K, 3), (B, 3)
    others = masks.sum(1, keepdim=True) - masks
    template, seen = _coverage(frames, colours, background, (1 - others).clamp(0, 1))  # (B, K, H, W) each
    target, free = _coverage(next_frames, colours, background, torch.ones_like(masks))

    body = torch.where(masks > NO_MASK, masks, 0.0).flatten(0, 1)  # (N, H, W)
    corner, side = _windows(body)  # (N, 2), S
    template, seen, body = (_crop(x, corner, side) for x in (template.flatten(0, 1), seen.flatten(0, 1), body))
    weight = seen * F.max_pool2d(body, 2 * RING + 1, 1, RING)  # (N, S, S): the body and its ring
    margin = SEARCH + 1
    around = side + 2 * margin
    target, free = (_crop(x.flatten(0, 1), corner - margin, around) for x in (target, free))

    whole = _best_whole_pixel(template, weight, target[:, 1:-1, 1:-1], free[:, 1:-1, 1:-1])  # (N, 2) int
    fraction, edge = _best_fraction(template, weight, *(_crop(x, whole + SEARCH, side + 2) for x in (target, free)))
    moved = (whole + fraction).view(*masks.shape[:2], 2)

    contrast = (colours - background[:, None]).norm(dim=2)
    measurable = (masks.sum((2, 3)) >= MIN_VISIBLE) & (contrast >= MIN_CONTRAST) & (edge.view_as(contrast) >= MIN_EDGE)
    return torch.where(measurable[:, :, None], moved, torch.nan).flip(2)  # (dy, dx) -> [dx, dy]


def _flat_colours(frames: Tensor, masks: Tensor) -> tuple[Tensor, Tensor]:
    """The colours that, mixed by the masks, come closest to the frames: objects (B, K, 3), background (B, 3)."""
    share = torch.cat([masks, 1 - masks.sum(1, keepdim=True)], 1).flatten(2)  # (B, K+1, HW)
    normal = share @ share.mT + 1e-4 * torch.eye(share.shape[1], device=share.device)  # solvable with empty masks too
    colours = torch.linalg.solve(normal, share @ frames.flatten(2).mT)  # (B, K+1, 3)
    return colours[:, :-1], colours[:, -1]


def _coverage(frames: Tensor, colours: Tensor, background: Tensor, visible: Tensor) -> tuple[Tensor, Tensor]:
    """Coverage of each pixel by each object, blurred, and how far to trust it, both (B, K, H, W) in [0, 1]."""
    axis = colours - background[:, None]  # (B, K, 3), from the background to the object
    length2 = axis.square().sum(2, keepdim=True).clamp_min(1e-8)  # (B, K, 1)
    offset = (frames - background[:, :, None, None]).flatten(2)  # (B, 3, HW)
    place = axis @ offset / length2  # (B, K, HW): 0 background, 1 object
    cover = place.clamp(0, 1)
    off2 = offset.square().sum(1, keepdim=True) / length2 + cover * (cover - 2 * place)  # squared distance to the line
    trust = (1 - off2 / OFF_COLOUR**2).clamp(0, 1).view_as(visible) * visible
    cover = cover.view_as(visible)
    near = _blur(trust)  # pixels without trust, and those outside the frame, do not enter the blur
    return _blur(trust * cover) / near.clamp_min(1e-6), trust * near.square()


def _blur(maps: Tensor) -> Tensor:
    """(..., H, W) filtered by 1 4 6 4 1 along both axes, zero outside; as products with band matrices, for speed."""
    for _ in range(2):
        size = maps.shape[-1]
        taps = torch.tensor([1.0, 4.0, 6.0, 4.0, 1.0], device=maps.device) / 16
        band = sum((torch.diag(tap.expand(size - abs(k)), k) for k, tap in zip(range(-2, 3), taps, strict=True)))
        maps = (maps @ band).mT
    return maps


def _windows(body: Tensor) -> tuple[Tensor, int]:
    """Top left corners (N, 2) [y, x] of windows around the bodies (N, H, W) and their rings, and their common side."""
    corners, sides = [], []
    for axis in (2, 1):
        there = body.amax(axis) > 0  # (N, H), then (N, W)
        index = torch.arange(there.shape[1], device=body.device)
        first = torch.where(there, index, there.shape[1]).amin(1)
        last = torch.where(there, index, -1).amax(1)
        corners.append(torch.where(last >= 0, first, 0) - RING)
        sides.append((last - first).clamp_min(0).amax())
    return torch.stack(corners, 1), int(torch.stack(sides).max()) + 1 + 2 * RING


def _crop(maps: Tensor, corner: Tensor, side: int) -> Tensor:
    """Windows (N, side, side) of the maps (N, H, W) with top left corners `corner` (N, 2) [y, x]; zero outside."""
    count, height, width = maps.shape
    step = torch.arange(side, device=maps.device)
    rows, columns = corner[:, :1] + step, corner[:, 1:] + step  # (N, side) each
    index = rows.clamp(0, height - 1)[:, :, None] * width + columns.clamp(0, width - 1)[:, None, :]
    inside = ((rows >= 0) & (rows < height))[:, :, None] & ((columns >= 0) & (columns < width))[:, None, :]
    return maps.flatten(1).gather(1, index.flatten(1)).view(count, side, side) * inside


def _best_whole_pixel(template: Tensor, weight: Tensor, target: Tensor, free: Tensor) -> Tensor:
    """Displacement (N, 2) [dy, dx] in whole pixels. Template, weight (N, S, S); target, free (N, S + 2 SEARCH, ...).

    cost(d) = sum_p weight(p) [ free(p+d) (template(p) - target(p+d))^2 + (1 - free(p+d)) HIDDEN ], whose terms are
    three correlations, computed together by Fourier transforms.
    """
    size = -(-target.shape[1] // 6) * 6  # fast to transform; nothing wraps around, as it is not below the target's
    fixed = torch.stack([weight * (template.square() - HIDDEN), -2 * weight * template, weight], 1)  # (N, 3, S, S)
    moving = torch.stack([free, free * target, free * target.square()], 1)
    spectrum = torch.fft.rfft2(moving, s=(size, size)) * torch.fft.rfft2(fixed, s=(size, size)).conj()
    cost = torch.fft.irfft2(spectrum.sum(1), s=(size, size))  # (N, size, size)
    reach = 2 * SEARCH + 1
    best = cost[:, :reach, :reach].flatten(1).argmin(1)
    return torch.stack([best // reach, best % reach], 1) - SEARCH


def _best_fraction(template: Tensor, weight: Tensor, target: Tensor, free: Tensor) -> tuple[Tensor, Tensor]:
    """Rest of the displacement (N, 2) [dy, dx] in (-1, 1), and the edge that fixes it (N,). Target: (N, S + 2, S + 2).

    A bilinear sample is a mix of the nine whole-pixel shifts around it. The squared difference is then a quadratic form
    in the mixing weights: each step costs a few products, not another pass over the pixels.
    """
    count, side, _ = template.shape
    shifts = target.unfold(1, side, 1).unfold(2, side, 1).reshape(count, 9, -1)  # (N, 9, SS)
    misses = shifts - template.flatten(1)[:, None]  # the mixing weights sum to one, so misses mix like the shifts
    weight = weight * -F.max_pool2d(-free, 3, 1)  # (N, S, S): free in all nine
    gram = (misses * weight.flatten(1)[:, None]) @ misses.mT  # (N, 9, 9)

    fraction = best_mix(gram)  # (N, 2)

    down = (template[:, 2:, 1:-1] - template[:, :-2, 1:-1]) / 2  # (N, S - 2, S - 2)
    right = (template[:, 1:-1, 2:] - template[:, 1:-1, :-2]) / 2
    inner = weight[:, 1:-1, 1:-1]
    yy, xx, xy = ((inner * a * b).sum((1, 2)) for a, b in ((down, down), (right, right), (down, right)))
    edge = (yy + xx) / 2 - ((yy - xx).square() / 4 + xy.square()).sqrt()  # the smaller eigenvalue of the two
    return fraction, edge


def bins(displacements: Tensor, reach: float = RANGE) -> Tensor:
    """The bin of [-reach, reach]^2 in which each of the displacements (N, 2) lies: int64 (N,), x the slower axis.

    Samples up to half a bin outside go to the outermost bins: a true motion of RANGE may be measured there. Those
    further out are in bin OUTSIDE; rows with NaN in none: -1.
    """
    if displacements.ndim != 2 or displacements.shape[1] != 2:
        raise ValueError(f"displacements are (N, 2), not {tuple(displacements.shape)}")
    places = displacements.detach().cpu().double()
    borders = torch.linspace(-reach, reach, BINS + 1, dtype=torch.float64)
    column = (torch.bucketize(places.contiguous(), borders, right=True) - 1).clamp(0, BINS - 1)  # (N, 2)
    inside = (places.abs() <= reach * (1 + 1 / BINS)).all(1)
    found = torch.where(inside, column[:, 0] * BINS + column[:, 1], OUTSIDE)
    return torch.where(places.isfinite().all(1), found, -1)


def histogram(displacements: Tensor) -> Tensor:
    """Share of the displacements (N, 2) in each bin: float64 (BINS, BINS), first axis x.

    Rows with NaN do not count. Samples outside are in no bin but do count: the sum is then below one by their share.
    """
    found = bins(displacements)
    found = found[found >= 0]
    if not len(found):
        raise UserError("no displacement could be measured, so there is no distribution to compare")
    counts = torch.bincount(found, minlength=OUTSIDE + 1)[:OUTSIDE]
    return counts.view(BINS, BINS).double() / len(found)


def joint_histogram(displacements: Tensor) -> Tensor:
    """The histogram of (circle dy, triangle dx), which are tied in the true world; displacements (N, 3, 2)."""
    return histogram(columns(displacements)[TIED])


def columns(displacements: Tensor) -> dict[str, Tensor]:
    """What the four columns of the paper's table are about, (N, 2) each, from displacements (N, 3, 2)."""
    found = {name: displacements[:, index] for index, name in enumerate(SHAPES)}
    return found | {TIED: torch.stack([displacements[:, 0, 1], displacements[:, 2, 0]], 1)}


def kl_divergence(truth: Tensor, predicted: Tensor, epsilon: float = EPSILON) -> float:
    """KL(truth || predicted) in nats between two histograms (BINS, BINS), as `histogram` makes them.

    The rest of each histogram to a sum of one is a further bin, "outside". Each predicted bin gets `epsilon` added, and
    the sum is scaled to one: an empty bin costs at most about log(1 / epsilon).
    """
    p, q = (torch.cat([h.flatten(), (1 - h.sum()).clamp_min(0)[None]]).double() for h in (truth, predicted))
    return float(divergence(p, q, epsilon))


def divergence(p: Tensor, q: Tensor, epsilon: float = EPSILON) -> Tensor:
    """`kl_divergence` of shares (..., bins) that sum to one, "outside" included: (...)."""
    q = (q + epsilon) / (q + epsilon).sum(-1, keepdim=True)
    return (torch.special.xlogy(p, p) - torch.special.xlogy(p, q)).sum(-1)


def motion_table(truth: Tensor, predicted: Tensor) -> dict[str, float]:
    """KL divergences of the four columns of the paper's table, from displacements (N, 3, 2) and (M, 3, 2).

    They depend on the sample counts: print these, and the same table of the truth against itself with these counts.
    """
    pairs = zip(columns(truth).items(), columns(predicted).values(), strict=True)
    return {name: kl_divergence(histogram(true), histogram(other)) for (name, true), other in pairs}


def measured_shares(displacements: Tensor) -> dict[str, float]:
    """Share of each kind's displacements (N, 3, 2) that could be measured; the histograms hold only these."""
    finite = displacements.isfinite().all(2).double().mean(0)
    return {name: float(share) for name, share in zip(SHAPES, finite, strict=True)}


def motion_correlations(displacements: Tensor) -> dict[str, float]:
    """Pearson correlations of circle dy with triangle dx (1 in the true world) and with square dx (0), from (N, 3, 2).

    Over rows where both were measured; NaN without two such rows or without any spread.
    """
    circle, square, triangle = displacements[:, 0, 1], displacements[:, 1, 0], displacements[:, 2, 0]
    return {"circle_triangle": _correlation(circle, triangle), "circle_square": _correlation(circle, square)}


def _correlation(a: Tensor, b: Tensor) -> float:
    rows = torch.stack([a, b]).detach().cpu().double()  # (2, N)
    rows = rows[:, rows.isfinite().all(0)]
    if rows.shape[1] < 2 or (rows.amax(1) == rows.amin(1)).any():
        return float("nan")
    return float(torch.corrcoef(rows)[0, 1])
