// Lines over time as SVG: themes, focus and nodes that tests can read.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { shownTime, type Zone } from '../address/time';
import { TimeAxis, timeTicks } from './axis';

export interface Line {
  name: string;
  color: string;
  values: (number | null)[];
}

interface Props {
  title: string;
  buckets: string[];
  lines: Line[];
  format: (value: number) => string;
  zone: Zone;
  onZoom?: (first: number, last: number) => void;
  height?: number;
}

const WIDTH = 600;
const PAD = { left: 4, right: 4, top: 8, bottom: 4 };

/** A path for each stretch of values that are there. */
export function pathOf(values: (number | null)[], top: number, width: number, height: number): string {
  const step = values.length > 1 ? (width - PAD.left - PAD.right) / (values.length - 1) : 0;
  let path = '';
  let isDrawing = false;
  values.forEach((value, at) => {
    if (value === null) {
      isDrawing = false;
      return;
    }
    const x = (PAD.left + at * step).toFixed(1);
    const y = (height - PAD.bottom - (top === 0 ? 0 : value / top) * (height - PAD.top - PAD.bottom)).toFixed(1);
    path += `${isDrawing ? 'L' : 'M'}${x} ${y}`;
    if (!isDrawing && (at + 1 >= values.length || values[at + 1] === null)) path += 'h.1';
    isDrawing = true;
  });
  return path;
}

export function LineChart({ title, buckets, lines, format, zone, onZoom, height = 140 }: Props): JSX.Element {
  const [at, setAt] = useState<number | null>(null);
  const [begun, setBegun] = useState<number | null>(null);
  const top = Math.max(0, ...lines.flatMap((line) => line.values.filter((value): value is number => value !== null)));
  const last = Math.max(0, buckets.length - 1);

  function indexAt(event: PointerEvent): number {
    const box = (event.currentTarget as SVGElement).getBoundingClientRect();
    return Math.min(last, Math.max(0, Math.round(((event.clientX - box.left) / box.width) * last)));
  }
  function keyed(event: KeyboardEvent): void {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    setAt(Math.min(last, Math.max(0, (at ?? (step > 0 ? -1 : last + 1)) + step)));
  }
  function ended(event: PointerEvent): void {
    const now = indexAt(event);
    if (begun !== null && now !== begun && onZoom !== undefined) onZoom(Math.min(begun, now), Math.max(begun, now));
    setBegun(null);
  }
  const x = at === null || last === 0 ? null : PAD.left + (at / last) * (WIDTH - PAD.left - PAD.right);
  return (
    <figure class="line-chart">
      <figcaption>
        {title} <span class="quiet">up to {format(top)}</span>
        <span class="readout" role="status">
          {at !== null &&
            buckets[at] !== undefined &&
            `${shownTime(buckets[at], zone, 0)}: ${lines
              .map((line) => `${lines.length > 1 ? `${line.name} ` : ''}${show(line.values[at], format)}`)
              .join(', ')}`}
        </span>
      </figcaption>
      <svg
        viewBox={`0 0 ${WIDTH} ${height}`}
        preserveAspectRatio="none"
        role="img"
        tabIndex={0}
        aria-label={`${title}, ${buckets.length} intervals; arrow keys read them`}
        onPointerMove={(event) => setAt(indexAt(event))}
        onPointerLeave={() => setAt(null)}
        onPointerDown={(event) => setBegun(indexAt(event))}
        onPointerUp={ended}
        onKeyDown={keyed}
      >
        {begun !== null && at !== null && begun !== at && (
          <rect class="selection" x={xOf(Math.min(begun, at))} y={0} width={xOf(Math.abs(at - begun))} height={height} />
        )}
        {lines.map((line) => (
          <path
            key={line.name}
            d={pathOf(line.values, top, WIDTH, height)}
            fill="none"
            stroke={line.color}
            stroke-width="2"
            vector-effect="non-scaling-stroke"
          />
        ))}
        {x !== null && <line class="cursor" x1={x} x2={x} y1={0} y2={height} vector-effect="non-scaling-stroke" />}
      </svg>
      <TimeAxis ticks={timeTicks(buckets[0] ?? '', buckets[last] ?? '', zone)} />
    </figure>
  );
  function xOf(index: number): number {
    return last === 0 ? 0 : (index / last) * WIDTH;
  }
}

function show(value: number | null | undefined, format: (value: number) => string): string {
  return value === null || value === undefined ? 'none' : format(value);
}

export function Sparkline({ values, label }: { values: (number | null)[]; label: string }): JSX.Element {
  const top = Math.max(0, ...values.filter((value): value is number => value !== null));
  return (
    <svg class="sparkline" viewBox="0 0 96 20" preserveAspectRatio="none" role="img" aria-label={label}>
      <path d={pathOf(values, top, 96, 20)} fill="none" stroke="currentColor" vector-effect="non-scaling-stroke" />
    </svg>
  );
}
