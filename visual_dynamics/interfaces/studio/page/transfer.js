// Transfer: a motion from a pair of frames to the picture, and whole animations of sprites.
import { askJson, attempt, Problem } from "./api.js";
import { button, figure, find, flip, make, save } from "./dom.js";
import { picture, state, upload, withPicture } from "./state.js";

const slots = { before: null, after: null, reference: null };
let samplesOf = ""; // model whose samples stand in the slots
let player = null;

export async function openTransfer() {
  find("#animation").hidden = !state.model.sprites;
  if (samplesOf === state.model.name) return;
  samplesOf = state.model.name;
  const next = state.model.samples.find((id) => id.endsWith("-next"));
  slots.before = state.samples.get(next.replace("-next", ""));
  slots.after = state.samples.get(next);
  slots.reference = state.samples.get(state.model.samples.find((id) => id.endsWith("-sheet"))) ?? null;
  find("#pair").replaceChildren(slot("before", "Before"), slot("after", "After"));
  find("#sheet").replaceChildren(slot("reference", "Sheet"));
  find("#transfer-result").replaceChildren();
  find("#animation-result").replaceChildren();
  find("#pair-form").hidden = true;
}

/** A place for a picture: choose a file, drop one, or take a sample. */
function slot(name, words) {
  const image = make("img", { src: slots[name]?.url ?? "", alt: words });
  const put = (shown) => {
    slots[name] = shown;
    image.src = shown.url;
  };
  const take = (file) => file && attempt(async () => put(await upload(file)));
  const input = make("input", { type: "file", className: "hidden", accept: "image/*",
    onchange: (event) => take(event.target.files[0]), attributes: { "data-slot": name } });
  const samples = make("select", { ariaLabel: `${words}: a sample`, onchange: (event) => {
    if (event.target.value) put(state.samples.get(event.target.value));
    event.target.value = "";
  } }, make("option", { value: "", textContent: "Sample …" }),
  ...state.model.samples.map((id) => make("option", { value: id, textContent: id.replaceAll("-", " ") })));
  return make("div", { className: "slot", ondrop: (event) => take(event.dataTransfer.files[0]) },
    make("strong", {}, words), image,
    make("div", { className: "actions" }, make("label", { className: "button" }, input, "Choose"), samples));
}

async function transfer() {
  const { before, after } = slots;
  const found = await withPicture(before, () => withPicture(after, () => withPicture(picture(), () =>
    askJson("/api/transfer", { body: {
      model: state.model.name, before: before.id, after: after.id, target: picture().id } }))));
  find("#transfer-result").replaceChildren(
    figure(flip(found.before, found.after, "The reference"), "The reference"),
    figure(flip(found.target, found.result, "The result"), "The picture moves alike"));
  find("#pair-form").hidden = false;
}

async function animate(form) {
  if (!slots.reference) throw new Problem("choose a sheet first", 0);
  const number = (name) => Number(form.elements[name].value);
  const row = form.elements.row.value;
  const found = await withPicture(slots.reference, () => withPicture(picture(), () => askJson("/api/animate", { body: {
    model: state.model.name, reference: slots.reference.id, target: picture().id,
    cell_width: number("cell_width"), cell_height: number("cell_height"), pose: number("pose"),
    row: row === "" ? null : Number(row), loop: form.elements.loop.checked } })));
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
    await askJson("/api/motions/pair", { body });
    form.reset();
    find("#status").textContent = "Kept: the library of the tab Motion has it.";
  });
};
