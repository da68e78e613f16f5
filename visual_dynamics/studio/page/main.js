// The frame around the tabs: models, the picture, samples, the path, and which tab is open.
import { sendJson } from "./api.js";
import { find, make } from "./dom.js";
import { openFutures } from "./futures.js";
import { openInside } from "./inside.js";
import { attempt, say } from "./messages.js";
import { openMotion } from "./motion.js";
import { backTo, begin, changed, onChange, picture, sendAbout, state, upload, watchChange } from "./state.js";
import { openTransfer } from "./transfer.js";

const TABS = { futures: openFutures, motion: openMotion, transfer: openTransfer, inside: openInside };
let open = "futures";

function show(name, focus = false) {
  open = name;
  for (const tab of document.querySelectorAll("[role=tab]")) {
    const chosen = tab.getAttribute("aria-controls") === name;
    tab.setAttribute("aria-selected", chosen);
    tab.tabIndex = chosen ? 0 : -1;
    if (chosen && focus) tab.focus();
    find(`#${tab.getAttribute("aria-controls")}`).hidden = !chosen;
  }
  history.replaceState(null, "", `#${name}`);
  say("");
  if (picture()) attempt(TABS[name]); // else the first picture opens it
}

function tabs() {
  const list = [...document.querySelectorAll("[role=tab]")];
  for (const tab of list) tab.onclick = () => show(tab.getAttribute("aria-controls"));
  find("[role=tablist]").onkeydown = (event) => {
    const place = list.indexOf(document.activeElement);
    const targets = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: list.length - 1 };
    if (place < 0 || !(event.key in targets)) return;
    event.preventDefault();
    const next = list[(targets[event.key] + list.length) % list.length];
    show(next.getAttribute("aria-controls"), true);
  };
}

function choose(name) {
  state.model = state.models.find((model) => model.name === name);
  state.z = null;
  find("#about").textContent = state.model.about;
  find("#samples").replaceChildren(...state.model.samples.map((id) => sampleButton(state.samples.get(id))));
}

function sampleButton(sample) {
  const name = `Sample ${sample.id.replaceAll("-", " ")}`;
  return make("button", { type: "button", className: "sample", title: name, onclick: () => begin({ ...sample }),
    attributes: { "aria-label": name, "data-id": sample.id } }, make("img", { src: sample.url, alt: "" }));
}

async function take(file) {
  if (!file) return;
  await attempt(async () => begin(await upload(file)));
}

function intake() {
  const drop = find("#drop");
  find("#file").onchange = (event) => {
    take(event.target.files[0]);
    event.target.value = "";
  };
  for (const name of ["dragover", "drop"]) document.addEventListener(name, (event) => event.preventDefault());
  document.addEventListener("dragover", () => drop.classList.add("over"));
  document.addEventListener("dragleave", () => drop.classList.remove("over"));
  document.addEventListener("drop", (event) => {
    drop.classList.remove("over");
    if (!event.target.closest?.(".slot")) take(event.dataTransfer.files[0]);
  });
  document.addEventListener("paste", (event) => {
    const file = [...(event.clipboardData?.files ?? [])].find((each) => each.type.startsWith("image/"));
    if (file) take(file);
  });
}

function showPicture() {
  const now = picture();
  find("#picture").src = now.url;
  for (const sample of document.querySelectorAll(".sample")) {
    sample.setAttribute("aria-pressed", sample.dataset.id === state.path[0].id);
  }
  showPath();
}

/** A line by the picture where the model has not learned from such pictures. */
async function warn() {
  const line = find("#unfamiliar"), isOld = watchChange();
  line.hidden = true;
  const { warning } = await sendAbout("/api/familiar", {}, { quiet: true });
  if (isOld()) return;
  line.textContent = warning && `${warning.charAt(0).toUpperCase()}${warning.slice(1)}.`;
  line.hidden = !warning;
}

function showPath() {
  const path = find("#path"), focused = path.contains(document.activeElement);
  path.hidden = state.path.length < 2;
  path.replaceChildren(...state.path.map((step, place) => {
    const last = place === state.path.length - 1;
    const words = place === 0 ? "Start" : `Step ${place}`;
    const image = make("img", { src: step.url, alt: "" });
    return make("button", { type: "button", title: words, onclick: () => backTo(place),
      attributes: { "aria-label": last ? `${words}, shown now` : `Back to ${words.toLowerCase()}`,
        ...(last ? { "aria-current": "step" } : {}) } }, image);
  }));
  if (focused) (path.hidden ? find("#file") : path.lastChild).focus(); // what was pressed is another button now
}

async function start() {
  tabs();
  intake();
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  find("#play").checked = !calm;
  find("#play").onchange = (event) => document.body.classList.toggle("playing", event.target.checked);
  document.body.classList.toggle("playing", !calm);
  await attempt(async () => {
    const [models, samples] = await Promise.all([sendJson("/api/models"), sendJson("/api/samples")]);
    state.models = models;
    state.samples = new Map(samples.map((sample) => [sample.id, sample]));
    const select = find("#model");
    select.replaceChildren(...models.map(({ name }) => make("option", { value: name, textContent: name })));
    const first = models.find(({ name }) => name === "shapes") ?? models[0];
    select.value = first.name;
    choose(first.name);
    select.onchange = () => {
      choose(select.value);
      const known = state.model.samples.includes(state.path[0].id) || !state.samples.has(state.path[0].id);
      if (known) changed();
      else begin({ ...state.samples.get(state.model.samples[0]) });
    };
    onChange(() => {
      showPicture();
      attempt(TABS[open]).then(() => attempt(warn, false));
    });
    const wanted = location.hash.slice(1);
    if (wanted in TABS) show(wanted);
    begin({ ...state.samples.get(state.model.samples[0]) });
  });
}

start();
