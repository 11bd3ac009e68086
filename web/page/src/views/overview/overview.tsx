// Rate, errors and durations of each service; a project without spans says how to send some.
import type { JSX } from 'preact';
import { useEffect } from 'preact/hooks';
import { address, kept, push, rangeOf, zoneOf } from '../../address/address';
import { lengthSeconds } from '../../address/time';
import type { Call } from '../../api/request';
import type { ListedError, Figures, Page } from '../../api/types';
import { LineChart, Sparkline } from '../../charts/line';
import { HUES } from '../../charts/palette';
import { equals, lacks } from '../../filters/language';
import { isNew } from '../errors/is_new';
import { exploreBase, type Place, projectPath, type ViewProps } from '../../address/place';
import { CopyAs, CopyCurl } from '../../ui/copy';
import { count, drawn, duration, rate, share } from '../../ui/format';
import { Link } from '../../ui/link';
import { useQuery } from '../../ui/query';
import { useSignal } from '../../ui/signal';
import { Covered, Loaded } from '../../ui/states';
import { Text } from '../../ui/text';

const POLL_MS = 3_000;
const FAILED = { fn: 'count', filters: [{ key: 'statusCode', op: 'eq', value: 'ERROR' }] };
const RED = [
  { fn: 'count' },
  FAILED,
  { fn: 'p50', field: 'durationMs' },
  { fn: 'p95', field: 'durationMs' },
  { fn: 'p99', field: 'durationMs' },
];

export default function Overview({ place }: ViewProps): JSX.Element {
  const here = useSignal(address);
  const range = rangeOf(here);
  const zone = zoneOf(here);
  const body = { ...range, figures: RED };
  const whole: Call = { method: 'POST', path: `${exploreBase(place)}/spans/figures`, body };
  const byService: Call = { ...whole, body: { ...body, groupBy: ['serviceName'], limit: 50 } };
  const total = useQuery<Figures>(whole);
  const services = useQuery<Figures>(byService);
  const errors = useQuery<Page<ListedError> & { range: { from: string } }>({
    path: `${exploreBase(place)}/errors?limit=8&from=${encodeURIComponent(range.from)}&to=${encodeURIComponent(range.to)}`,
  });
  return (
    <section aria-label="Overview">
      <h1>Overview</h1>
      <Loaded query={total}>
        {(data) => {
          const points = data.series[0]?.points ?? [];
          const buckets = points.map((point) => point.bucket);
          const step = data.intervalSeconds ?? 60;
          const at = (index: number): (number | null)[] => points.map((point) => drawn(point.values[index]));
          const zoom = (first: number, last: number): void =>
            push({ from: buckets[first] ?? range.from, to: buckets[last + 1] ?? range.to });
          if (data.groups[0]?.count === 0) return <NoSpans place={place} isNow={range.to === 'now'} again={total.again} />;
          return (
            <>
              <div class="grid">
                <div class="panel">
                  <LineChart
                    title="Spans"
                    buckets={buckets}
                    zone={zone}
                    format={rate}
                    onZoom={zoom}
                    lines={[{ name: 'spans', color: HUES[0], values: at(0).map((value) => (value ?? 0) / step) }]}
                  />
                </div>
                <div class="panel">
                  <LineChart
                    title="Errors"
                    buckets={buckets}
                    zone={zone}
                    format={share}
                    onZoom={zoom}
                    lines={[
                      {
                        name: 'errors',
                        color: HUES[1],
                        values: points.map((point) => (point.count === 0 ? null : Number(point.values[1] ?? 0) / point.count)),
                      },
                    ]}
                  />
                </div>
                <div class="panel">
                  <LineChart
                    title="Duration"
                    buckets={buckets}
                    zone={zone}
                    format={duration}
                    onZoom={zoom}
                    hasLegend
                    lines={[
                      { name: 'p50', color: HUES[4], values: at(2) },
                      { name: 'p95', color: HUES[2], values: at(3) },
                    ]}
                  />
                </div>
              </div>
              <CopyCurl asked={whole} />
              <Covered scanned={data.scanned} truncated={data.scanTruncated} what="spans" />
            </>
          );
        }}
      </Loaded>
      <div class="split">
        <div class="panel scroll">
          <h2>Services</h2>
          <Loaded query={services}>
            {(data) => (
              <>
                <Services data={data} place={place} query={kept(here)} />
                {data.groupsTruncated && (
                  <p class="covered partial">
                    {data.groups.length} of {data.groupCount} services are shown.
                  </p>
                )}
              </>
            )}
          </Loaded>
          <CopyAs asked={byService} />
        </div>
        <div class="panel">
          <h2>Errors, the latest first</h2>
          <Loaded query={errors}>
            {(page) =>
              page.data.length === 0 ? (
                <p class="quiet">No errors in this time.</p>
              ) : (
                <ul class="plain">
                  {page.data.map((error) => (
                    <li key={error.fingerprint}>
                      <Link to={projectPath(place, 'errors', error.fingerprint) + kept(here)}>
                        <Text of={error.type ?? error.message} />
                      </Link>{' '}
                      <span class="quiet">{count(error.count)}</span>{' '}
                      {isNew(error.firstEver, page.range.from) && <span class="new">new</span>}{' '}
                      <Sparkline values={error.series} label="occurrences over time" />
                    </li>
                  ))}
                </ul>
              )
            }
          </Loaded>
        </div>
      </div>
    </section>
  );
}

