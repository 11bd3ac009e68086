// Errors by fingerprint; one with its stack trace, occurrences and the log lines around.
import type { JSX } from 'preact';
import {
  address,
  exploreBase,
  kept,
  type Place,
  pageOf,
  projectPath,
  push,
  time,
  timesOf,
  type ViewProps,
} from '../../address/address';
import type { ErrorHistory, ErrorPage, OccurrencePage, OccurrenceRecord } from '../../api/api_types';
import { printed } from '../../api/numbers';
import type { Call } from '../../api/request';
import { LineChart, Sparkline } from '../../charts/line';
import { HUES } from '../../charts/palette';
import { CopyAs } from '../../ui/copy';
import { Button, Segments, Table } from '../../ui/elements';
import { count, counted } from '../../ui/format';
import { Empty, Loaded, More, useQuery } from '../../ui/query';
import { useSignal } from '../../ui/signal';
import { Link, Text } from '../../ui/text';
import { LongText, SpanLink, StackTrace } from '../../ui/values';
import { isNew } from './is_new';

export default function Errors({ place }: ViewProps): JSX.Element {
  return place.id === '' ? <List place={place} /> : <One place={place} />;
}

const SORTS: [string, string][] = [
  ['lastSeen', 'last seen'],
  ['count', 'occurrences'],
  ['firstSeen', 'first seen'],
];

function List({ place }: { place: Place }): JSX.Element {
  const here = useSignal(address);
  const sort = here.query.get('sort') ?? 'lastSeen';
  const asked: Call = { path: `${exploreBase(place)}/errors?${timesOf(here)}&sort=${sort}&limit=50${pageOf(here)}` };
  const query = useQuery<ErrorPage>(asked);
  return (
    <section aria-label="Errors">
      <div class="bar-row">
        <h1>Errors</h1>
        <Segments label="Order" options={SORTS} chosen={sort} choose={(name) => push({ sort: name })} />
        <CopyAs asked={asked} />
      </div>
      <Loaded query={query}>
        {(page) =>
          page.data.length === 0 ? (
            <Empty title="No error in this time." />
          ) : (
            <div class="panel scroll">
              <Table
                head={[
                  'Error',
                  ['Occurrences', 'number'],
                  ['Traces', 'number'],
                  'Over time',
                  'Issue',
                  'Last release',
                  ['First ever', 'mono'],
                  ['Last seen', 'mono'],
                ]}
                items={page.data}
                by={(error) => error.fingerprint}
                row={(error) => [
                  <>
                    <Link to={projectPath(place, 'errors', error.fingerprint) + kept(here)}>
                      <Text of={error.type} />
                    </Link>
                    {isNew(error.firstEver, page.range.from) && <span class="new"> new</span>}
                    <br />
                    <Text of={error.message} />
                  </>,
                  count(error.count),
                  count(error.traces),
                  <Sparkline
                    values={error.series}
                    label={`occurrences over time, at most ${Math.max(...error.series)} at once`}
                  />,
                  error.issue && (
                    <Link to={projectPath(place, 'issues', error.issue.id)}>
                      {error.issue.shortId} {error.issue.status}
                    </Link>
                  ),
                  <Text of={error.lastRelease} />,
                  error.firstEver && time(error.firstEver),
                  error.lastSeen && time(error.lastSeen),
                ]}
              />
              <More page={page} />
            </div>
          )
        }
      </Loaded>
    </section>
  );
}

function One({ place }: { place: Place }): JSX.Element {
  const here = useSignal(address);
  const times = timesOf(here);
  const base = `${exploreBase(place)}/errors/${encodeURIComponent(place.id)}`;
  const asked: Call = { path: `${base}?${times}` };
  const error = useQuery<ErrorHistory>(asked);
  const occurrences = useQuery<OccurrencePage>({ path: `${base}/occurrences?${times}&limit=20${pageOf(here)}` });
  const chosen = here.query.get('occurrence') ?? occurrences.data?.data[0]?.id ?? null;
  return (
    <section aria-label="Error">
      <Loaded query={error}>
        {(data) => (
          <>
            <div class="bar-row">
              <h1>
                <Text of={data.type} />
              </h1>
              <CopyAs asked={asked} />
            </div>
            <p>
              <Text of={data.message} />
            </p>
            <div class="panel">
              <LineChart
                title={`${counted(data.count, 'occurrence')} in ${counted(data.traces, 'trace')}`}
                buckets={data.series.map((point) => point.bucket)}
                format={count}
                lines={[{ name: 'occurrences', color: HUES[1], values: data.series.map((point) => point.count) }]}
                end={data.range.to}
              />
            </div>
          </>
        )}
      </Loaded>
      <div class="split">
        <div>
          {chosen !== null && (
            <OneOccurrence key={chosen} place={place} path={`${base}/occurrences/${encodeURIComponent(chosen)}`} />
          )}
        </div>
        <div class="panel">
          <h2>Occurrences</h2>
          <Loaded query={occurrences}>
            {(page) => (
              <>
                <ul class="plain">
                  {page.data.map((one) => (
                    <li key={one.id}>
                      <Button aria-pressed={one.id === chosen} onClick={() => push({ occurrence: one.id })}>
                        {time(one.time, 3)}
                      </Button>{' '}
                      <Text of={one.release} />
                    </li>
                  ))}
                </ul>
                <More page={page} />
              </>
            )}
          </Loaded>
        </div>
      </div>
    </section>
  );
}

function OneOccurrence({ place, path }: { place: Place; path: string }): JSX.Element {
  const query = useQuery<OccurrenceRecord>({ path });
  return (
    <Loaded query={query}>
      {(data) => (
        <div class="panel">
          <p>
            {time(data.time, 6)} <Text of={data.serviceName} /> <Text of={data.environment} />{' '}
            <SpanLink place={place} to={data}>
              Open the trace
            </SpanLink>
          </p>
          {data.stacktrace ? (
            <StackTrace sent={data.stacktrace} resolved={data.resolvedStacktrace} />
          ) : (
            <p class="quiet">No stack trace was sent.</p>
          )}
          {data.logs && (
            <>
              <h2>Log records around the occurrence, of the same {data.logs.of}</h2>
              <table>
                <tbody>
                  {[...data.logs.before.data, ...data.logs.after.data].map((log) => (
                    <tr key={log.id}>
                      <td class="mono">{time(log.time, 3)}</td>
                      <td class="log-body">
                        <LongText of={printed(log.body)} />
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </>
          )}
        </div>
      )}
    </Loaded>
  );
}
