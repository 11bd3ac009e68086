// What arrives, polled: newest first, held while somebody has scrolled down or pressed Pause.
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { call } from '../api/client';
import { ApiError } from '../api/request';
import { Button } from './elements';
import { Failure } from './query';

const POLL_MS = 2_000;
const MAX_ROWS = 200;
const SCROLLED_PX = 120;

/** The newest first. */
interface Answer<T> {
  data: T[];
  next: string;
  truncated: boolean;
}

export interface Live<T> {
  rows: T[];
  /** Rows that came while paused. */
  held: number;
  /** Whether rows came faster than they could be shown. */
  isTruncated: boolean;
  isPaused: boolean;
  error: Error | null;
  pause(paused: boolean): void;
}

/** `path` null: off. Stops while the tab is hidden. */
export function useLive<T>(path: string | null): Live<T> {
  const [rows, setRows] = useState<T[]>([]);
  const [held, setHeld] = useState<T[]>([]);
  const [isPaused, pause] = useState(false);
  const [isScrolled, setScrolled] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  const [isTruncated, setTruncated] = useState(false);
  const isHolding = useRef(false);
  isHolding.current = isPaused || isScrolled;

  useEffect(() => {
    if (path === null) return;
    const scrolled = (): void => setScrolled(window.scrollY > SCROLLED_PX);
    scrolled();
    window.addEventListener('scroll', scrolled, { passive: true });
    return () => window.removeEventListener('scroll', scrolled);
  }, [path === null]);
  useEffect(() => {
    setRows([]);
    setHeld([]);
    setError(null);
    setTruncated(false);
    if (path === null) return;
    const controller = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let after: string | null = null;
    async function poll(): Promise<void> {
      let wait = POLL_MS;
      if (!document.hidden) {
        try {
          const asked: string = after === null ? `${path}` : `${path}&after=${encodeURIComponent(after)}`;
          const answer: Answer<T> = await call<Answer<T>>({ path: asked, signal: controller.signal });
          after = answer.next;
          setError(null);
          if (answer.truncated) setTruncated(true);
          const add = (before: T[]): T[] => [...answer.data, ...before].slice(0, MAX_ROWS);
          if (answer.data.length > 0) (isHolding.current ? setHeld : setRows)(add);
        } catch (failure) {
          if (controller.signal.aborted) return;
          setError(failure as Error);
          if (failure instanceof ApiError && failure.retryAfterS !== null)
            wait = Math.max(wait, failure.retryAfterS * 1_000);
        }
      }
      if (!controller.signal.aborted) timer = setTimeout(() => void poll(), wait);
    }
    void poll();
    return () => {
      controller.abort();
      clearTimeout(timer);
    };
  }, [path]);
  useEffect(() => {
    if (isPaused || isScrolled || held.length === 0) return;
    setRows((before) => [...held, ...before].slice(0, MAX_ROWS));
    setHeld([]);
  }, [isPaused, isScrolled, held.length]);
  return { rows, held: held.length, isTruncated, isPaused: isPaused || isScrolled, error, pause };
}

export function LiveBar<T>({ live, what, missing }: { live: Live<T>; what: string; missing: string }): JSX.Element {
  return (
    <>
      <p class="notice" role="status">
        {live.isPaused
          ? `Paused: ${live.held === MAX_ROWS ? 'at least ' : ''}${live.held} new ${what}.`
          : `Live: the latest ${what}.`}{' '}
        <Button
          onClick={() => {
            live.pause(!live.isPaused);
            if (live.isPaused) window.scrollTo({ top: 0 }); // which resumes it, too
          }}
        >
          {live.isPaused ? 'Resume' : 'Pause'}
        </Button>{' '}
        <span class="quiet">
          {live.isTruncated &&
            `Some ${what} were skipped: more arrived at once than are shown, the tab was hidden for over a minute, or there are too many to read all. `}
          {missing}
        </span>
      </p>
      <Failure error={live.error} />
    </>
  );
}
