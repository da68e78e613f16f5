// Runs the network in a worker of its own. ONNX Runtime stands before these lines, in the same file, as `ort`.
const KEPT = 16; // encoded pictures
const sessions = new Map(), segments = new Map();
let options;

const array = (data, ...shape) => new ort.Tensor("float32", data, shape);

const WORK = {
  start(binary, providers) {
    ort.env.wasm.wasmBinary = binary;
    ort.env.wasm.numThreads = self.crossOriginIsolated ? Math.min(4, navigator.hardwareConcurrency) : 1;
    ort.env.logLevel = "error";
    options = { executionProviders: providers };
  },

  async open(name, data) {
    sessions.set(name, await ort.InferenceSession.create(data, options));
  },

  async encode(model, picture, frame, size) {
    if (segments.has(picture)) return;
    const found = await sessions.get(`${model}-encoder`).run({ frame: array(frame, 1, 3, size, size) });
    segments.set(picture, { frame: array(frame, 1, 3, size, size), ...found });
    if (segments.size > KEPT) segments.delete(segments.keys().next().value);
  },

  async decode(model, picture, z, count) {
    const found = await sessions.get(`${model}-decoder`).run({ ...segments.get(picture), z: array(z, count, z.length / count) });
    return found.next_frame.data;
  },

  async motion(model, before, after, size) {
    const pair = { before: array(before, 1, 3, size, size), after: array(after, 1, 3, size, size) };
    return (await sessions.get(`${model}-motion_encoder`).run(pair)).mean.data;
  },
};

let last = Promise.resolve(); // one at a time
const receive = ({ data: { id, work, values } }) => {
  last = last.then(async () => {
    try {
      self.postMessage({ id, result: await WORK[work](...values) });
    } catch (error) {
      self.postMessage({ id, error: String(error?.message ?? error) });
    }
  });
};
if (!self.name.startsWith("em-pthread")) self.onmessage = receive; // a thread of ONNX Runtime has messages of its own
