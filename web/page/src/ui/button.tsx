// Buttons that send no form, and dialogs.
import type { ComponentChildren, JSX } from 'preact';

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
