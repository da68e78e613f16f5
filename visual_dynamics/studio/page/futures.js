// Futures: a wall of sampled next frames that play in step; pick one to go on.
import { ask, attempt, say } from "./api.js";
import { button, figure, find, flip, make, save } from "./dom.js";
import { edit } from "./motion.js";
import { askAbout, fileAbout, goOn, nameIn, picture, state, subject, watchChange, withPictures } from "./state.js";

const MOST_IN_A_FILE = 64;
let shownFor = ""; // picture and model of the wall
let wished = {}; // what the wall was asked for with
let futures = [];

const form = () => find("#futures-form");

function wishes() {
  const { count, seed, source, strength, full_size } = form().elements;
  return { count: Number(count.value), seed: Number(seed.value), source: source.value, strength: Number(strength.value),
    full_size: full_size.checked };
}

export async function openFutures() {
  find("#download-path").hidden = state.path.length < 2;
  if (subject() === shownFor) return;
  const source = form().elements.source;
  const before = source.value;
  const names = { posteriors: "training posteriors", learned: "learned prior", prior: "N(0, I)" };
  source.replaceChildren(...state.model.sources.map((name) => make("option", { value: name, textContent: names[name] })));
  if (state.model.sources.includes(before)) source.value = before;
  try {
    await sample();
  } catch (error) {
    if (subject() !== shownFor) show([], ""); // futures of another picture would be taken for those of this one
    throw error;
  }
}

async function sample() {
  const wall = find("#wall"), isOld = watchChange(), wish = wishes();
  wall.ariaBusy = "true";
  let answer;
  try {
    answer = await askAbout("/api/futures", wish, { purpose: "futures" });
  } finally {
    wall.ariaBusy = "false";
  }
  if (isOld()) return;
  [shownFor, wished] = [subject(), wish];
  show(answer.futures, answer.input);
  announce();
}

async function more() {
  const isOld = watchChange();
  const wish = { ...wished, count: wishes().count, first: futures.length };
  const { input, futures: found } = await askAbout("/api/futures", wish, { purpose: "futures" });
  if (isOld()) return;
  futures.push(...found);
  find("#wall").append(...found.map((future) => tile(input, future)));
  announce();
}

function show(found, input) {
  const wall = find("#wall"), focused = wall.contains(document.activeElement);
  futures = found;
  wall.classList.toggle("smooth", Boolean(wished.full_size) && !state.model.sprites);
  wall.replaceChildren(...found.map((future) => tile(input, future)));
  if (focused) (wall.querySelector(".pick") ?? find("#futures")).focus();
}

/** While new futures are made, those of the wall belong to another picture or seed. */
const isBusy = () => find("#wall").ariaBusy === "true";

function announce() {
  const step = state.path.length > 1 ? ` at step ${state.path.length - 1}` : "";
  say(`${futures.length} futures of the picture${step}`);
}

function tile(input, future) {
  const name = `Future ${future.number + 1}`;
  const pick = make("button", { type: "button", className: "pick", title: "Go on from this future",
    onclick: () => isBusy() || attempt(() => goOn(future.z, wished.full_size)), attributes: { "aria-label": `${name}: go on from it` } },
  flip(input, future.url, name));
  const actions = make("span", { className: "actions" },
    button("By hand", () => edit(future.z), { className: "quiet", ariaLabel: `${name}: move it by hand` }),
    button("File", () => attempt(() => download([future.z])), { className: "quiet", ariaLabel: `${name}: download` }));
  return figure(pick, make("span", { className: "caption" }, make("span", {}, String(future.number + 1)), actions));
}

async function download(codes) {
  const body = { codes: codes.slice(0, MOST_IN_A_FILE), form: find("#form").value, full_size: wished.full_size };
  const { blob, name } = await fileAbout("/api/export", body);
  keep(blob, name);
  say(codes.length > MOST_IN_A_FILE ? `Downloaded the first ${MOST_IN_A_FILE}: more do not fit into a file` : `Downloaded ${name}`);
}

function keep(blob, name) {
  const url = URL.createObjectURL(blob);
  save(url, name);
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

async function downloadPath() {
  const more = { model: state.model.name, form: find("#form").value, full_size: Boolean(picture().step?.full_size) };
  const answer = await withPictures(state.path, () =>
    ask("/api/export/path", { body: { images: state.path.map(({ id }) => id), ...more } }));
  keep(await answer.blob(), nameIn(answer));
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
