// Calls functions of the page's modules. Argument: the bundle, made by esbuild. Standard input: [[function,
// arguments], ...] as JSON; standard output: the answers, as JSON. A bigint is {"bigint": digits}.
import { readFileSync } from 'node:fs';

const page = await import(process.argv[2]);

const functions = {
  ...page,
  path: (data, root) => page.criticalPath(page.toTrace(data), root),
  ends: (data) => [...page.toTrace(data).end],
  shown: (data, closed) => page.visibleRows(page.toTrace(data), new Set(closed)),
  sharesOfServices: (data) => {
    const trace = page.toTrace(data);
    return page.sharesOf(page.criticalPath(trace), (row) => page.serviceOf(trace, row));
  },
  totals: (data) => page.totalsByName(page.toTrace(data)),
  toNanoseconds: (text, nowMs) => page.toNanoseconds(text, nowMs),
  fromNanoseconds: (digits) => page.fromNanoseconds(BigInt(digits)),
  withTermsOf: (text, terms) => terms.reduce(page.withTerm, text),
  withTerms: (terms) => terms.reduce(page.withTerm, ''),
  exact: (text) => page.printed(page.parseExact(text)),
  fast: (text) => page.printed(page.parseFast(text)),
  /** With each number as it would be drawn. */
  drawn: (text) => String(page.drawn(page.parseExact(text))),
  ticks: (top, most) => page.roundTicks(top, String, most),
  /** The addresses that the browser ends at when it goes to `next`; null: it is refused. */
  returnsTo: (next, origin) => page.returnAddress(next, origin)?.href ?? null,
  durationOf: (text) => page.duration(page.parseExact(text)),
};

const asked = JSON.parse(readFileSync(0, 'utf8'));
const answers = await Promise.all(asked.map(async ([name, given]) => (await functions[name](...given)) ?? null));
const plain = (_key, value) => (typeof value === 'bigint' ? { bigint: String(value) } : value);
process.stdout.write(JSON.stringify(answers, plain));
