// How far a part of a picture goes in its futures: sampling/poke.py (motion_at) and sampling/matching.py, in a worker.
// Frames are 3 * S * S numbers, masks S * S; n futures, D = 2 reach + 1 displacements along an axis.

const FLAT = Math.fround(0.04), STAGES = [0.04, 0.1, 0.2, 0.4, Infinity];
const FAR = 0.3, OTHER = 0.2, HIDDEN = 0.4, RING = 3, UNSURE = 2, STEPS = 16, ANYWHERE = 3;
const PATCH = 5, LEAST = 24, MIXES = 17, APART = 2;
const COLOURS = [0, 1, 2];

/** What is matched at a place [x, y]: {mask, colours}. */
export function partAt(frame, size, place) {
  const [x, y] = place.map((value) => Math.min(Math.max(evenRound(value), 0), size - 1));
  const labels = flatRegions(frame, size), label = labels[y * size + x];
  const here = labels.map((each) => each === label), ground = labels.map((each) => each === 0);
  const [own, around] = [here, ground].map((mask) => medians(frame, mask));
  const colours = Array.from({ length: MIXES }, (_, k) => own.map((value, c) => value + (k / (MIXES - 1)) * (around[c] - value)));
  const covered = otherColours(colours, frame);
  const others = covered.map((other, pixel) => other || !(here[pixel] || ground[pixel]));
  const [aside, beside] = [grown(others, size, APART), grown(here, size, RING)];
  const ring = beside.map((close, pixel) => close && ground[pixel] && !aside[pixel]);
  if (label !== 0 && sum(here) >= LEAST && sum(ring)) {
    return { mask: ring.map((each, pixel) => each || (here[pixel] && !aside[pixel])), colours };
  }
  const mask = labels.map((_, pixel) => Math.abs((pixel % size) - x) <= PATCH && Math.abs(Math.floor(pixel / size) - y) <= PATCH);
  return { mask, colours: pixelsOf(mask).map((pixel) => COLOURS.map((c) => frame[c * size * size + pixel])) };
}

const sum = (mask) => mask.reduce((so, each) => so + each, 0);
const pixelsOf = (mask) => Array.from(mask.keys()).filter((pixel) => mask[pixel]);

/** As Python rounds: halves to even numbers. */
function evenRound(value) {
  const near = Math.round(value);
  return near - value === 0.5 && near % 2 ? near - 1 : near;
}

/** The lower median of each colour. */
function medians(frame, mask) {
  const pixels = pixelsOf(mask);
  return COLOURS.map((c) => Float32Array.from(pixels, (pixel) => frame[c * mask.length + pixel]).sort()[(pixels.length - 1) >> 1]);
}

/** The mask and what lies within some pixels of it. */
function grown(mask, size, pixels) {
  const along = (from, step, across) => from.map((_, place) => {
    const at = Math.floor(place / step) % size;
    for (let k = Math.max(-pixels, -at); k <= Math.min(pixels, size - 1 - at); k++) if (from[place + k * step]) return 1;
    return 0;
  });
  return along(along(mask, 1), size);
}

/** Pixels that are far from all of the colours. */
function otherColours(colours, frame) {
  const pixels = frame.length / 3;
  return Uint8Array.from({ length: pixels }, (_, pixel) => colours.every((colour) =>
    COLOURS.reduce((so, c) => so + (frame[c * pixels + pixel] - colour[c]) ** 2, 0) > OTHER ** 2));
}

// --- regions of near-constant colour

