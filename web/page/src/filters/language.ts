// The text of filters is what the API takes: this only splits it into terms, for chips, and quotes what is added.

/** Between terms: what the API takes for spaces, which is not what `\s` is here. */
const SPACE = /[\t-\r\u001c-\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/;
const PLAIN_KEY = /^[\p{L}\p{N}_/][\p{L}\p{N}_./@#$%&+~-]*$/u;
const PLAIN_VALUE = /^[\p{L}\p{N}_./@#$%&+~=:;?!|-][\p{L}\p{N}_./@#$%&+~=:;?!|<>-]*$/u;

/** The terms of a text, as written. JSON is one. */
export function termsOf(text: string): string[] {
  if (isJson(text)) return [text.trim()];
  const found: string[] = [];
  for (let at = skipSpaces(text, 0); at < text.length; at = skipSpaces(text, at)) {
    const end = text[at] === '(' ? endOfGroup(text, at) : endOfTerm(text, at, false);
    found.push(text.slice(at, end));
    at = end;
  }
  return found;
}

/** Whether a JSON list has the item, not in a group. */
function hasItem(list: string, item: string): boolean {
  try {
    return (JSON.parse(list) as unknown[]).some((one) => JSON.stringify(one) === item);
  } catch {
    return false;
  }
}

/** The text with a term more, in the encoding that the text has. */
export function withTerm(text: string, term: string): string {
  if (isJson(text)) {
    const items = text.trim().slice(1, -1).trim();
    const item = JSON.stringify(asFilter(term));
    return hasItem(text, item) ? text : `[${items === '' ? '' : `${items}, `}${item}]`;
  }
  const terms = termsOf(text);
  return terms.includes(term) ? text : [...terms, term].join(' ');
}

export function withoutTerm(text: string, term: string): string {
  return termsOf(text)
    .filter((one) => one !== term)
    .join(' ');
}

/** `key:value`, quoted where it must be. */
export function equals(key: string, value: string, isExcluded = false): string {
  return `${isExcluded ? '-' : ''}${quotedKey(key)}:${PLAIN_VALUE.test(value) ? value : quoted(value)}`;
}

export function lacks(key: string): string {
  return `!has:${quotedKey(key)}`;
}

/** Fields that spans or log records have, and attributes may be called like. */
export const FIELDS: ReadonlySet<string> = new Set([
  'name',
  'kind',
  'serviceName',
  'environment',
  'release',
  'statusCode',
  'statusMessage',
  'durationMs',
  'startTime',
  'traceId',
  'spanId',
  'parentSpanId',
  'severityNumber',
  'severityText',
  'body',
  'eventName',
  'time',
]);

/** The key of an attribute, which is never a field. */
export function attribute(key: string): string {
  return FIELDS.has(key) || key.startsWith('attr:') ? `attr:${key}` : key;
}

const ORDERS: [string, string][] = [
  ['>=', 'gte'],
  ['<=', 'lte'],
  ['>', 'gt'],
  ['<', 'lt'],
];

/** A term that this module has made, as JSON has it. */
function asFilter(term: string): { key: string; op: string; value?: string } {
  if (term.startsWith('!has:')) return { key: unquoted(term.slice(5)), op: 'not_exists' };
  const { isExcluded, key, value } = partsOf(term);
  const order = term.endsWith('"') ? undefined : ORDERS.find(([sign]) => value?.startsWith(sign));
  if (order !== undefined) return { key, op: order[1], value: (value ?? '').slice(order[0].length) };
  return { key, op: isExcluded ? 'neq' : 'eq', value: value ?? '' };
}

export interface Parts {
  isExcluded: boolean;
  key: string;
  /** As far as it is written; null: the key is not yet complete. */
  value: string | null;
}

/** What a term that somebody is writing is about. */
export function partsOf(term: string): Parts {
  const isExcluded = /^[-!]/.test(term);
  const begin = isExcluded ? 1 : 0;
  const end = term[begin] === '"' ? endOfQuoted(term, begin) : term.indexOf(':', begin);
  const isComplete = end >= 0 && term[end] === ':';
  const key = unquoted(isComplete ? term.slice(begin, end) : term.slice(begin));
  return { isExcluded, key, value: isComplete ? unquoted(term.slice(end + 1)) : null };
}

/** Also of what is not closed yet. */
function unquoted(text: string): string {
  const found = /^"((?:[^"\\]|\\.)*)/s.exec(text);
  return found === null ? text : (found[1] ?? '').replace(/\\(.)/gs, '$1');
}

function isJson(text: string): boolean {
  return text[skipSpaces(text, 0)] === '[';
}

/** `has:` begins another term. */
function quotedKey(key: string): string {
  return PLAIN_KEY.test(key) && key !== 'has' ? key : quoted(key);
}

function quoted(text: string): string {
  return `"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`;
}

function isEnd(text: string, at: number): boolean {
  return at >= text.length || SPACE.test(text[at] ?? '');
}

function skipSpaces(text: string, from: number): number {
  let at = from;
  while (at < text.length && isEnd(text, at)) at++;
  return at;
}

/** Past the closing quote, or the end of the text. */
function endOfQuoted(text: string, from: number): number {
  let at = from + 1;
  while (at < text.length && text[at] !== '"') at += text[at] === '\\' ? 2 : 1;
  return Math.min(text.length, at + 1);
}

function endOfGroup(text: string, from: number): number {
  let at = from + 1;
  while (at < text.length && text[at] !== ')') {
    at = isEnd(text, at) ? at + 1 : Math.max(at + 1, endOfTerm(text, at, true));
  }
  return Math.min(text.length, at + 1);
}

/** Quotes mean something where a key or a value begins, or a star before it, and so do brackets where a value does. */
function endOfTerm(text: string, from: number, isGrouped: boolean): number {
  const isOver = (at: number): boolean => isEnd(text, at) || (isGrouped && /[()]/.test(text[at] ?? ''));
  let at = from;
  if (/[-!]/.test(text[at] ?? '')) at++;
  const has = text.startsWith('has:', at);
  if (has) at += 4;
  if (text.startsWith('attr:', at)) at += 5;
  if (text[at] === '"') at = endOfQuoted(text, at);
  else while (!isOver(at) && text[at] !== ':' && text[at] !== '"') at++;
  if (!has && text[at] === ':') {
    at++;
    const order = /^(?:[<>]=?)/.exec(text.slice(at, at + 2));
    if (order !== null) at += order[0].length;
    else if (text.startsWith('*"', at)) at++;
    if (text[at] === '"') at = endOfQuoted(text, at);
    else if (text[at] === '[' && order === null) at = endOfList(text, at);
  }
  while (!isOver(at)) at++;
  return at;
}

function endOfList(text: string, from: number): number {
  let at = from + 1;
  while (at < text.length && text[at] !== ']') at = text[at] === '"' ? endOfQuoted(text, at) : at + 1;
  return Math.min(text.length, at + 1);
}
