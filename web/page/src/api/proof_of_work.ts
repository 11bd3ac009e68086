// A proof of work, which the login asks for while many passwords are tried at an account. A worker is out of reach: the
// policy of the page lets no text become a script. So it is computed in slices, between which the page stays alive.

export interface Challenge {
  challenge: string;
  bits: number;
}

const SLICE = 16_384; // hashes, a few hundredths of a second
const BLOCK = 64;

// FIPS 180-4, 4.2.2 and 5.3.3.
// prettier-ignore
const ROUNDS = new Int32Array([
  0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98,
  0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
  0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8,
  0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
  0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819,
  0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
  0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
  0xc67178f2,
]);
// prettier-ignore
const START = new Int32Array([
  0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
]);

/** A text for which SHA-256 of the challenge followed directly by the text begins with `bits` zero bits. */
export async function solve({ challenge, bits }: Challenge): Promise<string> {
  const bytes = new TextEncoder().encode(challenge);
  const whole = bytes.length - (bytes.length % BLOCK);
  const state = START.slice();
  for (let at = 0; at < whole; at += BLOCK) compress(state, new DataView(bytes.buffer, at, BLOCK));
  for (let from = 0; ; from += SLICE) {
    const found = search(state, bytes.subarray(whole), bytes.length, from, bits);
    if (found !== null) return found;
    await new Promise((resolve) => setTimeout(resolve));
  }
}

/** `state`: after the whole blocks of the challenge; `rest`: what follows them, of `length` bytes in all. */
function search(state: Int32Array, rest: Uint8Array, length: number, from: number, bits: number): string | null {
  const digest = new Int32Array(state.length);
  const blocks = new Uint8Array(2 * BLOCK);
  const [first, second] = [new DataView(blocks.buffer, 0, BLOCK), new DataView(blocks.buffer, BLOCK, BLOCK)];
  blocks.set(rest);
  for (let number = from; number < from + SLICE; number++) {
    const text = number.toString();
    const end = rest.length + text.length;
    for (let at = 0; at < text.length; at++) blocks[rest.length + at] = text.charCodeAt(at);
    blocks.fill(0, end);
    blocks[end] = 0x80;
    const last = end + 9 <= BLOCK ? first : second;
    last.setUint32(BLOCK - 4, (length + text.length) * 8);
    digest.set(state);
    compress(digest, first);
    if (last === second) compress(digest, second);
    if (zeroBits(digest) >= bits) return text;
  }
  return null;
}

function zeroBits(digest: Int32Array): number {
  let bits = 0;
  for (const word of digest) {
    bits += Math.clz32(word);
    if (word !== 0) break;
  }
  return bits;
}

const schedule = new Int32Array(64);

/** FIPS 180-4, 6.2.2. The indices are all in their arrays. */
function compress(state: Int32Array, block: DataView): void {
  for (let at = 0; at < 16; at++) schedule[at] = block.getInt32(at * 4);
  for (let at = 16; at < 64; at++) {
    const x = schedule[at - 15]!;
    const y = schedule[at - 2]!;
    const mixed = (turn(x, 7) ^ turn(x, 18) ^ (x >>> 3)) + (turn(y, 17) ^ turn(y, 19) ^ (y >>> 10));
    schedule[at] = schedule[at - 16]! + schedule[at - 7]! + mixed;
  }
  let a = state[0]!;
  let b = state[1]!;
  let c = state[2]!;
  let d = state[3]!;
  let e = state[4]!;
  let f = state[5]!;
  let g = state[6]!;
  let h = state[7]!;
  for (let at = 0; at < 64; at++) {
    const chosen = (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g));
    const one = (h + chosen + ROUNDS[at]! + schedule[at]!) | 0;
    const two = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = (d + one) | 0;
    d = c;
    c = b;
    b = a;
    a = (one + two) | 0;
  }
  state[0]! += a;
  state[1]! += b;
  state[2]! += c;
  state[3]! += d;
  state[4]! += e;
  state[5]! += f;
  state[6]! += g;
  state[7]! += h;
}

function turn(word: number, by: number): number {
  return (word >>> by) | (word << (32 - by));
}
