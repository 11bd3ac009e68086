// Search: filters, a figure over time or a heatmap, traces below; a box on the heatmap is compared with the rest.
import type { JSX } from 'preact';
import { useRef } from 'preact/hooks';
import {
  address,
  exploreBase,
  type Place,
  pageOf,
  projectPath,
  push,
  rangeOf,
  time,
  timesOf,
  type ViewProps,
} from '../../address/address';
import { fromNanoseconds, type Range, toNanoseconds } from '../../address/time';
import type { Figures, Span, SpanComparison, SpanHeatmap, TraceItem, TracePage } from '../../api/api_types';
import type { Call } from '../../api/request';
import { type Box, HeatmapChart } from '../../charts/heatmap';
import { LineChart } from '../../charts/line';
import { HUES } from '../../charts/palette';
import { FilterBar } from '../../filters/bar';
import { equals, lacks, withTerm } from '../../filters/language';
import { CopyAs, CopyCurl } from '../../ui/copy';
import { Button, figure, options, Segments, Table } from '../../ui/elements';
import { count, drawn, duration, share } from '../../ui/format';
import { useKeys } from '../../ui/keyboard';
import { LiveBar, useLive } from '../../ui/live';
import { Covered, Empty, Loaded, More, useQuery } from '../../ui/query';
import { useSignal } from '../../ui/signal';
import { Link, Text } from '../../ui/text';
import { SpanLink } from '../../ui/values';

type Metric = 'rate' | 'errors' | 'duration';
const METRICS = options<Metric>(['rate', 'errors', 'duration']);

const ORDERS: [string, string][] = [
  ['time', 'newest'],
  ['duration', 'slowest'],
];

export default function Explore({ place }: ViewProps): JSX.Element {
  const here = useSignal(address);
  const range = rangeOf(here);
  const text = here.query.get('q') ?? '';
  const metric = (here.query.get('metric') ?? 'duration') as Metric;
  const by = here.query.get('by') ?? '';
  const sort = here.query.get('sort') ?? 'time';
  const times = timesOf(here);
  const filtered = text === '' ? '' : `&filters=${encodeURIComponent(text)}`;
  const traces: Call = {
    path: `${exploreBase(place)}/traces?${times}${filtered}&sort=${sort}&limit=50${pageOf(here)}`,
  };
  const isLive = here.query.get('live') === '1';
  const live = useLive<Span>(isLive ? `${exploreBase(place)}/spans/live?limit=100${filtered}` : null);
  const found = useQuery<TracePage>(isLive ? null : traces);
  useKeys([['r', 'run again', found.again]], [found.again]);
  return (
    <section aria-label="Explore">
      <h1 class="sr-only">Explore</h1>
      <FilterBar text={text} base={exploreBase(place)} times={times} signal="spans" />
      <div class="bar-row">
        <Segments
          label="Figure"
          options={METRICS}
          chosen={metric}
          choose={(name) => push({ metric: name, box: null })}
        />
        <label>
          by{' '}
          <input
            type="text"
            placeholder="http.route, serviceName"
            title={`up to ${MAX_KEYS} keys, separated by commas`}
            value={by}
            onChange={(event) => push({ by: keysOf(event.currentTarget.value).join(',') })}
          />
        </label>
        <CopyAs asked={null} />
      </div>
      {metric === 'duration' && by === '' ? (
        <Durations place={place} range={range} text={text} box={parseBox(here.query.get('box'))} />
      ) : (
        <Lines place={place} range={range} text={text} metric={metric} by={by} />
      )}
      <div class="panel scroll">
        <div class="bar-row">
          <h2>{isLive ? 'Spans' : 'Traces'}</h2>
          {!isLive && <CopyCurl asked={traces} />}
          <Button aria-pressed={isLive} onClick={() => push({ live: isLive ? null : '1' })}>
            Live
          </Button>
          {!isLive && (
            <Segments
              label="Order"
              options={ORDERS}
              chosen={sort}
              choose={(order) => push({ sort: order === 'time' ? null : order })}
            />
          )}
        </div>
        {isLive ? (
          <>
            <LiveBar
              live={live}
              what="spans"
              missing="Spans that last longer than 15 minutes or arrive more than a minute late are not shown. In a busy project, spans that are older than the last 300 are not shown either."
            />
            <LiveSpans spans={live.rows} place={place} />
          </>
        ) : (
          <Loaded query={found}>
            {(page) =>
              page.data.length === 0 ? (
                <Nothing text={text} range={range} />
              ) : (
                <>
                  <Traces traces={page.data} place={place} />
                  <More page={page} />
                </>
              )
            }
          </Loaded>
        )}
      </div>
    </section>
  );
}

