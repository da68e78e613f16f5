// Futures: a wall of sampled next frames that play in step; pick one to go on.
import { send } from "./api.js";
import { button, figure, find, flip, make, saveBlob } from "./dom.js";
import { attempt, say } from "./messages.js";
import { edit } from "./motion.js";
import { onPoke, poke } from "./poke.js";
import { sendAbout, fileAbout, goOn, nameIn, picture, state, subject, watchChange, withPictures } from "./state.js";

const MOST_IN_A_FILE = 64;
let shownFor = ""; // picture and model of the wall
let options = {}; // of the futures on the wall
let futures = [];

const form = () => find("#futures-form");

function formOptions() {
  const { count, seed, source, strength, full_size } = form().elements;
  return { count: Number(count.value), seed: Number(seed.value), source: source.value, strength: Number(strength.value),
    full_size: full_size?.checked ?? false, ...(poke() ? { poke: poke() } : {}) };
}

export async function openFutures() {
  find("#download-path").hidden = state.path.length < 2;
  if (subject() === shownFor) return;
  const source = form().elements.source;
  const before = source.value;
  const names = { conditional: "p(z | image)", posteriors: "training posteriors", learned: "learned prior", prior: "N(0, I)" };
  source.replaceChildren(...state.model.sources.map((name) => make("option", { value: name, textContent: names[name] })));
  if (state.model.sources.includes(before)) source.value = before;
  try {
    await sample();
  } catch (error) {
    if (subject() !== shownFor) show([], ""); // or people would think that they belong to this picture
    throw error;
  }
}

async function sample() {
  const wall = find("#wall"), isOld = watchChange(), wanted = formOptions();
  wall.ariaBusy = "true";
  let response;
  try {
    response = await sendAbout("/api/futures", wanted, { purpose: "futures" });
  } finally {
    wall.ariaBusy = "false";
  }
  if (isOld()) return;
  [shownFor, options] = [subject(), wanted];
  show(response.futures, response.input);
  announce(response.fitting);
}

async function more() {
  const isOld = watchChange();
  const wanted = { ...options, count: formOptions().count, first: futures.length };
  const { input, futures: found } = await sendAbout("/api/futures", wanted, { purpose: "futures" });
  if (isOld()) return;
  futures.push(...found);
  find("#wall").append(...found.map((future) => tile(input, future)));
  announce();
}

function show(found, input) {
  const wall = find("#wall"), focused = wall.contains(document.activeElement);
  futures = found;
  wall.classList.toggle("smooth", Boolean(options.full_size) && !state.model.sprites);
  wall.replaceChildren(...found.map((future) => tile(input, future)));
  if (focused) (wall.querySelector(".pick") ?? find("#futures")).focus();
}

/** New futures will come: those of the wall belong to another picture or seed. */
const isBusy = () => find("#wall").ariaBusy === "true";

function announce(fitting = null) {
  const step = state.path.length > 1 ? ` at step ${state.path.length - 1}` : "";
  const poked = fitting === null ? "" : `; about ${Math.round(fitting)} of the codes tried fit the poke`;
  say(`${futures.length} futures of the picture${step}${poked}`);
}

function tile(input, future) {
  const name = `Future ${future.number + 1}`;
  const pick = make("button", { type: "button", className: "pick", title: "Go on from this future",
    onclick: () => isBusy() || attempt(() => goOn(future.z, options.full_size)), attributes: { "aria-label": `${name}: go on from it` } },
  flip(input, future.url, name));
  const act = (words, action, label) => button(words, action, { className: "quiet", ariaLabel: `${name}: ${label}` });
  const actions = make("span", { className: "actions" },
    act("Enlarge", () => enlarge(input, future.url, name), "enlarge"), act("Edit", () => edit(future.z), "edit its motion"),
    act("Save", () => attempt(() => download([future.z])), "save as a file"));
  return figure(pick, make("span", { className: "caption" }, make("span", {}, String(future.number + 1)), actions));
}

/** A future in turn with its input; a large picture at its own size. */
function enlarge(input, url, name) {
  const dialog = find("#large");
  dialog.className = find("#wall").classList.contains("smooth") ? "smooth" : "";
  dialog.replaceChildren(button("Close", () => dialog.close(), { className: "primary" }), flip(input, url, name));
  dialog.showModal();
}

async function download(codes) {
  const body = { codes: codes.slice(0, MOST_IN_A_FILE), form: find("#form").value, full_size: options.full_size };
  const { blob, name } = await fileAbout("/api/export", body);
  saveBlob(blob, name);
  say(codes.length > MOST_IN_A_FILE ? `Downloaded the first ${MOST_IN_A_FILE}: more do not fit into a file` : `Downloaded ${name}`);
}

async function downloadPath() {
  const more = { model: state.model.name, form: find("#form").value, full_size: Boolean(picture().step?.full_size) };
  const response = await withPictures(state.path, () =>
    send("/api/export/path", { body: { images: state.path.map(({ id }) => id), ...more } }));
  saveBlob(await response.blob(), nameIn(response));
}

form().onsubmit = (event) => {
  event.preventDefault();
  attempt(sample);
};
form().elements.strength.oninput = (event) => {
  find("#strength-shown").textContent = Number(event.target.value).toFixed(1);
};
find("#other-seed").onclick = () => {
  form().elements.seed.value = Math.floor(Math.random() * 1_000_000);
  attempt(sample);
};
find("#more").onclick = () => futures.length && attempt(more);
find("#download-all").onclick = () => futures.length && attempt(() => download(futures.map(({ z }) => z)));
find("#download-path").onclick = () => attempt(downloadPath);
onPoke(() => attempt(sample));
