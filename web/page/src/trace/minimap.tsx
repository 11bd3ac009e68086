// The whole trace on a canvas of 56 pixels; dragging over it zooms.
import type { JSX } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { push } from '../address/address';
import { useDrawing } from '../ui/drawing';
import { hueOf, isError, serviceOf, type Trace } from './rows';

const HEIGHT = 56;

export function Minimap({ trace, fromNs, toNs }: { trace: Trace; fromNs: number; toNs: number }): JSX.Element {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [begun, setBegun] = useState<number | null>(null);
  useDrawing(canvas, (element) => drawMinimap(element, trace), [trace]);
  function timeAt(event: PointerEvent): number {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    return Math.max(0, Math.min(1, (event.clientX - box.left) / box.width)) * trace.total;
  }
  const isZoomed = fromNs > 0 || toNs < trace.total;
  return (
    <div
      class="minimap-box"
      onPointerDown={(event) => setBegun(timeAt(event))}
      onPointerUp={(event) => {
        const now = timeAt(event);
        if (begun !== null && Math.abs(now - begun) > trace.total / 200) {
          push({ zoom: `${Math.round(Math.min(begun, now))},${Math.round(Math.max(begun, now))}` });
        }
        setBegun(null);
      }}
      onDblClick={() => push({ zoom: null })}
    >
      <canvas ref={canvas} class="minimap" height={56} role="img" aria-label="The whole trace; drag to zoom" />
      {isZoomed && trace.total > 0 && (
        <div
          class="brush"
          style={{ left: `${(fromNs / trace.total) * 100}%`, width: `${((toNs - fromNs) / trace.total) * 100}%` }}
        />
      )}
    </div>
  );
}

function drawMinimap(canvas: HTMLCanvasElement, trace: Trace): void {
  const width = Math.max(1, Math.round(canvas.clientWidth * devicePixelRatio));
  const height = Math.round(HEIGHT * devicePixelRatio);
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext('2d');
  if (context === null || trace.total === 0) return;
  const error = getComputedStyle(canvas).outlineColor;
  const { startOffsetNs, durationNs } = trace.data.columns;
  const step = height / Math.max(1, trace.length);
  const thick = Math.max(1, Math.min(4 * devicePixelRatio, step - 1));
  for (let at = 0; at < trace.length; at++) {
    const x = ((startOffsetNs[at] ?? 0) / trace.total) * width;
    const w = Math.max(1, ((durationNs[at] ?? 0) / trace.total) * width);
    context.fillStyle = hueOf(trace, serviceOf(trace, at));
    context.fillRect(x, at * step, w, thick);
    if (isError(trace, at)) {
      context.fillStyle = error;
      context.fillRect(x, at * step, Math.max(2, devicePixelRatio), Math.max(thick, 3 * devicePixelRatio));
    }
  }
}
