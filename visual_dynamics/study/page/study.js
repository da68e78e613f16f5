// The page of a study. Served, it gets trials from its server and sends answers to it. As a file of its own, with all
// data in #offline, it keeps the answers. An answer stays in localStorage until the server has confirmed that it is on
// the disk: neither a reload nor a crash of the server loses one.
"use strict";

const LARGEST_PIXEL_ART = 64; // pixels a side; larger clips are enlarged with smoothing
const RETRY = 500, LONGEST_RETRY = 8000; // milliseconds
const LONGEST_ANSWER = 7 * 24 * 3600 * 1000; // milliseconds, as the server has it
const KEYS = {ArrowLeft: "left", ArrowRight: "right", y: "yes", n: "no"};
const find = id => document.getElementById(id);
const sleep = time => new Promise(done => setTimeout(done, time));

// ---- What the browser remembers. Every answer has its own key: two tabs do not overwrite each other's answers.

const memory = new Map(); // for browsers without storage
let prefix = "";

function remember(name, value) {
  try { localStorage.setItem(prefix + name, JSON.stringify(value)); } catch { memory.set(prefix + name, value); }
}

function recall(name) {
  try {
    const text = localStorage.getItem(prefix + name);
    if (text !== null) return JSON.parse(text);
  } catch { /* no storage, or not ours */ }
  return memory.get(prefix + name) ?? null;
}

function forget(name) {
  memory.delete(prefix + name);
  try { localStorage.removeItem(prefix + name); } catch { /* no storage */ }
}

function rememberedAnswers() {
  const names = [...memory.keys()];
  try { names.push(...Object.keys(localStorage)); } catch { /* no storage */ }
  const start = `${prefix}answer/`;
  const trials = new Set(names.filter(name => name.startsWith(start)).map(name => Number(name.slice(start.length))));
  return [...trials].sort((a, b) => a - b).map(trial => ({trial, ...recall(`answer/${trial}`)}));
}

function rememberAnswer({trial, answer, milliseconds}) {
  if (recall(`answer/${trial}`) === null) remember(`answer/${trial}`, {answer, milliseconds}); // the first one counts
}

// ---- A study on a server.

class RequestError extends Error {
  constructor(status, message) { super(message); this.status = status; }
}

async function send(address, body) {
  const options = body === undefined ? {} :
    {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(body)};
  const response = await fetch(address, {cache: "no-store", ...options});
  const content = await response.json();
  if (!response.ok) throw new RequestError(response.status, content.error);
  return content;
}

const isTemporary = error => !(error instanceof RequestError) || error.status >= 500 || error.status === 429;

// Try again until the server responds; an error of the request itself is final.
async function retry(action) {
  for (let pause = RETRY; ; pause = Math.min(2 * pause, LONGEST_RETRY)) {
    try {
      const result = await action();
      say("");
      return result;
    } catch (error) {
      if (!isTemporary(error)) throw error;
      const problem = error.status === 507 ? `${error.message}.` : "No connection to the study at the moment.";
      say(`${problem} Your answers are kept here; the page tries again by itself.`);
      await sleep(pause);
    }
  }
}

const served = {
  about: () => retry(() => send("api/study")),
  known: () => recall("rater") !== null,
  join: async recruited => remember("rater", (await retry(() => send("api/raters", {recruited}))).rater),
  picture: clip => `clips/${clip}.png`,
  sending: false,

  async trials() {
    const own = `api/raters/${recall("rater")}`;
    const {trials: total} = await retry(() => send(own));
    const waiting = await retry(() => send(`${own}/trials?count=${total}`));
    const given = new Set(rememberedAnswers().map(one => one.trial));
    return {total, waiting: waiting.filter(one => !given.has(one.trial))};
  },

  async send() {
    if (this.sending) return;
    this.sending = true;
    try {
      for (let next; (next = rememberedAnswers()[0]) !== undefined;) {
        await retry(() => send(`api/raters/${recall("rater")}/answers`, next));
        forget(`answer/${next.trial}`);
      }
    } catch (error) {
      say(`The study cannot take an answer: ${error.message}.`);
    }
    this.sending = false;
  },

  async end() {
    find("end-text").textContent = "Your last answers are being sent: please keep this page open.";
    while (rememberedAnswers().length) { await this.send(); await sleep(RETRY); }
    const {completion} = await retry(() => send(`api/raters/${recall("rater")}`));
    const link = completion.includes(":"); // a code has none
    const last = completion ? "" : " You may close this page.";
    find("end-text").textContent = `All your answers have been received.${last}`;
    find("completion").hidden = !completion;
    find("completion-text").textContent = link ? "One step is left: " : "Your completion code: ";
    find("completion-link").textContent = link ? "finish at the recruiting service" : "";
    find("completion-code").textContent = link ? "" : completion;
    if (link) find("completion-link").href = completion;
  },
};

// ---- A study in a file of its own.

