// Requests to the studio: one at a time for each purpose, with the position in the queue.
import { RequestError, say } from "./messages.js";
import { showProgress, watch } from "./waiting.js";

const running = new Map(); // purpose -> AbortController

/** Send a request. A newer one for the same purpose cancels the older one. */
export async function send(path, { purpose = path, body, method, quiet = false } = {}) {
  running.get(purpose)?.abort();
  const control = new AbortController();
  running.set(purpose, control);
  const ticket = ticketOf();
  const end = quiet ? null : watchQueue(ticket, control);
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
    end?.();
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

/** Show the position of a request in the queue, unless it is short. Returns what ends it. */
function watchQueue(ticket, control) {
  let over = false;
  const end = watch(control, look);
  async function look() {
    if (over) return;
    try {
      const { place, done, total } = await (await fetch(`/api/queue?ticket=${ticket}`, { signal: control.signal })).json();
      if (!over && place > 0) say(`In the queue: ${place} before you …`);
      if (!over) showProgress(done, total);
    } catch { /* the request itself shows its error */ }
    setTimeout(look, 1000);
  }
  return () => {
    over = true;
    end();
  };
}
