// Text of strangers. Characters that deceive (control, bidirectional, zero width) are shown as escapes.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

const MAX_SHOWN = 100_000; // characters; browsers take seconds to lay out more

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

/** A text that may be very long: its beginning, and all of it when asked. */
export function LongText({ of, shown = 1_000 }: { of: string; shown?: number }): JSX.Element {
  const [isWhole, setWhole] = useState(false);
  if (of.length <= shown) return <Text of={of} />;
  const most = isWhole ? MAX_SHOWN : shown;
  return (
    <>
      <Text of={of.slice(0, most)} />{' '}
      <button type="button" class="quiet" onClick={() => setWhole(!isWhole)}>
        {isWhole ? 'less' : `${of.length.toLocaleString('en')} characters: more`}
      </button>
      {isWhole && of.length > most && <span class="quiet">The first {most.toLocaleString('en')} are shown.</span>}
    </>
  );
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
