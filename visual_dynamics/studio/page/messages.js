// What people are told: messages, and errors of what they did.
import { find } from "./dom.js";

export class RequestError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

function showError(message) {
  const place = find("#problem");
  place.textContent = message ? capital(message) + "." : "";
  place.hidden = !message;
}

const capital = (words) => words.charAt(0).toUpperCase() + words.slice(1);

/** Show a message, which screen readers read aloud, too. */
export function say(words) {
  find("#status").textContent = words;
}

/** Run an action; its error is shown, in place of an earlier one if `fresh`. A cancelled request is no error. */
export async function attempt(work, fresh = true) {
  if (fresh) showError("");
  try {
    return await work();
  } catch (error) {
    if (error.name === "AbortError") return undefined;
    if (!(error instanceof RequestError)) console.error(error);
    showError(error.message);
    return undefined;
  }
}