/** Numbers of connected flat regions; 0 is the largest. */
function flatRegions(frame, size) {
  const root = new Int32Array(size * size).map((_, pixel) => pixel), inside = new Uint8Array(size * size);
  const top = (pixel) => {
    while (root[pixel] !== pixel) pixel = root[pixel] = root[root[pixel]];
    return pixel;
  };
  for (let y = 0; y + 1 < size; y++) {
    for (let x = 0; x + 1 < size; x++) {
      const corners = [0, 1, size, size + 1].map((step) => y * size + x + step);
      if (!COLOURS.every((c) => spread(corners.map((pixel) => frame[c * size * size + pixel])) <= FLAT)) continue;
      for (const corner of corners) {
        inside[corner] = 1;
        const [one, other] = [top(corners[0]), top(corner)];
        root[Math.max(one, other)] = Math.min(one, other);
      }
    }
  }
  const sizes = new Map(); // by the least pixel of a region, in order
  for (const pixel of pixelsOf(inside)) sizes.set(top(pixel), (sizes.get(top(pixel)) ?? 0) + 1);
  if (!sizes.size) return new Int32Array(size * size);
  const ranks = new Map([...sizes].sort(([, one], [, other]) => other - one).map(([first], rank) => [first, rank]));
  return shared(frame, size, Int32Array.from(root, (_, pixel) => (inside[pixel] ? ranks.get(top(pixel)) : -1)), ranks.size);
}

const spread = (values) => Math.fround(Math.max(...values) - Math.min(...values));

/** Every -1 becomes the label of a neighbour, the one with the nearest mean colour; small differences go first. */
function shared(frame, size, labels, count) {
  const pixels = size * size, means = new Float64Array(3 * count), counts = new Int32Array(count);
  labels.forEach((label, pixel) => {
    if (label < 0) return;
    counts[label]++;
    for (const c of COLOURS) means[3 * label + c] += frame[c * pixels + pixel];
  });
  means.forEach((total, place) => (means[place] = total / counts[Math.floor(place / 3)]));
  const away = (label, pixel) => Math.max(...COLOURS.map((c) => Math.abs(means[3 * label + c] - frame[c * pixels + pixel])));
  const beside = (pixel) => [pixel >= size ? pixel - size : -1, pixel + size < pixels ? pixel + size : -1,
    pixel % size ? pixel - 1 : -1, (pixel + 1) % size ? pixel + 1 : -1];
  for (const limit of STAGES) {
    for (let taken = true; taken; ) {
      taken = false;
      const before = labels;
      labels = before.map((label, pixel) => {
        if (label >= 0) return label;
        let [nearest, least] = [-1, Infinity];
        for (const other of beside(pixel)) {
          if (other < 0 || before[other] < 0) continue;
          const distance = away(before[other], pixel);
          if (distance <= limit && distance < least) [nearest, least] = [before[other], distance];
        }
        taken ||= nearest >= 0;
        return nearest;
      });
    }
  }
  return labels;
}

// --- motions: a part is matched as a whole

/** How far the part goes in each of the futures, which lie one after the other: dx and dy of each; NaN where unknown. */
export function motionsOf(frame, size, { mask, colours }, reach, futures) {
  const pixels = pixelsOf(mask), count = futures.length / frame.length, found = new Float32Array(2 * count).fill(NaN);
  const still = blurred(frame, size);
  for (let number = 0; number < count; number++) {
    const future = futures.subarray(number * frame.length, (number + 1) * frame.length);
    const covered = otherColours(colours, future);
    const surface = costSurface(frame, size, pixels, future, covered, reach);
    if (isSure(surface, 2 * reach + 1)) found.set(precise(still, size, pixels, blurred(future, size), covered, lowest(surface, reach)), 2 * number);
  }
  return found;
}

/** The cost of each displacement, (D, D) with dy first, in misses among the pixels. */
function costSurface(frame, size, pixels, future, covered, reach) {
  const side = 2 * reach + 1, surface = new Float64Array(side * side), all = size * size;
  for (const pixel of pixels) {
    const x = pixel % size, y = Math.floor(pixel / size);
    const [red, green, blue] = [frame[pixel], frame[all + pixel], frame[2 * all + pixel]];
    for (let row = 0; row < side; row++) {
      const down = y + row - reach;
      for (let column = 0; column < side; column++) {
        const across = x + column - reach;
        let cost = HIDDEN; // outside of the frame
        if (down >= 0 && down < size && across >= 0 && across < size) {
          const to = down * size + across;
          const miss = (future[to] - red) ** 2 + (future[all + to] - green) ** 2 + (future[2 * all + to] - blue) ** 2;
          cost = Math.min(miss / FAR ** 2, covered[to] ? HIDDEN : 1);
        }
        surface[row * side + column] += cost;
      }
    }
  }
  return surface;
}

