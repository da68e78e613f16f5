// Requests to the studio: one at a time for each purpose, with a place in line, and problems told on the page.
import { find } from "./dom.js";

const running = new Map(); // purpose -> AbortController

export class Problem extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

export function tell(problem) {
  const place = find("#problem");
  place.textContent = problem ? capital(problem) + "." : "";
  place.hidden = !problem;
}

const capital = (words) => words.charAt(0).toUpperCase() + words.slice(1);

/** Tell what has come of a request, in words that are read aloud, too. */
export function say(words) {
  find("#status").textContent = words;
}

/** Ask the studio. A newer request for the same purpose cancels the older one. */
export async function ask(path, { purpose = path, body, method, quiet = false } = {}) {
  running.get(purpose)?.abort();
  const control = new AbortController();
  running.set(purpose, control);
  const ticket = ticketOf();
  const watch = quiet ? null : watchLine(ticket, control);
  try {
    const answer = await fetch(path, {
      method: method ?? (body === undefined ? "GET" : "POST"),
      headers: { "X-Ticket": ticket, ...(isPlain(body) ? { "Content-Type": "application/json" } : {}) },
      body: isPlain(body) ? JSON.stringify(body) : body,
      signal: control.signal,
    });
    if (!answer.ok) throw new Problem(await reason(answer), answer.status);
    return answer;
  } catch (error) {
    if (error instanceof TypeError) throw new Problem("the studio does not answer; is it still running?", 0);
    throw error;
  } finally {
    watch?.stop();
    if (running.get(purpose) === control) running.delete(purpose);
  }
}

export const askJson = async (path, options) => (await ask(path, options)).json();

/** Run what a person asked for; a problem is shown, a cancelled request is none. */
export async function attempt(work) {
  tell("");
  try {
    return await work();
  } catch (error) {
    if (error.name === "AbortError") return undefined;
    if (!(error instanceof Problem)) console.error(error);
    tell(error.message);
    return undefined;
  }
}

function isPlain(body) {
  return body !== undefined && !(body instanceof Blob);
}

async function reason(answer) {
  try {
    return (await answer.json()).error;
  } catch {
    return `the studio answered ${answer.status}`;
  }
}

function ticketOf() {
  return Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

const watched = new Set(); // controllers of requests that somebody waits for

/** Tell where in the line a request is, as long as it runs; short ones are not worth a word. */
function watchLine(ticket, control) {
  let timer = setTimeout(look, 400);
  let told = false;
  watched.add(control);
  say("");
  async function look() {
    told = true;
    say("Working …");
    find("#cancel").hidden = false;
    try {
      const { place } = await (await fetch(`/api/line?ticket=${ticket}`, { signal: control.signal })).json();
      if (timer !== null && place > 0) say(`In line: ${place} before you …`);
    } catch { /* the request itself tells what is wrong */ }
    if (timer !== null) timer = setTimeout(look, 1000);
  }
  return {
    stop() {
      clearTimeout(timer);
      timer = null;
      watched.delete(control);
      if (told) say("");
      if (watched.size === 0) hideCancel();
    },
  };
}

function hideCancel() {
  const focused = document.activeElement === find("#cancel");
  find("#cancel").hidden = true;
  if (focused) find("[role=tabpanel]:not([hidden])").focus();
}

/** Take back all that is waited for: the studio stops working on it. */
function cancel() {
  if (watched.size === 0) return;
  for (const control of watched) control.abort();
  setTimeout(() => say("Cancelled"));
}

find("#cancel").onclick = cancel;
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") cancel();
});
