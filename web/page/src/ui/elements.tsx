// What views are made of: buttons that send no form, dialogs, and tables.
import { type ComponentChildren, createContext, type JSX, type Ref } from 'preact';

export function Button(props: JSX.ButtonHTMLAttributes<HTMLButtonElement>): JSX.Element {
  return <button type="button" {...props} />;
}

interface SegmentsProps<T> {
  label: string;
  /** What is chosen, and what is shown of it. */
  options: readonly (readonly [T, ComponentChildren])[];
  chosen: T;
  choose: (value: T) => void;
}

/** Each is shown as it is. */
export function options<T extends string>(of: readonly T[]): [T, T][] {
  return of.map((one) => [one, one]);
}

/** One of few. */
export function Segments<T extends string>({ label, options, chosen, choose }: SegmentsProps<T>): JSX.Element {
  return (
    <span class="segments" role="group" aria-label={label}>
      {options.map(([value, shown]) => (
        <Button key={value} aria-pressed={value === chosen} onClick={() => choose(value)}>
          {shown}
        </Button>
      ))}
    </span>
  );
}

/** A dialog is over the page from when it is there. */
export function showModally(dialog: HTMLDialogElement | null): void {
  if (dialog !== null && !dialog.open) dialog.showModal();
}

/** The name of a column, and the class of its cells; `number`: of its heading, too. */
export type Heading = string | [string, string];

/** What the item of a row is called, for those who hear one of its buttons alone. */
export const Named = createContext('');

export interface TableProps<T> {
  head: Heading[];
  items: readonly T[];
  /** What is in the cells of an item; a `td` is one as it is. */
  row: (item: T) => ComponentChildren[];
  /** What a row of its own under that of the item has; nothing: there is none. */
  below?: ((item: T) => ComponentChildren) | undefined;
  /** What tells an item from the others; without it, `id`. */
  by?: (item: T) => string | number;
  named?: (item: T) => string;
  /** What is open of a list in which items can be opened. */
  selected?: string | number;
  body?: Ref<HTMLTableSectionElement>;
  caption?: string;
}

export function Table<T>(props: TableProps<T>): JSX.Element {
  const { head, items, row, by = idOf, named = () => '', selected, body = null, caption, below } = props;
  const columns = head.map((one) => (typeof one === 'string' ? [one] : one));
  return (
    <table>
      {caption !== undefined && <caption class="sr-only">{caption}</caption>}
      <thead>
        <tr>
          {columns.map(([name, kind]) => (
            <th key={name} scope="col" class={kind === 'number' ? kind : undefined}>
              {name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody ref={body}>
        {items.map((item) => (
          <Named.Provider key={by(item)} value={named(item)}>
            <tr aria-selected={selected === undefined ? undefined : selected === by(item)}>
              {row(item).map((cell, at) => (isCell(cell) ? cell : <td class={columns[at]?.[1]}>{cell}</td>))}
            </tr>
            {below?.(item) && (
              <tr>
                <td colSpan={head.length}>{below(item)}</td>
              </tr>
            )}
          </Named.Provider>
        ))}
      </tbody>
    </table>
  );
}

function isCell(shown: ComponentChildren): boolean {
  return (shown as JSX.Element | null | undefined)?.type === 'td';
}

export function idOf(item: unknown): string {
  return (item as { id: string }).id;
}

/** A figure whose exact one is in a title. */
export function figure(shown: ComponentChildren, exact: string): JSX.Element {
  return (
    <td class="number" title={exact}>
      {shown}
    </td>
  );
}
