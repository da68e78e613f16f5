// Futures: a wall of sampled next frames that play in step; pick one to go on.
import { ask, attempt } from "./api.js";
import { button, figure, find, flip, make, save } from "./dom.js";
import { edit } from "./motion.js";
import { askAbout, fileAbout, goOn, nameIn, picture, state } from "./state.js";

let shownFor = ""; // picture and model of the wall
let futures = [];

const form = () => find("#futures-form");

function wishes() {
  const { count, seed, source, strength } = form().elements;
  return { count: Number(count.value), seed: Number(seed.value), source: source.value, strength: Number(strength.value) };
}

export async function openFutures() {
  const key = `${picture().id} ${state.model.name}`;
  find("#download-path").hidden = state.path.length < 2;
  if (key === shownFor) return;
  const source = form().elements.source;
  const before = source.value;
  const names = { posteriors: "training posteriors", learned: "learned prior", prior: "N(0, I)" };
  source.replaceChildren(...state.model.sources.map((name) => make("option", { value: name, textContent: names[name] })));
  if (state.model.sources.includes(before)) source.value = before;
  await sample();
}

async function sample() {
  const key = `${picture().id} ${state.model.name}`;
  find("#wall").ariaBusy = "true";
  let answer;
  try {
    answer = await askAbout("/api/futures", wishes(), { purpose: "futures" });
  } finally {
    find("#wall").ariaBusy = "false";
  }
  const { input, futures: found } = answer;
  shownFor = `${picture().id} ${state.model.name}`;
  if (key.split(" ")[1] !== state.model.name) return;
  futures = found;
  find("#wall").replaceChildren(...found.map((future) => tile(input, future)));
  announce();
}

async function more() {
  const wanted = { ...wishes(), first: futures.length };
  const { input, futures: found } = await askAbout("/api/futures", wanted, { purpose: "futures" });
  futures.push(...found);
  find("#wall").append(...found.map((future) => tile(input, future)));
  announce();
}

function announce() {
  find("#status").textContent = `${futures.length} futures of the picture`;
}

function tile(input, future) {
  const name = `Future ${future.number + 1}`;
  const pick = make("button", { type: "button", className: "pick", title: "Go on from this future",
    onclick: () => attempt(() => goOn(future.z)), attributes: { "aria-label": `${name}: go on from it` } },
  flip(input, future.url, name));
  const actions = make("span", { className: "actions" },
    button("By hand", () => edit(future.z), { className: "quiet", ariaLabel: `${name}: move it by hand` }),
    button("File", () => attempt(() => download([future.z])), { className: "quiet", ariaLabel: `${name}: download` }));
  return figure(pick, make("span", { className: "caption" }, make("span", {}, String(future.number + 1)), actions));
}

async function download(codes) {
  const { blob, name } = await fileAbout("/api/export", { codes, form: find("#form").value });
  keep(blob, name);
}

function keep(blob, name) {
  const url = URL.createObjectURL(blob);
  save(url, name);
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

async function downloadPath() {
  const body = { images: state.path.map(({ id }) => id), model: state.model.name, form: find("#form").value };
  const answer = await ask("/api/export/path", { body });
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
find("#more").onclick = () => attempt(more);
find("#download-all").onclick = () => attempt(() => download(futures.slice(0, 64).map(({ z }) => z)));
find("#download-path").onclick = () => attempt(downloadPath);
