// Spans by time and duration, on a canvas. A box selects cells: its bounds are those of the rows and columns, exactly.
import type { JSX } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { address, zoneOf } from '../address/address';
import type { SpanHeatmap } from '../api/api_types';
import type { Num } from '../api/numbers';
import { useDrawing } from '../ui/drawing';
import { powerTicks, TimeAxis, timeTicks, ValueAxis } from './axis';

export interface Box {
  firstColumn: number;
  lastColumn: number;
  firstRow: number;
  lastRow: number;
}

interface Props {
  data: SpanHeatmap;
  box: Box | null;
  onBox: (box: Box | null) => void;
  format: (value: Num) => string;
}

const HEIGHT = 220;

/** The share of full colour: a logarithm, so that a single span is visible beside thousands. */
export function strength(count: number, most: number): number {
  return most <= 1 ? 1 : 0.15 + 0.85 * (Math.log(count) / Math.log(most));
}

export function HeatmapChart({ data, box, onBox, format }: Props): JSX.Element {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [corner, setCorner] = useState<[number, number] | null>(null);
  const [cursor, setCursor] = useState<[number, number] | null>(null);
  const [dragged, setDragged] = useState<Box | null>(null);
  const rows = data.rows.length;
  const counts = new Map(data.cells.map(([column, row, count, errors]) => [column * 1_000 + row, [count, errors]]));

  useDrawing(canvas, (element) => draw(element, data), [data]);

  function cellAt(event: PointerEvent): [number, number] {
    const area = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const column = Math.floor(((event.clientX - area.left) / area.width) * data.columns);
    const row = rows - 1 - Math.floor(((event.clientY - area.top) / area.height) * rows);
    return [clamp(column, data.columns - 1), clamp(row, rows - 1)];
  }
  function begin(cell: [number, number]): void {
    setCorner(cell);
    setDragged(boxOf(cell, cell));
  }
  function end(chosen: Box | null): void {
    onBox(chosen);
    setCorner(null);
    setDragged(null);
  }
  function moveTo(cell: [number, number]): void {
    setCursor(cell);
    if (corner !== null) setDragged(boxOf(corner, cell));
  }
  function keyed(event: KeyboardEvent): void {
    const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key] ?? [
      0, 0,
    ];
    if (dx !== 0 || dy !== 0) {
      event.preventDefault();
      const [column, row] = cursor ?? [0, 0];
      moveTo([clamp(column + (dx ?? 0), data.columns - 1), clamp(row + (dy ?? 0), rows - 1)]);
    } else if (event.key === ' ' || event.key === 'Enter') {
      event.preventDefault();
      if (corner === null) begin(cursor ?? [0, 0]);
      else end(dragged);
    } else if (event.key === 'Escape') end(null);
  }
  const shown = dragged ?? box;
  const under = cursor === null ? undefined : counts.get(cursor[0] * 1_000 + cursor[1]);
  const row = cursor === null ? undefined : data.rows[cursor[1]];
  return (
    <figure class="heatmap">
      <figcaption>
        {rows > 0 && `${format(data.rows[0]?.from ?? 0)} to ${format(data.rows[rows - 1]?.to ?? 0)}`}
        <span class="readout" role="status">
          {row !== undefined &&
            `${format(row.from)} to ${format(row.to)}: ${under?.[0] ?? 0} spans, ${under?.[1] ?? 0} with errors`}
        </span>
      </figcaption>
      <div
        class="plot"
        role="application"
        aria-label="Heatmap: arrow keys move, space begins and ends a box, escape removes it"
        tabIndex={0}
        onPointerDown={(event) => {
          (event.currentTarget as HTMLElement).setPointerCapture(event.pointerId);
          begin(cellAt(event));
        }}
        onPointerMove={(event) => moveTo(cellAt(event))}
        onPointerUp={() => corner !== null && end(dragged)}
        onPointerLeave={() => corner === null && setCursor(null)}
        onKeyDown={keyed}
      >
        <canvas ref={canvas} height={HEIGHT} />
        <ValueAxis ticks={powerTicks(data.rows, format)} />
        {shown !== null && rows > 0 && <div class="box" style={areaOf(shown, data)} />}
        {cursor !== null && rows > 0 && <div class="cell" style={areaOf(boxOf(cursor, cursor), data)} />}
      </div>
      <TimeAxis ticks={timeTicks(data.range.from, data.range.to, zoneOf(address.value), 10)} />
      {(data.under > 0 || data.over > 0) && (
        <p class="quiet">
          Not drawn: {data.under} spans of 0 or less, {data.over} beyond the rows.
        </p>
      )}
    </figure>
  );
}

function boxOf(a: [number, number], b: [number, number]): Box {
  return {
    firstColumn: Math.min(a[0], b[0]),
    lastColumn: Math.max(a[0], b[0]),
    firstRow: Math.min(a[1], b[1]),
    lastRow: Math.max(a[1], b[1]),
  };
}

function areaOf(
  { firstColumn, lastColumn, firstRow, lastRow }: Box,
  { columns, rows }: SpanHeatmap,
): JSX.CSSProperties {
  return {
    left: `${(firstColumn / columns) * 100}%`,
    width: `${((lastColumn - firstColumn + 1) / columns) * 100}%`,
    bottom: `${(firstRow / rows.length) * 100}%`,
    height: `${((lastRow - firstRow + 1) / rows.length) * 100}%`,
  };
}

function clamp(value: number, most: number): number {
  return Math.max(0, Math.min(most, value));
}

function draw(canvas: HTMLCanvasElement, data: SpanHeatmap): void {
  const width = Math.max(1, Math.round(canvas.clientWidth * devicePixelRatio));
  const height = Math.round(HEIGHT * devicePixelRatio);
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext('2d');
  if (context === null || data.rows.length === 0) return;
  const { color: fill, outlineColor: error } = getComputedStyle(canvas); // as colours, which tokens are not yet
  const most = Math.max(1, ...data.cells.map((cell) => cell[2]));
  const columnWidth = width / data.columns;
  const rowHeight = height / data.rows.length;
  for (const [column, row, count, errors] of data.cells) {
    const x = Math.floor(column * columnWidth);
    const y = Math.floor(height - (row + 1) * rowHeight);
    const w = Math.ceil(columnWidth) - (columnWidth > 4 ? 1 : 0);
    const h = Math.ceil(rowHeight) - (rowHeight > 4 ? 1 : 0);
    context.globalAlpha = strength(count, most);
    context.fillStyle = fill;
    context.fillRect(x, y, w, h);
    if (errors > 0) {
      context.globalAlpha = 1;
      context.fillStyle = error;
      context.fillRect(x, y + h - Math.max(2, (h * errors) / count / 2), w, Math.max(2, (h * errors) / count / 2));
    }
  }
  context.globalAlpha = 1;
}
