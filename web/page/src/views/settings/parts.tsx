// What the sections share: lists, secrets, buttons that say why they are disabled, confirmation of what cannot be undone.
import { type ComponentChildren, createContext, type JSX } from 'preact';
import { useContext, useId, useState } from 'preact/hooks';
import type { Scope } from '../../api/api_types';
import { call, send } from '../../api/client';
import type { Call } from '../../api/request';
import type { Page, Whoami } from '../../api/types';
import { CopyAs, CopyButton } from '../../ui/copy';
import { Button, Named, showModally, Table, type TableProps } from '../../ui/elements';
import { Empty, Failure, Loaded, type Query, useAction, useQuery } from '../../ui/query';
import { useOpened } from './project';

export interface SectionProps {
  me: Whoami;
  /** Path of the organization in the API. */
  org: string;
}

export const LIMIT = 100;

/** Why the caller may not press the buttons and send the forms inside; null if the caller may. */
export const Refusal = createContext<string | null>(null);

/** `besides`: a reason of one button or form. */
export function useWhy(besides: string | null): string | null {
  return useContext(Refusal) ?? besides;
}

/** Said once, above buttons that are disabled for this reason. */
export function Why({ besides = null }: { besides?: string | null }): JSX.Element | null {
  const why = useWhy(besides);
  return why === null ? null : <p class="quiet">{why}</p>;
}

/** Why the caller may not; null if the caller may. */
export function lacks(me: Whoami, scope: Scope): string | null {
  return me.scopes.includes(scope) ? null : `Your role or token lacks the permission ${scope}.`;
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
        {label} (shown only once) <CopyButton label="Copy" text={() => value} />
        {hide !== undefined && (
          <Button class="quiet" onClick={hide}>
            Hide
          </Button>
        )}
      </p>
      <code class="secret">{value}</code>
    </div>
  );
}

export function Rows<T>({ label, ...table }: TableProps<T> & { label: string }): JSX.Element {
  return (
    <div class="scroll" role="region" aria-label={`Table: ${label}`} tabIndex={0}>
      <Table {...table} />
    </div>
  );
}

/** A list of the API, and what changes it. */
export interface List<T> {
  path: string;
  asked: Call;
  query: Query<Items<T>>;
  /** Sends a request to a path below that of the list, and asks for the list again. */
  send<R>(method: Parameters<typeof send>[0], parts: string[], body?: unknown): Promise<R>;
}

/** A page, or all there is. */
type Items<T> = Pick<Page<T>, 'data'> & Partial<Page<T>>;

/** `limit`: items of a page; null: the list comes as a whole. `isThere`: whether there is such a list. */
export function useList<T>(path: string, limit: number | null = LIMIT, isThere = true): List<T> {
  const asked = { path: limit === null ? path : `${path}?limit=${limit}` };
  const query = useQuery<Items<T>>(isThere ? asked : null);
  return {
    path,
    asked,
    query,
    async send<R>(method: Parameters<typeof send>[0], parts: string[], body?: unknown) {
      const made = await send<R>(method, under(path, ...parts), body);
      query.again();
      return made;
    },
  };
}

interface ListedProps<T> extends Omit<TableProps<T>, 'items'> {
  list: Pick<List<T>, 'asked' | 'query'>;
  label: string;
  empty: string;
}

/** Pages of a list, one below the other. */
export function Listed<T>({ list: { asked, query }, empty, ...table }: ListedProps<T>): JSX.Element {
  const [rest, setRest] = useState<{ after: Items<T>; data: T[]; next: string | null } | null>(null);
  const action = useAction();
  return (
    <Loaded query={query}>
      {(page) => {
        const more = rest?.after === page ? rest : { after: page, data: [], next: page.nextCursor ?? null };
        const items = [...page.data, ...more.data];
        if (items.length === 0) return <Empty title={empty} />;
        async function append(): Promise<void> {
          const cursor = `cursor=${encodeURIComponent(more.next ?? '')}`;
          const next = await call<Page<T>>({ path: `${asked.path}${asked.path.includes('?') ? '&' : '?'}${cursor}` });
          setRest({ after: page, data: [...more.data, ...next.data], next: next.nextCursor });
        }
        return (
          <>
            <Rows items={items} {...table} />
            <Failure error={action.error} />
            {more.next !== null && (
              <Button disabled={action.isBusy} onClick={() => void action.run(append)}>
                Show more
              </Button>
            )}
          </>
        );
      }}
    </Loaded>
  );
}

