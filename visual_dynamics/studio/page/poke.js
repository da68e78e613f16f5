// Poke: drag a part of the picture, or give its place and motion in pixels.
import { draw, find } from "./dom.js";
import { onChange, picture } from "./state.js";

const LEAST = 4; // screen pixels: a shorter drag is a click
const form = () => find("#poke-form");
const NAMES = ["x", "y", "dx", "dy"];

/** {x, y, dx, dy} in pixels of the picture, or null. */
export function poke() {
  const values = NAMES.map((name) => form().elements[name].value);
  if (values.some((value) => value === "")) return null;
  return Object.fromEntries(NAMES.map((name, place) => [name, Number(values[place])]));
}

function fill(values) {
  for (const name of NAMES) form().elements[name].value = values ? Math.round(10 * values[name]) / 10 : "";
  show();
}

/** How the picture lies in its element: screen pixels for each of its own, and the left and top margin. */
function layout() {
  const box = find("#picture").getBoundingClientRect(), { width, height } = picture();
  const scale = Math.min(box.width / width, box.height / height);
  return { scale, left: (box.width - width * scale) / 2, top: (box.height - height * scale) / 2, box };
}

function show() {
  const arrow = find("#poke-arrow"), wanted = poke();
  find("#no-poke").hidden = !wanted;
  arrow.replaceChildren();
  if (!wanted) return;
  const { scale, left, top, box } = layout();
  arrow.setAttribute("viewBox", `0 0 ${box.width} ${box.height}`);
  const [x, y] = [left + (wanted.x + 0.5) * scale, top + (wanted.y + 0.5) * scale];
  const [toX, toY] = [x + wanted.dx * scale, y + wanted.dy * scale];
  const angle = Math.atan2(toY - y, toX - x);
  const side = (turn) => `L${toX - 9 * Math.cos(angle + turn)} ${toY - 9 * Math.sin(angle + turn)}`;
  const path = `M${x} ${y}L${toX} ${toY}${side(0.5)}M${toX} ${toY}${side(-0.5)}`;
  for (const kind of ["under", "over"]) arrow.append(draw("path", { d: path, class: kind }));
  arrow.append(draw("circle", { cx: x, cy: y, r: 3.5 }));
}

/** Call back with each new poke, and when it is taken away. */
export function onPoke(callback) {
  const area = find("#pokeable");
  let start = null;
  const at = (event) => {
    const { scale, left, top, box } = layout();
    return { x: (event.clientX - box.left - left) / scale - 0.5, y: (event.clientY - box.top - top) / scale - 0.5 };
  };
  const drag = (event) => {
    const end = at(event);
    fill({ ...start, dx: end.x - start.x, dy: end.y - start.y });
  };
  area.onpointerdown = (event) => {
    if (event.button !== 0 || find("#futures").hidden || !picture()) return;
    start = { ...at(event), event };
    area.setPointerCapture(event.pointerId);
  };
  area.onpointermove = (event) => start && drag(event);
  area.onpointerup = (event) => {
    if (!start) return;
    const far = Math.hypot(event.clientX - start.event.clientX, event.clientY - start.event.clientY) >= LEAST;
    if (far) drag(event);
    else fill(null);
    start = null;
    if (far) callback();
  };
  area.onpointercancel = () => {
    start = null;
    fill(null);
  };
  form().oninput = show;
  form().onsubmit = (event) => {
    event.preventDefault();
    callback();
  };
  find("#no-poke").onclick = () => {
    fill(null);
    callback();
  };
  onChange(() => fill(null)); // it was for another picture
  addEventListener("resize", show);
}