function Nothing({ text, range }: { text: string; range: Range }): JSX.Element {
  return (
    <Empty title={`No trace has a span ${text === '' ? '' : `with ${text} `}from ${range.from} to ${range.to}.`}>
      <Button onClick={() => push({ from: 'now-24h', to: 'now' })}>The last 24 hours</Button>{' '}
      {text !== '' && <Button onClick={() => push({ q: null })}>Without filters</Button>}
    </Empty>
  );
}

function Traces({ traces, place }: { traces: TraceItem[]; place: Place }): JSX.Element {
  const body = useRef<HTMLTableSectionElement>(null);
  function focus(by: number): void {
    const links = [...(body.current?.querySelectorAll('a') ?? [])];
    const at = links.indexOf(document.activeElement as HTMLAnchorElement);
    links[Math.max(0, Math.min(links.length - 1, at + by))]?.focus();
  }
  useKeys(
    [
      ['j', 'next trace', () => focus(1)],
      ['k', 'previous trace', () => focus(-1)],
    ],
    [],
  );
  return (
    <Table
      head={[
        'Trace',
        ['Duration', 'number'],
        ['Spans', 'number'],
        ['Errors', 'number'],
        ['Matched', 'number'],
        'Services',
        ['Started', 'mono'],
      ]}
      body={body}
      items={traces}
      by={(trace) => trace.traceId}
      row={(trace) => [
        <>
          <Link to={projectPath(place, 'trace', trace.traceId)}>
            {trace.root === null ? (
              <span class="absent">no root</span>
            ) : (
              <>
                <Text of={trace.root.serviceName} /> <Text of={trace.root.name} />
              </>
            )}
          </Link>{' '}
          <code class="quiet">{trace.traceId.slice(0, 8)}</code>
        </>,
        figure(duration(trace.durationMs), `${trace.durationMs} ms`),
        count(trace.spanCount),
        <span class={trace.errorCount > 0 ? 'error' : ''}>{trace.errorCount}</span>,
        trace.matched,
        <>
          {trace.services.slice(0, 4).map((name) => (
            <>
              <Text of={name} />{' '}
            </>
          ))}
          {trace.serviceCount > 4 && <span class="quiet">+{trace.serviceCount - 4}</span>}
        </>,
        time(trace.startTime, 3),
      ]}
    />
  );
}

function LiveSpans({ spans, place }: { spans: Span[]; place: Place }): JSX.Element {
  return (
    <Table
      head={[['Ended', 'mono'], 'Service', 'Span', ['Duration', 'number'], 'Status']}
      items={spans}
      by={(span) => span.id}
      row={(span) => [
        time(span.endTime, 3),
        <Text of={span.serviceName} />,
        <SpanLink place={place} to={span}>
          <Text of={span.name} />
        </SpanLink>,
        figure(duration(span.durationMs), `${span.durationMs} ms`),
        <td class={span.statusCode === 'ERROR' ? 'error' : ''}>{span.statusCode}</td>,
      ]}
    />
  );
}

const MAX_KEYS = 3;

/** What is typed as keys to group by. */
function keysOf(text: string): string[] {
  const keys = text.split(',').map((key) => key.trim());
  return [...new Set(keys.filter((key) => key !== ''))].slice(0, MAX_KEYS);
}

interface LinesProps {
  place: Place;
  range: Range;
  text: string;
  metric: Metric;
  by: string;
}

const FAILED = { fn: 'count', filters: [{ key: 'statusCode', op: 'eq', value: 'ERROR' }] };

