// A section that lists resources of the API and makes new ones: from what the API says of the fields of one.
import type { ComponentChildren, JSX } from 'preact';
import { useState } from 'preact/hooks';
import { CopyAs } from '../../ui/copy';
import { idOf, type TableProps } from '../../ui/elements';
import { type FieldSpec, Form } from './form';
import { type List, Listed, Panel, Refusal, Why } from './parts';

/** What is done to one of them; the list is asked for again. */
export interface Does {
  change: (body: unknown) => Promise<unknown>;
  remove: () => Promise<unknown>;
  /** Below its path; `make`: the answer has what is shown once. */
  post: (step: string, body?: unknown) => Promise<unknown>;
  make: (step: string) => Promise<unknown>;
}

interface ResourceProps<T, Made> extends Omit<TableProps<T>, 'items' | 'row' | 'by'> {
  title: string;
  list: List<T>;
  /** Why the caller may change nothing, where that is not said above. */
  why?: string | null;
  /** Beside "Copy as"; null: there is neither. */
  bar?: ComponentChildren;
  children?: ComponentChildren;
  /** What the button says that makes one; the name of its form, where that is another. */
  create?: string;
  form?: string;
  fields?: FieldSpec[];
  /** Why the caller may not make one. */
  mayNotCreate?: string | null;
  /** What is shown once of a new one. */
  made?: (made: Made, hide: () => void) => JSX.Element;
  label: string;
  empty: string;
  id?: (item: T) => string;
  row: (item: T, does: Does) => ComponentChildren[];
}

export function Resource<T, Made = T>(props: ResourceProps<T, Made>): JSX.Element {
  const {
    title,
    list,
    why,
    bar,
    children,
    create = '',
    form = create,
    fields,
    mayNotCreate = null,
    made,
    ...rest
  } = props;
  const { id = idOf, row, ...listed } = rest;
  const [once, setOnce] = useState<JSX.Element | null>(null);
  async function make(parts: string[], body: unknown): Promise<void> {
    const answer = await list.send<Made>('POST', parts, body);
    setOnce(made?.(answer, () => setOnce(null)) ?? null);
  }
  const doing = (one: string): Does => ({
    change: (body) => list.send('PATCH', [one], body),
    remove: () => list.send('DELETE', [one]),
    post: (step, body) => list.send('POST', [one, step], body),
    make: (step) => make([one, step], {}),
  });
  const shown = (
    <Panel title={title}>
      {children}
      {bar !== null && (
        <div class="bar-row">
          {bar}
          <CopyAs asked={list.asked} />
        </div>
      )}
      {fields && (
        <Form label={form} fields={fields} button={create} why={mayNotCreate} submit={(body) => make([], body)} />
      )}
      {once}
      <Listed {...listed} list={list} by={id} row={(item) => row(item, doing(id(item)))} />
      {why !== undefined && <Why />}
    </Panel>
  );
  return why === undefined ? shown : <Refusal.Provider value={why}>{shown}</Refusal.Provider>;
}
