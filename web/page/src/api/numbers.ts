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

/** A number as it was sent; `Number(...)` where it is drawn. */
export type Num = number | ExactNumber;

export type Json = null | boolean | number | string | ExactNumber | Json[] | { [key: string]: Json };

interface ReviverContext {
  source?: string;
}

// As a number begins, and a string that is an id of digits alone does not.
const LONG_DIGITS = /(?:^|[:,[\s-])[0-9]{16}|[0-9]\.[0-9]{15}/;

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

/** A value as it was sent: 200.0 is no 200, and 2^53 + 1 has all its digits. */
export function printed(value: Json): string {
  if (typeof value === 'string') return value;
  return printedJson(value);
}

export function printedJson(value: Json): string {
  if (value instanceof ExactNumber) return value.text;
  if (Array.isArray(value)) return `[${value.map(printedJson).join(', ')}]`;
  if (value !== null && typeof value === 'object') {
    return `{${Object.entries(value)
      .map(([key, each]) => `${JSON.stringify(key)}: ${printedJson(each)}`)
      .join(', ')}}`;
  }
  return JSON.stringify(value);
}
