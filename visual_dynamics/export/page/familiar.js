// Whether a picture looks like those that a model learned from: sampling/familiarity.py.

const LEVELS = 16, MARGIN = 1.05;

/** Above 1 where it does not. `known`: of the model; `segments`: of its last scale but one; `placed`: the picture. */
export function strangeness(known, { data, dims: [, maps, height, width] }, { frame, box, size }) {
  const levels = Float32Array.from(frame, (value) => Math.round(255 * value));
  const [distance, colours, even] = known.limits;
  return Math.max(
    distanceOf(known, summary(data, maps, height, width)) / Math.max(distance, 1e-6),
    newColours(known, levels, size * size) / (colours + 0.5),
    evenness(levels, box, size) / Math.max(even, 1e-6),
  ) / MARGIN;
}

/** Mean, deviation, and where in x and y each segment is: four numbers a segment. */
function summary(data, maps, height, width) {
  const found = new Float64Array(4 * maps), pixels = height * width;
  const at = (place, side) => -1 + (2 * place) / (side - 1);
  for (let map = 0; map < maps; map++) {
    const values = data.subarray(map * pixels, (map + 1) * pixels);
    let sum = 0, squares = 0, x = 0, y = 0;
    values.forEach((value, pixel) => {
      sum += value;
      x += value * at(pixel % width, width);
      y += value * at(Math.floor(pixel / width), height);
    });
    const mean = sum / pixels;
    for (const value of values) squares += (value - mean) ** 2;
    [mean, Math.sqrt(squares / pixels), x / pixels, y / pixels].forEach((number, kind) => (found[kind * maps + map] = number));
  }
  return found;
}

/** Squared Mahalanobis distance from the summaries of training pictures. */
function distanceOf({ mean, factor }, found) {
  let total = 0;
  for (let row = 0; row < mean.length; row++) {
    let sum = 0;
    for (let column = 0; column <= row; column++) sum += factor[row * mean.length + column] * (found[column] - mean[column]);
    total += sum ** 2;
  }
  return total;
}

/** How many pixels have a colour that no training picture shows. */
function newColours({ colours }, levels, pixels) {
  let found = 0;
  for (let pixel = 0; pixel < pixels; pixel++) {
    const number = [0, 1, 2].reduce((sum, c) => sum * LEVELS + Math.floor((levels[c * pixels + pixel] * LEVELS) / 256), 0);
    found += 1 - ((colours[number >> 3] >> (number & 7)) & 1);
  }
  return found;
}

/** Which share of the picture's pixels has just the colour of the pixel to its left. */
function evenness(levels, { top, left, height, width }, size) {
  let same = 0;
  for (let y = top; y < top + height; y++) {
    for (let x = left + 1; x < left + width; x++) {
      same += [0, 1, 2].every((c) => levels[(c * size + y) * size + x] === levels[(c * size + y) * size + x - 1]);
    }
  }
  return same / (height * (width - 1));
}
