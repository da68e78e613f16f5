// Pictures as a model sees them, and the way back: what images.py and sampling/canvas.py do, on RGBA pixels.
import { make } from "./dom.js";
import { RequestError } from "./messages.js";

const MOST = 64e6; // pixels of a picture

/** A file as pixels {width, height, data}, upright, colours as they are in the file. */
export async function drawn(blob) {
  let bitmap;
  try {
    bitmap = await createImageBitmap(blob, { premultiplyAlpha: "none", colorSpaceConversion: "none" });
  } catch {
    throw new RequestError("that file is not a picture that this browser reads", 422);
  }
  const { width, height } = bitmap;
  if (width * height > MOST) throw new RequestError(`${width} x ${height} pixels is too large`, 422);
  if (Math.min(width, height) < 2) throw new RequestError(`${width} x ${height} pixels is too small`, 422);
  const context = canvas(width, height).getContext("2d", { willReadFrequently: true });
  context.drawImage(bitmap, 0, 0);
  bitmap.close();
  return context.getImageData(0, 0, width, height);
}

export const canvas = (width, height) => make("canvas", { width, height });

/** Pixels as a canvas. */
export function painted({ width, height, data }) {
  const sheet = canvas(width, height);
  sheet.getContext("2d").putImageData(new ImageData(data, width, height), 0, 0);
  return sheet;
}

/** Pixels as the address of a PNG. */
export const shown = (pixels) => painted(pixels).toDataURL();

/** The picture laid over the model's background (0 to 1), in the model's frame: {pixels, frame, box, size}. */
export function place(pixels, size, background) {
  const picture = over(pixels, Math.round(255 * background));
  const { width, height } = picture, longer = Math.max(width, height);
  const unscaled = background === 0 && longer <= size; // scaling would blur drawn pixels
  const [h, w] = unscaled ? [height, width] : [height, width].map((side) => Math.max(1, Math.floor((2 * side * size + longer) / (2 * longer))));
  const fitted = longer === size || unscaled ? picture : longer > size ? shrunk(picture, h, w) : enlarged(picture, h, w);
  const box = { top: Math.floor((size - h) / 2), left: Math.floor((size - w) / 2), height: h, width: w };
  const frame = new Float32Array(3 * size * size), inside = (value, most) => Math.min(Math.max(value, 0), most - 1);
  for (let y = 0; y < size; y++) {
    for (let x = 0; x < size; x++) {
      const [row, column] = [y - box.top, x - box.left], outside = row < 0 || row >= h || column < 0 || column >= w;
      if (outside && unscaled) continue; // black; else the edge repeats
      for (let c = 0; c < 3; c++) frame[(c * size + y) * size + x] = fitted.data[3 * (inside(row, h) * w + inside(column, w)) + c] / 255;
    }
  }
  return { pixels, frame, box, size };
}

/** The part of a frame where the picture lies, as pixels. */
export function frameOf({ frame: own, box, size }, frame = own) {
  const data = new Uint8ClampedArray(4 * box.width * box.height).fill(255);
  for (let y = 0; y < box.height; y++) {
    for (let x = 0; x < box.width; x++) {
      for (let c = 0; c < 3; c++) data[4 * (y * box.width + x) + c] = Math.round(255 * frame[(c * size + box.top + y) * size + box.left + x]);
    }
  }
  return { width: box.width, height: box.height, data };
}

/** RGBA over a grey: RGB. */
function over({ width, height, data }, grey) {
  const mixed = new Uint8ClampedArray(3 * width * height);
  for (let pixel = 0; pixel < width * height; pixel++) {
    const alpha = data[4 * pixel + 3];
    for (let c = 0; c < 3; c++) mixed[3 * pixel + c] = Math.round((alpha * data[4 * pixel + c] + (255 - alpha) * grey) / 255);
  }
  return { width, height, data: mixed };
}

/** The mean over the area that each new pixel covers. */
function shrunk({ width, height, data }, h, w) {
  const columns = summed(summed(data, height, h, 3 * width, 1, 3 * width), width, w, 3, h, 3 * width);
  const area = (height / h) * (width / w);
  return { width: w, height: h, data: Uint8ClampedArray.from(columns, (sum) => Math.floor(sum / area + 0.5)) };
}

/** Sums over the share of `from` rows that each of `to` rows covers; `blocks` of them lie `pitch` numbers apart. */
function summed(values, from, to, step, blocks, pitch) {
  const factor = from / to, sums = new Float64Array(blocks * to * step);
  for (let row = 0; row < to; row++) {
    const start = row * factor, stop = Math.min((row + 1) * factor, from);
    for (let source = Math.trunc(start); source < Math.ceil(stop); source++) {
      const share = Math.min(source + 1, stop) - Math.max(source, start);
      for (let block = 0; block < blocks; block++) {
        for (let k = 0; k < step; k++) sums[(block * to + row) * step + k] += share * values[block * pitch + source * step + k];
      }
    }
  }
  return sums;
}

/** Bilinear, in whole numbers as Pillow does it: across, then down. */
function enlarged({ width, height, data }, h, w) {
  const across = blended(data, width, w, 3, height, 3 * width);
  return { width: w, height: h, data: blended(across, height, h, 3 * w, 1, 3 * w * height) };
}

const UNIT = 2 ** 22; // of a weight

function blended(values, from, to, step, blocks, pitch) {
  const result = new Uint8ClampedArray(blocks * to * step);
  for (let row = 0; row < to; row++) {
    const centre = (row + 0.5) * (from / to), first = Math.max(0, Math.trunc(centre - 0.5)), end = Math.min(from, Math.trunc(centre + 1.5));
    const shares = Array.from({ length: end - first }, (_, k) => Math.max(0, 1 - Math.abs(first + k - centre + 0.5)));
    const total = shares.reduce((sum, share) => sum + share, 0);
    const weights = shares.map((share) => Math.floor(0.5 + (share / total) * UNIT));
    for (let block = 0; block < blocks; block++) {
      for (let k = 0; k < step; k++) {
        const sum = weights.reduce((so, weight, place) => so + weight * values[block * pitch + (first + place) * step + k], UNIT / 2);
        result[(block * to + row) * step + k] = Math.floor(sum / UNIT);
      }
    }
  }
  return result;
}
