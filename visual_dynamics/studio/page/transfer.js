// Transfer: a motion from a pair of frames to the picture, and whole animations of sprites.
import { sendJson } from "./api.js";
import { openComplete } from "./complete.js";
import { button, figure, find, flip, make, save } from "./dom.js";
import { attempt, RequestError, say } from "./messages.js";
import { picture, state, upload, withPictures } from "./state.js";

const slots = { before: null, after: null, reference: null };
let layout = null; // the JSON beside the sheet: {name, text}; null for equal cells
let samplesOf = ""; // model whose samples stand in the slots
let player = null;

export async function openTransfer() {
  find("#animation").hidden = !state.model.sprites;
  openComplete();
  if (samplesOf === state.model.name) return;
  samplesOf = state.model.name;
  const next = state.model.samples.find((id) => id.endsWith("-next"));
  slots.before = state.samples.get(next.replace("-next", ""));
  slots.after = state.samples.get(next);
  slots.reference = state.samples.get(state.model.samples.find((id) => id.endsWith("-sheet"))) ?? null;
  setLayout(null);
  find("#pair").replaceChildren(slot("before", "Before"), slot("after", "After"));
  find("#sheet").replaceChildren(slot("reference", "Sheet", takeSheet));
  find("#transfer-result").replaceChildren();
  find("#animation-result").replaceChildren();
  find("#pair-form").hidden = true;
}

/** A place for a picture: choose a file, drop one, or take a sample. */
function slot(name, words, take = takePicture) {
  const image = make("img", { src: slots[name]?.url ?? "", alt: words });
  const put = (shown) => {
    slots[name] = shown;
    image.src = shown.url;
    say(`${words} is there`);
  };
  const receive = (files) => files.length && attempt(() => take(name, [...files], put));
  const sheet = take === takeSheet;
  const input = make("input", { type: "file", className: "hidden", multiple: sheet,
    accept: sheet ? "image/*,application/json,.json" : "image/*", ariaLabel: `${words}: choose a file`,
    onchange: (event) => {
      receive(event.target.files);
      event.target.value = "";
    }, attributes: { "data-slot": name } });
  const samples = make("select", { ariaLabel: `${words}: a sample`, onchange: (event) => {
    if (event.target.value) put(state.samples.get(event.target.value));
    if (sheet) setLayout(null);
    event.target.value = "";
  } }, make("option", { value: "", textContent: "Sample …" }),
  ...state.model.samples.map((id) => make("option", { value: id, textContent: id.replaceAll("-", " ") })));
  return make("div", { className: "slot", ondrop: (event) => receive(event.dataTransfer.files) },
    make("strong", {}, words), image,
    make("div", { className: "actions" }, make("label", { className: "button" }, input, "Choose"), samples));
}

async function takePicture(name, [file], put) {
  put(await upload(file, { purpose: name }));
}

/** A sheet, its JSON, or both; a sheet alone has equal cells. */
async function takeSheet(name, files, put) {
  const isJson = (file) => file.name.toLowerCase().endsWith(".json");
  const [json, sheet] = [files.find(isJson), files.find((file) => !isJson(file))];
  const text = await json?.text();
  if (sheet) put(await upload(sheet, { purpose: name, exact: true }));
  setLayout(json ? { name: json.name, text } : null);
}

function setLayout(found) {
  layout = found;
  find("#cells").hidden = layout !== null;
  find("#tags").hidden = layout === null;
  for (const field of find("#cells").querySelectorAll("input")) field.disabled = layout !== null; // and no value is required
  const all = make("option", { value: "", textContent: "the one of the start pose" });
  find("#tags select").replaceChildren(all, ...tagsIn(layout).map((name) => make("option", { value: name, textContent: name })));
  find("#tags span").textContent = `Tag of ${layout?.name}`;
}

/** Names of tags to choose from; the studio reports the errors of a layout. */
function tagsIn(found) {
  try {
    return JSON.parse(found?.text ?? "{}").meta.frameTags.map(({ name }) => String(name));
  } catch {
    return [];
  }
}

async function transfer() {
  const { before, after } = slots, target = picture(), model = state.model.name;
  const found = await withPictures([before, after, target], () => sendJson("/api/transfer", {
    body: { model, before: before.id, after: after.id, target: target.id } }));
  find("#transfer-result").replaceChildren(
    figure(flip(found.before, found.after, "The reference"), "The reference"),
    figure(flip(found.target, found.result, "The result"), "The picture moves alike"));
  find("#pair-form").hidden = false;
  say("The motion was applied to the picture");
}

async function animate(form) {
  if (!slots.reference) throw new RequestError("choose a sheet first", 0);
  const { reference: sheet } = slots, target = picture();
  const value = (name) => form.elements[name].value;
  const optional = (name) => (value(name) === "" ? null : value(name));
  const cells = () => ({ cell_width: Number(value("cell_width")), cell_height: Number(value("cell_height")),
    row: optional("row") && Number(value("row")) });
  const frames = layout ? { layout: layout.text, tag: optional("tag") } : cells();
  const options = { model: state.model.name, pose: Number(value("pose")), loop: form.elements.loop.checked, ...frames };
  const found = await withPictures([sheet, target], () =>
    sendJson("/api/animate", { body: { reference: sheet.id, target: target.id, ...options } }));
  const [reference, result] = [make("img", { alt: "The reference" }), make("img", { alt: "The result" })];
  const files = found.files.map(({ name, url }) =>
    button(name, () => save(url, name), { className: "quiet", ariaLabel: `Download ${name}` }));
  const strip = make("div", { className: "strip" }, ...found.frames.map((src, place) => make("img", { src, alt: `Frame ${place + 1}` })));
  find("#animation-result").replaceChildren(
    figure(make("div", { className: "flip" }, reference), "The reference"),
    figure(make("div", { className: "flip" }, result), "The picture moves alike"),
    make("div", { className: "wide" }, make("p", { className: "hint", textContent: found.warning }), strip,
      make("div", { className: "actions" }, ...files)));
  play(reference, result, found);
  say(`An animation of ${found.frames.length} frames`);
}

/** Both animations in step; held still where nothing should move. */
function play(reference, result, found) {
  clearTimeout(player);
  let frame = 0;
  const step = () => {
    reference.src = found.reference[frame];
    result.src = found.frames[frame];
    const playing = document.body.classList.contains("playing");
    const wait = playing ? found.durations[frame] : 300;
    if (playing) frame = (frame + 1) % found.frames.length;
    player = setTimeout(step, wait);
  };
  step();
}

find("#transfer-run").onclick = () => attempt(transfer);
find("#animation-form").onsubmit = (event) => {
  event.preventDefault();
  attempt(() => animate(event.target));
};
find("#pair-form").onsubmit = (event) => {
  event.preventDefault();
  const form = event.target;
  attempt(async () => {
    const body = { name: form.elements.name.value, model: state.model.name, before: slots.before.id, after: slots.after.id };
    await sendJson("/api/motions/pair", { body });
    form.reset();
    say(`Kept ${body.name}: the library of the tab Motion has it`);
  });
};
