// What the tabs share: the model, the picture, the path that led to it, and the motion of the sliders.
import { ask, askJson, Problem } from "./api.js";

export const state = {
  models: [], // of the studio
  model: null, // the chosen one
  samples: new Map(), // id -> picture
  path: [], // pictures {id, url, blob?, from?: {id, z}}; the last one is moved now
  z: null, // of the sliders, as long as the model's latent; null before there are any
};

const listeners = [];

/** Call back when the picture or the model changes. */
export function onChange(callback) {
  listeners.push(callback);
}

export function changed() {
  for (const callback of listeners) callback();
}

export const picture = () => state.path.at(-1);

/** Begin anew with a picture. */
export function begin(shown) {
  state.path = [shown];
  changed();
}

/** One step on: the picture moved by z. */
export async function goOn(z) {
  const from = picture();
  const shown = await withPicture(from, (id) =>
    askJson("/api/continue", { body: { image: id, model: state.model.name, z } }));
  state.path.push({ ...shown, from: { z } });
  changed();
}

/** Back to an earlier picture of the path. */
export function backTo(place) {
  state.path = state.path.slice(0, place + 1);
  changed();
}

export async function upload(blob) {
  const shown = await askJson("/api/images", { body: blob, purpose: "upload" });
  return { ...shown, blob };
}

/** Ask about a picture; one that the studio has dropped meanwhile is brought again first. */
export async function withPicture(shown, work) {
  try {
    return await work(shown.id);
  } catch (error) {
    if (!(error instanceof Problem) || error.status !== 404 || !error.message.startsWith("no image")) throw error;
    const blob = shown.blob ?? blobOf(shown.url);
    Object.assign(shown, await upload(blob));
    return work(shown.id);
  }
}

/** The bytes of a data URL; the page's policy lets nothing be fetched but from the studio. */
function blobOf(url) {
  const [head, data] = url.split(",");
  return new Blob([Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0))], { type: head.slice(5).split(";")[0] });
}

/** JSON about the current picture, by the chosen model. */
export function askAbout(path, body = {}, options = {}) {
  const model = state.model.name;
  return withPicture(picture(), (id) => askJson(path, { body: { image: id, model, ...body }, ...options }));
}

/** A file made from the current picture. */
export async function fileAbout(path, body) {
  const model = state.model.name;
  const answer = await withPicture(picture(), (id) => ask(path, { body: { image: id, model, ...body } }));
  return { blob: await answer.blob(), name: nameIn(answer) };
}

export function nameIn(answer) {
  return /filename="([^"]+)"/.exec(answer.headers.get("Content-Disposition") ?? "")?.[1] ?? "file";
}
