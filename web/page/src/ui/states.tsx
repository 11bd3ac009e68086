// What a view shows instead of, or besides, its data.
import type { ComponentChildren, JSX } from 'preact';
import { push } from '../address/address';
import { ApiError } from '../api/request';
import type { Page } from '../api/types';
import type { Query } from './query';
import { Text } from './text';

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
      {query.error !== null && <Failure error={query.error} again={query.again} />}
      {query.data === null && query.isLoading && <Skeleton />}
      {query.data !== null && <div class={query.isLoading ? 'dimmed' : ''}>{children(query.data)}</div>}
    </div>
  );
}

function Progress<T>({ query }: { query: Query<T> }): JSX.Element | null {
  if (query.waitS !== null) {
    return (
      <p class="notice" role="status">
        The server is busy. Asking again in {query.waitS} s.{' '}
        <button type="button" onClick={query.cancel}>
          Cancel
        </button>
      </p>
    );
  }
  if (query.slowS === null || !query.isLoading) return null;
  return (
    <p class="notice" role="status">
      Still loading after {query.slowS} s.{' '}
      <button type="button" onClick={query.cancel}>
        Cancel
      </button>
    </p>
  );
}

export function Skeleton(): JSX.Element {
  return (
    <div class="skeleton" role="status" aria-label="Loading">
      <i /> <i /> <i />
    </div>
  );
}

export function Failure({ error, again }: { error: Error; again?: () => void }): JSX.Element {
  const details = error instanceof ApiError ? error.details : [];
  const id = error instanceof ApiError ? error.requestId : '';
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
      {again !== undefined && (
        <button type="button" onClick={again}>
          Try again
        </button>
      )}
    </div>
  );
}

/** The way to the next page of a list; "back" leads to the one before. */
export function More({ page }: { page: Page<unknown> }): JSX.Element | null {
  if (!page.hasMore) return null;
  return (
    <button type="button" onClick={() => push({ cursor: page.nextCursor })}>
      More
    </button>
  );
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

/** How much of the data an answer covers; always visible where it is not all. */
export function Covered({ scanned, truncated, what }: { scanned: number; truncated: boolean; what: string }): JSX.Element {
  return (
    <p class={truncated ? 'covered partial' : 'covered'}>
      {truncated
        ? `Only the newest ${scanned.toLocaleString('en')} ${what} of this time were read.`
        : `All ${scanned.toLocaleString('en')} ${what} of this time were read.`}
    </p>
  );
}
