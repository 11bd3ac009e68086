// The whole trace on a canvas of 56 pixels.
import { hueOf, isError, serviceOf, type Trace } from './rows';

const HEIGHT = 56;

export function drawMinimap(canvas: HTMLCanvasElement, trace: Trace): void {
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
