// Runs programs of the network, and measures motions, in a worker. ONNX Runtime stands before, in the same file, as `ort`.
import { motionsOf, partAt } from "./matching.js";

const sessions = new Map();
let options;

const WORK = {
  start(binary, providers) {
    ort.env.wasm.wasmBinary = binary;
    ort.env.wasm.numThreads = self.crossOriginIsolated ? Math.min(4, navigator.hardwareConcurrency) : 1;
    options = { executionProviders: providers, logSeverityLevel: 3 }; // errors only
  },

  async open(name, data) {
    sessions.set(name, await ort.InferenceSession.create(data, options));
  },

  /** Arrays by name, {data, dims} each, to arrays by name. */
  async run(name, inputs) {
    const tensors = Object.entries(inputs).map(([key, { data, dims }]) => [key, new ort.Tensor("float32", data, dims)]);
    const found = await sessions.get(name).run(Object.fromEntries(tensors));
    return Object.fromEntries(Object.entries(found).map(([key, { data, dims }]) => [key, { data, dims }]));
  },

  partAt,
  motionsOf,
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
