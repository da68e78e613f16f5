// Motion: sliders with a live preview, and the library of named motions.
import { send, sendJson } from "./api.js";
import { button, draw, find, flip, make, saveBlob } from "./dom.js";
import { attempt, RequestError, say } from "./messages.js";
import { sendAbout, goOn, nameIn, picture, state, subject, watchChange, withPictures } from "./state.js";

const END = 3; // of a slider, in deviations; 0 keeps the picture still
let shownFor = "";
let dimensions = [];
let rest = []; // a code that keeps the picture still
let inFlight = false;
let stale = false;

export async function openMotion() {
  await Promise.all([openSliders(), openLibrary()]);
}

async function openSliders() {
  if (subject() === shownFor) return;
  const isOld = watchChange();
  const found = await sendAbout("/api/dimensions", {}, { purpose: "dimensions" });
  if (isOld()) return;
  shownFor = subject();
  dimensions = found.dimensions;
  const untouched = state.z?.length === rest.length && state.z.every((value, place) => value === rest[place]);
  rest = found.rest;
  if (untouched || state.z?.length !== found.latent) state.z = [...rest];
  find("#preview-start").src = found.input;
  find("#sliders").replaceChildren(...dimensions.map(slider));
  say(`${dimensions.length} sliders, each a motion of the picture`);
  moveSliders();
  await preview();
}

function slider(dimension) {
  const label = `z${dimension.dimension}: ${dimension.words}`;
  const value = make("output", { textContent: "0.0" });
  const range = make("input", { type: "range", min: -END, max: END, step: 0.1, value: 0,
    attributes: { "aria-label": label, "data-dimension": dimension.dimension },
    oninput: () => {
      value.textContent = Number(range.value).toFixed(1);
      state.z[dimension.dimension] = rest[dimension.dimension] + Number(range.value) * dimension.scale;
      attempt(preview);
    } });
  const thumb = flip(dimension.low, dimension.high, "");
  thumb.append(field(dimension.arrows));
  return make("div", { className: "slider" }, thumb,
    make("div", {}, make("div", { className: "caption" }, make("span", {}, label), value), range));
}

/** Arrows over a picture; places and lengths are shares of its width. */
function field(arrows) {
  const lines = arrows.map(([x, y, dx, dy]) => {
    const length = Math.hypot(dx, dy), [ux, uy] = [dx / length, dy / length], head = 3.2;
    const [x1, y1, x2, y2] = [x - dx / 2, y - dy / 2, x + dx / 2, y + dy / 2].map((share) => 100 * share);
    const left = `${x2 - head * (ux + 0.6 * uy)},${y2 - head * (uy - 0.6 * ux)}`;
    const right = `${x2 - head * (ux - 0.6 * uy)},${y2 - head * (uy + 0.6 * ux)}`;
    return draw("path", { d: `M${x1},${y1}L${x2},${y2}M${left}L${x2},${y2}L${right}` });
  });
  return draw("svg", { viewBox: "0 0 100 100", class: "arrows", "aria-hidden": "true" }, ...lines);
}

/** Show z; a number beyond the end of its slider stays until the slider is moved. */
function moveSliders() {
  for (const range of document.querySelectorAll("#sliders input")) {
    const dimension = dimensions.find((each) => each.dimension === Number(range.dataset.dimension));
    range.value = (state.z[dimension.dimension] - rest[dimension.dimension]) / dimension.scale;
    range.closest(".slider").querySelector("output").textContent = Number(range.value).toFixed(1);
  }
}

/** Show the newest z; those that come while one is computed are skipped, but for the last. */
async function preview() {
  stale = true;
  if (inFlight) return;
  inFlight = true;
  try {
    while (stale) {
      stale = false;
      const { urls } = await sendAbout("/api/decode", { codes: [state.z] }, { purpose: "preview", quiet: true });
      find("#preview").src = urls[0];
    }
  } finally {
    inFlight = false;
  }
}

/** Edit a motion code with the sliders. */
export function edit(z) {
  state.z = [...z];
  find("#tab-motion").click();
  find("#tab-motion").focus(); // what was pressed is hidden now
  if (dimensions.length) refresh();
}

function refresh() {
  if (!state.z) return;
  moveSliders();
  attempt(preview);
}

async function openLibrary() {
  const motions = await sendJson(`/api/motions?model=${encodeURIComponent(state.model.name)}`, { purpose: "library", quiet: true });
  const empty = make("li", { className: "hint", textContent: "Nothing is kept yet." });
  find("#library").replaceChildren(...(motions.length ? motions.map(entry) : [empty]));
}

function entry(motion) {
  const act = (words, work) => button(words, () => attempt(work),
    { className: "quiet", ariaLabel: `${words}: ${motion.name}` });
  return make("li", {}, make("span", {}, motion.name, " ", make("small", {}, motion.origin)),
    make("span", { className: "actions" },
      act("Apply", () => apply(motion)), act("Export", () => take(motion)), act("Delete", () => remove(motion))));
}

async function apply(motion) {
  const shown = picture();
  const { z } = await withPictures([shown], () => sendJson(`/api/motions/${motion.id}/apply`, { body: { image: shown.id } }));
  state.z = z;
  refresh();
  say(`The picture moves by ${motion.name}`);
}

async function take(motion) {
  const response = await send(`/api/motions/${motion.id}/file`);
  saveBlob(await response.blob(), nameIn(response));
}

async function remove(motion) {
  const place = [...find("#library").children].findIndex((item) => item.contains(document.activeElement));
  await send(`/api/motions/${motion.id}`, { method: "DELETE" });
  await openLibrary();
  say(`Deleted ${motion.name}`);
  const next = [...find("#library").querySelectorAll("li:has(button)")].at(place) ?? find("#library li:has(button):last-child");
  (next?.querySelector("button:last-child") ?? find("#save-form input")).focus(); // what was pressed is gone
}

find("#save-form").onsubmit = (event) => {
  event.preventDefault();
  const form = event.target;
  attempt(async () => {
    const body = { name: form.elements.name.value, model: state.model.name, z: state.z };
    await sendJson("/api/motions", { body });
    form.reset();
    await openLibrary();
    say(`Kept ${body.name}`);
  });
};
find("#import").onchange = (event) => {
  const [file] = event.target.files;
  attempt(async () => {
    let content;
    try {
      content = JSON.parse(await file.text());
    } catch {
      throw new RequestError("that file is not a motion", 0);
    }
    const { name } = await sendJson("/api/motions/import", { body: content });
    await openLibrary();
    say(`Kept ${name}`);
  });
  event.target.value = "";
};
find("#reset").onclick = () => {
  state.z = [...rest];
  refresh();
};
find("#shuffle").onclick = () => attempt(async () => {
  const seed = Math.floor(Math.random() * 1_000_000);
  const { futures } = await sendAbout("/api/futures", { count: 1, seed }, { purpose: "shuffle" });
  state.z = futures[0].z;
  refresh();
});
find("#go-on").onclick = () => attempt(async () => state.z && goOn([...state.z]));
