// Complete a character: its sheets in, what it lacks drawn beside the reference, all of it as a ZIP.
import { send, sendJson } from "./api.js";
import { button, figure, find, make, saveBlob } from "./dom.js";
import { attempt, RequestError, say } from "./messages.js";
import { chosen, dropped } from "./sheets.js";
import { nameIn, state } from "./state.js";

const FRAME_TIME = 100; // milliseconds
let character = null; // {id, name, blob, file, ...} as the studio has read it
let player = null;

/** Say which model will draw. */
export function openComplete() {
  find("#complete-model").textContent = `Model: ${modelName()}`;
}

const counted = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

async function take({ name, blob }) {
  const shown = await readIn(name, blob);
  character = { ...shown, file: name, blob };
  clearTimeout(player);
  find("#complete-result").replaceChildren();
  find("#character-name").textContent = shown.name;
  find("#character-has").textContent = listed(shown.animations);
  find("#character-remarks").replaceChildren(...lines([...shown.remarks, shown.problem]));
  find("#missing").replaceChildren(make("legend", {}, `Missing: ${shown.missing.length}`), ...shown.missing.map(choice));
  find("#character").hidden = false;
  find("#complete-form").hidden = !shown.missing.length;
  say(`${shown.name}: ${counted(shown.animations.length, "animation")}, ${shown.missing.length} missing`);
}

const readIn = (name, blob) =>
  sendJson(`/api/characters?name=${encodeURIComponent(name)}`, { body: blob, purpose: "character" });

const listed = (animations) => animations.map(({ name, frames }) => `${name} (${frames})`).join(", ");

const lines = (words) => words.filter(Boolean).map((each) => make("li", {}, `${each.charAt(0).toUpperCase()}${each.slice(1)}.`));

function choice({ name, frames, reference }) {
  const box = make("input", { type: "checkbox", name: "animation", value: name, checked: true });
  return make("label", { className: "switch", title: `After ${reference}` }, box, `${name} (${frames})`);
}

async function complete(form) {
  const boxes = [...form.querySelectorAll("[name=animation]:checked")];
  if (!boxes.length) throw new RequestError("choose an animation to draw", 0);
  const value = (name) => form.elements[name].value || null;
  const layer = { layer: true, whole: false }[form.elements.layer.value] ?? null;
  const options = { animations: boxes.map((box) => box.value), model: modelName(), body: value("body"), layer,
    force: form.elements.force.checked };
  const asked = character;
  const found = await withCharacter(asked, () =>
    sendJson("/api/complete", { body: { character: asked.id, ...options } }));
  if (asked !== character) return;
  const marked = found.marked.length;
  find("#complete-result").replaceChildren(
    make("div", { className: "controls" },
      button("Download all as ZIP", () => attempt(() => download(found)), { className: "primary" }),
      make("span", { className: "hint" }, `${counted(found.frames, "new frame")}, ${marked || "none"} of them doubtful. A doubtful ` +
        `frame has a red border: its expected error is above ${Math.round(100 * found.limit)} % of that of standing still.`)),
    make("ul", { className: "plain" }, ...lines(found.remarks)),
    ...(await Promise.all(found.animations.map((animation) => card(animation, found.limit)))));
  play();
  say(`${counted(found.frames, "frame")} drawn, ${marked || "none"} of them doubtful`);
}

/** The chosen model if it can; else the shipped one. */
const modelName = () => (state.model.completes ? state.model.name : "sprites-lpc-poses");

/** Do work with a character; if the studio has dropped it, upload it again. */
async function withCharacter(shown, work) {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof RequestError) || error.status !== 404 || !error.message.startsWith("no character")) throw error;
    Object.assign(shown, { id: (await readIn(shown.file, shown.blob)).id });
    return work();
  }
}

async function download({ id }) {
  const response = await send(`/api/completed/${id}`);
  saveBlob(await response.blob(), nameIn(response));
}

async function card({ name, reference, clips }, limit) {
  const views = await Promise.all(clips.map((clip) => side(name, clip, limit)));
  return make("article", { className: "card" }, make("h3", {}, name), make("p", { className: "hint" }, `After ${reference}`),
    make("div", { className: "sides" }, ...views));
}

/** An animation from one side: drawn and reference in step, then each drawn frame. */
async function side(name, { view, frames, drawn, reference, doubts }, limit) {
  const [own, other] = await Promise.all([drawn, reference].map(loaded));
  const doubtful = doubts.flatMap((doubt, frame) => (doubt > limit ? [frame] : []));
  const each = doubts.map((doubt, frame) => {
    const words = `${name} ${view}, frame ${frame}: doubt ${doubt.toFixed(2)}`;
    const canvas = still(own, frames, frame, words);
    canvas.title = words;
    canvas.classList.toggle("doubtful", doubt > limit);
    return canvas;
  });
  const which = doubtful.length === frames ? "all" : doubtful.join(", ") || "none";
  return make("div", {}, make("div", { className: "pair" },
    figure(moving(own, frames, `${name} ${view}, drawn`), `${view}, drawn`),
    figure(moving(other, frames, `${name} ${view}, the reference`), "reference")),
  make("div", { className: "frames" }, ...each), make("p", { className: "hint" }, `Frames 0 to ${frames - 1}, doubtful: ${which}`));
}

async function loaded(url) {
  const image = make("img", { src: url });
  await image.decode();
  return image;
}

function still(strip, frames, frame, words) {
  const canvas = make("canvas", { width: strip.naturalWidth / frames, height: strip.naturalHeight,
    attributes: { role: "img", "aria-label": words } });
  paint(canvas, strip, frame);
  return canvas;
}

function moving(strip, frames, words) {
  const canvas = still(strip, frames, 0, words);
  Object.assign(canvas, { className: "moving", strip, frames });
  return canvas;
}

function paint(canvas, strip, frame) {
  const context = canvas.getContext("2d");
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.drawImage(strip, -frame * canvas.width, 0);
}

/** All clips in step; held still where nothing should move. */
function play() {
  clearTimeout(player);
  const canvases = [...document.querySelectorAll("#complete-result .moving")];
  let time = 0;
  const step = () => {
    if (document.body.classList.contains("playing")) time += 1;
    for (const canvas of canvases) paint(canvas, canvas.strip, time % canvas.frames);
    player = setTimeout(step, FRAME_TIME);
  };
  step();
}

for (const input of [find("#character-files"), find("#character-folder")]) {
  input.onchange = () => {
    const files = [...input.files];
    input.value = "";
    if (files.length) attempt(async () => take(await chosen(files)));
  };
}
find("#character-drop").ondrop = (event) => {
  const { dataTransfer } = event; // its items are gone after this call
  attempt(async () => take(await dropped(dataTransfer)));
};
for (const [id, checked] of [["#choose-all", true], ["#choose-none", false]]) {
  find(id).onclick = () => {
    for (const box of find("#missing").querySelectorAll("input")) box.checked = checked;
  };
}
find("#complete-form").onsubmit = (event) => {
  event.preventDefault();
  attempt(() => complete(event.target));
};