/** Whether all displacements that are as good as the best one lie close together, within the reach. */
function isSure(surface, side) {
  const limit = Math.min(...surface) + UNSURE;
  let [left, top, right, bottom] = [side, side, -1, -1];
  surface.forEach((cost, place) => {
    if (cost > limit) return;
    const [x, y] = [place % side, Math.floor(place / side)];
    [left, top, right, bottom] = [Math.min(left, x), Math.min(top, y), Math.max(right, x), Math.max(bottom, y)];
  });
  return right - left <= ANYWHERE && bottom - top <= ANYWHERE && Math.min(left, top) > 0 && Math.max(right, bottom) < side - 1;
}

/** The cheapest displacement in whole pixels; of equal ones the shortest. */
function lowest(surface, reach) {
  const side = 2 * reach + 1;
  let [best, least] = [0, Infinity];
  surface.forEach((cost, place) => {
    const length = Math.hypot((place % side) - reach, Math.floor(place / side) - reach);
    if (cost + 1e-3 * length < least) [best, least] = [place, cost + 1e-3 * length];
  });
  return [(best % side) - reach, Math.floor(best / side) - reach];
}

/** The displacement near a whole one that fits the pixels best, to 1 / STEPS pixel. */
function precise(still, size, pixels, target, covered, [wholeX, wholeY]) {
  const all = size * size, hidden = grown(covered, size, 2), gram = new Float64Array(81), miss = new Float64Array(27);
  for (const pixel of pixels) {
    const x = (pixel % size) + wholeX, y = Math.floor(pixel / size) + wholeY;
    if (x < 1 || y < 1 || x + 1 >= size || y + 1 >= size) continue; // a neighbour is unknown
    const to = y * size + x;
    const nine = SHIFTS.map(([dy, dx]) => to + dy * size + dx);
    if (nine.some((place) => hidden[place])) continue;
    nine.forEach((place, k) => {
      for (const c of COLOURS) miss[3 * k + c] = target[c * all + place] - still[c * all + pixel];
    });
    for (let i = 0; i < 9; i++) {
      for (let j = 0; j < 9; j++) gram[9 * i + j] += miss[3 * i] * miss[3 * j] + miss[3 * i + 1] * miss[3 * j + 1] + miss[3 * i + 2] * miss[3 * j + 2];
    }
  }
  let [best, least] = [0, Infinity];
  MIX.forEach((weights, place) => {
    let error = 0;
    for (let i = 0; i < 9; i++) for (let j = 0; j < 9; j++) error += weights[i] * weights[j] * gram[9 * i + j];
    if (error < least) [best, least] = [place, error];
  });
  const side = 2 * STEPS + 1;
  return [wholeX + ((best % side) - STEPS) / STEPS, wholeY + (Math.floor(best / side) - STEPS) / STEPS];
}

const SHIFTS = [-1, 0, 1].flatMap((dy) => [-1, 0, 1].map((dx) => [dy, dx]));
// Of each rest of a displacement, dy first: the weights of the nine shifts around it, as bilinear sampling mixes them.
const LINE = Array.from({ length: 2 * STEPS + 1 }, (_, k) => k / STEPS - 1).map((step) => [Math.max(-step, 0), 1 - Math.abs(step), Math.max(step, 0)]);
const MIX = LINE.flatMap((down) => LINE.map((across) => down.flatMap((one) => across.map((other) => one * other))));

/** Filtered by 1 4 6 4 1 along both axes; borders are repeated. */
function blurred(frame, size) {
  const along = (from, step) => from.map((_, place) => {
    const at = Math.floor(place / step) % size;
    const near = (k) => from[place + (Math.min(Math.max(at + k, 0), size - 1) - at) * step];
    return (near(-2) + near(2) + 4 * (near(-1) + near(1)) + 6 * near(0)) / 16;
  });
  return along(along(frame, 1), size);
}
