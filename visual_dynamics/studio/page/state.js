// What the tabs share: the model, the picture, the path that led to it, and the motion of the sliders.
import { ask, askJson, Problem } from "./api.js";

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

/** What is looked at, in a word: it differs where the picture or the model does. */
export const subject = () => `${picture().id} ${state.model.name}`;

/** A question for later: are picture and model still those of now? */
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
  return withPictures([from], () => askJson("/api/continue", { body: { image: from.id, ...step } }));
}

/** Back to an earlier picture of the path. */
export function backTo(place) {
  state.path = state.path.slice(0, place + 1);
  changed();
}

/** exact: every pixel of a sheet is kept, however large it is. */
export async function upload(blob, { purpose = "upload", exact = false } = {}) {
  const shown = await askJson(`/api/images${exact ? "?exact=true" : ""}`, { body: blob, purpose });
  return { ...shown, blob, exact };
}

/** Ask about pictures; those that the studio has dropped meanwhile are brought again. */
export async function withPictures(pictures, work) {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof Problem) || error.status !== 404 || !error.message.startsWith("no image")) throw error;
    for (const shown of pictures) await bring(shown);
    return work();
  }
}

/** Upload a picture again, or take again the step that led to it; samples are always there. */
async function bring(shown) {
  if (shown.blob) Object.assign(shown, await upload(shown.blob, { exact: shown.exact }));
  else if (shown.step) Object.assign(shown, await taken(shown.step));
}

/** JSON about the current picture, by the chosen model. */
export async function askAbout(path, body = {}, options = {}) {
  return (await answerAbout(path, body, options)).json();
}

/** A file made from the current picture. */
export async function fileAbout(path, body) {
  const answer = await answerAbout(path, body);
  return { blob: await answer.blob(), name: nameIn(answer) };
}

function answerAbout(path, body, options = {}) {
  const [shown, model] = [picture(), state.model.name];
  return withPictures([shown], () => ask(path, { body: { image: shown.id, model, ...body }, ...options }));
}

export function nameIn(answer) {
  return /filename="([^"]+)"/.exec(answer.headers.get("Content-Disposition") ?? "")?.[1] ?? "file";
}
