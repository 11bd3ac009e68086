// Text of strangers. Characters that deceive (control, bidirectional, zero width) are shown as escapes.
import type { JSX } from 'preact';

const DECEIVING =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]|\udb40[\udc00-\udfff]/g;

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

/** A link that leaves the page, for http and https alone; other addresses stay text. */
export function OutsideLink({ to, children }: { to: string; children: JSX.Element | string }): JSX.Element {
  if (!/^https?:\/\//i.test(to)) return <Text of={to} />;
  return (
    <a href={to} rel="noopener noreferrer" target="_blank">
      {children}
    </a>
  );
}