function filed(data) {
  const text = () => JSON.stringify({
    format: data.answers, study: data.about.study, rater: recall("rater"), session: recall("session"),
    answers: rememberedAnswers(),
  });
  return {
    about: async () => data.about,
    known: () => recall("rater") !== null,
    picture: clip => data.pictures[clip],

    async join() {
      const chosen = Number(location.hash.slice(1)) - 1; // study.html#3: the third session
      const free = crypto.getRandomValues(new Uint32Array(1))[0] % data.sessions.length;
      remember("session", data.sessions[chosen] ? chosen : free);
      const bytes = crypto.getRandomValues(new Uint8Array(16));
      remember("rater", [...bytes].map(byte => byte.toString(16).padStart(2, "0")).join(""));
    },

    async trials() {
      const session = data.sessions[recall("session")];
      const given = new Set(rememberedAnswers().map(one => one.trial));
      const all = session.map((clips, trial) => ({trial, clips}));
      this.offer();
      return {total: session.length, waiting: all.filter(one => !given.has(one.trial))};
    },

    async send() { this.offer(); },

    offer() {
      find("save-now").hidden = rememberedAnswers().length === 0;
      find("answers").value = text();
    },

    async end() {
      find("end-text").textContent = "One step is left.";
      find("file").hidden = false;
    },

    download() {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([text()], {type: "application/json"}));
      link.download = `answers_${recall("rater").slice(0, 8)}.json`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
      say("Saved.");
    },

    async copy() {
      find("answers").select();
      try { await navigator.clipboard.writeText(text()); } catch { document.execCommand("copy"); }
      say("Copied.");
    },
  };
}

// ---- What is shown.

const embedded = find("offline");
const source = embedded ? filed(JSON.parse(embedded.textContent)) : served;
let stage; // the element that shows clips: #choice or #realistic

function say(words) { if (find("status").textContent !== words) find("status").textContent = words; }

function show(name) {
  for (const section of ["consent", "trial", "end", "gone"]) find(section).hidden = section !== name;
}

// A decoded picture; tries again while the server is away.
async function loaded(clip) {
  await retry(async () => {
    const image = new Image();
    image.src = source.picture(clip);
    await image.decode();
  });
  return source.picture(clip);
}

function shownOnce(frames, time) { // plays all clips in step: one property tells the frame of them all
  return new Promise(done => {
    let shown = 1; // frames, since the clips appeared
    stage.style.setProperty("--frames", frames);
    stage.style.setProperty("--frame", 0);
    clearInterval(shownOnce.clock);
    shownOnce.clock = setInterval(() => {
      if (document.hidden) return; // the page is not in sight
      stage.style.setProperty("--frame", shown % frames);
      shown += 1;
      if (shown === frames + 1) done();
    }, time);
  });
}

function answered() {
  const buttons = [...stage.querySelectorAll(".answer")];
  const choices = new Map(buttons.map(button => [button.dataset.answer, button]));
  return new Promise(done => {
    const finish = answer => {
      document.removeEventListener("keydown", pressed);
      for (const button of buttons) button.onclick = null;
      done(answer);
    };
    const pressed = event => {
      const answer = KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
      if (!choices.has(answer) || event.repeat || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      finish(answer);
    };
    document.addEventListener("keydown", pressed);
    for (const button of buttons) button.onclick = () => finish(button.dataset.answer);
  });
}

function enable(yes) {
  for (const button of stage.querySelectorAll(".answer")) button.setAttribute("aria-disabled", String(!yes));
  find("hint").style.visibility = yes ? "hidden" : "visible";
}

async function askAbout({trial, clips}, number, total, time) {
  enable(false);
  const pictures = await Promise.all(clips.map(loaded));
  find("count").textContent = `Question ${number} of ${total}`;
  find("bar").max = total;
  find("bar").value = number - 1;
  const images = [...stage.querySelectorAll("img")];
  images.forEach((image, place) => { image.src = pictures[place]; });
  await Promise.all(images.map(image => image.decode()));
  const {naturalWidth: width, naturalHeight: size} = images[0]; // a clip's frames are squares side by side
  stage.classList.toggle("smooth", size > LARGEST_PIXEL_ART);
  const began = performance.now();
  await shownOnce(width / size, time);
  enable(true);
  const answer = await answered();
  const milliseconds = Math.min(Math.round(performance.now() - began), LONGEST_ANSWER);
  rememberAnswer({trial, answer, milliseconds});
  source.send();
}

async function run() {
  const about = await source.about();
  const recruited = (about.parameter && new URLSearchParams(location.search).get(about.parameter)) || "";
  prefix = `visual-dynamics-study/${about.study}/${recruited ? `${recruited}/` : ""}`; // a rater's own, on a shared machine
  document.title = about.title;
  for (const element of document.querySelectorAll("[data-text]")) element.textContent = about[element.dataset.text];
  for (const words of about.consent.split(/\n\s*\n/)) find("consent-text").append(paragraph(words));
  if (about.parameter && !recruited) {
    return say(`Please use the link of the recruiting service: this address lacks ${about.parameter}.`);
  }
  stage = find(about.kind);
  stage.hidden = false;
  if (!source.known()) {
    show("consent");
    await new Promise(done => { find("begin").onclick = done; });
    await source.join(recruited);
  }
  source.send();
  const {total, waiting} = await source.trials();
  show("trial");
  find("question").focus(); // what was pressed is hidden now, and the question is read aloud
  for (const [place, trial] of waiting.entries()) {
    if (place + 1 < waiting.length) waiting[place + 1].clips.map(clip => { new Image().src = source.picture(clip); });
    await askAbout(trial, total - waiting.length + place + 1, total, about.frame_time);
  }
  clearInterval(shownOnce.clock);
  show("end");
  find("end").focus();
  await source.end();
}

function paragraph(words) {
  const element = document.createElement("p");
  element.textContent = words;
  return element;
}

find("restart").onclick = () => {
  for (const one of rememberedAnswers()) forget(`answer/${one.trial}`);
  forget("rater");
  location.reload();
};
if (embedded) {
  find("download").onclick = () => source.download();
  find("copy").onclick = () => source.copy();
  find("save-now").onclick = () => { find("file").hidden = !find("file").hidden; };
}
run().catch(error => {
  if (error.status === 404) show("gone");
  say(`${error.message}.`);
});
