// Search: filters, a figure over time or a heatmap, traces below; a box on the heatmap is compared with the rest.
import type { JSX } from 'preact';
import { address, pageOf, push, rangeOf, zoneOf } from '../../address/address';
import { fromNanoseconds, shownTime, toNanoseconds, type Range, type Zone } from '../../address/time';
import type { Call } from '../../api/request';
import type { Comparison, Figures, Heatmap, Page, SpanRecord, TraceItem } from '../../api/types';
import { type Box, HeatmapChart } from '../../charts/heatmap';
import { LineChart } from '../../charts/line';
import { HUES } from '../../charts/palette';
import { FilterBar } from '../../filters/bar';
import { equals, lacks, withTerm } from '../../filters/language';
import { exploreBase, type Place, projectPath, type ViewProps } from '../../address/place';
import { CopyAs, CopyCurl } from '../../ui/copy';
import { count, drawn, duration, share } from '../../ui/format';
import { useKeys } from '../../ui/keyboard';
import { Link } from '../../ui/link';
import { LiveBar, useLive } from '../../ui/live';
import { useQuery } from '../../ui/query';
import { useSignal } from '../../ui/signal';
import { Covered, Empty, Loaded, More } from '../../ui/states';
import { Text } from '../../ui/text';
import { useRef } from 'preact/hooks';

type Metric = 'rate' | 'errors' | 'duration';
const METRICS: Metric[] = ['rate', 'errors', 'duration'];

