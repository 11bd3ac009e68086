// Log records: filters, how many over time by severity, the newest.
import { Fragment, type JSX } from 'preact';
import { useState } from 'preact/hooks';
import { address, push, rangeOf, zoneOf } from '../../address/address';
import { shownTime, type Zone } from '../../address/time';
import type { Call } from '../../api/client';
import type { LogRecord, Page } from '../../api/types';
import { FilterBar } from '../../filters/bar';
import { exploreBase, type Place, projectPath, type ViewProps } from '../../router';
import { CopyAs } from '../../ui/copy';
import { Link } from '../../ui/link';
import { LiveBar, useLive } from '../../ui/live';
import { useQuery } from '../../ui/query';
import { useSignal } from '../../ui/signal';
import { Empty, Loaded } from '../../ui/states';
import { Text } from '../../ui/text';
import { Pairs, printed } from '../../trace/span';

const SEVERITIES: [string, string][] = [
  ['', 'all'],
  ['severityNumber:>=9', 'info and above'],
  ['severityNumber:>=13', 'warnings and above'],
  ['severityNumber:>=17', 'errors'],
];

export default function Logs({ place }: ViewProps): JSX.Element {
  const here = useSignal(address);
  const range = rangeOf(here);
  const zone = zoneOf(here);
  const text = here.query.get('q') ?? '';
  const severity = here.query.get('severity') ?? '';
  const cursor = here.query.get('cursor');
  const times = `from=${encodeURIComponent(range.from)}&to=${encodeURIComponent(range.to)}`;
  const all = [text, severity].filter((one) => one !== '').join(' ');
  const filtered = all === '' ? '' : `&filters=${encodeURIComponent(all)}`;
  const asked: Call = {
    path: `${exploreBase(place)}/logs?${times}${filtered}&limit=100${cursor === null ? '' : `&cursor=${encodeURIComponent(cursor)}`}`,
  };
  const isLive = here.query.get('live') === '1';
  const live = useLive<LogRecord>(isLive ? `${exploreBase(place)}/logs/live?limit=100${filtered}` : null);
  const query = useQuery<Page<LogRecord>>(isLive ? null : asked);
  return (
    <section aria-label="Logs">
      <h1 class="sr-only">Logs</h1>
      <FilterBar text={text} base={exploreBase(place)} times={times} signal="logs" />
      <div class="bar-row">
        <select aria-label="Severity" value={severity} onChange={(event) => push({ severity: event.currentTarget.value, cursor: null })}>
          {SEVERITIES.map(([filter, name]) => (
            <option key={name} value={filter}>
              {name}
            </option>
          ))}
        </select>
        <button type="button" aria-pressed={isLive} onClick={() => push({ live: isLive ? null : '1', cursor: null })}>
          Live
        </button>
        <CopyAs asked={asked} />
      </div>
      {isLive ? (
        <div class="panel scroll">
          <LiveBar live={live} what="records" missing="Records that came late are missing here." />
          <Records records={live.rows} place={place} zone={zone} />
        </div>
      ) : (
        <Loaded query={query}>
          {(page) =>
            page.data.length === 0 ? (
              <Empty title={`No log record ${all === '' ? '' : `with ${all} `}from ${range.from} to ${range.to}.`}>
                <button type="button" onClick={() => push({ from: 'now-24h', to: 'now' })}>
                  The last 24 hours
                </button>
              </Empty>
            ) : (
              <div class="panel scroll">
                <Records records={page.data} place={place} zone={zone} />
                {page.hasMore && (
                  <button type="button" onClick={() => push({ cursor: page.nextCursor })}>
                    Older
                  </button>
                )}
              </div>
            )
          }
        </Loaded>
      )}
    </section>
  );
}

function Records({ records, place, zone }: { records: LogRecord[]; place: Place; zone: Zone }): JSX.Element {
  const [open, setOpen] = useState<string | null>(null);
  return (
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
        {records.map((log) => (
          <Fragment key={log.id}>
            <tr>
              <td class="mono">
                <button type="button" class="quiet" aria-expanded={open === log.id} onClick={() => setOpen(open === log.id ? null : log.id)}>
                  {shownTime(log.time, zone)}
                </button>
              </td>
              <td class={log.severityNumber >= 17 ? 'error' : ''}>
                <Text of={log.severityText} />
              </td>
              <td>
                <Text of={log.serviceName} />
              </td>
              <td class="log-body">
                <Text of={printed(log.body)} />
              </td>
            </tr>
            {open === log.id && (
              <tr>
                <td colSpan={4}>
                  {log.traceId !== null && (
                    <p>
                      <Link to={`${projectPath(place, 'trace', log.traceId)}${log.spanId === null ? '' : `?span=${log.spanId}`}`}>
                        Open the trace
                      </Link>
                    </p>
                  )}
                  <Pairs of={log.attributes} />
                </td>
              </tr>
            )}
          </Fragment>
        ))}
      </tbody>
    </table>
  );
}
