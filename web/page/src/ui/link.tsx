// Links inside the page.
import type { ComponentChildren, JSX } from 'preact';
import { go, isPlainClick } from '../address/address';

interface Props {
  to: string;
  children: ComponentChildren;
  class?: string;
  current?: boolean;
  label?: string;
}

export function Link({ to, children, class: name, current, label }: Props): JSX.Element {
  function follow(event: MouseEvent): void {
    if (!isPlainClick(event)) return;
    event.preventDefault();
    go(to);
  }
  return (
    <a
      href={to}
      onClick={follow}
      {...(name === undefined ? {} : { class: name })}
      {...(current ? { 'aria-current': 'page' as const } : {})}
      {...(label === undefined ? {} : { 'aria-label': label })}
    >
      {children}
    </a>
  );
}
