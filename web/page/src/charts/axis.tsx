// Labels of axes: round times, round durations.
import type { JSX } from 'preact';
import { shownTime, type Zone } from '../address/time';
import type { Num } from '../api/numbers';
import { duration } from '../ui/format';

export interface Tick {
  /** From 0 (left, bottom) to 1. */
  at: number;
  label: string;
}

const STEPS_S = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800,
  2_592_000,
];
const DAY_S = 86_400;

/** Round times of the zone between two times of an answer; at most `most`. */
export function timeTicks(from: string, to: string, zone: Zone, most = 6): Tick[] {
  const start = secondsOf(from);
  const length = secondsOf(to) - start;
  if (!(length > 0)) return [];
  const offset = zone === 'utc' ? 0 : -new Date(start * 1_000).getTimezoneOffset() * 60;
  const step = STEPS_S.find((one) => length / one <= most) ?? Math.ceil(length / most / DAY_S) * DAY_S;
  const ticks: Tick[] = [];
  for (let time = Math.ceil((start + offset) / step) * step - offset; time <= start + length; time += step) {
    const shown = shownTime(new Date(time * 1_000).toISOString(), zone, 0);
    ticks.push({
      at: (time - start) / length,
      label: step >= DAY_S ? shown.slice(5, 10) : shown.slice(11, step < 60 ? 19 : 16),
    });
  }
  return ticks;
}

/** Multiples of 1, 2 or 5 times a power of ten, above 0 and up to `top`; at most `most`. */
export function roundTicks(top: number, format: (value: number) => string, most = 4): Tick[] {
  if (!(top > 0) || !Number.isFinite(top)) return [];
  const power = 10 ** Math.floor(Math.log10(top / most));
  const step = power * ([1, 2, 5].find((one) => top / (power * one) < most + 1) ?? 10);
  const many = Math.floor(top / step);
  return [...Array(many).keys()].map((at) => ({ at: ((at + 1) * step) / top, label: format((at + 1) * step) }));
}

/** Round times from the left end of a part of a trace, which begins `fromNs` after the trace. */
export function elapsedTicks(fromNs: number, toNs: number, most: number): Tick[] {
  const sign = fromNs > 0 ? '+' : '';
  return roundTicks(toNs - fromNs, (ns) => sign + duration(ns / 1e6), most);
}

/** Where rows with exponentially growing bounds pass 1, 10, 100 and so on. */
export function powerTicks(rows: { from: Num; to: Num }[], format: (value: Num) => string): Tick[] {
  const low = Math.log10(Number(rows[0]?.from ?? 0));
  const high = Math.log10(Number(rows[rows.length - 1]?.to ?? 0));
  if (!Number.isFinite(low) || !Number.isFinite(high) || high <= low) return [];
  const ticks: Tick[] = [];
  for (let power = Math.ceil(low); power <= high; power++) {
    ticks.push({ at: (power - low) / (high - low), label: format(10 ** power) });
  }
  return ticks;
}

function secondsOf(time: string): number {
  return Date.parse(time) / 1_000;
}

/** At an end the label keeps within the axis. */
function placeOf(at: number): JSX.CSSProperties {
  if (at > 0.97) return { right: '0', transform: 'none' };
  return at < 0.03 ? { left: '0', transform: 'none' } : { left: `${at * 100}%` };
}

/** Readers of a screen have the readout of the chart instead. */
export function TimeAxis({ ticks }: { ticks: Tick[] }): JSX.Element {
  return (
    <div class="time-axis" aria-hidden="true">
      {ticks.map((tick) => (
        <span key={tick.label + tick.at} style={placeOf(tick.at)}>
          {tick.label}
        </span>
      ))}
    </div>
  );
}

export function ValueAxis({ ticks }: { ticks: Tick[] }): JSX.Element {
  return (
    <div class="value-axis" aria-hidden="true">
      {ticks.map((tick) => (
        <span key={tick.label} style={{ bottom: `${tick.at * 100}%` }}>
          {tick.label}
        </span>
      ))}
    </div>
  );
}