function Lines({ place, range, text, metric, by }: LinesProps): JSX.Element {
  const figures = metric === 'duration' ? [{ fn: 'p95', field: 'durationMs' }] : [{ fn: 'count' }, FAILED];
  const keys = keysOf(by);
  const body = {
    ...range,
    figures,
    ...(keys.length === 0 ? {} : { groupBy: keys, limit: 8 }),
    ...(text === '' ? {} : { filters: text }),
  };
  const asked: Call = { method: 'POST', path: `${exploreBase(place)}/spans/figures`, body };
  const query = useQuery<Figures>(asked);
  return (
    <Loaded query={query}>
      {(data) => {
        const step = data.intervalSeconds ?? 60;
        const buckets = (data.series[0]?.points ?? []).map((point) => point.bucket);
        const lines = data.series.map((series, at) => ({
          name: series.group.map((value) => value ?? 'none').join(', ') || metric,
          filter: keys.map((key, which) => isValue(key, series.group[which] ?? null)),
          color: HUES[at % HUES.length] ?? HUES[0],
          values: series.points.map((point) =>
            metric === 'rate'
              ? point.count / step
              : metric === 'errors'
                ? point.count === 0
                  ? null
                  : Number(point.values[1] ?? 0) / point.count
                : drawn(point.values[0]),
          ),
        }));
        const format =
          metric === 'rate' ? (value: number) => `${value.toPrecision(3)}/s` : metric === 'errors' ? share : duration;
        return (
          <div class="panel">
            <LineChart
              title={metric === 'duration' ? 'p95' : metric}
              buckets={buckets}
              format={format}
              lines={lines}
              end={range.to}
            />
            {keys.length > 0 && (
              <ul class="legend">
                {lines.map((line) => (
                  <li key={line.name}>
                    <i class="swatch" style={{ background: line.color }} />
                    <Button class="quiet" onClick={() => push({ q: line.filter.reduce(withTerm, text) })}>
                      <Text of={line.name} />
                    </Button>
                  </li>
                ))}
              </ul>
            )}
            <CopyCurl asked={asked} />
            <Covered of={data} what="spans" />
            {data.groupsTruncated && (
              <p class="covered partial">
                {data.groups.length} of {data.groupCount} groups are shown.
              </p>
            )}
          </div>
        );
      }}
    </Loaded>
  );
}

/** The filter that finds the spans of a group. */
function isValue(key: string, value: string | null): string {
  return value === null ? lacks(key) : equals(key, value);
}

/** `box=from,to,low,high` in the address: times, and the bounds of the rows. */
interface Selected {
  from: string;
  to: string;
  low: string;
  high: string;
}

function parseBox(text: string | null): Selected | null {
  const [from, to, low, high] = (text ?? '').split(',');
  return from === undefined || to === undefined || low === undefined || high === undefined
    ? null
    : { from, to, low, high };
}

interface DurationsProps {
  place: Place;
  range: Range;
  text: string;
  box: Selected | null;
}

function Durations({ place, range, text, box }: DurationsProps): JSX.Element {
  const asked: Call = {
    method: 'POST',
    path: `${exploreBase(place)}/spans/heatmap`,
    body: { ...range, field: 'durationMs', columns: 90, ...(text === '' ? {} : { filters: text }) },
  };
  const query = useQuery<SpanHeatmap>(asked);
  function choose(data: SpanHeatmap, chosen: Box | null): void {
    if (chosen === null) {
      push({ box: null });
      return;
    }
    const start = toNanoseconds(data.range.from, Date.now()) ?? 0n;
    const end = toNanoseconds(data.range.to, Date.now()) ?? 0n;
    const width = BigInt(Math.round(Number(data.columnSeconds) * 1e9));
    const from = start + width * BigInt(chosen.firstColumn);
    const until = start + width * BigInt(chosen.lastColumn + 1);
    const low = data.rows[chosen.firstRow]?.from;
    const high = data.rows[chosen.lastRow]?.to;
    push({
      box: [fromNanoseconds(from), fromNanoseconds(until < end ? until : end), String(low), String(high)].join(','),
    });
  }
  return (
    <div class="panel">
      <Loaded query={query}>
        {(data) =>
          data.rows.length === 0 ? (
            <p class="quiet">No span of this time {text === '' ? 'has a duration' : `matches ${text}`}.</p>
          ) : (
            <>
              <HeatmapChart
                data={data}
                box={box === null ? null : drawnBox(data, box)}
                onBox={(one) => choose(data, one)}
                format={duration}
              />
              <p class="quiet">
                {data.total.toLocaleString('en')} spans match. Drag over cells to compare them with the rest.{' '}
                <CopyCurl asked={asked} />
              </p>
              <Covered of={data} what="spans" />
              {box !== null && <Compared place={place} data={data} text={text} box={box} />}
            </>
          )
        }
      </Loaded>
    </div>
  );
}

