// The flame graph of a trace: spans by depth, on a canvas.
import type { JSX } from 'preact';
import { useRef } from 'preact/hooks';
import { elapsedTicks, TimeAxis } from '../charts/axis';
import { useDrawing } from '../ui/drawing';
import { hueOf, isError, nameOf, serviceOf, type Trace } from './rows';

interface FlameProps {
  trace: Trace;
  fromNs: number;
  toNs: number;
  selected: number;
  onSelect: (at: number) => void;
}

const FLAME_ROW = 18;
const MAX_FLAME_DEPTH = 400;

/** As many spans as a trace has. */
export function Flame({ trace, fromNs, toNs, selected, onSelect }: FlameProps): JSX.Element {
  const canvas = useRef<HTMLCanvasElement>(null);
  const depth = Math.min(MAX_FLAME_DEPTH, trace.data.maxDepth + 1);
  function draw(element: HTMLCanvasElement): void {
    const context = element.getContext('2d');
    if (context === null) return;
    const ratio = devicePixelRatio;
    element.width = element.clientWidth * ratio;
    element.height = depth * FLAME_ROW * ratio;
    const error = getComputedStyle(element).outlineColor;
    const length = Math.max(1, toNs - fromNs);
    context.font = `${11 * ratio}px sans-serif`;
    for (let at = 0; at < trace.length; at++) {
      const level = trace.data.columns.depth[at] ?? 0;
      const x = (((trace.data.columns.startOffsetNs[at] ?? 0) - fromNs) / length) * element.width;
      const w = Math.max(1, ((trace.data.columns.durationNs[at] ?? 0) / length) * element.width);
      if (level >= depth || x + w < 0 || x > element.width) continue;
      context.globalAlpha = at === selected ? 1 : 0.8;
      context.fillStyle = hueOf(trace, serviceOf(trace, at));
      context.fillRect(x, level * FLAME_ROW * ratio, w, (FLAME_ROW - 1) * ratio);
      if (w > 60 * ratio) {
        context.globalAlpha = 1;
        context.fillStyle = '#fff';
        context.fillText(
          nameOf(trace, at).slice(0, Math.floor(w / (6 * ratio))),
          x + 3 * ratio,
          (level * FLAME_ROW + 13) * ratio,
        );
      }
      if (isError(trace, at)) {
        context.lineWidth = 2 * ratio;
        context.strokeStyle = error;
        context.strokeRect(x, level * FLAME_ROW * ratio, w, (FLAME_ROW - 1) * ratio);
      }
    }
  }
  useDrawing(canvas, draw, [trace, fromNs, toNs, selected]);
  function chosen(event: MouseEvent): void {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const time = fromNs + ((event.clientX - box.left) / box.width) * (toNs - fromNs);
    const level = Math.floor((event.clientY - box.top) / FLAME_ROW);
    for (let at = 0; at < trace.length; at++) {
      const start = trace.data.columns.startOffsetNs[at] ?? 0;
      const isHere = start <= time && time <= start + (trace.data.columns.durationNs[at] ?? 0);
      if (trace.data.columns.depth[at] === level && isHere) {
        onSelect(at);
        return;
      }
    }
  }
  return (
    <div class="scroll panel">
      <TimeAxis ticks={elapsedTicks(fromNs, toNs, 10)} />
      <canvas
        ref={canvas}
        role="img"
        aria-label="Flame graph; use the waterfall for keyboard navigation"
        onClick={chosen}
        {...{ height: depth * FLAME_ROW }}
        class="flame"
      />
    </div>
  );
}
