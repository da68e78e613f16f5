// Inside: the segments of the picture, the kernels of the motion, and which parts move together.
import { draw, figure, find, make } from "./dom.js";
import { attempt, say } from "./messages.js";
import { sendAbout, state, subject, watchChange } from "./state.js";

let relatedFor = "";

export async function openInside() {
  if (relatedFor !== subject()) find("#relations").replaceChildren();
  const isOld = watchChange();
  const found = await sendAbout("/api/inside", state.z ? { z: state.z } : { z: Array(state.model.latent).fill(0) },
    { purpose: "inside" });
  if (isOld()) return;
  find("#layers").replaceChildren(...found.scales.map(scale));
}

function scale({ side, maps, active, segments, kernels }) {
  return make("section", { className: "card" },
    make("h3", {}, `${side} × ${side} pixels: ${active} of ${maps} segments in use`),
    make("div", { className: "sheets" },
      figure(make("img", { src: segments, alt: `${maps} segments at ${side} pixels` }), "Segments"),
      figure(make("img", { src: kernels, alt: `The ${maps} kernels that move them` }), "Kernels")));
}

async function relate() {
  const isOld = watchChange();
  const found = await sendAbout("/api/relations", {}, { purpose: "relations" });
  if (isOld()) return;
  relatedFor = subject();
  find("#relations").replaceChildren(figure(graph(found), "Black: the direction in which a part moves. White: parts that move together."), list(found));
  say(`Parts: ${found.nodes.length}. Pairs that move together: ${found.edges.length}`);
}

function graph({ input, nodes, edges }) {
  const place = (share) => 100 * share;
  const lines = edges.map(({ first, second }) => draw("line", { class: "edge",
    x1: place(nodes[first].x), y1: place(nodes[first].y), x2: place(nodes[second].x), y2: place(nodes[second].y) }));
  const marks = nodes.map(({ x, y, dx, dy, moves }, number) => draw("g", {},
    ...(moves ? [draw("line", { class: "direction", x1: place(x) - 13 * dx, y1: place(y) - 13 * dy, x2: place(x) + 13 * dx, y2: place(y) + 13 * dy })] : []),
    draw("circle", { class: "node", cx: place(x), cy: place(y), r: 4.5 }),
    draw("text", { x: place(x), y: place(y) + 1.8, class: "number" }, String(number + 1))));
  const drawing = draw("svg", { viewBox: "0 0 100 100", class: "graph", role: "img", "aria-label": "Parts of the picture and their relations" }, ...lines, ...marks);
  return make("div", { className: "flip" }, make("img", { src: input, alt: "" }), drawing);
}

function list({ nodes, edges }) {
  const parts = nodes.map(({ area, moves, colour }, number) => {
    const dot = make("span", { className: "dot" });
    dot.style.background = colour;
    return make("li", {}, dot, `Part ${number + 1}: ${area} pixels, ${moves ? "moves" : "stays"}`);
  });
  const together = edges.map(({ first, second, strength }) =>
    make("li", {}, `Parts ${first + 1} and ${second + 1} move together (strength ${strength.toFixed(2)})`));
  const none = make("li", {}, "No two parts move together.");
  return make("div", {}, make("ul", { className: "plain" }, ...parts), make("ul", { className: "plain" }, ...(together.length ? together : [none])));
}

find("#relate").onclick = () => attempt(relate);
