// Everything that is stored of one span, and log records.
import { type ComponentChildren, Fragment, type JSX } from 'preact';
import { useState } from 'preact/hooks';
import { address, exploreBase, type Place, projectPath, push, time } from '../address/address';
import type { Log, LogPage, SpanDetail } from '../api/api_types';
import { type Json, printed, printedJson } from '../api/numbers';
import { attribute, equals } from '../filters/language';
import { CopyButton } from '../ui/copy';
import { Button, Table } from '../ui/elements';
import { count, duration } from '../ui/format';
import { Loaded, useQuery } from '../ui/query';
import { useSignal } from '../ui/signal';
import { Link, Text } from '../ui/text';
import { LongText, SpanLink, StackTrace } from '../ui/values';

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

export function SpanDetails(props: { place: Place; traceId: string; spanId: string }): JSX.Element {
  const { place, traceId, spanId } = props;
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
                {time(data.startTime, 9)} <code>{data.spanId}</code>
              </span>
            </p>
            <Button class="quiet" onClick={() => push({ root: data.spanId, zoom: null })}>
              Only this subtree
            </Button>
            <CopyButton label="Copy as JSON" text={() => printedJson(data as unknown as Json)} />
            <Truncations of={data.truncations} />
            <Attributes of={data.attributes} place={place} />
            {data.events.length > 0 && <h3>Events ({data.events.length})</h3>}
            {data.events.map((event, at) => (
              <details key={at} open={event.name === 'exception'}>
                <summary>
                  {time(event.time, 6)} <Text of={event.name} />
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
                  <SpanLink place={place} to={link}>
                    {link.traceId}
                  </SpanLink>
                </li>
              ))}
            </ul>
          </>
        )}
      </Loaded>
    </section>
  );
}

interface LogTableProps {
  records: Log[];
  /** When it was. */
  moment: (log: Log) => ComponentChildren;
  /** All there is of it, where that is shown. */
  below?: (log: Log) => ComponentChildren;
}

export function LogTable({ records, moment, below }: LogTableProps): JSX.Element {
  return (
    <Table
      head={[['Time', 'mono'], 'Severity', 'Service', ['Body', 'log-body']]}
      items={records}
      row={(log) => [
        moment(log),
        <td class={log.severityNumber >= 17 ? 'error' : ''}>
          <Text of={log.severityText} />
        </td>,
        <Text of={log.serviceName} />,
        <LongText of={printed(log.body)} />,
      ]}
      below={below}
    />
  );
}

const MAX_LOGS = 40; // a page of some hundred elements stays quick

export function TraceLogs({ place, traceId }: { place: Place; traceId: string }): JSX.Element {
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
            <LogTable records={page.data} moment={(log) => time(log.time, 3)} />
            {page.hasMore && <Button onClick={() => push({ logs: page.nextCursor })}>More</Button>}
          </>
        )
      }
    </Loaded>
  );
}
