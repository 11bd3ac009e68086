// Text of strangers, and links inside the page. Characters that deceive (control, bidirectional, zero width) are shown as
// escapes.
import type { ComponentChildren, JSX } from 'preact';
import { go, isPlainClick } from '../address/address';

const DECEIVING =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]|\udb40[\udc00-\udfff]/g;

function escapeUnit(found: string): string {
  return [...Array(found.length).keys()]
    .map((at) => `\\u${found.charCodeAt(at).toString(16).toUpperCase().padStart(4, '0')}`)
    .join('');
}

export function visible(text: string): string {
  return text.replace(DECEIVING, escapeUnit);
}

/** A name or value that somebody has sent, apart from the direction of the text around it. */
export function Text({ of, empty = '(empty)' }: { of: string | null | undefined; empty?: string }): JSX.Element {
  if (of === null || of === undefined) return <span class="absent">none</span>;
  if (of === '') return <span class="absent">{empty}</span>;
  return <bdi>{visible(of)}</bdi>;
}

interface LinkProps {
  to: string;
  children: ComponentChildren;
  class?: string;
  current?: boolean;
  label?: string;
}

/** A link inside the page. */
export function Link({ to, children, class: name, current, label }: LinkProps): JSX.Element {
  function follow(event: MouseEvent): void {
    if (!isPlainClick(event)) return;
    event.preventDefault();
    go(to);
  }
  return (
    <a href={to} onClick={follow} class={name} aria-current={current ? 'page' : undefined} aria-label={label}>
      {children}
    </a>
  );
}
