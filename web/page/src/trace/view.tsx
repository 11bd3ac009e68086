// One trace: minimap, waterfall, the selected span. The address has the span, the search and the zoom.
import type { JSX } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { address, exploreBase, type Place, push, replace, time, type ViewProps } from '../address/address';
import type { TraceTable } from '../api/api_types';
import { ApiError } from '../api/request';
import { CopyAs } from '../ui/copy';
import { Button, Segments } from '../ui/elements';
import { counted, duration, share } from '../ui/format';
import { useKeys } from '../ui/keyboard';
import { Empty, Loaded, useQuery } from '../ui/query';
import { useSignal } from '../ui/signal';
import { Text } from '../ui/text';
import { criticalPath, sharesOf } from './critical_path';
import { Flame } from './flame';
import { Minimap } from './minimap';
import { hueOf, isError, nameOf, serviceOf, type Trace, toTrace, visibleRows } from './rows';
import { matches, nextOf } from './search';
import { SpanDetails, TraceLogs } from './span';
import { ByName } from './table';
import { Waterfall } from './waterfall';

const ARRIVING_S = 60;

export default function TraceView({ place }: ViewProps): JSX.Element {
  const here = useSignal(address);
  const root = here.query.get('root');
  const asked = {
    path: `${exploreBase(place)}/traces/${encodeURIComponent(place.id)}/rows${root === null ? '' : `?root=${root}`}`,
    large: true,
  };
  const query = useQuery<TraceTable>(asked);
  if (query.error instanceof ApiError && query.error.status === 404) {
    return <NotYet again={query.again} />;
  }
  return <Loaded query={query}>{(data) => <Shown place={place} data={data} asked={asked} />}</Loaded>;
}

function NotYet({ again }: { again: () => void }): JSX.Element {
  const [left, setLeft] = useState(0);
  useEffect(() => {
    if (left === 0) return;
    const timer = setTimeout(() => {
      setLeft(left - 1);
      if (left % 2 === 0) again();
    }, 1_000);
    return () => clearTimeout(timer);
  }, [left]);
  return (
    <Empty title="There is no such trace, or it has not arrived yet.">
      {left > 0 ? (
        <p role="status">Checking for another {left} s.</p>
      ) : (
        <Button onClick={() => setLeft(ARRIVING_S)}>Wait for it</Button>
      )}
    </Empty>
  );
}

type Tab = 'waterfall' | 'flame' | 'logs' | 'table';
const TABS: [Tab, string][] = [
  ['waterfall', 'Waterfall'],
  ['flame', 'Flame'],
  ['logs', 'Logs'],
  ['table', 'Table'],
];

interface ShownProps {
  place: Place;
  data: TraceTable;
  asked: { path: string };
}

