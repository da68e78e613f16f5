// NumPy's generators, to the bit: the same seed gives the same motion as in Python.
//
// SeedSequence turns whole numbers into a state, PCG64 turns the state into random bits, and the ziggurat of NumPy's
// float32 turns bits into N(0, 1).

const INIT_A = 0x43b0d7e5, MULT_A = 0x931e8875, INIT_B = 0x8b51f9dd, MULT_B = 0x58f38ded;
const MIX_L = 0xca01f9dd, MIX_R = 0x4973f715;
const POOL = 4; // words of 32 bits
const WORD = 0xffffffffn, LONG = (1n << 64n) - 1n, STATE = (1n << 128n) - 1n;
const MULTIPLIER = 0x2360ed051fc65da44385df649fccf645n;

/** `count` words of 32 bits from whole numbers, as numpy.random.SeedSequence(numbers).generate_state(count). */
export function seedWords(numbers, count) {
  const entropy = numbers.flatMap(words);
  let constant = INIT_A;
  const hash = (value) => {
    value = (value ^ constant) >>> 0;
    constant = Math.imul(constant, MULT_A) >>> 0;
    value = Math.imul(value, constant) >>> 0;
    return (value ^ (value >>> 16)) >>> 0;
  };
  const mix = (one, other) => {
    const result = (Math.imul(MIX_L, one) - Math.imul(MIX_R, other)) >>> 0;
    return (result ^ (result >>> 16)) >>> 0;
  };
  const pool = Array.from({ length: POOL }, (_, place) => hash(entropy[place] ?? 0));
  for (let from = 0; from < POOL; from++) {
    for (let to = 0; to < POOL; to++) if (from !== to) pool[to] = mix(pool[to], hash(pool[from]));
  }
  for (const word of entropy.slice(POOL)) {
    for (let to = 0; to < POOL; to++) pool[to] = mix(pool[to], hash(word));
  }
  let output = INIT_B;
  return Array.from({ length: count }, (_, place) => {
    let value = (pool[place % POOL] ^ output) >>> 0;
    output = Math.imul(output, MULT_B) >>> 0;
    value = Math.imul(value, output) >>> 0;
    return (value ^ (value >>> 16)) >>> 0;
  });
}

/** A whole number as words of 32 bits, the lowest first. */
function words(number) {
  const found = [];
  for (let rest = BigInt(number); rest > 0n || !found.length; rest >>= 32n) found.push(Number(rest & WORD));
  return found;
}

const longs = (found) => Array.from({ length: found.length / 2 }, (_, k) => BigInt(found[2 * k]) | (BigInt(found[2 * k + 1]) << 32n));

/** The seed of sample `number` of a seed: sampling/latents.py, sample_seeds. */
export const sampleSeed = (seed, number) => longs(seedWords([seed, number], 2))[0];

/** numpy.random.default_rng(numbers), with what sources of z need of it. */
export class Generator {
  constructor(...numbers) {
    const [high, low, inc1, inc2] = longs(seedWords(numbers, 8));
    this.increment = ((((inc1 << 64n) | inc2) << 1n) | 1n) & STATE;
    this.state = (this.increment + ((high << 64n) | low)) & STATE;
    this.step();
    this.half = null;
  }

  step() {
    this.state = (this.state * MULTIPLIER + this.increment) & STATE;
  }

  long() {
    this.step();
    const mixed = ((this.state >> 64n) ^ this.state) & LONG, turn = this.state >> 122n;
    return ((mixed >> turn) | (mixed << (64n - turn))) & LONG;
  }

  word() {
    if (this.half !== null) {
      const kept = this.half;
      this.half = null;
      return kept;
    }
    const bits = this.long();
    this.half = Number(bits >> 32n);
    return Number(bits & WORD);
  }

  /** float64 in [0, 1) */
  double() {
    return Number(this.long() >> 11n) / 2 ** 53;
  }

  /** A whole number below `count`, at most 2^32 - 1: Lemire's method. */
  integer(count) {
    const range = BigInt(count), least = ((1n << 32n) - range) % range;
    for (;;) {
      const product = BigInt(this.word()) * range;
      if ((product & WORD) >= least) return Number(product >> 32n);
    }
  }

  uniform() {
    return (this.word() >>> 8) / 2 ** 24;
  }

  /** float32 N(0, 1) */
  normal() {
    for (;;) {
      const bits = this.word(), layer = bits & 255, steps = bits >>> 9;
      const x = Math.fround(Math.fround(steps) * WIDTH[layer]) * (bits & 256 ? -1 : 1);
      if (steps < INNER[layer]) return x;
      if (layer === 0) return this.tail(steps & 256 ? -1 : 1);
      const height = Math.fround(Math.fround(HEIGHT[layer - 1] - HEIGHT[layer]) * this.uniform());
      if (Math.fround(height + HEIGHT[layer]) < Math.exp(-0.5 * x * x)) return x;
    }
  }

  tail(sign) {
    for (;;) {
      const x = -Math.fround(1 / EDGE) * Math.fround(Math.log1p(-this.uniform()));
      const y = -Math.fround(Math.log1p(-this.uniform()));
      if (2 * y > x * x) return sign * Math.fround(Math.fround(EDGE) + Math.fround(x));
    }
  }
}

// The ziggurat: 256 layers of equal area under exp(-x^2 / 2), the lowest with the tail beyond EDGE.
const EDGE = 3.6541528853610088, AREA = 0.004928673233974655;
const bell = (x) => Math.exp(-0.5 * x * x);
const right = new Float64Array(256); // end of each layer
right[255] = EDGE;
for (let k = 254; k > 0; k--) right[k] = Math.sqrt(-2 * Math.log(AREA / right[k + 1] + bell(right[k + 1])));
const WIDTH = Float32Array.from(right, (x, k) => (k ? x : AREA / bell(EDGE)) / 2 ** 23);
const INNER = Array.from(right, (x, k) => Math.trunc((k === 0 ? (EDGE * bell(EDGE)) / AREA : k === 1 ? 0 : right[k - 1] / x) * 2 ** 23));
const HEIGHT = Float32Array.from(right, (x, k) => (k ? bell(x) : 1));
