// What changed around a time: deployments, releases, flags. Asked for when it is opened.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { fromNanoseconds, shownTime, toNanoseconds, type Zone } from '../../address/time';
import type { Page } from '../../api/types';
import { exploreBase, type Place } from '../../address/place';
import { useQuery } from '../../ui/query';
import { Loaded } from '../../ui/states';
import { OutsideLink, Text } from '../../ui/text';

interface ChangeEvent {
  id: string;
  kind: string;
  title: string;
  detail: string | null;
  time: string;
  environment: string | null;
  release: string | null;
  serviceName: string | null;
  url: string | null;
}

const BEFORE_S = 86_400n;
const AFTER_S = 3_600n;
const BILLION = 1_000_000_000n;

/** The day before `firstSeen`, and the hour after it. */
export function ChangesAround({ place, firstSeen, zone }: { place: Place; firstSeen: string; zone: Zone }): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Changes around its first occurrence</summary>
      {isOpen && <Changes place={place} firstSeen={firstSeen} zone={zone} />}
    </details>
  );
}

function Changes({ place, firstSeen, zone }: { place: Place; firstSeen: string; zone: Zone }): JSX.Element {
  const middle = toNanoseconds(firstSeen, Date.now()) ?? 0n;
  const from = fromNanoseconds(middle - BEFORE_S * BILLION);
  const to = fromNanoseconds(middle + AFTER_S * BILLION);
  const query = useQuery<Page<ChangeEvent>>({ path: `${exploreBase(place)}/changes?from=${from}&to=${to}&limit=50` });
  return (
    <Loaded query={query}>
      {(page) =>
        page.data.length === 0 ? (
          <p class="quiet">No deployment, release or flag was reported in the day before it and the hour after.</p>
        ) : (
          <>
          <ul class="plain">
            {page.data.map((change) => (
              <li key={change.id}>
                <span class="mono">{shownTime(change.time, zone, 0)}</span> {change.time <= firstSeen ? 'before' : 'after'}:{' '}
                {change.kind}{' '}
                {change.url === null ? (
                  <Text of={change.title} />
                ) : (
                  <OutsideLink to={change.url}>
                    <Text of={change.title} />
                  </OutsideLink>
                )}{' '}
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
          {page.hasMore && <p class="covered partial">The latest {page.data.length} are shown.</p>}
          </>
        )
      }
    </Loaded>
  );
}