function drawnBox(data: SpanHeatmap, box: Selected): Box | null {
  const start = toNanoseconds(data.range.from, Date.now());
  const from = toNanoseconds(box.from, Date.now());
  const to = toNanoseconds(box.to, Date.now());
  if (start === null || from === null || to === null) return null;
  const width = Number(data.columnSeconds) * 1e9;
  const firstRow = data.rows.findIndex((row) => String(row.from) === box.low);
  const lastRow = data.rows.findIndex((row) => String(row.to) === box.high);
  const firstColumn = Math.floor(Number(from - start) / width);
  const lastColumn = Math.ceil(Number(to - start) / width) - 1;
  if (firstRow < 0 || lastRow < 0 || lastColumn < 0 || firstColumn >= data.columns) return null;
  return {
    firstRow,
    lastRow,
    firstColumn: Math.max(0, firstColumn),
    lastColumn: Math.min(data.columns - 1, lastColumn),
  };
}

interface ComparedProps {
  place: Place;
  data: SpanHeatmap;
  text: string;
  box: Selected;
}

function Compared({ place, data, text, box }: ComparedProps): JSX.Element {
  const bounds = [
    { key: 'durationMs', op: 'gte', value: box.low },
    { key: 'durationMs', op: 'lt', value: box.high },
  ];
  const asked: Call = {
    method: 'POST',
    path: `${exploreBase(place)}/spans/compare`,
    body: {
      spike: { from: box.from, to: box.to, filters: bounds },
      baseline: data.range,
      limit: 20,
      ...(text === '' ? {} : { filters: text }),
    },
  };
  const query = useQuery<SpanComparison>(asked);
  return (
    <Loaded query={query}>
      {(found) => (
        <section aria-label="Comparison">
          <div class="bar-row">
            <h2>
              In the box {found.spike.total.toLocaleString('en')} spans, outside{' '}
              {found.baseline.total.toLocaleString('en')}
            </h2>
            <Button
              onClick={() =>
                push({
                  q: withTerm(withTerm(text, `durationMs:>=${box.low}`), `durationMs:<${box.high}`),
                  from: box.from,
                  to: box.to,
                  box: null,
                })
              }
            >
              Keep only the box
            </Button>
            <Button onClick={() => push({ box: null })}>Remove the box</Button>
            <CopyAs asked={asked} />
          </div>
          {found.attributes.length === 0 ? (
            <p class="quiet">No value is more frequent in the box than chance explains.</p>
          ) : (
            <Table
              head={[
                'More frequent in the box',
                'Box (plain), outside (hatched)',
                ['Box', 'number'],
                ['Outside', 'number'],
                'Filter',
              ]}
              items={found.attributes}
              by={(one) => `${one.key}=${one.value}`}
              row={(one) => [
                <>
                  <Text of={one.key} /> = <Text of={one.value} />
                </>,
                <div class="shares" aria-hidden="true">
                  <div class="share">
                    <i style={{ width: `${Number(one.spikeShare) * 100}%` }} />
                  </div>
                  <div class="share rest">
                    <i style={{ width: `${Number(one.baselineShare) * 100}%` }} />
                  </div>
                </div>,
                share(one.spikeShare),
                share(one.baselineShare),
                <>
                  <Button onClick={() => push({ q: withTerm(text, equals(one.key, one.value)), box: null })}>
                    Add filter
                  </Button>
                  <Button
                    class="quiet"
                    onClick={() => push({ q: withTerm(text, equals(one.key, one.value, true)), box: null })}
                  >
                    Exclude
                  </Button>
                </>,
              ]}
            />
          )}
          <p class="covered">{found.disclaimer}</p>
        </section>
      )}
    </Loaded>
  );
}
