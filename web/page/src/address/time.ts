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

const BILLION = 1_000_000_000n;
const MAX_NANOSECONDS = 2n ** 63n - 1n;
const UNITS: Record<string, bigint> = {
  ms: 1_000_000n,
  s: BILLION,
  m: 60n * BILLION,
  h: 3_600n * BILLION,
  d: 86_400n * BILLION,
  w: 604_800n * BILLION,
};
const RELATIVE = /^(?:now(?:([+\- ])(\d{1,9})(ms|s|m|h|d|w))?|(-)(\d{1,9})(ms|s|m|h|d|w))$/;
const EPOCH = /^(\d{1,19})(?:\.(\d{1,9}))?$/;
const ABSOLUTE =
  /^(\d{4}-\d{2}-\d{2})(?:[Tt ](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,18}))?)?(?:[Zz]|([+\- ])(\d{2}):?(\d{2}))?)?$/;

/** Nanoseconds since 1970 of a time as the API takes it; null for anything else. */
export function toNanoseconds(text: string, nowMs: number): bigint | null {
  const time = relative(text, nowMs) ?? epoch(text) ?? absolute(text);
  return time === null || time < 0n || time > MAX_NANOSECONDS ? null : time;
}

/** The API rounds its clock up to a second. */
function relative(text: string, nowMs: number): bigint | null {
  const found = RELATIVE.exec(text);
  if (found === null) return null;
  const now = BigInt(Math.ceil(nowMs / 1000)) * BILLION;
  const distance = BigInt(found[2] ?? found[5] ?? 0) * (UNITS[found[3] ?? found[6] ?? ''] ?? 0n);
  return (found[1] ?? found[4]) === '-' ? now - distance : now + distance;
}

/** Seconds, milliseconds, microseconds or nanoseconds, by magnitude. */
function epoch(text: string): bigint | null {
  const found = EPOCH.exec(text);
  if (found === null) return null;
  const whole = BigInt(found[1] ?? 0);
  const scale = whole < 10n ** 11n ? BILLION : whole < 10n ** 14n ? 1_000_000n : whole < 10n ** 17n ? 1_000n : 1n;
  return (BigInt(`${found[1]}${(found[2] ?? '').padEnd(9, '0')}`) * scale) / BILLION;
}

function absolute(text: string): bigint | null {
  const found = ABSOLUTE.exec(text);
  if (found === null) return null;
  const [, day = '', hour = '00', minute = '00', second = '00', fraction = '', sign, hours = '0', minutes = '0'] =
    found;
  const midnight = new Date(`${day}T00:00:00Z`);
  const isDay = !Number.isNaN(midnight.getTime()) && midnight.toISOString().startsWith(day);
  if (!isDay || Number(hour) > 23 || Number(minute) > 59 || Number(second) > 60) return null;
  if (Number(hours) > 23 || Number(minutes) > 59) return null;
  const east = (Number(hours) * 3_600 + Number(minutes) * 60) * (sign === '-' ? -1 : 1);
  const seconds = midnight.getTime() / 1000 + Number(hour) * 3_600 + Number(minute) * 60 + Number(second) - east;
  return BigInt(seconds) * BILLION + BigInt(fraction.slice(0, 9).padEnd(9, '0'));
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
