// Search in a trace, over the rows in memory: words that all must occur, `status:error` and `service:name`.
import { isError, nameOf, serviceOf, type Trace } from './rows';

export function matches(trace: Trace, text: string): number[] {
  const words = text
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '');
  if (words.length === 0) return [];
  const found: number[] = [];
  for (let at = 0; at < trace.length; at++) if (words.every((word) => matchesWord(trace, at, word))) found.push(at);
  return found;
}

function matchesWord(trace: Trace, at: number, word: string): boolean {
  if (word === 'status:error') return isError(trace, at);
  if (word.startsWith('service:')) return serviceOf(trace, at).toLowerCase().includes(word.slice(8));
  const message = trace.data.strings[trace.data.columns.statusMessage[at] ?? -1] ?? '';
  return (
    nameOf(trace, at).toLowerCase().includes(word) ||
    serviceOf(trace, at).toLowerCase().includes(word) ||
    message.toLowerCase().includes(word) ||
    (trace.data.columns.spanId[at] ?? '').startsWith(word)
  );
}

/** The next of `rows` after `at`, or the one before it; it goes round. */
export function nextOf(rows: readonly number[], at: number, isBack = false): number | null {
  if (rows.length === 0) return null;
  if (isBack) return [...rows].reverse().find((row) => row < at) ?? rows[rows.length - 1] ?? null;
  return rows.find((row) => row > at) ?? rows[0] ?? null;
}
