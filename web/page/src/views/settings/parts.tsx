// What the sections share: lists, secrets, buttons that say why they are disabled, confirmation of what cannot be undone.
import type { ComponentChildren, JSX } from 'preact';
import { useId, useState } from 'preact/hooks';
import { call } from '../../api/client';
import type { Scope } from '../../api/api_types';
import type { Page, Whoami } from '../../api/types';
import type { Zone } from '../../address/time';
import { CopyButton } from '../../ui/copy';
import { type Query, useQuery } from '../../ui/query';
import { Empty, Failure, Loaded } from '../../ui/states';

export interface SectionProps {
  me: Whoami;
  /** Path of the organization in the API. */
  org: string;
  zone: Zone;
}

export const LIMIT = 100;

/** Why the caller may not; null if the caller may. */
export function lacks(me: Whoami, scope: Scope): string | null {
  return me.scopes.includes(scope) ? null : `Your role or token lacks the permission ${scope}.`;
}

/** Said once, above buttons that are disabled for this reason. */
export function Why({ why }: { why: string | null }): JSX.Element | null {
  return why === null ? null : <p class="quiet">{why}</p>;
}

/** Path of one resource below another. */
export function under(path: string, ...parts: string[]): string {
  return [path, ...parts.map(encodeURIComponent)].join('/');
}

/** A secret that the API shows once. */
export function Secret({ label, value, hide }: { label: string; value: string; hide?: () => void }): JSX.Element {
  return (
    <div class="notice" role="status">
      <p>
        {label}: it is shown once. <CopyButton label="Copy" text={() => value} />
        {hide !== undefined && (
          <button type="button" class="quiet" onClick={hide}>
            Hide
          </button>
        )}
      </p>
      <code class="secret">{value}</code>
    </div>
  );
}

interface RowsProps {
  label: string;
  head: string[];
  children: ComponentChildren;
}

export function Rows({ label, head, children }: RowsProps): JSX.Element {
  return (
    <div class="scroll" role="region" aria-label={`Table: ${label}`} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {head.map((name) => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

interface ListedProps<T> {
  query: Query<Page<T>>;
  /** The path that was asked; further pages have its parameters. */
  path: string;
  label: string;
  empty: string;
  head: string[];
  row: (item: T) => JSX.Element;
}

/** Pages of a list, one below the other. */
export function Listed<T>({ query, path, label, empty, head, row }: ListedProps<T>): JSX.Element {
  const [rest, setRest] = useState<{ after: Page<T>; data: T[]; next: string | null } | null>(null);
  const action = useAction();
  return (
    <Loaded query={query}>
      {(page) => {
        const more = rest?.after === page ? rest : { after: page, data: [], next: page.nextCursor };
        const all = [...page.data, ...more.data];
        if (all.length === 0) return <Empty title={empty} />;
        return (
          <>
            <Rows label={label} head={head}>
              {all.map(row)}
            </Rows>
            {action.error !== null && <Failure error={action.error} />}
            {more.next !== null && (
              <button
                type="button"
                disabled={action.isBusy}
                onClick={() =>
                  void action.run(async () => {
                    const cursor = encodeURIComponent(more.next ?? '');
                    const next = await call<Page<T>>({ path: `${path}${path.includes('?') ? '&' : '?'}cursor=${cursor}` });
                    setRest({ after: page, data: [...more.data, ...next.data], next: next.nextCursor });
                  })
                }
              >
                Show more
              </button>
            )}
          </>
        );
      }}
    </Loaded>
  );
}

/** The item of an id: of the first page of a list, or asked for by itself. */
export function useFound<T extends { id: string }>(query: Query<Page<T>>, path: string, id: string | null): T | null {
  const listed = query.data?.data.find((one) => one.id === id) ?? null;
  const isElsewhere = query.data?.hasMore === true && listed === null && id !== null;
  const other = useQuery<T>(isElsewhere ? { path: under(path, id) } : null);
  return listed ?? (isElsewhere ? other.data : null);
}

export interface Action {
  error: Error | null;
  isBusy: boolean;
  /** Whether it succeeded. */
  run(work: () => Promise<void>): Promise<boolean>;
  clear(): void;
}

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

interface ButtonProps {
  children: string;
  /** What it acts on, for those who hear the button alone. */
  of?: string;
  why?: string | null;
  run: () => Promise<void>;
}

/** A button whose failure is shown beside it. */
export function Act({ children, of, why = null, run }: ButtonProps): JSX.Element {
  const action = useAction();
  return (
    <>
      <button
        type="button"
        disabled={why !== null || action.isBusy}
        aria-label={of === undefined ? children : `${children} ${of}`}
        title={why ?? ''}
        onClick={() => void action.run(run)}
      >
        {children}
      </button>
      {action.error !== null && <Failure error={action.error} />}
    </>
  );
}

interface DangerProps extends ButtonProps {
  /** The question. */
  title: string;
  /** What follows. */
  children: string;
  text: string;
  /** What has to be typed where much is lost. */
  typed?: string;
}

/** A button that asks first. The failure is shown in the dialog. */
export function Danger({ children, of, why = null, run, title, text, typed }: DangerProps): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <button
        type="button"
        disabled={why !== null}
        aria-label={of === undefined ? children : `${children} ${of}`}
        title={why ?? ''}
        onClick={() => setOpen(true)}
      >
        {children}
      </button>
      {isOpen && (
        <Question title={title} text={text} button={children} typed={typed ?? ''} run={run} close={() => setOpen(false)} />
      )}
    </>
  );
}

interface QuestionProps {
  title: string;
  text: string;
  button: string;
  typed: string;
  run: () => Promise<void>;
  close: () => void;
}

function Question({ title, text, button, typed, run, close }: QuestionProps): JSX.Element {
  const action = useAction();
  const [given, setGiven] = useState('');
  const id = useId();
  const mustType = typed !== '' && given !== typed;
  return (
    <dialog
      class="dialog"
      aria-labelledby={id}
      ref={(element) => {
        if (element !== null && !element.open) element.showModal();
      }}
      onClose={close}
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          const dialog = event.currentTarget.closest('dialog');
          void action.run(run).then((isDone) => (isDone ? dialog?.close() : undefined)); // and the focus goes back
        }}
      >
        <h2 id={id}>{title}</h2>
        <p>{text}</p>
        {typed !== '' && (
          <label class="field">
            <span>Type {typed} to confirm</span>
            <input type="text" autocomplete="off" value={given} onInput={(event) => setGiven(event.currentTarget.value)} />
          </label>
        )}
        {action.error !== null && <Failure error={action.error} />}
        <div class="bar-row">
          <button type="submit" disabled={mustType || action.isBusy}>
            {button}
          </button>
          {/* Enter alone must not lose anything. */}
          <button type="button" autoFocus={typed === ''} onClick={(event) => event.currentTarget.closest('dialog')?.close()}>
            Cancel
          </button>
        </div>
      </form>
    </dialog>
  );
}

/** A panel with a heading. */
export function Panel({ title, children }: { title: string; children: ComponentChildren }): JSX.Element {
  return (
    <section class="panel" aria-label={title}>
      <h2>{title}</h2>
      {children}
    </section>
  );
}
