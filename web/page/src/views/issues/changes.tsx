// What changed around a time: deployments, releases, flags. Asked for when it is opened.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { exploreBase, type Place, time } from '../../address/address';
import { fromNanoseconds, toNanoseconds } from '../../address/time';
import type { ChangeEventPage } from '../../api/api_types';
import type { Page } from '../../api/types';
import { Loaded, useQuery } from '../../ui/query';
import { Text } from '../../ui/text';
import { MaybeLink } from '../../ui/values';

const BEFORE_S = 86_400n;
const AFTER_S = 3_600n;
const BILLION = 1_000_000_000n;

/** The day before `firstSeen`, and the hour after it. */
export function ChangesAround({ place, firstSeen }: { place: Place; firstSeen: string }): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Changes around the first occurrence</summary>
      {isOpen && <Changes place={place} firstSeen={firstSeen} />}
    </details>
  );
}

function Changes({ place, firstSeen }: { place: Place; firstSeen: string }): JSX.Element {
  const middle = toNanoseconds(firstSeen, Date.now()) ?? 0n;
  const from = fromNanoseconds(middle - BEFORE_S * BILLION);
  const to = fromNanoseconds(middle + AFTER_S * BILLION);
  const query = useQuery<ChangeEventPage>({ path: `${exploreBase(place)}/changes?from=${from}&to=${to}&limit=50` });
  return (
    <Loaded query={query}>
      {(page) =>
        page.data.length === 0 ? (
          <p class="quiet">
            No deployment, release or flag was reported in the day before the first occurrence or the hour after it.
          </p>
        ) : (
          <>
            <ul class="plain">
              {page.data.map((change) => (
                <li key={change.id}>
                  <span class="mono">{time(change.time)}</span> {change.time <= firstSeen ? 'before' : 'after'}:{' '}
                  {change.kind} <MaybeLink to={change.url} name={change.title} />{' '}
                  <span class="quiet">
                    {[change.release, change.environment, change.serviceName]
                      .filter((one) => one !== null)
                      .map((one) => (
                        <Text key={one} of={one} />
                      ))}
                  </span>
                </li>
              ))}
            </ul>
            <Cut page={page} />
          </>
        )
      }
    </Loaded>
  );
}

export function Cut({ page: { data, hasMore } }: { page: Page<unknown> }): JSX.Element | null {
  return hasMore ? <p class="covered partial">The latest {data.length} are shown.</p> : null;
}
