// Errors by fingerprint; one with its stack trace, occurrences and the log lines around.
import type { JSX } from 'preact';
import { address, kept, pageOf, push, rangeOf, zoneOf } from '../../address/address';
import { shownTime, type Zone } from '../../address/time';
import type { Call } from '../../api/request';
import type { ErrorDetail, ListedError, Occurrence, Page } from '../../api/types';
import { LineChart, Sparkline } from '../../charts/line';
import { HUES } from '../../charts/palette';
import { exploreBase, type Place, projectPath, type ViewProps } from '../../address/place';
import { CopyAs } from '../../ui/copy';
import { count, counted } from '../../ui/format';
import { Link } from '../../ui/link';
import { useQuery } from '../../ui/query';
import { useSignal } from '../../ui/signal';
import { StackTrace } from '../../ui/stack_trace';
import { Empty, Loaded, More } from '../../ui/states';
import { LongText, Text } from '../../ui/text';
import { isNew } from './is_new';
import { printed } from '../../trace/span';

export default function Errors({ place }: ViewProps): JSX.Element {
  return place.id === '' ? <List place={place} /> : <One place={place} />;
}

function useTimes(): { times: string; zone: Zone; rest: string } {
  const here = useSignal(address);
  const range = rangeOf(here);
  return {
    times: `from=${encodeURIComponent(range.from)}&to=${encodeURIComponent(range.to)}`,
    zone: zoneOf(here),
    rest: kept(here),
  };
}

const SORTS = ['lastSeen', 'count', 'firstSeen'];

function List({ place }: { place: Place }): JSX.Element {
  const { times, zone, rest } = useTimes();
  const here = useSignal(address);
  const sort = here.query.get('sort') ?? 'lastSeen';
  const asked: Call = { path: `${exploreBase(place)}/errors?${times}&sort=${sort}&limit=50${pageOf(here)}` };
  const query = useQuery<Page<ListedError> & { range: { from: string } }>(asked);
  return (
    <section aria-label="Errors">
      <div class="bar-row">
        <h1>Errors</h1>
        <span class="segments" role="group" aria-label="Order">
          {SORTS.map((name) => (
            <button key={name} type="button" aria-pressed={sort === name} onClick={() => push({ sort: name })}>
              {name === 'count' ? 'occurrences' : name === 'lastSeen' ? 'last seen' : 'first seen'}
            </button>
          ))}
        </span>
        <CopyAs asked={asked} />
      </div>
      <Loaded query={query}>
        {(page) =>
          page.data.length === 0 ? (
            <Empty title="No error in this time." />
          ) : (
            <div class="panel scroll">
              <table>
                <thead>
                  <tr>
                    <th>Error</th>
                    <th class="number">Occurrences</th>
                    <th class="number">Traces</th>
                    <th>Over time</th>
                    <th>Issue</th>
                    <th>Last release</th>
                    <th>First ever</th>
                    <th>Last seen</th>
                  </tr>
                </thead>
                <tbody>
                  {page.data.map((error) => (
                    <tr key={error.fingerprint}>
                      <td>
                        <Link to={projectPath(place, 'errors', error.fingerprint) + rest}>
                          <Text of={error.type} />
                        </Link>
                        {isNew(error.firstEver, page.range.from) && <span class="new"> new</span>}
                        <br />
                        <Text of={error.message} />
                      </td>
                      <td class="number">{count(error.count)}</td>
                      <td class="number">{count(error.traces)}</td>
                      <td>
                        <Sparkline values={error.series} label={`occurrences over time, at most ${Math.max(...error.series)} at once`} />
                      </td>
                      <td>
                        {error.issue ? (
                          <Link to={projectPath(place, 'issues', error.issue.id)}>
                            {error.issue.shortId} {error.issue.status}
                          </Link>
                        ) : (
                          ''
                        )}
                      </td>
                      <td>
                        <Text of={error.lastRelease} />
                      </td>
                      <td class="mono">{error.firstEver === null ? '' : shownTime(error.firstEver, zone, 0)}</td>
                      <td class="mono">{error.lastSeen === null ? '' : shownTime(error.lastSeen, zone, 0)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
              <More page={page} />
            </div>
          )
        }
      </Loaded>
    </section>
  );
}

function One({ place }: { place: Place }): JSX.Element {
  const { times, zone } = useTimes();
  const here = useSignal(address);
  const base = `${exploreBase(place)}/errors/${encodeURIComponent(place.id)}`;
  const asked: Call = { path: `${base}?${times}` };
  const error = useQuery<ErrorDetail>(asked);
  const occurrences = useQuery<Page<Occurrence>>({ path: `${base}/occurrences?${times}&limit=20${pageOf(here)}` });
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
                zone={zone}
                format={count}
                lines={[{ name: 'occurrences', color: HUES[1], values: data.series.map((point) => point.count) }]}
                onZoom={(first, last) =>
                  push({ from: data.series[first]?.bucket ?? null, to: data.series[last + 1]?.bucket ?? data.range.to })
                }
              />
            </div>
          </>
        )}
      </Loaded>
      <div class="split">
        <div>{chosen !== null && <OneOccurrence key={chosen} place={place} path={`${base}/occurrences/${encodeURIComponent(chosen)}`} zone={zone} />}</div>
        <div class="panel">
          <h2>Occurrences</h2>
          <Loaded query={occurrences}>
            {(page) => (
              <>
              <ul class="plain">
                {page.data.map((one) => (
                  <li key={one.id}>
                    <button type="button" aria-pressed={one.id === chosen} onClick={() => push({ occurrence: one.id })}>
                      {shownTime(one.time, zone)}
                    </button>{' '}
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

function OneOccurrence({ place, path, zone }: { place: Place; path: string; zone: Zone }): JSX.Element {
  const query = useQuery<Occurrence>({ path });
  return (
    <Loaded query={query}>
      {(data) => (
        <div class="panel">
          <p>
            {shownTime(data.time, zone, 6)} <Text of={data.serviceName} /> <Text of={data.environment} />{' '}
            {data.traceId !== null && (
              <Link to={`${projectPath(place, 'trace', data.traceId)}${data.spanId === null ? '' : `?span=${data.spanId}`}`}>
                Open the trace
              </Link>
            )}
          </p>
          {data.stacktrace ? (
            <StackTrace sent={data.stacktrace} resolved={data.resolvedStacktrace} />
          ) : (
            <p class="quiet">No stack trace was sent.</p>
          )}
          {data.logs && (
            <>
              <h2>Log records around it, of the same {data.logs.of}</h2>
              <table>
                <tbody>
                  {[...data.logs.before.data, ...data.logs.after.data].map((log) => (
                    <tr key={log.id}>
                      <td class="mono">{shownTime(log.time, zone)}</td>
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
