// Lines over time as SVG: themes, focus and nodes that tests can read.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { address, push, time, zoneOf } from '../address/address';
import { roundTicks, TimeAxis, timeTicks, ValueAxis } from './axis';

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
  /** Chooses the time of some buckets. `end`: of the last one. */
  end: string;
  height?: number;
  /** Bars on each other, of what is counted, instead of lines. */
  isStacked?: boolean;
  /** Names of the lines in the caption. */
  hasLegend?: boolean;
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

/** The sum of the first lines in a bucket. */
function heightAt(lines: Line[], many: number, index: number): number {
  return lines.slice(0, many).reduce((sum, line) => sum + (line.values[index] ?? 0), 0);
}

/** A bar for each bucket, on those of the lines before; its middle is where a line would have its point. */
function barsOf(lines: Line[], which: number, top: number, height: number): string {
  const values = lines[which]?.values ?? [];
  const step = values.length > 1 ? (WIDTH - PAD.left - PAD.right) / (values.length - 1) : WIDTH / 2;
  const scale = top === 0 ? 0 : (height - PAD.top - PAD.bottom) / top;
  return values
    .map((value, index) => {
      if (value === null || value === 0) return '';
      const x = Math.max(0, PAD.left + (index - 0.4) * step).toFixed(1);
      const y = (height - PAD.bottom - heightAt(lines, which + 1, index) * scale).toFixed(2);
      return `M${x} ${y}h${(step * 0.8).toFixed(1)}v${(value * scale).toFixed(2)}h${(-step * 0.8).toFixed(1)}z`;
    })
    .join('');
}

export function LineChart({
  title,
  buckets,
  lines,
  format,
  end,
  height = 140,
  isStacked = false,
  hasLegend = false,
}: Props): JSX.Element {
  const [at, setAt] = useState<number | null>(null);
  const [begun, setBegun] = useState<number | null>(null);
  const top = isStacked
    ? Math.max(0, ...buckets.map((_, index) => heightAt(lines, lines.length, index)))
    : Math.max(0, ...lines.flatMap((line) => line.values.filter((value): value is number => value !== null)));
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
    if (begun !== null && now !== begun) {
      push({ from: buckets[Math.min(begun, now)] ?? null, to: buckets[Math.max(begun, now) + 1] ?? end });
    }
    setBegun(null);
  }
  const drawnShare = (height - PAD.top - PAD.bottom) / height;
  const values = roundTicks(top, format).map((tick) => ({ ...tick, at: PAD.bottom / height + tick.at * drawnShare }));
  const x = at === null || last === 0 ? null : PAD.left + (at / last) * (WIDTH - PAD.left - PAD.right);
  return (
    <figure class="line-chart">
      <figcaption>
        {title} <span class="quiet">up to {format(top)}</span>
        {hasLegend &&
          lines.map((line) => (
            <span key={line.name} class="quiet">
              <i class="swatch" style={{ background: line.color }} />
              {line.name}
            </span>
          ))}
        <span class="readout" role="status">
          {at !== null &&
            buckets[at] !== undefined &&
            `${time(buckets[at])}: ${lines
              .map((line) => `${lines.length > 1 ? `${line.name} ` : ''}${show(line.values[at], format)}`)
              .join(', ')}`}
        </span>
      </figcaption>
      <div class="plot">
        <svg
          viewBox={`0 0 ${WIDTH} ${height}`}
          preserveAspectRatio="none"
          role="img"
          tabindex={0} // an attribute of SVG, where case matters
          aria-label={`${title}, ${buckets.length} intervals; arrow keys read them`}
          onPointerMove={(event) => setAt(indexAt(event))}
          onPointerLeave={() => setAt(null)}
          onPointerDown={(event) => setBegun(indexAt(event))}
          onPointerUp={ended}
          onKeyDown={keyed}
        >
          {values.map((tick) => (
            <line
              key={tick.label}
              class="rule"
              x1={0}
              x2={WIDTH}
              y1={height * (1 - tick.at)}
              y2={height * (1 - tick.at)}
              vector-effect="non-scaling-stroke"
            />
          ))}
          {begun !== null && at !== null && begun !== at && (
            <rect
              class="selection"
              x={xOf(Math.min(begun, at))}
              y={0}
              width={xOf(Math.abs(at - begun))}
              height={height}
            />
          )}
          {lines.map((line, which) =>
            isStacked ? (
              <path key={line.name} d={barsOf(lines, which, top, height)} fill={line.color} />
            ) : (
              <path
                key={line.name}
                d={pathOf(line.values, top, WIDTH, height)}
                fill="none"
                stroke={line.color}
                stroke-width="2"
                vector-effect="non-scaling-stroke"
              />
            ),
          )}
          {x !== null && <line class="cursor" x1={x} x2={x} y1={0} y2={height} vector-effect="non-scaling-stroke" />}
        </svg>
        <ValueAxis ticks={values} />
      </div>
      <TimeAxis ticks={timeTicks(buckets[0] ?? '', buckets[last] ?? '', zoneOf(address.value))} />
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
