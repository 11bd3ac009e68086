// Figures for people. The exact one is always in a title beside it.
import type { Num } from '../api/numbers';

const SCALES: [number, string][] = [
  [1e9, 'G'],
  [1e6, 'M'],
  [1e3, 'k'],
];

export function count(exact: Num): string {
  const value = Number(exact);
  for (const [size, name] of SCALES) {
    if (Math.abs(value) >= 10 * size) return `${(value / size).toFixed(value >= 100 * size ? 0 : 1)}${name}`;
  }
  return Number.isInteger(value) ? value.toLocaleString('en') : value.toPrecision(3);
}

export function duration(exact: Num | null): string {
  if (exact === null) return '-';
  const ms = Number(exact);
  if (ms === 0) return '0';
  // Bounds are those of the rounded figure: 999.9 us is 1.00 ms.
  if (ms < 0.000_999_5) return `${Math.round(ms * 1e6)} ns`;
  if (ms < 0.999_5) return `${trimmed(ms * 1e3)} us`;
  if (ms < 999.5) return `${trimmed(ms)} ms`;
  if (ms < 59_950) return `${trimmed(ms / 1_000)} s`;
  if (ms < 3_597_000) return `${trimmed(ms / 60_000)} min`;
  return `${trimmed(ms / 3_600_000)} h`;
}

/** "1 span", "2 spans". */
export function counted(value: number, noun: string): string {
  return `${value.toLocaleString('en')} ${noun}${value === 1 ? '' : 's'}`;
}

/** For drawing: the nearest double. */
export function drawn(value: Num | null | undefined): number | null {
  return value === null || value === undefined ? null : Number(value);
}

function trimmed(value: number): string {
  return value >= 99.95 ? value.toFixed(0) : value >= 9.995 ? value.toFixed(1) : value.toFixed(2);
}

export function rate(value: number): string {
  if (value === 0) return '0/s';
  if (value < 0.001) return '< 0.001/s';
  return `${value >= 10 ? count(Math.round(value)) : value.toPrecision(2)}/s`;
}

/** A part of a whole: neither none nor all, if it is neither. */
export function share(exact: Num): string {
  const value = Number(exact);
  if (value === 0) return '0 %';
  if (value < 0.001) return '< 0.1 %';
  if (value > 0.999 && value < 1) return '> 99.9 %';
  return `${(value * 100).toFixed(value < 0.1 || (value > 0.9 && value < 1) ? 1 : 0)} %`;
}
