// Loads what a view shows: the last picture stays, dimmed, until the next one is there; a new question ends the last one.
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { call } from '../api/client';
import { ApiError, type Call } from '../api/request';
import { who } from '../api/session';

const SLOW_MS = 3_000;

export interface Query<T> {
  data: T | null;
  error: Error | null;
  isLoading: boolean;
  /** Seconds since the question, once it takes long. */
  slowS: number | null;
  /** Seconds until the question is asked once more by itself. */
  waitS: number | null;
  cancel(): void;
  again(): void;
}

/** `asked` null: nothing yet. A 429 or 503 is tried once more when it says so. */
export function useQuery<T>(asked: Call | null): Query<T> {
  const [state, setState] = useState<{ data: T | null; error: Error | null; isLoading: boolean }>({
    data: null,
    error: null,
    isLoading: asked !== null,
  });
  const [slowS, setSlowS] = useState<number | null>(null);
  const [waitS, setWaitS] = useState<number | null>(null);
  const [attempt, setAttempt] = useState(0);
  const abort = useRef<AbortController | null>(null);
  const key = asked === null ? '' : JSON.stringify(asked);
  const isRefused = useRef(false);
  isRefused.current = state.error instanceof ApiError && state.error.status === 401;

  useEffect(
    () =>
      who.subscribe((me) => {
        if (me && isRefused.current) setAttempt((before) => before + 1); // logged in again
      }),
    [],
  );

  useEffect(() => {
    if (asked === null) return;
    const controller = new AbortController();
    abort.current = controller;
    const begun = Date.now();
    const ticking = setInterval(() => {
      const taken = Date.now() - begun;
      if (taken >= SLOW_MS) setSlowS(Math.floor(taken / 1000));
    }, 500);
    setState((before) => ({ ...before, error: null, isLoading: true }));
    void ask<T>(asked, controller.signal, setWaitS).then(
      (data) => {
        if (!controller.signal.aborted) setState({ data, error: null, isLoading: false });
        end();
      },
      (error: Error) => {
        const cancelled = controller.signal.aborted;
        if (!cancelled || abort.current === controller) {
          setState((before) => ({
            ...before,
            error: cancelled ? new Error('Cancelled.') : error,
            isLoading: false,
          }));
        }
        end();
      },
    );
    function end(): void {
      clearInterval(ticking);
      if (abort.current === controller) {
        setSlowS(null);
        setWaitS(null);
      }
    }
    return () => {
      if (abort.current === controller) abort.current = null;
      controller.abort();
      clearInterval(ticking);
      setSlowS(null);
      setWaitS(null);
    };
  }, [key, attempt]);

  const cancel = useCallback(() => abort.current?.abort(), []);
  const again = useCallback(() => setAttempt((before) => before + 1), []);
  return { ...state, slowS, waitS, cancel, again };
}

async function ask<T>(asked: Call, signal: AbortSignal, setWaitS: (value: number | null) => void): Promise<T> {
  try {
    return await call<T>({ ...asked, signal });
  } catch (error) {
    if (!(error instanceof ApiError) || error.retryAfterS === null || ![429, 503].includes(error.status)) throw error;
    for (let left = Math.min(60, Math.max(1, Math.ceil(error.retryAfterS))); left > 0; left--) {
      setWaitS(left);
      await new Promise((resolve) => setTimeout(resolve, 1_000));
      if (signal.aborted) throw error;
    }
    setWaitS(null);
    return call<T>({ ...asked, signal });
  }
}
