// Rate, errors and durations of each service; a project without spans says how to send some.
import type { JSX } from 'preact';
import { useEffect } from 'preact/hooks';
import {
  address,
  exploreBase,
  kept,
  type Place,
  projectPath,
  rangeOf,
  timesOf,
  type ViewProps,
} from '../../address/address';
import { lengthSeconds } from '../../address/time';
import type { ErrorPage, Figures } from '../../api/api_types';
import type { Call } from '../../api/request';
import { LineChart, Sparkline } from '../../charts/line';
import { HUES } from '../../charts/palette';
import { equals, lacks } from '../../filters/language';
import { CopyAs, CopyCurl } from '../../ui/copy';
import { figure, Table } from '../../ui/elements';
import { count, drawn, duration, rate, share } from '../../ui/format';
import { Covered, Loaded, useQuery } from '../../ui/query';
import { useSignal } from '../../ui/signal';
import { Link, Text } from '../../ui/text';
import { isNew } from '../errors/is_new';

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
  const body = { ...range, figures: RED };
  const whole: Call = { method: 'POST', path: `${exploreBase(place)}/spans/figures`, body };
  const byService: Call = { ...whole, body: { ...body, groupBy: ['serviceName'], limit: 50 } };
  const total = useQuery<Figures>(whole);
  const services = useQuery<Figures>(byService);
  const errors = useQuery<ErrorPage>({ path: `${exploreBase(place)}/errors?limit=8&${timesOf(here)}` });
  return (
    <section aria-label="Overview">
      <h1>Overview</h1>
      <Loaded query={total}>
        {(data) => {
          const points = data.series[0]?.points ?? [];
          const buckets = points.map((point) => point.bucket);
          const step = data.intervalSeconds ?? 60;
          const at = (index: number): (number | null)[] => points.map((point) => drawn(point.values[index]));
          if (data.groups[0]?.count === 0)
            return <NoSpans place={place} isNow={range.to === 'now'} again={total.again} />;
          return (
            <>
              <div class="grid">
                <div class="panel">
                  <LineChart
                    title="Spans"
                    buckets={buckets}
                    format={rate}
                    end={range.to}
                    lines={[{ name: 'spans', color: HUES[0], values: at(0).map((value) => (value ?? 0) / step) }]}
                  />
                </div>
                <div class="panel">
                  <LineChart
                    title="Errors"
                    buckets={buckets}
                    format={share}
                    end={range.to}
                    lines={[
                      {
                        name: 'errors',
                        color: HUES[1],
                        values: points.map((point) =>
                          point.count === 0 ? null : Number(point.values[1] ?? 0) / point.count,
                        ),
                      },
                    ]}
                  />
                </div>
                <div class="panel">
                  <LineChart
                    title="Duration"
                    buckets={buckets}
                    format={duration}
                    end={range.to}
                    hasLegend
                    lines={[
                      { name: 'p50', color: HUES[4], values: at(2) },
                      { name: 'p95', color: HUES[2], values: at(3) },
                    ]}
                  />
                </div>
              </div>
              <CopyCurl asked={whole} />
              <Covered of={data} what="spans" />
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
    <Table
      head={[
        'Service',
        ['Rate', 'number'],
        ['Errors', 'number'],
        ['p50', 'number'],
        ['p95', 'number'],
        ['p99', 'number'],
        'Over time',
      ]}
      items={data.groups.map((one, at) => ({
        ...one,
        name: one.group[0] ?? null,
        points: data.series[at]?.points ?? [],
      }))}
      by={({ name }) => JSON.stringify(name)}
      row={({ name, count: spans, values, points }) => {
        const filter = name === null ? lacks('serviceName') : equals('serviceName', name);
        const failed = spans === 0 ? 0 : Number(values[1] ?? 0) / spans;
        return [
          <Link
            to={`${projectPath(place, 'explore')}?${new URLSearchParams(`${query.slice(1)}&q=${encodeURIComponent(filter)}`)}`}
          >
            <Text of={name} />
          </Link>,
          figure(rate(spans / seconds), `${spans} spans`),
          figure(<span class={failed > 0 ? 'error' : ''}>{share(failed)}</span>, `${values[1] ?? 0} spans`),
          ...[2, 3, 4].map((index) => figure(duration(values[index] ?? null), `${values[index] ?? ''} ms`)),
          <Sparkline values={points.map((point) => point.count)} label={`spans of ${name ?? 'no service'}`} />,
        ];
      }}
    />
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
        Or export from any OpenTelemetry SDK (create a key in Settings, Project keys; the first start of{' '}
        <code>sluice up</code> wrote one to bootstrap.json):
      </p>
      <pre>
        {`export OTEL_EXPORTER_OTLP_ENDPOINT=${origin} OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf\n`}
        {`export OTEL_EXPORTER_OTLP_HEADERS="x-legacy-auth=Legacy%20legacy_key%3D$KEY"`}
      </pre>
      {isNow && <p role="status">Waiting for the first span.</p>}
    </div>
  );
}
