// JSON without loss: integers beyond 2^53 and doubles such as 200.0 keep the digits in which they were sent.

/** A number whose text JavaScript would not give back. */
export class ExactNumber {
  constructor(readonly text: string) {}
  toString(): string {
    return this.text;
  }
  valueOf(): number {
    return Number(this.text);
  }
}

interface ReviverContext {
  source?: string;
}

const LONG_DIGITS = /[0-9]{16}/;

function keepSource(_key: string, value: unknown, context?: ReviverContext): unknown {
  if (typeof value !== 'number') return value;
  const source = context?.source;
  if (source === undefined || String(value) === source) return value;
  return new ExactNumber(source);
}

/** Parses with every number as it was sent. */
export function parseExact(text: string): unknown {
  return JSON.parse(text, keepSource as (key: string, value: unknown) => unknown);
}

/** Parses large answers at full speed where no number can be rounded. */
export function parseFast(text: string): unknown {
  return LONG_DIGITS.test(text) ? parseExact(text) : JSON.parse(text);
}
