// The studio's requests, answered in this tab: the paths, bodies and answers of the studio's API.
import { encode, jsonOf } from "./files.js";
import { decode, encodeFrame, motionOf, motionsAt, openDecoder, posteriorsOf, strangenessOf } from "./engine.js";
import { RequestError } from "./messages.js";
import { drawn, frameOf, place, shown } from "./pictures.js";
import { chosen, fitting, inFrame } from "./poked.js";
import { Generator, sampleSeed } from "./random.js";
import { showProgress, watch } from "./waiting.js";

const ABOUT = JSON.parse(document.querySelector("#about-page").textContent); // models and samples
const POKED = 400; // codes that are tried for a poke: a fifth of the studio's, half a minute of one core
const ENDS = [-1.5, 1.5]; // standard deviations at which a dimension is shown
const models = new Map(ABOUT.models.map((model) => [model.name, model]));
const pictures = new Map(); // id -> {id, url, pixels}
const running = new Map(); // purpose -> AbortController
let next = 1; // id of a picture

/** Do what a request asks. A newer one for the same purpose cancels the older one. */
export async function send(path, { purpose = path, body, method, quiet = false } = {}) {
  running.get(purpose)?.abort();
  const control = new AbortController();
  running.set(purpose, control);
  const end = quiet ? null : watch(control);
  try {
    const answered = answer(method ?? (body === undefined ? "GET" : "POST"), path.split(/[?]/)[0].split("/").slice(2), body, control.signal);
    const found = await Promise.race([answered, aborted(control.signal)]);
    return found instanceof Response ? found : Response.json(found);
  } finally {
    end?.();
    if (running.get(purpose) === control) running.delete(purpose);
  }
}

export const sendJson = async (path, options) => (await send(path, options)).json();

/** Rejects when a newer request comes, or somebody cancels. */
const aborted = (signal) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));

async function answer(method, [first, ...rest], body, signal) {
  const name = [method, first, ...rest.map((part) => (/^\d+$/.test(part) ? "N" : part))].join(" ");
  if (!(name in ANSWERS)) throw new RequestError("this page cannot do that: the studio can", 404);
  return ANSWERS[name](body, Number(rest[0]), signal);
}

const ANSWERS = {
  "GET models": () => ABOUT.models,
  "GET samples": () => ABOUT.samples,
  "POST images": async (blob) => keep(await drawn(blob)),
  "POST familiar": familiar,
  "POST futures": futures,
  "POST continue": async ({ image, model, z }) => keep((await moved(image, model, [z]))[0]),
  "POST dimensions": dimensions,
  "POST decode": async ({ image, model, codes }) => ({ urls: (await moved(image, model, codes)).map(shown) }),
  "POST transfer": transfer,
  "POST export": async ({ image, model, codes, form }) =>
    file(form, codes.length > 1 ? "futures" : "future", await still(image, model), await moved(image, model, codes)),
  "POST export path": async ({ images, model, form }) => file(form, "path", null, await Promise.all(images.map((image) => still(image, model)))),
  "GET motions": () => library().filter(({ digest }) => [...models.values()].some((model) => model.digest === digest)),
  "POST motions": ({ name, model, z }) => keepMotion(name, model, z, "sliders"),
  "POST motions pair": async ({ name, model, before, after }) => keepMotion(name, model, (await pairMotion(model, before, after)).z, "pair"),
  "POST motions import": importMotion,
  "DELETE motions N": (_, id) => store(library().filter((motion) => motion.id !== id)),
  "GET motions N file": (_, id) => motionFile(library().find((motion) => motion.id === id)),
  "POST motions N apply": (_, id) => ({ z: library().find((motion) => motion.id === id).z }),
};

// --- pictures

function keep(pixels) {
  const picture = { id: `picture-${next++}`, url: shown(pixels), pixels };
  pictures.set(picture.id, picture);
  return { id: picture.id, url: picture.url, width: pixels.width, height: pixels.height };
}

async function pixelsOf(id) {
  if (!pictures.has(id)) {
    const sample = ABOUT.samples.find((each) => each.id === id);
    pictures.set(id, { ...sample, pixels: await drawn(await (await fetch(sample.url)).blob()) });
  }
  return pictures.get(id).pixels;
}

/** A picture as a model sees it. */
async function seen(id, name) {
  const model = models.get(name), placed = place(await pixelsOf(id), model.size, model.background);
  return { model, placed, key: `${name} ${id}` };
}

const still = async (id, name) => frameOf((await seen(id, name)).placed);

/** A picture that the engine knows the segments of; meanwhile the decoder opens. */
async function encoded(id, name) {
  const found = await seen(id, name);
  await Promise.all([encodeFrame(found.model, found.key, found.placed.frame), openDecoder(found.model)]);
  return found;
}

/** The picture moved by each code. */
async function moved(id, name, codes) {
  const { model, placed, key } = await encoded(id, name);
  if (codes.some((z) => z.length !== model.latent)) {
    throw new RequestError(`the motion code does not belong to this model: it needs ${model.latent} numbers`, 422);
  }
  return (await decode(model, key, codes)).map((frame) => frameOf(placed, frame));
}

// --- futures and motions