/** The item of an id: of the first page of a list, or asked for by itself. */
export function useFound<T extends { id: string }>({ path, query }: List<T>, id: string | null): T | null {
  const listed = query.data?.data.find((one) => one.id === id) ?? null;
  const isElsewhere = query.data?.hasMore === true && listed === null && id !== null;
  const other = useQuery<T>(isElsewhere ? { path: under(path, id) } : null);
  return listed ?? (isElsewhere ? other.data : null);
}

interface RecentProps {
  title: string;
  of: { asked: Call; query: Query<unknown> };
}

/** Above a list that grows by itself. */
export function Recent({ title, of: { query, asked } }: RecentProps): JSX.Element {
  return (
    <>
      <h3>{title}</h3>
      <div class="bar-row">
        <Button onClick={query.again}>Reload</Button>
        <CopyAs asked={asked} />
      </div>
    </>
  );
}

interface ButtonProps {
  children: string;
  /** Why it alone cannot be pressed. */
  why?: string | null;
  run: () => Promise<unknown>;
}

/** What both kinds of buttons have. */
function useButton(
  children: string,
  besides: string | null,
): { 'aria-label': string; title: string; disabled: boolean } {
  const why = useWhy(besides);
  const of = useContext(Named);
  return { 'aria-label': of === '' ? children : `${children} ${of}`, title: why ?? '', disabled: why !== null };
}

/** A button whose failure is shown beside it. */
export function Act({ children, why = null, run }: ButtonProps): JSX.Element {
  const action = useAction();
  const { disabled, ...said } = useButton(children, why);
  return (
    <>
      <Button {...said} disabled={disabled || action.isBusy} onClick={() => void action.run(run)}>
        {children}
      </Button>
      <Failure error={action.error} />
    </>
  );
}

interface DangerProps extends ButtonProps {
  /** The question. */
  title: string;
  /** What follows. */
  text: string;
  /** What has to be typed where much is lost. */
  typed?: string;
}

/** A button that asks first. The failure is shown in the dialog. */
export function Danger({ children, why = null, ...asked }: DangerProps): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <Button {...useButton(children, why)} onClick={() => setOpen(true)}>
        {children}
      </Button>
      {isOpen && <Question {...asked} button={children} close={() => setOpen(false)} />}
    </>
  );
}

interface QuestionProps extends Omit<DangerProps, 'children' | 'why'> {
  button: string;
  close: () => void;
}

function Question({ title, text, button, typed = '', run, close }: QuestionProps): JSX.Element {
  const action = useAction();
  const [given, setGiven] = useState('');
  const id = useId();
  const mustType = typed !== '' && given !== typed;
  return (
    <dialog class="dialog" aria-labelledby={id} ref={showModally} onClose={close}>
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
            <input
              type="text"
              autocomplete="off"
              value={given}
              onInput={(event) => setGiven(event.currentTarget.value)}
            />
          </label>
        )}
        <Failure error={action.error} />
        <div class="bar-row">
          <button type="submit" disabled={mustType || action.isBusy}>
            {button}
          </button>
          {/* Enter alone must not lose anything. */}
          <Button autoFocus={typed === ''} onClick={(event) => event.currentTarget.closest('dialog')?.close()}>
            Cancel
          </Button>
        </div>
      </form>
    </dialog>
  );
}

interface OpenerProps {
  id: string;
  open?: string;
  close?: string;
  /** With the name of the item, for those who hear the button alone. */
  label?: string;
}

/** Opens an item of a list, or closes it; the address has which. */
export function Opener({ id, open = 'Open', close = 'Close', label = open }: OpenerProps): JSX.Element {
  const [opened, setOpened] = useOpened();
  const isOpen = id === opened;
  return (
    <Button
      aria-label={`${label} ${useContext(Named)}`}
      aria-expanded={isOpen}
      onClick={() => setOpened(isOpen ? null : id)}
    >
      {isOpen ? close : open}
    </Button>
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
