// Everything that is stored of one span.
import { Fragment, type JSX } from 'preact';
import { useState } from 'preact/hooks';
import { printed, printedJson } from '../api/numbers';
import type { Json } from '../api/numbers';
import type { Log, LogPage, SpanDetail } from '../api/api_types';
import { address, push } from '../address/address';
import { shownTime, type Zone } from '../address/time';
import { exploreBase, type Place, projectPath } from '../address/place';
import { CopyButton } from '../ui/copy';
import { count, duration } from '../ui/format';
import { Link } from '../ui/link';
import { useQuery } from '../ui/query';
import { useSignal } from '../ui/signal';
import { StackTrace } from '../ui/stack_trace';
import { Loaded } from '../ui/states';
import { LongText, Text } from '../ui/text';
import { attribute, equals } from '../filters/language';

export { printed };

const GROUPS: [prefix: string, title: string][] = [
  ['', 'Attributes'],
  ['resource.', 'Resource'],
  ['scope.', 'Scope'],
];
const FEW = 8; // so many attributes need no search

/** What a span or log record carries: its own attributes, then those of its resource and its scope. */
export function Attributes({ of, place }: { of: Record<string, Json>; place?: Place }): JSX.Element {
  const [find, setFind] = useState('');
  const all = Object.entries(of);
  const wanted = find.toLowerCase();
  const shown = all.filter(([key, value]) => `${key} ${printed(value)}`.toLowerCase().includes(wanted));
  const prefixOf = (key: string): string => GROUPS.slice(1).find(([prefix]) => key.startsWith(prefix))?.[0] ?? '';
  return (
    <>
      {all.length > FEW && (
        <input
          type="search"
          class="wide"
          aria-label="Search the attributes"
          placeholder="Search the attributes"
          value={find}
          onInput={(event) => setFind(event.currentTarget.value)}
        />
      )}
      {GROUPS.map(([group, title]) => {
        const some = shown.filter(([key]) => prefixOf(key) === group);
        if (some.length === 0 && (group !== '' || find !== '')) return null;
        return (
          <Fragment key={title}>
            <h3>
              {title} ({some.length})
            </h3>
            <Pairs of={some} prefix={group} {...(place === undefined ? {} : { place })} />
          </Fragment>
        );
      })}
    </>
  );
}

/** Keys without the prefix that the heading above stands for. */
function Pairs({ of, prefix = '', place }: { of: [string, Json][]; prefix?: string; place?: Place }): JSX.Element {
  return (
    <dl class="pairs">
      {of.map(([key, value]) => (
        <Fragment key={key}>
          <dt>
            <Text of={key.slice(prefix.length)} />
          </dt>
          <dd>
            <LongText of={printed(value)} />
            {place !== undefined && (typeof value === 'string' || typeof value === 'boolean') && (
              <>
                {' '}
                <Link
                  class="quiet"
                  label={`Find spans with this ${key}`}
                  to={`${projectPath(place, 'explore')}?q=${encodeURIComponent(equals(attribute(key), String(value)))}`}
                >
                  find
                </Link>
              </>
            )}
          </dd>
        </Fragment>
      ))}
    </dl>
  );
}

const MAX_TRUNCATIONS = 20; // shown of a record; the others are in its JSON

/** What a limit cut of a record. */
export function Truncations({ of }: { of: Log['truncations'] }): JSX.Element | null {
  if (of.length === 0) return null;
  return (
    <>
      <h3>Cut values ({of.length})</h3>
      <ul>
        {of.slice(0, MAX_TRUNCATIONS).map(({ path, bytes }) => (
          <li key={path}>
            <code>
              <Text of={path} />
            </code>{' '}
            <span title={String(bytes)}>{count(bytes)} bytes were sent</span>
          </li>
        ))}
      </ul>
    </>
  );
}

export function SpanDetails(props: { place: Place; traceId: string; spanId: string; zone: Zone }): JSX.Element {
  const { place, traceId, spanId, zone } = props;
  const span = useQuery<SpanDetail>({ path: `${exploreBase(place)}/traces/${traceId}/spans/${spanId}` });
  return (
    <section class="panel details" aria-label="Span">
      <Loaded query={span}>
        {(data) => (
          <>
            <h2>
              <Text of={data.name} />
            </h2>
            <p>
              <Text of={data.serviceName} /> {data.kind} {duration(data.durationMs)}
              <br />
              <span class={data.statusCode === 'ERROR' ? 'error' : ''}>
                {data.statusCode} {data.statusMessage !== null && <Text of={data.statusMessage} />}
              </span>
              <br />
              <span class="quiet">
                {shownTime(data.startTime, zone, 9)} <code>{data.spanId}</code>
              </span>
            </p>
            <button type="button" class="quiet" onClick={() => push({ root: data.spanId, zoom: null })}>
              Only this subtree
            </button>
            <CopyButton label="Copy as JSON" text={() => printedJson(data as unknown as Json)} />
            <Truncations of={data.truncations} />
            <Attributes of={data.attributes} place={place} />
            {data.events.length > 0 && <h3>Events ({data.events.length})</h3>}
            {data.events.map((event, at) => (
              <details key={at} open={event.name === 'exception'}>
                <summary>
                  {shownTime(event.time, zone, 6)} <Text of={event.name} />
                </summary>
                {event.resolvedStacktrace && (
                  <StackTrace
                    sent={printed(event.attributes['exception.stacktrace'] ?? '')}
                    resolved={event.resolvedStacktrace}
                  />
                )}
                <Pairs of={Object.entries(event.attributes)} />
              </details>
            ))}
            {data.links.length > 0 && <h3>Links ({data.links.length})</h3>}
            <ul>
              {data.links.map((link) => (
                <li key={`${link.traceId} ${link.spanId}`}>
                  {link.traceId === null ? (
                    <Text of={null} />
                  ) : (
                    <Link to={`${projectPath(place, 'trace', link.traceId)}?span=${link.spanId}`}>{link.traceId}</Link>
                  )}
                </li>
              ))}
            </ul>
          </>
        )}
      </Loaded>
    </section>
  );
}

const MAX_LOGS = 40; // a page of some hundred elements stays quick

export function TraceLogs({ place, traceId, zone }: { place: Place; traceId: string; zone: Zone }): JSX.Element {
  const cursor = useSignal(address).query.get('logs');
  const rest = cursor === null ? '' : `&cursor=${encodeURIComponent(cursor)}`;
  const logs = useQuery<LogPage>({ path: `${exploreBase(place)}/traces/${traceId}/logs?limit=${MAX_LOGS}${rest}` });
  return (
    <Loaded query={logs}>
      {(page) =>
        page.data.length === 0 ? (
          <p class="quiet">The trace has no log records.</p>
        ) : (
          <>
            <table>
              <thead>
                <tr>
                  <th>Time</th>
                  <th>Severity</th>
                  <th>Service</th>
                  <th>Body</th>
                </tr>
              </thead>
              <tbody>
                {page.data.map((log) => (
                  <tr key={log.id}>
                    <td class="mono">{shownTime(log.time, zone)}</td>
                    <td class={log.severityNumber >= 17 ? 'error' : ''}>
                      <Text of={log.severityText} />
                    </td>
                    <td>
                      <Text of={log.serviceName} />
                    </td>
                    <td class="log-body">
                      <LongText of={printed(log.body)} />
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
            {page.hasMore && (
              <button type="button" onClick={() => push({ logs: page.nextCursor })}>
                More
              </button>
            )}
          </>
        )
      }
    </Loaded>
  );
}