async function futures({ image, model: name, count, seed, first = 0, source, strength = 1, poke }, _, signal) {
  const model = models.get(name);
  const isStored = (source ?? model.sources[0]) === "posteriors";
  const [stored] = await Promise.all([isStored ? posteriorsOf(model) : null, encoded(image, name)]);
  const numbers = Array.from({ length: count }, (_, k) => first + k), sampled = (number) => draw(model, stored, seed, number);
  const poked = poke && (await pokedCodes({ image, name, seed, source, poke }, sampled, signal));
  const codes = numbers.map((number) => (poked ? poked.codes[chosen(poked.weights, sampleSeed(seed, number))] : sampled(number))
    .map((value) => Math.fround(strength * value)));
  const found = (await moved(image, name, codes)).map((pixels, k) => ({ number: first + k, z: codes[k], url: shown(pixels) }));
  return { input: shown(await still(image, name)), futures: found, fitting: poked?.effective ?? null };
}

let lastPoke = { words: "" }; // more futures of it need no more measurements

/** Codes that are weighted by how well what they do fits a poke. */
async function pokedCodes(wanted, sampled, signal) {
  const words = JSON.stringify(wanted), { image, name, poke } = wanted;
  if (lastPoke.words === words) return lastPoke;
  const { model, placed, key } = await seen(image, name), inside = inFrame(poke, placed);
  const codes = Array.from({ length: poke.codes ?? POKED }, (_, number) => sampled(number));
  const motions = await motionsAt(model, key, inside, codes, (done, total) => {
    signal.throwIfAborted();
    showProgress(done, total);
  });
  return (lastPoke = { words, codes, ...fitting(motions, inside.motion) });
}

/** A warning where the model has not learned from pictures like this one, with the model of this page that has. */
async function familiar({ image, model: name }) {
  const strange = async (model) => {
    const { placed, key } = await seen(image, model.name);
    await encodeFrame(model, key, placed.frame);
    return strangenessOf(model, key, placed);
  };
  if (((await strange(models.get(name))) ?? 0) <= 1) return { warning: "" };
  const found = await Promise.all(ABOUT.models.map(async (model) => ({ name: model.name, value: (await strange(model)) ?? Infinity })));
  const best = found.reduce((one, other) => (other.value < one.value ? other : one));
  const instead = best.value <= 1 ? `the model ${best.name} has` : "train one that has (visual-dynamics train)";
  return { warning: `the model has not learned from pictures like this one, and its results may mean nothing: ${instead}` };
}

/** Sample `number` of a seed, as sampling/latents.py draws it. */
function draw(model, stored, seed, number) {
  const generator = new Generator(sampleSeed(seed, number));
  const row = stored && generator.integer(stored.count);
  const z = Array.from({ length: model.latent }, () => generator.normal());
  stored?.dimensions.forEach((dimension, place) => {
    z[dimension] = Math.fround(stored.mean(row, place) + Math.fround(stored.deviation(row, place) * z[dimension]));
  });
  return z;
}

async function dimensions({ image, model: name }) {
  const { model, placed } = await seen(image, name);
  const rest = await motionOf(model, placed.frame, placed.frame);
  const codes = model.dimensions.flatMap(({ dimension, scale }) =>
    ENDS.map((end) => rest.map((value, place) => (place === dimension ? value + end * scale : value))));
  const urls = (await moved(image, name, codes)).map(shown);
  return { input: shown(frameOf(placed)), latent: model.latent, rest,
    dimensions: model.dimensions.map((found, k) => ({ ...found, words: `${found.nats.toFixed(1)} nats`, low: urls[2 * k], high: urls[2 * k + 1], arrows: [] })) };
}

async function pairMotion(name, before, after) {
  const [first, second] = [await seen(before, name), await seen(after, name)];
  if (first.placed.pixels.width !== second.placed.pixels.width || first.placed.pixels.height !== second.placed.pixels.height) {
    throw new RequestError("the frames of a pair differ in size", 422);
  }
  return { first, second, z: await motionOf(first.model, first.placed.frame, second.placed.frame) };
}

async function transfer({ model: name, before, after, target }) {
  const { first, second, z } = await pairMotion(name, before, after);
  const [result] = await moved(target, name, [z]);
  return { before: shown(frameOf(first.placed)), after: shown(frameOf(second.placed)), target: shown(await still(target, name)), result: shown(result) };
}

// --- files, and the library of motions, which this browser keeps

async function file(form, stem, start, frames) {
  const name = `${stem}.png`;
  return new Response(await encode(form, start, frames), { headers: { "Content-Disposition": `attachment; filename="${name}"` } });
}

const KEPT = "visual-dynamics motions";

function library() {
  try {
    return JSON.parse(localStorage.getItem(KEPT) ?? "[]");
  } catch {
    return []; // a browser that keeps nothing
  }
}

function store(motions) {
  localStorage.setItem(KEPT, JSON.stringify(motions));
  return {};
}

function keepMotion(name, modelName, z, origin) {
  const model = models.get(modelName), motions = library();
  if (motions.some((motion) => motion.digest === model.digest && motion.name === name)) {
    throw new RequestError(`there is a motion '${name}' already: choose another name`, 409);
  }
  const motion = { id: 1 + Math.max(0, ...motions.map(({ id }) => id)), name, model: modelName, digest: model.digest, origin, z };
  store([...motions, motion]);
  return motion;
}

function importMotion({ format, name, digest, z } = {}) {
  const model = ABOUT.models.find((each) => each.digest === digest);
  if (format !== "visual-dynamics-motion") throw new RequestError("that file is not a motion", 422);
  if (z?.length !== model?.latent) throw new RequestError("the motion was made with a model that this page does not have", 409);
  return keepMotion(String(name).slice(0, 80), model.name, z.map(Number), "file");
}

function motionFile({ name, model, digest, z, id }) {
  return jsonOf({ format: "visual-dynamics-motion", version: 1, name, model, digest, z }, `motion-${id}.json`);
}
