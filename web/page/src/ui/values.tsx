// Values of spans, records and events, and where they lead to.
import type { ComponentChildren, JSX } from 'preact';
import { useState } from 'preact/hooks';
import { type Place, projectPath } from '../address/address';
import { type Json, printed } from '../api/numbers';
import { Button } from './elements';
import { Link, Text } from './text';

const MAX_SHOWN = 100_000; // characters; browsers take seconds to lay out more

/** What an event carries besides its time and its kind. */
export function Details({ of }: { of: Record<string, Json> }): JSX.Element {
  const pairs = Object.entries(of).map(([key, value]) => `${key}: ${printed(value)}`);
  return <Text of={pairs.join(', ')} empty="" />;
}

/** A text that may be very long: its beginning, and all of it when asked. */
export function LongText({ of, shown = 1_000 }: { of: string; shown?: number }): JSX.Element {
  const [isWhole, setWhole] = useState(false);
  if (of.length <= shown) return <Text of={of} />;
  const most = isWhole ? MAX_SHOWN : shown;
  return (
    <>
      <Text of={of.slice(0, most)} />{' '}
      <Button class="quiet" onClick={() => setWhole(!isWhole)}>
        {isWhole ? 'less' : `${of.length.toLocaleString('en')} characters: more`}
      </Button>
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

/** A name, which leads to where it is from, if that is known. */
export function MaybeLink({ to, name }: { to: string | null; name: string | undefined }): JSX.Element {
  return to === null ? (
    <Text of={name} />
  ) : (
    <OutsideLink to={to}>
      <Text of={name} />
    </OutsideLink>
  );
}

interface SpanLinkProps {
  place: Place;
  to: { traceId: string | null; spanId: string | null };
  children: ComponentChildren;
}

/** To a span in its trace; nothing where no trace is known. */
export function SpanLink({ place, to: { traceId, spanId }, children }: SpanLinkProps): JSX.Element | null {
  if (traceId === null) return null;
  return (
    <Link to={`${projectPath(place, 'trace', traceId)}${spanId === null ? '' : `?span=${spanId}`}`}>{children}</Link>
  );
}

/** With the frames of the sources where a source map is known, and as it was sent. */
export function StackTrace({ sent, resolved }: { sent: string; resolved: string | null | undefined }): JSX.Element {
  const [isRaw, setRaw] = useState(false);
  return (
    <>
      {resolved && (
        <Button aria-pressed={isRaw} onClick={() => setRaw(!isRaw)}>
          As sent
        </Button>
      )}
      <pre tabIndex={0} aria-label="Stack trace">
        <Text of={isRaw ? sent : (resolved ?? sent)} />
      </pre>
    </>
  );
}
