// Times of the address. Absolute times keep nine fractional digits: they are cut and compared as text and bigint, never
// as Date, which has milliseconds.

export interface Range {
  from: string;
  to: string;
}

export const DEFAULT_RANGE: Range = { from: 'now-1h', to: 'now' };
export const PRESETS: [string, string][] = [
  ['now-5m', 'last 5 minutes'],
  ['now-15m', 'last 15 minutes'],
  ['now-1h', 'last hour'],
  ['now-6h', 'last 6 hours'],
  ['now-24h', 'last 24 hours'],
  ['now-7d', 'last 7 days'],
  ['now-30d', 'last 30 days'],
];

const UNITS: Record<string, number> = { s: 1, m: 60, h: 3_600, d: 86_400, w: 604_800 };
const RELATIVE = /^now(?:-(\d{1,6})([smhdw]))?$/;
const ABSOLUTE = /^(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})(?:\.(\d{1,9}))?Z$/;
const BILLION = 1_000_000_000n;

/** Nanoseconds since 1970; null for what is no time of the address. */
export function toNanoseconds(text: string, nowMs: number): bigint | null {
  const relative = RELATIVE.exec(text);
  if (relative !== null) {
    const seconds = relative[1] === undefined ? 0 : Number(relative[1]) * (UNITS[relative[2] ?? ''] ?? 0);
    return BigInt(Math.ceil(nowMs / 1000) - seconds) * BILLION;
  }
  const absolute = ABSOLUTE.exec(text);
  if (absolute === null) return null;
  const whole = Date.parse(`${absolute[1]}Z`);
  if (Number.isNaN(whole)) return null;
  return BigInt(whole / 1000) * BILLION + BigInt((absolute[2] ?? '').padEnd(9, '0'));
}

/** RFC 3339 in UTC, with nine fractional digits where there are any. */
export function fromNanoseconds(time: bigint): string {
  const seconds = time >= 0n ? time / BILLION : (time - BILLION + 1n) / BILLION;
  const rest = (time - seconds * BILLION).toString().padStart(9, '0');
  const text = new Date(Number(seconds) * 1000).toISOString().slice(0, 19);
  return rest === '000000000' ? `${text}Z` : `${text}.${rest}Z`;
}

export function isRelative(range: Range): boolean {
  return RELATIVE.test(range.from) || RELATIVE.test(range.to);
}

/** The same range with fixed ends: what a link that is sent to others has. */
export function frozen(range: Range, nowMs: number): Range {
  const from = toNanoseconds(range.from, nowMs);
  const to = toNanoseconds(range.to, nowMs);
  return from === null || to === null ? range : { from: fromNanoseconds(from), to: fromNanoseconds(to) };
}

/** A range beside this one (`steps` of its length), or around its middle (`zoom` times as long). */
export function moved(range: Range, nowMs: number, steps: number, zoom = 1): Range {
  const from = toNanoseconds(range.from, nowMs);
  const to = toNanoseconds(range.to, nowMs);
  if (from === null || to === null || to <= from) return range;
  const length = to - from;
  const shift = BigInt(Math.round(Number(length) * steps));
  const grown = (BigInt(Math.round(Number(length) * zoom)) - length) / 2n;
  return { from: fromNanoseconds(from + shift - grown), to: fromNanoseconds(to + shift + grown) };
}

export function lengthSeconds(range: Range, nowMs: number): number {
  const from = toNanoseconds(range.from, nowMs);
  const to = toNanoseconds(range.to, nowMs);
  return from === null || to === null ? 0 : Number(to - from) / 1e9;
}

export type Zone = 'utc' | 'local';

/** A time of an answer for people: as it was sent, in UTC or moved by the offset of this browser. */
export function shownTime(text: string, zone: Zone, digits = 3): string {
  const found = /^(\d{4}-\d{2}-\d{2})T(\d{2}:\d{2}:\d{2})(?:\.(\d+))?Z$/.exec(text);
  if (found === null) return text;
  const fraction = digits === 0 ? '' : `.${(found[3] ?? '').padEnd(9, '0').slice(0, digits)}`;
  if (zone === 'utc') return `${found[1]} ${found[2]}${fraction}`;
  const date = new Date(`${found[1]}T${found[2]}Z`);
  const two = (value: number): string => String(value).padStart(2, '0');
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}${fraction}`;
}

export function zoneLabel(zone: Zone): string {
  if (zone === 'utc') return 'UTC';
  const minutes = -new Date().getTimezoneOffset();
  const sign = minutes < 0 ? '-' : '+';
  const size = Math.abs(minutes);
  return `UTC${sign}${String(Math.floor(size / 60)).padStart(2, '0')}:${String(size % 60).padStart(2, '0')}`;
}
