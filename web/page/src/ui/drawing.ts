// A canvas that is drawn by hand: when what it shows changes, and when its width or the colours of the page do.
import type { RefObject } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

/** Calls `draw` after each change of `shown`. */
export function useDrawing(
  canvas: RefObject<HTMLCanvasElement>,
  draw: (element: HTMLCanvasElement) => void,
  shown: unknown[],
): void {
  const latest = useRef(draw);
  latest.current = draw;
  useEffect(() => {
    if (canvas.current !== null) latest.current(canvas.current);
  }, shown);
  useEffect(() => {
    const element = canvas.current;
    if (element === null) return;
    let width = element.clientWidth;
    let frame = 0;
    const resizes = new ResizeObserver(() => {
      if (element.clientWidth === width) return;
      width = element.clientWidth;
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(() => latest.current(element)); // not here: it may change the height
    });
    resizes.observe(element);
    const theme = matchMedia('(prefers-color-scheme: dark)');
    const redraw = (): void => latest.current(element);
    theme.addEventListener('change', redraw);
    return () => {
      theme.removeEventListener('change', redraw);
      resizes.disconnect();
      cancelAnimationFrame(frame);
    };
  }, []);
}