interface ServicesProps {
  data: Figures;
  place: Place;
  query: string;
}

function Services({ data, place, query }: ServicesProps): JSX.Element {
  const seconds = lengthSeconds(data.range, Date.now()) || 1; // of what was read, which may be less than was asked
  return (
    <table>
      <thead>
        <tr>
          <th>Service</th>
          <th class="number">Rate</th>
          <th class="number">Errors</th>
          <th class="number">p50</th>
          <th class="number">p95</th>
          <th class="number">p99</th>
          <th>Over time</th>
        </tr>
      </thead>
      <tbody>
        {data.groups.map(({ group, count: spans, values }, at) => {
          const name = group[0] ?? null;
          const filter = name === null ? lacks('serviceName') : equals('serviceName', name);
          const failed = spans === 0 ? 0 : Number(values[1] ?? 0) / spans;
          const points = data.series[at]?.points ?? [];
          return (
            <tr key={name}>
              <td>
                <Link to={`${projectPath(place, 'explore')}?${new URLSearchParams(`${query.slice(1)}&q=${encodeURIComponent(filter)}`)}`}>
                  <Text of={name} />
                </Link>
              </td>
              <td class="number" title={`${spans} spans`}>
                {rate(spans / seconds)}
              </td>
              <td class="number" title={`${values[1] ?? 0} spans`}>
                <span class={failed > 0 ? 'error' : ''}>{share(failed)}</span>
              </td>
              {[2, 3, 4].map((index) => (
                <td key={index} class="number" title={`${values[index] ?? ''} ms`}>
                  {duration(values[index] ?? null)}
                </td>
              ))}
              <td>
                <Sparkline values={points.map((point) => point.count)} label={`spans of ${name ?? 'no service'}`} />
              </td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

function NoSpans({ place, isNow, again }: { place: Place; isNow: boolean; again: () => void }): JSX.Element {
  useEffect(() => {
    const timer = setInterval(again, POLL_MS);
    return () => clearInterval(timer);
  }, []);
  const origin = location.origin;
  return (
    <div class="empty">
      <p>
        No spans of <Text of={place.project} /> in this time.
      </p>
      <p>Send an hour of sample traffic, on the machine that runs Sluice:</p>
      <pre>sluice send --traffic</pre>
      <p>
        Or export from any OpenTelemetry SDK (create a key in Settings, Project keys; the first start of <code>sluice up</code>{' '}
        wrote one to bootstrap.json):
      </p>
      <pre>
        {`export OTEL_EXPORTER_OTLP_ENDPOINT=${origin} OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf\n`}
        {`export OTEL_EXPORTER_OTLP_HEADERS="x-legacy-auth=Legacy%20legacy_key%3D$KEY"`}
      </pre>
      {isNow && <p role="status">Waiting for the first span.</p>}
    </div>
  );
}
