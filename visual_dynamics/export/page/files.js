// Files that people take with them: a PNG sheet, an animated PNG, a motion.
import { canvas, painted } from "./pictures.js";

const SCALE = 3, GAP = 4, GREY = "rgb(150, 150, 150)", SECOND_HALVES = [1, 2]; // half a second a frame

/**
 * A sheet of all pictures, of one future itself, pixel by pixel; or a clip: futures in turn with what they start from,
 * or frames one after the other.
 */
export async function encode(form, start, frames) {
  if (form === "sheet" && frames.length === 1) return blobOf(painted(frames[0]));
  if (form === "sheet") return blobOf(grid(start ? [start, ...frames] : frames));
  const clip = start ? [grid(frames.map(() => start)), grid(frames)] : frames.map((frame) => grid([frame]));
  return animated(clip);
}

/** A file of JSON, as an answer. */
export function jsonOf(content, name) {
  return new Response(JSON.stringify(content), { headers: { "Content-Disposition": `attachment; filename="${name}"` } });
}

const blobOf = (sheet) => new Promise((resolve) => sheet.toBlob(resolve));

/** Pictures of one size side by side, enlarged. */
function grid(pictures) {
  const columns = Math.min(pictures.length, Math.max(4, Math.ceil(Math.sqrt(pictures.length))));
  const [width, height] = [pictures[0].width * SCALE, pictures[0].height * SCALE];
  const sheet = canvas(GAP + columns * (width + GAP), GAP + Math.ceil(pictures.length / columns) * (height + GAP));
  const context = sheet.getContext("2d");
  context.fillStyle = GREY;
  context.fillRect(0, 0, sheet.width, sheet.height);
  context.imageSmoothingEnabled = false;
  pictures.forEach((picture, place) => {
    const [x, y] = [GAP + (place % columns) * (width + GAP), GAP + Math.floor(place / columns) * (height + GAP)];
    context.drawImage(painted(picture), x, y, width, height);
  });
  return sheet;
}

/** An animated PNG of canvases of one size: their PNG files, in the chunks of one. */
async function animated(sheets) {
  const files = await Promise.all(sheets.map(async (sheet) => chunksOf(await (await blobOf(sheet)).arrayBuffer())));
  const { width, height } = sheets[0];
  const header = files[0].find(({ kind }) => kind === "IHDR");
  const parts = [SIGNATURE, chunk("IHDR", header.data), chunk("acTL", longs(sheets.length, 0))];
  let number = 0; // of a chunk of the animation
  files.forEach((file, frame) => {
    parts.push(chunk("fcTL", longs(number++, width, height, 0, 0), shorts(...SECOND_HALVES), new Uint8Array(2)));
    for (const { kind, data } of file) {
      if (kind === "IDAT") parts.push(frame === 0 ? chunk("IDAT", data) : chunk("fdAT", longs(number++), data));
    }
  });
  return new Blob([...parts, chunk("IEND")], { type: "image/png" });
}

const SIGNATURE = Uint8Array.of(137, 80, 78, 71, 13, 10, 26, 10);

function numbers(values, bytes, set) {
  const view = new DataView(new ArrayBuffer(bytes * values.length));
  values.forEach((value, place) => view[set](bytes * place, value));
  return new Uint8Array(view.buffer);
}

const longs = (...values) => numbers(values, 4, "setUint32");
const shorts = (...values) => numbers(values, 2, "setUint16");

function chunksOf(buffer) {
  const view = new DataView(buffer), found = [];
  for (let place = SIGNATURE.length; place < buffer.byteLength; ) {
    const length = view.getUint32(place), name = new Uint8Array(buffer, place + 4, 4);
    found.push({ kind: String.fromCharCode(...name), data: new Uint8Array(buffer, place + 8, length) });
    place += length + 12;
  }
  return found;
}

function chunk(kind, ...parts) {
  const body = [Uint8Array.from(kind, (letter) => letter.charCodeAt(0)), ...parts];
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  let crc = 0xffffffff;
  for (const part of body) for (const byte of part) crc = CRC[(crc ^ byte) & 255] ^ (crc >>> 8);
  return new Blob([longs(length), ...body, longs((crc ^ 0xffffffff) >>> 0)]);
}

const CRC = Uint32Array.from({ length: 256 }, (_, value) => {
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? 0xedb88320 ^ (value >>> 1) : value >>> 1;
  return value;
});
