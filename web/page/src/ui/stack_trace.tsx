// A stack trace: with the frames of the sources where a source map is known, and as it was sent.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Text } from './text';

export function StackTrace({ sent, resolved }: { sent: string; resolved: string | null | undefined }): JSX.Element {
  const [isRaw, setRaw] = useState(false);
  return (
    <>
      {resolved && (
        <button type="button" aria-pressed={isRaw} onClick={() => setRaw(!isRaw)}>
          As sent
        </button>
      )}
      <pre tabIndex={0} aria-label="Stack trace">
        <Text of={isRaw ? sent : (resolved ?? sent)} />
      </pre>
    </>
  );
}
