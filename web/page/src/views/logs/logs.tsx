// Log records: filters, how many over time by severity, the newest.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import {
  address,
  exploreBase,
  type Place,
  pageOf,
  push,
  rangeOf,
  time,
  timesOf,
  type ViewProps,
} from '../../address/address';
import type { Log, LogCounts, LogPage } from '../../api/api_types';
import type { Call } from '../../api/request';
import { LineChart } from '../../charts/line';
import { HUES } from '../../charts/palette';
import { FilterBar } from '../../filters/bar';
import { withTerm } from '../../filters/language';
import { Attributes, LogTable, Truncations } from '../../trace/span';
import { CopyAs, CopyCurl } from '../../ui/copy';
import { Button } from '../../ui/elements';
import { count } from '../../ui/format';
import { LiveBar, useLive } from '../../ui/live';
import { Covered, Empty, Loaded, More, useQuery } from '../../ui/query';
import { useSignal } from '../../ui/signal';
import { SpanLink } from '../../ui/values';

const SEVERITIES: [string, string][] = [
  ['', 'all'],
  ['severityNumber:>=9', 'info and above'],
  ['severityNumber:>=13', 'warnings and above'],
  ['severityNumber:>=17', 'errors'],
];

export default function Logs({ place }: ViewProps): JSX.Element {
  const here = useSignal(address);
  const range = rangeOf(here);
  const text = here.query.get('q') ?? '';
  const severity = here.query.get('severity') ?? '';
  const times = timesOf(here);
  const all = severity === '' ? text : withTerm(text, severity);
  const filtered = all === '' ? '' : `&filters=${encodeURIComponent(all)}`;
  const asked: Call = {
    path: `${exploreBase(place)}/logs?${times}${filtered}&limit=100${pageOf(here)}`,
  };
  const isLive = here.query.get('live') === '1';
  const live = useLive<Log>(isLive ? `${exploreBase(place)}/logs/live?limit=100${filtered}` : null);
  const query = useQuery<LogPage>(isLive ? null : asked);
  const counted: Call = {
    method: 'POST',
    path: `${exploreBase(place)}/logs/aggregate`,
    body: { ...range, groupBy: 'severityNumber', limit: MAX_SEVERITIES, ...(all === '' ? {} : { filters: all }) },
  };
  const counts = useQuery<LogCounts>(isLive ? null : counted);
  return (
    <section aria-label="Logs">
      <h1 class="sr-only">Logs</h1>
      <FilterBar text={text} base={exploreBase(place)} times={times} signal="logs" />
      <div class="bar-row">
        <select
          aria-label="Severity"
          value={severity}
          onChange={(event) => push({ severity: event.currentTarget.value })}
        >
          {SEVERITIES.map(([filter, name]) => (
            <option key={name} value={filter}>
              {name}
            </option>
          ))}
        </select>
        <Button aria-pressed={isLive} onClick={() => push({ live: isLive ? null : '1' })}>
          Live
        </Button>
        <CopyAs asked={asked} />
      </div>
      {!isLive && (
        <div class="panel">
          <Loaded query={counts}>{(data) => <Severities data={data} end={range.to} asked={counted} />}</Loaded>
        </div>
      )}
      {isLive ? (
        <div class="panel scroll">
          <LiveBar
            live={live}
            what="records"
            missing="Records that arrive more than a minute late are not shown. In a busy project, records that are older than the last 300 are not shown either."
          />
          <Records records={live.rows} place={place} />
        </div>
      ) : (
        <Loaded query={query}>
          {(page) =>
            page.data.length === 0 ? (
              <Empty title={`No log record ${all === '' ? '' : `with ${all} `}from ${range.from} to ${range.to}.`}>
                <Button onClick={() => push({ from: 'now-24h', to: 'now' })}>The last 24 hours</Button>
              </Empty>
            ) : (
              <div class="panel scroll">
                <Records records={page.data} place={place} />
                <More page={page} />
              </div>
            )
          }
        </Loaded>
      )}
    </section>
  );
}

/** Names of classes of severities, the least number of each, and their colours. */
const CLASSES: [string, number, string][] = [
  ['errors', 17, 'var(--error)'],
  ['warnings', 13, HUES[1]],
  ['info', 9, HUES[4]],
  ['other', 0, HUES[7]],
];
const MAX_SEVERITIES = 25; // 24, and null

function Severities({ data, end, asked }: { data: LogCounts; end: string; asked: Call }): JSX.Element {
  const buckets = (data.series[0]?.points ?? []).map((point) => point.bucket);
  const lines = CLASSES.map(([name, least, color], at) => {
    const below = at === 0 ? Infinity : (CLASSES[at - 1]?.[1] ?? Infinity);
    const members = data.series.filter(({ group }) => Number(group ?? 0) >= least && Number(group ?? 0) < below);
    return {
      name,
      color,
      values: buckets.map((_, which) => members.reduce((sum, one) => sum + (one.points[which]?.count ?? 0), 0)),
    };
  });
  const total = data.groups.reduce((sum, one) => sum + one.count, 0);
  return (
    <>
      <LineChart
        title={`${total.toLocaleString('en')} records`}
        buckets={buckets}
        format={count}
        lines={lines.filter((line) => line.values.some((value) => value > 0))}
        isStacked
        hasLegend
        height={90}
        end={end}
      />
      <CopyCurl asked={asked} />
      <Covered of={data} what="records" />
    </>
  );
}

function Records({ records, place }: { records: Log[]; place: Place }): JSX.Element {
  const [open, setOpen] = useState<string | null>(null);
  return (
    <LogTable
      records={records}
      moment={(log) => (
        <Button class="quiet" aria-expanded={open === log.id} onClick={() => setOpen(open === log.id ? null : log.id)}>
          {time(log.time, 3)}
        </Button>
      )}
      below={(log) =>
        open === log.id && (
          <>
            {log.traceId !== null && (
              <p>
                <SpanLink place={place} to={log}>
                  Open the trace
                </SpanLink>
              </p>
            )}
            <Truncations of={log.truncations} />
            <Attributes of={log.attributes} />
          </>
        )
      }
    />
  );
}
