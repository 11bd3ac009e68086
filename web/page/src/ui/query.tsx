// Loads what a view shows: the last picture stays, dimmed, until the next one is there; a new question ends the last one.
// And what a view shows instead of its data, or besides.
import type { ComponentChildren, ComponentType, JSX } from 'preact';
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { push } from '../address/address';
import type { LogCounts } from '../api/api_types';
import { call } from '../api/client';
import { ApiError, type Call } from '../api/request';
import { who } from '../api/session';
import type { Page } from '../api/types';
import { Button } from './elements';
import { Text } from './text';

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
    function end(): void {
      clearInterval(ticking);
      setSlowS(null);
      setWaitS(null);
    }
    void ask<T>(asked, controller.signal, setWaitS)
      .then(
        (data) => {
          if (!controller.signal.aborted) setState({ data, error: null, isLoading: false });
        },
        (failure: Error) => {
          if (abort.current !== controller) return;
          const error = controller.signal.aborted ? new Error('Cancelled.') : failure;
          setState((before) => ({ ...before, error, isLoading: false }));
        },
      )
      .finally(() => {
        if (abort.current === controller) end();
      });
    return () => {
      if (abort.current === controller) abort.current = null;
      controller.abort();
      end();
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

/** The data of a query, dimmed while the next is on its way; errors in words. */
export function Loaded<T>({
  query,
  children,
}: {
  query: Query<T>;
  children: (data: T) => ComponentChildren;
}): JSX.Element {
  return (
    <div class="loaded" aria-busy={query.isLoading}>
      <Progress query={query} />
      <Failure error={query.error} again={query.again} />
      {query.data === null && query.isLoading && <Skeleton />}
      {query.data !== null && <div class={query.isLoading ? 'dimmed' : ''}>{children(query.data)}</div>}
    </div>
  );
}

function Progress<T>({ query: { waitS, slowS, isLoading, cancel } }: { query: Query<T> }): JSX.Element | null {
  if (waitS === null && (slowS === null || !isLoading)) return null;
  return (
    <p class="notice" role="status">
      {waitS === null ? `Still loading after ${slowS} s.` : `The server is busy. Retrying in ${waitS} s.`}{' '}
      <Button onClick={cancel}>Cancel</Button>
    </p>
  );
}

export interface Action {
  error: Error | null;
  isBusy: boolean;
  /** Whether it succeeded. */
  run(work: () => Promise<unknown>): Promise<boolean>;
  clear(): void;
}

/** Something that is done when somebody wants it. */
export function useAction(): Action {
  const [error, setError] = useState<Error | null>(null);
  const [isBusy, setBusy] = useState(false);
  return {
    error,
    isBusy,
    clear: () => setError(null),
    async run(work) {
      setError(null);
      setBusy(true);
      try {
        await work();
        return true;
      } catch (failure) {
        setError(failure as Error);
        return false;
      } finally {
        setBusy(false);
      }
    },
  };
}

interface LazyProps<P> {
  load: () => Promise<{ default: ComponentType<P> }>;
  props: P;
}

/** A component with a file of its own, which is loaded when it is shown first. */
export function Lazy<P extends object>({ load, props }: LazyProps<P>): JSX.Element {
  const [Found, setFound] = useState<ComponentType<P> | null>(null);
  const action = useAction();
  useEffect(() => {
    void action.run(async () => {
      const { default: found } = await load();
      setFound(() => found);
    });
  }, []);
  if (action.error !== null) return <Failure error={action.error} again={() => location.reload()} />;
  return Found === null ? <Skeleton /> : <Found {...props} />;
}

export function Skeleton(): JSX.Element {
  return (
    <div class="skeleton" role="status" aria-label="Loading">
      <i /> <i /> <i />
    </div>
  );
}

/** Nothing without an error. */
export function Failure({ error, again }: { error: Error | null; again?: () => void }): JSX.Element | null {
  if (error === null) return null;
  const { details, requestId: id } = error instanceof ApiError ? error : { details: [], requestId: '' };
  return (
    <div class="failure" role="alert">
      <p>
        <Text of={error.message} />
      </p>
      {details.length > 0 && (
        <ul>
          {details.map((one) => (
            <li key={one.path + one.code}>
              <code>
                <Text of={one.path} />
              </code>{' '}
              <Text of={one.message} />
            </li>
          ))}
        </ul>
      )}
      {id !== '' && (
        <p class="quiet">
          Request <code>{id}</code>
        </p>
      )}
      {again !== undefined && <Button onClick={again}>Try again</Button>}
    </div>
  );
}

/** The way to the next page of a list; "back" leads to the one before. */
export function More({ page }: { page: Page<unknown> }): JSX.Element | null {
  if (!page.hasMore) return null;
  return <Button onClick={() => push({ cursor: page.nextCursor })}>More</Button>;
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }): JSX.Element {
  return (
    <div class="empty">
      <p>
        <Text of={title} />
      </p>
      {children}
    </div>
  );
}

interface CoveredProps {
  of: Pick<LogCounts, 'scanned' | 'scanTruncated'>;
  what: string;
}

/** How much of the data an answer covers; always visible where it is not all. */
export function Covered({ of: { scanned, scanTruncated }, what }: CoveredProps): JSX.Element {
  return (
    <p class={scanTruncated ? 'covered partial' : 'covered'}>
      {`${scanTruncated ? 'Only the newest' : 'All'} ${scanned.toLocaleString('en')} ${what} of this time were read.`}
    </p>
  );
}
