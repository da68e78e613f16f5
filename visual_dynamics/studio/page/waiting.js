// Requests that a person waits for: progress beside the message, and a button that cancels them.
import { find } from "./dom.js";
import { say } from "./messages.js";

const AFTER = 400; // milliseconds: shorter work needs no words
const watched = new Set(); // controllers of requests

/** Watch a request; where it takes long, say so and call `look`. Returns what ends it. */
export function watch(control, look = () => {}) {
  let shown = false;
  watched.add(control);
  say("");
  const timer = setTimeout(() => {
    shown = true;
    say("Working …");
    find("#cancel").hidden = false;
    look();
  }, AFTER);
  return () => {
    clearTimeout(timer);
    watched.delete(control);
    if (shown) say("");
    showProgress(0, 0);
    if (watched.size === 0) hideCancel();
  };
}

/** A bar beside the message, where work is counted; screen readers read it where they want to. */
export function showProgress(done, total) {
  Object.assign(find("#progress"), { value: done, max: total || 1, hidden: !total, title: `${done} of ${total} frames` });
}

function hideCancel() {
  const focused = document.activeElement === find("#cancel");
  find("#cancel").hidden = true;
  if (focused) find("[role=tabpanel]:not([hidden])").focus();
}

/** Cancel all requests that a person waits for: who works on them stops, too. */
function cancel() {
  if (watched.size === 0) return;
  for (const control of watched) control.abort();
  setTimeout(() => say("Cancelled"));
}

find("#cancel").onclick = cancel;
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") cancel();
});
