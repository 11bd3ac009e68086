// "Copy as": the address with fixed times, and the command that asks the same.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { address, rangeOf, withChanges } from '../address/address';
import { frozen, isRelative } from '../address/time';
import { asCurl } from '../api/client';
import type { Call } from '../api/request';
import { Button } from './elements';

export function linkOfThis(): string {
  const range = rangeOf(address.value);
  if (!isRelative(range)) return new URL(withChanges(address.value, {}), location.origin).href;
  const { from, to } = frozen(range, Date.now());
  return new URL(withChanges(address.value, { from, to, cursor: null }), location.origin).href; // pages are of one range
}

export function CopyButton({ label, text }: { label: string; text: () => string }): JSX.Element {
  const [done, setDone] = useState(false);
  async function copy(): Promise<void> {
    await navigator.clipboard.writeText(text());
    setDone(true);
    setTimeout(() => setDone(false), 1_500);
  }
  return (
    <Button class="quiet" onClick={() => void copy()}>
      {done ? 'Copied' : label}
    </Button>
  );
}

/** The command that asks the same; it takes an access token from `TOKEN`. */
export function CopyCurl({ asked }: { asked: Call }): JSX.Element {
  return <CopyButton label="Copy as curl" text={() => asCurl(asked)} />;
}

export function CopyAs({ asked }: { asked: Call | null }): JSX.Element {
  return (
    <span class="copy">
      <CopyButton label="Copy link" text={linkOfThis} />
      {asked !== null && <CopyCurl asked={asked} />}
    </span>
  );
}
