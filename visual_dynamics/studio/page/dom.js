// Elements and drawings: find, make, save.

export const find = (selector) => document.querySelector(selector);

/** An element with properties, attributes (under `attributes`) and children. */
export function make(tag, { attributes = {}, ...properties } = {}, ...children) {
  const element = document.createElement(tag);
  Object.assign(element, properties);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** A drawing element. */
export function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Two pictures that flip in step with all others. */
export function flip(start, end, alt) {
  return make("div", { className: "flip" },
    make("img", { src: start, alt: "" }), make("img", { src: end, alt, className: "end" }));
}

export function figure(content, caption) {
  return make("figure", {}, content, make("figcaption", {}, caption));
}

/** Save what is at an address as a file. */
export function save(url, name) {
  make("a", { href: url, download: name }).click();
}

/** Save a blob as a file. */
export function saveBlob(blob, name) {
  const url = URL.createObjectURL(blob);
  save(url, name);
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

export function button(words, action, properties = {}) {
  return make("button", { type: "button", textContent: words, onclick: action, ...properties });
}