function Shown({ place, data, asked }: ShownProps): JSX.Element {
  const here = useSignal(address);
  const trace = useMemo(() => toTrace(data), [data]);
  const path = useMemo(() => criticalPath(trace), [trace]);
  const [closedIds, setClosedIds] = useState<ReadonlySet<string>>(new Set()); // rows have other numbers in a subtree
  const closed = useMemo(() => rowsOf(trace, closedIds), [trace, closedIds]);
  const root = here.query.get('root');
  const find = here.query.get('find') ?? '';
  const tab = (here.query.get('tab') ?? 'waterfall') as Tab;
  const isCritical = here.query.get('critical') === '1';
  const spanId = here.query.get('span');
  const selected = useMemo(() => (spanId === null ? -1 : data.columns.spanId.indexOf(spanId)), [data, spanId]);
  const found = useMemo(() => (find === '' ? null : matches(trace, find)), [trace, find]);
  const errors = useMemo(() => [...Array(trace.length).keys()].filter((at) => isError(trace, at)), [trace]);
  const shown = useMemo(() => visibleRows(trace, closed), [trace, closed]);
  const [fromNs, toNs] = zoomOf(here.query.get('zoom'), trace);
  const search = useRef<HTMLInputElement>(null);

  function select(at: number | null): void {
    if (at === null) return;
    open(at);
    replace({ span: data.columns.spanId[at] ?? null });
  }
  /** Rows above a row are opened, so that it can be seen. */
  function open(at: number): void {
    const left = new Set(closedIds);
    for (let row = data.columns.parent[at] ?? -1; row >= 0; row = data.columns.parent[row] ?? -1) {
      left.delete(data.columns.spanId[row] ?? '');
    }
    if (left.size !== closedIds.size) setClosedIds(left);
  }
  function toggle(at: number): void {
    const id = data.columns.spanId[at] ?? '';
    const next = new Set(closedIds);
    if (!next.delete(id) && (data.columns.children[at] ?? 0) > 0) next.add(id);
    setClosedIds(next);
  }
  /** Offsets count from the start of what is shown, so a zoom of the one says nothing in the other. */
  function showOnly(subtree: string | null): void {
    push({ root: subtree, zoom: null });
  }
  useEffect(() => {
    // A subtree that was asked for is shown open.
    if (root !== null) setClosedIds((ids) => new Set([...ids].filter((id) => id !== root)));
  }, [root]);
  function step(by: number): void {
    const index = shown.indexOf(selected);
    select(shown[Math.max(0, Math.min(shown.length - 1, index < 0 ? 0 : index + by))] ?? null);
  }
  function zoom(factor: number, shift = 0): void {
    const length = toNs - fromNs;
    const grown = Math.min(trace.total, Math.max(1_000, length * factor));
    const middle = (fromNs + toNs) / 2 + shift * length;
    const from = Math.max(0, Math.min(trace.total - grown, middle - grown / 2));
    const change = factor === 1 ? replace : push; // a walk along the trace is no row of steps
    change({ zoom: grown >= trace.total ? null : `${Math.round(from)},${Math.round(from + grown)}` });
  }
  function closeOrLeave(): void {
    const isOpen = !closed.has(selected) && (data.columns.children[selected] ?? 0) > 0;
    const parent = data.columns.parent[selected] ?? -1;
    if (isOpen) toggle(selected);
    else if (parent >= 0) select(parent);
  }
  useKeys(
    [
      ['j', 'next span', () => step(1)],
      ['k', 'previous span', () => step(-1)],
      ['ArrowDown', 'next span', () => step(1)],
      ['ArrowUp', 'previous span', () => step(-1)],
      ['ArrowRight', 'open', () => (closed.has(selected) ? toggle(selected) : step(1))],
      ['ArrowLeft', 'close, or go to the parent', closeOrLeave],
      ['e', 'next error', () => select(nextOf(errors, selected))],
      ['E', 'previous error', () => select(nextOf(errors, selected, true))],
      ['n', 'next match', () => select(nextOf(found ?? [], selected))],
      ['N', 'previous match', () => select(nextOf(found ?? [], selected, true))],
      ['/', 'search in the trace', () => search.current?.focus()],
      ['c', 'critical path', () => replace({ critical: isCritical ? null : '1' })],
      ['z', 'zoom to the span', () => zoomTo(selected)],
      ['f', 'only this subtree', () => showOnly(root === null ? spanId : null)],
      ['w', 'zoom in', () => zoom(0.5)],
      ['s', 'zoom out', () => zoom(2)],
      ['a', 'earlier', () => zoom(1, -0.25)],
      ['d', 'later', () => zoom(1, 0.25)],
      ['0', 'the whole trace', () => push({ zoom: null })],
      ['l', 'logs', () => push({ tab: 'logs' })],
      ['Escape', 'close the span', () => replace({ span: null })],
    ],
    [shown, selected, closed, root, errors, found, isCritical, fromNs, toNs],
  );
  function zoomTo(at: number): void {
    if (at < 0) return;
    const from = data.columns.startOffsetNs[at] ?? 0;
    push({ zoom: `${from},${from + Math.max(1, data.columns.durationNs[at] ?? 0)}` });
  }
  const shares = sharesOf(path, (row) => serviceOf(trace, row) || 'no service');
  return (
    <section aria-label="Trace">
      <h1>{trace.length > 0 ? <Text of={nameOf(trace, 0)} /> : 'Trace'}</h1>
      <p class="bar-row">
        <strong>{duration(data.durationMs)}</strong>
        <span>
          {data.root !== null && `${data.rows.toLocaleString('en')} of `}
          {counted(data.spanCount, 'span')}
        </span>
        <span class={errors.length > 0 ? 'error' : 'quiet'}>{counted(errors.length, 'error')}</span>
        <span>{counted(data.services.length, 'service')}</span>
        {data.startTime !== null && <span class="quiet">{time(data.startTime, 6)}</span>}
        {shares[0] !== undefined && (
          <span>
            critical path: <Text of={shares[0][0]} /> {share(shares[0][1])}
          </span>
        )}
        <CopyAs asked={asked} />
      </p>
      {data.truncated && (
        <p class="covered partial">
          The earliest {data.rows.toLocaleString('en')} of {data.spanCount.toLocaleString('en')} spans are shown. Select
          a span and choose "Only this subtree" to load all spans below it.
        </p>
      )}
      {data.orphanCount > 0 && (
        <p class="covered">
          {data.orphanCount} spans whose parent has not arrived are shown at the top, marked as orphans.
        </p>
      )}
      {root !== null && (
        <p class="covered partial">
          Only one subtree is shown. <Button onClick={() => showOnly(null)}>The whole trace</Button>
        </p>
      )}
      <Minimap trace={trace} fromNs={fromNs} toNs={toNs} />
      <div class="bar-row">
        <input
          ref={search}
          type="search"
          class="trace-search"
          aria-label="Search in the trace"
          placeholder="name, service:cart, status:error"
          value={find}
          onInput={(event) => replace({ find: event.currentTarget.value })}
          onKeyDown={(event) => {
            if (event.key === 'Enter') select(nextOf(found ?? [], selected, event.shiftKey));
            if (event.key === 'Escape') event.currentTarget.blur();
          }}
        />
        <span role="status">{found !== null && `${found.length} matches`}</span>
        <Button aria-pressed={isCritical} onClick={() => replace({ critical: isCritical ? null : '1' })}>
          Critical path
        </Button>
        <Segments
          label="Display"
          options={TABS}
          chosen={tab}
          choose={(name) => push({ tab: name === 'waterfall' ? null : name })}
        />
        <ul class="legend" aria-label="Services">
          {data.services.slice(0, 8).map((name) => (
            <li key={name}>
              <i class="swatch" style={{ background: hueOf(trace, name) }} />
              <Text of={name} />
            </li>
          ))}
        </ul>
      </div>
      <div class={selected >= 0 ? 'trace' : ''}>
        <div>
          {tab === 'waterfall' && (
            <Rows
              trace={trace}
              shown={shown}
              closed={closed}
              selected={selected}
              found={found}
              critical={isCritical ? path : null}
              fromNs={fromNs}
              toNs={toNs}
              onSelect={select}
              onToggle={toggle}
            />
          )}
          {tab === 'flame' && <Flame trace={trace} fromNs={fromNs} toNs={toNs} selected={selected} onSelect={select} />}
          {tab === 'logs' && <TraceLogs place={place} traceId={data.traceId} />}
          {tab === 'table' && <ByName trace={trace} />}
        </div>
        {selected >= 0 && (
          <SpanDetails key={spanId} place={place} traceId={data.traceId} spanId={data.columns.spanId[selected] ?? ''} />
        )}
      </div>
    </section>
  );
}

