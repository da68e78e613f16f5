// Requests to the studio: one at a time for each purpose, with the position in the queue.
import { find } from "./dom.js";
import { RequestError, say } from "./messages.js";

const running = new Map(); // purpose -> AbortController

/** Send a request. A newer one for the same purpose cancels the older one. */
export async function send(path, { purpose = path, body, method, quiet = false } = {}) {
  running.get(purpose)?.abort();
  const control = new AbortController();
  running.set(purpose, control);
  const ticket = ticketOf();
  const watch = quiet ? null : watchQueue(ticket, control);
  try {
    const response = await fetch(path, {
      method: method ?? (body === undefined ? "GET" : "POST"),
      headers: { "X-Ticket": ticket, ...(isPlain(body) ? { "Content-Type": "application/json" } : {}) },
      body: isPlain(body) ? JSON.stringify(body) : body,
      signal: control.signal,
    });
    if (!response.ok) throw new RequestError(await reason(response), response.status);
    return response;
  } catch (error) {
    if (error instanceof TypeError) throw new RequestError("there is no response from the studio; is it still running?", 0);
    throw error;
  } finally {
    watch?.stop();
    if (running.get(purpose) === control) running.delete(purpose);
  }
}

export const sendJson = async (path, options) => (await send(path, options)).json();

function isPlain(body) {
  return body !== undefined && !(body instanceof Blob);
}

async function reason(response) {
  try {
    return (await response.json()).error;
  } catch {
    return `the studio sent the status ${response.status}`;
  }
}

function ticketOf() {
  return Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

const watched = new Set(); // controllers of requests that a person waits for

/** Show the position of a request in the queue, unless it is short. */
function watchQueue(ticket, control) {
  let timer = setTimeout(look, 400);
  let shown = false;
  watched.add(control);
  say("");
  async function look() {
    shown = true;
    say("Working …");
    find("#cancel").hidden = false;
    try {
      const { place, done, total } = await (await fetch(`/api/queue?ticket=${ticket}`, { signal: control.signal })).json();
      if (timer !== null && place > 0) say(`In the queue: ${place} before you …`);
      if (timer !== null) showProgress(done, total);
    } catch { /* the request itself shows its error */ }
    if (timer !== null) timer = setTimeout(look, 1000);
  }
  return {
    stop() {
      clearTimeout(timer);
      timer = null;
      watched.delete(control);
      if (shown) say("");
      showProgress(0, 0);
      if (watched.size === 0) hideCancel();
    },
  };
}

/** A bar beside the message, where the studio counts; screen readers read it where they want to. */
function showProgress(done, total) {
  Object.assign(find("#progress"), { value: done, max: total || 1, hidden: !total, title: `${done} of ${total} frames` });
}

function hideCancel() {
  const focused = document.activeElement === find("#cancel");
  find("#cancel").hidden = true;
  if (focused) find("[role=tabpanel]:not([hidden])").focus();
}

/** Cancel all requests that a person waits for: the studio stops its work, too. */
function cancel() {
  if (watched.size === 0) return;
  for (const control of watched) control.abort();
  setTimeout(() => say("Cancelled"));
}

find("#cancel").onclick = cancel;
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") cancel();
});
