// The network, in a worker. Its files are scripts that bring base64 of gzip: scripts load from a disk, too, where a page
// may neither fetch a file nor start a worker from one.
import { RequestError } from "./messages.js";

const BATCH = 8; // codes that are decoded together
const arriving = new Map(); // name of an asset -> what takes its text
const opened = new Map(); // name of a program -> a promise
const posteriors = new Map(); // name of a model -> a promise
const waiting = new Map(); // number of a message -> [resolve, reject]
let engine = null; // a promise of the worker
let sent = 0;

globalThis.provide = (name, text) => arriving.get(name)(text);

async function asset(name) {
  const script = document.createElement("script");
  const text = await new Promise((resolve, reject) => {
    arriving.set(name, resolve);
    script.onerror = () => reject(new RequestError(`${name}.js is missing: copy the whole folder`, 0));
    script.src = `${name}.js`;
    document.head.append(script);
  });
  script.remove();
  arriving.delete(name);
  const packed = await fetch(`data:application/octet-stream;base64,${text}`);
  return new Uint8Array(await new Response(packed.body.pipeThrough(new DecompressionStream("gzip"))).arrayBuffer());
}

async function start(kind) {
  const [script, binary] = await Promise.all([asset(`engine-${kind}`), asset(`engine-${kind}-binary`)]);
  const worker = new Worker(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
  worker.onmessage = ({ data: { id, result, error } }) => {
    const [resolve, reject] = waiting.get(id);
    waiting.delete(id);
    if (error === undefined) resolve(result);
    else reject(new Error(error));
  };
  worker.onerror = (event) => {
    for (const [, reject] of waiting.values()) reject(new Error(`the worker stopped: ${event.message}`));
    waiting.clear();
  };
  await post(worker, "start", binary, [kind]);
  return worker;
}

/** A graphics card that the page may use; one that is only emulated is slower than WebAssembly. */
async function hasGpu() {
  const adapter = await navigator.gpu?.requestAdapter().catch(() => null);
  return Boolean(adapter && !adapter.info?.isFallbackAdapter && !/swiftshader/i.test(adapter.info?.architecture ?? ""));
}

function post(worker, work, ...values) {
  return new Promise((resolve, reject) => {
    waiting.set(++sent, [resolve, reject]);
    worker.postMessage({ id: sent, work, values });
  });
}

async function run(work, ...values) {
  engine ??= hasGpu().then((gpu) => (gpu ? start("webgpu").catch(() => start("wasm")) : start("wasm")));
  return post(await engine, work, ...values);
}

/** A program of a model, fetched when it is first used. */
function open(model, part) {
  const name = `${model.name}-${part}`;
  if (!opened.has(name)) opened.set(name, asset(name).then((data) => run("open", name, data)));
  return opened.get(name);
}

/** Find the segments of a frame (3 * S * S numbers) once, under a key. */
export async function encodeFrame(model, key, frame) {
  await Promise.all([open(model, "encoder"), open(model, "decoder")]);
  await run("encode", model.name, key, frame, model.size);
}

/** The next frames of an encoded frame, one for each code. */
export async function decode(model, key, codes) {
  const frames = [], numbers = 3 * model.size ** 2;
  for (let first = 0; first < codes.length; first += BATCH) {
    const part = codes.slice(first, first + BATCH);
    const found = await run("decode", model.name, key, Float32Array.from(part.flat()), part.length);
    frames.push(...part.map((_, k) => found.subarray(k * numbers, (k + 1) * numbers)));
  }
  return frames;
}

/** The mean motion code of a pair of frames. */
export async function motionOf(model, before, after) {
  await open(model, "motion_encoder");
  return Array.from(await run("motion", model.name, before, after, model.size));
}

/** The motions of training pairs: mean and deviation of each stored dimension (weights.py, sampling/latents.py). */
export function posteriorsOf(model) {
  if (!posteriors.has(model.name)) posteriors.set(model.name, readPosteriors(model));
  return posteriors.get(model.name);
}

async function readPosteriors(model) {
  const data = await asset(`${model.name}-posteriors`), { count, stored: dimensions } = model.posteriors;
  const width = dimensions.length, scales = new Float32Array(data.buffer, 0, 4 * width);
  const bytes = data.subarray(scales.byteLength);
  const number = (which, row, place) =>
    Math.fround(scales[2 * which * width + place] +
      Math.fround(scales[(2 * which + 1) * width + place] * bytes[which * count * width + row * width + place]));
  return { count, dimensions, mean: (row, place) => number(0, row, place),
    deviation: (row, place) => Math.fround(Math.exp(0.5 * number(1, row, place))) };
}