/** The rows of the spans with these ids. */
function rowsOf(trace: Trace, ids: ReadonlySet<string>): ReadonlySet<number> {
  const rows = new Set<number>();
  if (ids.size === 0) return rows;
  for (const [at, id] of trace.data.columns.spanId.entries()) if (ids.has(id)) rows.add(at);
  return rows;
}

function zoomOf(text: string | null, trace: Trace): [number, number] {
  const [from, to] = (text ?? '').split(',').map(Number);
  if (from === undefined || to === undefined || !(to > from) || from < 0) return [0, Math.max(1, trace.total)];
  return [from, to];
}

interface RowsProps {
  trace: Trace;
  shown: readonly number[];
  closed: ReadonlySet<number>;
  selected: number;
  found: readonly number[] | null;
  critical: ReturnType<typeof criticalPath> | null;
  fromNs: number;
  toNs: number;
  onSelect: (at: number) => void;
  onToggle: (at: number) => void;
}

function Rows(props: RowsProps): JSX.Element {
  const element = useRef<HTMLDivElement>(null);
  const waterfall = useRef<Waterfall | null>(null);
  const latest = useRef(props);
  latest.current = props;
  useEffect(() => {
    if (element.current === null) return;
    const made = new Waterfall(
      element.current,
      (at) => latest.current.onSelect(at),
      (at) => latest.current.onToggle(at),
    );
    waterfall.current = made;
    return () => made.close();
  }, []);
  useEffect(() => {
    waterfall.current?.show({ ...props, found: props.found === null ? null : new Set(props.found) });
  }, [props.trace, props.shown, props.selected, props.found, props.critical, props.fromNs, props.toNs]);
  useEffect(() => {
    if (props.selected >= 0) waterfall.current?.reveal(props.selected);
  }, [props.trace, props.selected]);
  return (
    <div
      ref={element}
      class="waterfall"
      role="treegrid"
      aria-label="Spans"
      aria-rowcount={props.shown.length}
      tabIndex={0}
      {...(props.selected >= 0 ? { 'aria-activedescendant': `row-${props.selected}` } : {})}
    />
  );
}
