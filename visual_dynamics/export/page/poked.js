// Poke: codes whose futures move a part of the picture as it was dragged, by importance sampling: sampling/poke.py.
import { RequestError } from "./messages.js";
import { Generator } from "./random.js";

const WIDTHS = [1 / 8, 1 / 4, 1 / 2, 1], EFFECTIVE = 64, LONGEST = 4, REACH = 7;

/** A poke {x, y, dx, dy} of a picture in pixels of the model's frame, where it is placed: {place, motion, reach}. */
export function inFrame({ x, y, dx, dy }, { pixels: { width, height }, box, size }) {
  if (!(x >= -0.5 && x <= width - 0.5 && y >= -0.5 && y <= height - 0.5)) {
    throw new RequestError(`the poked place (${x}, ${y}) lies outside the picture of ${width} x ${height} pixels`, 422);
  }
  const across = box.width / width, down = box.height / height, motion = [dx * across, dy * down];
  const longest = Math.max(...motion.map(Math.abs));
  if (longest > size / LONGEST) {
    throw new RequestError(`the poke moves its part by more than 1/${LONGEST} of the picture: no sampled motion does`, 422);
  }
  const place = [box.left + (x + 0.5) * across - 0.5, box.top + (y + 0.5) * down - 0.5];
  return { place, motion, reach: Math.max(REACH, Math.ceil(longest) + 2) };
}

/** Weights that sum to 1 of codes with these motions (dx and dy of each, NaN where unknown), and their effective number. */
export function fitting(motions, [dx, dy]) {
  const away = Array.from({ length: motions.length / 2 }, (_, k) => Math.hypot(motions[2 * k] - dx, motions[2 * k + 1] - dy));
  const known = away.filter((distance) => !Number.isNaN(distance));
  if (!known.length) throw new RequestError("the poked place has no outline or pattern that would show its motion: poke another one", 422);
  const nearest = away.indexOf(Math.min(...known)), largest = WIDTHS.at(-1);
  if (away[nearest] > largest) {
    const found = [motions[2 * nearest], motions[2 * nearest + 1]].map((value) => value.toFixed(1)).join(", ");
    throw new RequestError("no sampled motion moves that place like this: in pixels of the model's frame " +
      `${dx.toFixed(1)}, ${dy.toFixed(1)} is wanted, and the nearest of ${away.length} is ${found}`, 422);
  }
  for (const width of WIDTHS) {
    const weights = away.map((distance) => (Number.isNaN(distance) ? 0 : Math.exp(-0.5 * (distance / width) ** 2)));
    const total = sum(weights), effective = total ** 2 / sum(weights.map((weight) => weight ** 2));
    if (effective >= EFFECTIVE || width === largest) return { weights: weights.map((weight) => weight / total), effective };
  }
}

const sum = (values) => values.reduce((so, value) => so + value, 0);

/** The number of the code that a seed draws. */
export function chosen(weights, seed) {
  const at = new Generator(seed, 1).double(); // 1: another stream than that of z
  let so = 0;
  const place = weights.findIndex((weight) => (so += weight) > at);
  return place < 0 ? weights.length - 1 : place;
}