export default function Explore({ place }: ViewProps): JSX.Element {
  const here = useSignal(address);
  const range = rangeOf(here);
  const zone = zoneOf(here);
  const text = here.query.get('q') ?? '';
  const metric = (here.query.get('metric') ?? 'duration') as Metric;
  const by = here.query.get('by') ?? '';
  const sort = here.query.get('sort') ?? 'time';
  const times = `from=${encodeURIComponent(range.from)}&to=${encodeURIComponent(range.to)}`;
  const filtered = text === '' ? '' : `&filters=${encodeURIComponent(text)}`;
  const traces: Call = { path: `${exploreBase(place)}/traces?${times}${filtered}&sort=${sort}&limit=50${pageOf(here)}` };
  const isLive = here.query.get('live') === '1';
  const live = useLive<SpanRecord>(isLive ? `${exploreBase(place)}/spans/live?limit=100${filtered}` : null);
  const found = useQuery<Page<TraceItem>>(isLive ? null : traces);
  useKeys([{ keys: 'r', does: 'run again', run: found.again }], [found.again]);
  return (
    <section aria-label="Explore">
      <h1 class="sr-only">Explore</h1>
      <FilterBar text={text} base={exploreBase(place)} times={times} signal="spans" />
      <div class="bar-row">
        <span class="segments" role="group" aria-label="Figure">
          {METRICS.map((name) => (
            <button key={name} type="button" aria-pressed={metric === name} onClick={() => push({ metric: name, box: null })}>
              {name}
            </button>
          ))}
        </span>
        <label>
          by{' '}
          <input
            type="text"
            placeholder="http.route, serviceName"
            title={`up to ${MAX_KEYS} keys, with commas between them`}
            value={by}
            onChange={(event) => push({ by: keysOf(event.currentTarget.value).join(',') })}
          />
        </label>
        <CopyAs asked={null} />
      </div>
      {metric === 'duration' && by === '' ? (
        <Durations place={place} range={range} text={text} zone={zone} box={parseBox(here.query.get('box'))} />
      ) : (
        <Lines place={place} range={range} text={text} metric={metric} by={by} zone={zone} />
      )}
      <div class="panel scroll">
        <div class="bar-row">
          <h2>{isLive ? 'Spans' : 'Traces'}</h2>
          {!isLive && <CopyCurl asked={traces} />}
          <button type="button" aria-pressed={isLive} onClick={() => push({ live: isLive ? null : '1' })}>
            Live
          </button>
          {!isLive && (
            <span class="segments" role="group" aria-label="Order">
              <button type="button" aria-pressed={sort === 'time'} onClick={() => push({ sort: null })}>
                newest
              </button>
              <button type="button" aria-pressed={sort === 'duration'} onClick={() => push({ sort: 'duration' })}>
                slowest
              </button>
            </span>
          )}
        </div>
        {isLive ? (
          <>
            <LiveBar live={live} what="spans" missing="What lasted longer than 15 minutes or came a minute late is missing here; while much arrives, also what came later than the 300 before it." />
            <LiveSpans spans={live.rows} place={place} zone={zone} />
          </>
        ) : (
          <Loaded query={found}>
            {(page) =>
              page.data.length === 0 ? (
                <Nothing text={text} range={range} />
              ) : (
                <>
                  <Traces page={page} place={place} zone={zone} />
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
      <button type="button" onClick={() => push({ from: 'now-24h', to: 'now' })}>
        The last 24 hours
      </button>{' '}
      {text !== '' && (
        <button type="button" onClick={() => push({ q: null })}>
          Without filters
        </button>
      )}
    </Empty>
  );
}

function Traces({ page, place, zone }: { page: Page<TraceItem>; place: Place; zone: Zone }): JSX.Element {
  const body = useRef<HTMLTableSectionElement>(null);
  function focus(by: number): void {
    const links = [...(body.current?.querySelectorAll('a') ?? [])];
    const at = links.findIndex((link) => link === document.activeElement);
    links[Math.max(0, Math.min(links.length - 1, at + by))]?.focus();
  }
  useKeys(
    [
      { keys: 'j', does: 'next trace', run: () => focus(1) },
      { keys: 'k', does: 'previous trace', run: () => focus(-1) },
    ],
    [],
  );
  return (
    <table>
      <thead>
        <tr>
          <th>Trace</th>
          <th class="number">Duration</th>
          <th class="number">Spans</th>
          <th class="number">Errors</th>
          <th class="number">Matched</th>
          <th>Services</th>
          <th>Started</th>
        </tr>
      </thead>
      <tbody ref={body}>
        {page.data.map((trace) => (
          <tr key={trace.traceId}>
            <td>
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
            </td>
            <td class="number" title={`${trace.durationMs} ms`}>
              {duration(Number(trace.durationMs))}
            </td>
            <td class="number">{count(trace.spanCount)}</td>
            <td class="number">
              <span class={trace.errorCount > 0 ? 'error' : ''}>{trace.errorCount}</span>
            </td>
            <td class="number">{trace.matched}</td>
            <td>
              {trace.services.slice(0, 4).map((name) => (
                <>
                  <Text of={name} />{' '}
                </>
              ))}
              {trace.serviceCount > 4 && <span class="quiet">+{trace.serviceCount - 4}</span>}
            </td>
            <td class="mono">{shownTime(trace.startTime, zone)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function LiveSpans({ spans, place, zone }: { spans: SpanRecord[]; place: Place; zone: Zone }): JSX.Element {
  return (
    <table>
      <thead>
        <tr>
          <th>Ended</th>
          <th>Service</th>
          <th>Span</th>
          <th class="number">Duration</th>
          <th>Status</th>
        </tr>
      </thead>
      <tbody>
        {spans.map((span) => (
          <tr key={span.traceId + span.spanId}>
            <td class="mono">{shownTime(span.endTime, zone)}</td>
            <td>
              <Text of={span.serviceName} />
            </td>
            <td>
              <Link to={`${projectPath(place, 'trace', span.traceId)}?span=${span.spanId}`}>
                <Text of={span.name} />
              </Link>
            </td>
            <td class="number" title={`${span.durationMs} ms`}>
              {duration(span.durationMs)}
            </td>
            <td class={span.statusCode === 'ERROR' ? 'error' : ''}>{span.statusCode}</td>
          </tr>
        ))}
      </tbody>
    </table>
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
  zone: Zone;
}

const FAILED = { fn: 'count', filters: [{ key: 'statusCode', op: 'eq', value: 'ERROR' }] };

function Lines({ place, range, text, metric, by, zone }: LinesProps): JSX.Element {
  const figures = metric === 'duration' ? [{ fn: 'p95', field: 'durationMs' }] : [{ fn: 'count' }, FAILED];
  const keys = keysOf(by);
  const body = { ...range, figures, ...(keys.length === 0 ? {} : { groupBy: keys, limit: 8 }), ...(text === '' ? {} : { filters: text }) };
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
        const format = metric === 'rate' ? (value: number) => `${value.toPrecision(3)}/s` : metric === 'errors' ? share : duration;
        return (
          <div class="panel">
            <LineChart
              title={metric === 'duration' ? 'p95' : metric}
              buckets={buckets}
              zone={zone}
              format={format}
              lines={lines}
              onZoom={(first, last) => push({ from: buckets[first] ?? range.from, to: buckets[last + 1] ?? range.to })}
            />
            {keys.length > 0 && (
              <ul class="legend">
                {lines.map((line) => (
                  <li key={line.name}>
                    <i
                      class="swatch"
                      ref={(element) => {
                        if (element !== null) element.style.background = line.color;
                      }}
                    />
                    <button type="button" class="quiet" onClick={() => push({ q: line.filter.reduce(withTerm, text) })}>
                      <Text of={line.name} />
                    </button>
                  </li>
                ))}
              </ul>
            )}
            <CopyCurl asked={asked} />
            <Covered scanned={data.scanned} truncated={data.scanTruncated} what="spans" />
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
  return from === undefined || to === undefined || low === undefined || high === undefined ? null : { from, to, low, high };
}

interface DurationsProps {
  place: Place;
  range: Range;
  text: string;
  zone: Zone;
  box: Selected | null;
}

function Durations({ place, range, text, zone, box }: DurationsProps): JSX.Element {
  const asked: Call = {
    method: 'POST',
    path: `${exploreBase(place)}/spans/heatmap`,
    body: { ...range, field: 'durationMs', columns: 90, ...(text === '' ? {} : { filters: text }) },
  };
  const query = useQuery<Heatmap>(asked);
  function choose(data: Heatmap, chosen: Box | null): void {
    if (chosen === null) return push({ box: null });
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
            <HeatmapChart data={data} box={box === null ? null : drawnBox(data, box)} onBox={(one) => choose(data, one)} format={duration} zone={zone} />
            <p class="quiet">
              {data.total.toLocaleString('en')} spans match. Drag over cells to compare them with the rest. <CopyCurl asked={asked} />
            </p>
            <Covered scanned={data.scanned} truncated={data.scanTruncated} what="spans" />
            {box !== null && <Compared place={place} data={data} text={text} box={box} />}
          </>
          )
        }
      </Loaded>
    </div>
  );
}

function drawnBox(data: Heatmap, box: Selected): Box | null {
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
  return { firstRow, lastRow, firstColumn: Math.max(0, firstColumn), lastColumn: Math.min(data.columns - 1, lastColumn) };
}

interface ComparedProps {
  place: Place;
  data: Heatmap;
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
  const query = useQuery<Comparison>(asked);
  return (
    <Loaded query={query}>
      {(found) => (
        <section aria-label="Comparison">
          <div class="bar-row">
            <h2>
              In the box {found.spike.total.toLocaleString('en')} spans, outside {found.baseline.total.toLocaleString('en')}
            </h2>
            <button type="button" onClick={() => push({ q: withTerm(withTerm(text, `durationMs:>=${box.low}`), `durationMs:<${box.high}`), from: box.from, to: box.to, box: null })}>
              Keep only the box
            </button>
            <button type="button" onClick={() => push({ box: null })}>
              Remove the box
            </button>
            <CopyAs asked={asked} />
          </div>
          {found.attributes.length === 0 ? (
            <p class="quiet">No value is more frequent in the box than chance explains.</p>
          ) : (
            <table>
              <thead>
                <tr>
                  <th>More frequent in the box</th>
                  <th>Box (plain), outside (hatched)</th>
                  <th class="number">Box</th>
                  <th class="number">Outside</th>
                  <th>Filter</th>
                </tr>
              </thead>
              <tbody>
                {found.attributes.map((one) => (
                  <tr key={`${one.key}=${one.value}`}>
                    <td>
                      <Text of={one.key} /> = <Text of={one.value} />
                    </td>
                    <td>
                      <Shares box={Number(one.spikeShare)} rest={Number(one.baselineShare)} />
                    </td>
                    <td class="number">{share(Number(one.spikeShare))}</td>
                    <td class="number">{share(Number(one.baselineShare))}</td>
                    <td>
                      <button type="button" onClick={() => push({ q: withTerm(text, equals(one.key, one.value)), box: null })}>
                        Add filter
                      </button>
                      <button type="button" class="quiet" onClick={() => push({ q: withTerm(text, equals(one.key, one.value, true)), box: null })}>
                        Exclude
                      </button>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          )}
          <p class="covered">{found.disclaimer}</p>
        </section>
      )}
    </Loaded>
  );
}

function Shares({ box, rest }: { box: number; rest: number }): JSX.Element {
  const bar = (value: number) => (element: HTMLElement | null): void => {
    if (element !== null) element.style.width = `${Number(value) * 100}%`;
  };
  return (
    <div class="shares" aria-hidden="true">
      <div class="share">
        <i ref={bar(box)} />
      </div>
      <div class="share rest">
        <i ref={bar(rest)} />
      </div>
    </div>
  );
}
