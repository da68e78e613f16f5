// What the tabs share: the model, the picture, the path that led to it, and the motion of the sliders.
import { send, sendJson } from "./api.js";
import { RequestError } from "./messages.js";

export const state = {
  models: [], // of the studio
  model: null, // the chosen one
  samples: new Map(), // id -> picture
  path: [], // pictures {id, url, blob?, exact?, step?}; the last one is moved now
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

/** Picture and model in one string, to compare. */
export const subject = () => `${picture().id} ${state.model.name}`;

/** A function that says later whether picture or model have changed. */
export function watchChange() {
  const [shown, model] = [picture(), state.model];
  return () => shown !== picture() || model !== state.model;
}

/** Begin anew with a picture. */
export function begin(shown) {
  state.path = [shown];
  changed();
}

/** One step on: the picture moved by z. */
export async function goOn(z, fullSize = false) {
  const step = { from: picture(), model: state.model.name, z, full_size: fullSize };
  const isOld = watchChange();
  const shown = await taken(step);
  if (isOld()) return;
  state.path.push({ ...shown, step });
  changed();
}

function taken({ from, ...step }) {
  return withPictures([from], () => sendJson("/api/continue", { body: { image: from.id, ...step } }));
}

/** Back to an earlier picture of the path. */
export function backTo(place) {
  state.path = state.path.slice(0, place + 1);
  changed();
}

/** exact: every pixel of a sheet is kept, however large it is. */
export async function upload(blob, { purpose = "upload", exact = false } = {}) {
  const shown = await sendJson(`/api/images${exact ? "?exact=true" : ""}`, { body: blob, purpose });
  return { ...shown, blob, exact };
}

/** Do work with pictures; if the studio has dropped one, restore them and try again. */
export async function withPictures(pictures, work) {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof RequestError) || error.status !== 404 || !error.message.startsWith("no image")) throw error;
    for (const shown of pictures) await restore(shown);
    return work();
  }
}

/** Upload a picture again, or repeat the step that led to it; the studio never drops samples. */
async function restore(shown) {
  if (shown.blob) Object.assign(shown, await upload(shown.blob, { exact: shown.exact }));
  else if (shown.step) Object.assign(shown, await taken(shown.step));
}

/** JSON about the current picture, by the chosen model. */
export async function sendAbout(path, body = {}, options = {}) {
  return (await responseAbout(path, body, options)).json();
}

/** A file made from the current picture. */
export async function fileAbout(path, body) {
  const response = await responseAbout(path, body);
  return { blob: await response.blob(), name: nameIn(response) };
}

function responseAbout(path, body, options = {}) {
  const [shown, model] = [picture(), state.model.name];
  return withPictures([shown], () => send(path, { body: { image: shown.id, model, ...body }, ...options }));
}

export function nameIn(response) {
  return /filename="([^"]+)"/.exec(response.headers.get("Content-Disposition") ?? "")?.[1] ?? "file";
}
