// The network, in two workers: one finds segments and motions, the other decodes. They are made ready side by side.
// Their files are scripts that bring base64 of gzip: scripts load from a disk, too, where a page may neither fetch a
// file nor start a worker from one.
import { strangeness } from "./familiar.js";
import { RequestError } from "./messages.js";

const BATCH = 8; // codes that are decoded together
const KEPT = 16; // pictures whose segments are kept
const arriving = new Map(); // name of an asset -> what takes its text
const opened = new Map(); // name of a program -> a promise
const posteriors = new Map(), familiar = new Map(); // name of a model -> a promise
const segments = new Map(); // key of a picture -> a promise of what the decoder takes of it
const waiting = new Map(); // number of a message -> [resolve, reject]
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
  const unpacked = (await blobOf(text)).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(unpacked).arrayBuffer());
}

/** Newer browsers read base64 themselves, fifteen times as fast. */
const blobOf = async (text) => (Uint8Array.fromBase64 ? new Blob([Uint8Array.fromBase64(text)])
  : (await fetch(`data:application/octet-stream;base64,${text}`)).blob());

async function start(kind) {
  const [script, binary] = await Promise.all([asset(`engine-${kind}`), asset(`engine-${kind}-binary`)]);
  const address = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
  const workers = { encoding: new Worker(address), decoding: new Worker(address) };
  await Promise.all(Object.values(workers).map((worker) => {
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
    return post(worker, "start", binary, [kind]);
  }));
  return workers;
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

// Begun at once: the workers start while people look at the page. An error is that of the first who needs them.
const engine = hasGpu().then((gpu) => (gpu ? start("webgpu").catch(() => start("wasm")) : start("wasm")));
engine.catch(() => {});

/** Run a program of a model, which is fetched when it is first used. */
async function run(model, part, inputs) {
  await open(model, part);
  return post(await workerOf(part), "run", `${model.name}-${part}`, inputs);
}

const workerOf = async (part) => (await engine)[part === "decoder" ? "decoding" : "encoding"];

function open(model, part) {
  const name = `${model.name}-${part}`;
  if (!opened.has(name)) opened.set(name, asset(name).then(async (data) => post(await workerOf(part), "open", name, data)));
  return opened.get(name);
}

const asFrame = ({ size }, data) => ({ data, dims: [1, 3, size, size] });

/** Find the segments of a frame (3 * S * S numbers) once, under a key. */
export async function encodeFrame(model, key, frame) {
  if (!segments.has(key)) {
    const found = run(model, "encoder", { frame: asFrame(model, frame) });
    segments.set(key, found.then((maps) => ({ frame: asFrame(model, frame), ...maps })));
    if (segments.size > KEPT) segments.delete(segments.keys().next().value);
  }
  await segments.get(key);
}

export const openDecoder = (model) => open(model, "decoder");

/** Whether an encoded picture looks like those that the model learned from; null where the model does not know. */
export async function strangenessOf(model, key, placed) {
  if (!model.familiar) return null;
  const [known, image] = await Promise.all([familiarOf(model), segments.get(key)]);
  return strangeness(known, image[model.familiar], placed);
}

/** How far each code moves the part at a place, dx and dy of each: measured while the next codes are decoded. */
export async function motionsAt(model, key, { place, reach }, codes, progress) {
  const image = await segments.get(key), frame = image.frame.data, { encoding } = await engine, { size } = model;
  const part = await post(encoding, "partAt", frame, size, place), found = [];
  for (let first = 0; first < codes.length; first += BATCH) {
    progress(first, codes.length);
    const futures = await decodeBatch(model, image, codes.slice(first, first + BATCH));
    found.push(post(encoding, "motionsOf", frame, size, part, reach, futures));
  }
  return (await Promise.all(found)).flatMap((motions) => [...motions]);
}

/** The next frames of an encoded frame, one for each code. */
export async function decode(model, key, codes) {
  const image = await segments.get(key), frames = [], numbers = 3 * model.size ** 2;
  for (let first = 0; first < codes.length; first += BATCH) {
    const part = codes.slice(first, first + BATCH), data = await decodeBatch(model, image, part);
    frames.push(...part.map((_, k) => data.subarray(k * numbers, (k + 1) * numbers)));
  }
  return frames;
}

async function decodeBatch(model, image, codes) {
  const z = { data: Float32Array.from(codes.flat()), dims: [codes.length, model.latent] };
  return (await run(model, "decoder", { ...image, z })).next_frame.data;
}

/** The mean motion code of a pair of frames. */
export async function motionOf(model, before, after) {
  const pair = { before: asFrame(model, before), after: asFrame(model, after) };
  return Array.from((await run(model, "motion_encoder", pair)).mean.data);
}

/** What the training pictures of a model look like to it (weights.py, sampling/familiarity.py). */
function familiarOf(model) {
  if (!familiar.has(model.name)) familiar.set(model.name, readFamiliar(model));
  return familiar.get(model.name);
}

async function readFamiliar(model) {
  const data = await asset(`${model.name}-familiar`), count = 4 * model.maps;
  const numbers = new Float32Array(data.buffer, 0, count + count ** 2 + 3);
  return { mean: numbers.subarray(0, count), factor: numbers.subarray(count, count + count ** 2),
    limits: numbers.subarray(count + count ** 2), colours: data.subarray(numbers.byteLength) };
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
