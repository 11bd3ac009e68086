// Figures for people. The exact one is always in a title beside it.
import type { Num } from '../api/types';

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
  if (ms < 0.001) return `${Math.round(ms * 1e6)} ns`;
  if (ms < 1) return `${trimmed(ms * 1e3)} us`;
  if (ms < 1_000) return `${trimmed(ms)} ms`;
  if (ms < 60_000) return `${trimmed(ms / 1_000)} s`;
  if (ms < 3_600_000) return `${trimmed(ms / 60_000)} min`;
  return `${trimmed(ms / 3_600_000)} h`;
}

/** For drawing: the nearest double. */
export function drawn(value: Num | null | undefined): number | null {
  return value === null || value === undefined ? null : Number(value);
}

function trimmed(value: number): string {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

export function rate(value: number): string {
  return `${value >= 10 ? count(Math.round(value)) : value.toPrecision(2)}/s`;
}

export function share(exact: Num): string {
  const value = Number(exact);
  if (value === 0) return '0 %';
  if (value < 0.001) return '< 0.1 %';
  return `${(value * 100).toFixed(value < 0.1 ? 1 : 0)} %`;
}
