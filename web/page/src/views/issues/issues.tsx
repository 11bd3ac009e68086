// Issues of a project; one with its history, its occurrences and the commits that may have caused it.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { address, kept, pageOf, push, zoneOf } from '../../address/address';
import { shownTime, type Zone } from '../../address/time';
import { call } from '../../api/client';
import type { Call } from '../../api/request';
import type { Json } from '../../api/numbers';
import type { Page } from '../../api/types';
import { apiBase, type Place, projectPath, type ViewProps } from '../../address/place';
import { printed } from '../../trace/span';
import { CopyAs } from '../../ui/copy';
import { count, counted } from '../../ui/format';
import { Link } from '../../ui/link';
import { useQuery } from '../../ui/query';
import { useSignal } from '../../ui/signal';
import { Empty, Failure, Loaded, More } from '../../ui/states';
import { OutsideLink, Text } from '../../ui/text';
import { ChangesAround } from './changes';

interface Issue {
  id: string;
  shortId: string;
  fingerprint: string;
  fingerprints: string[];
  title: string;
  culprit: string | null;
  status: string;
  regressedAt: string | null;
  count: number;
  firstSeen: string;
  lastSeen: string;
  firstRelease: string | null;
  lastRelease: string | null;
  resolvedInRelease: string | null;
  resolvedAfterRelease: string | null;
}

// Fingerprints shown beside the current one: of merged issues, and from before an upgrade of the rules of grouping.
const OTHERS = 5;

interface Activity {
  id: string;
  at: string;
  kind: string;
  data: Record<string, Json>;
}

interface Suspects {
  commits: { sha: string; message: string; authorName: string | null; url: string | null; score: number }[];
  note: string | null;
}

const STATUSES = ['unresolved', 'resolved', 'ignored'];

export default function Issues({ place }: ViewProps): JSX.Element {
  return place.id === '' ? <List place={place} /> : <One place={place} />;
}

function List({ place }: { place: Place }): JSX.Element {
  const here = useSignal(address);
  const zone = zoneOf(here);
  const status = here.query.get('status') ?? 'unresolved';
  const asked: Call = { path: `${apiBase(place)}/issues?status=${status}&limit=50${pageOf(here)}` };
  const query = useQuery<Page<Issue>>(asked);
  return (
    <section aria-label="Issues">
      <div class="bar-row">
        <h1>Issues</h1>
        <span class="segments" role="group" aria-label="Status">
          {STATUSES.map((name) => (
            <button key={name} type="button" aria-pressed={status === name} onClick={() => push({ status: name })}>
              {name}
            </button>
          ))}
        </span>
        <CopyAs asked={asked} />
      </div>
      <Loaded query={query}>
        {(page) =>
          page.data.length === 0 ? (
            <Empty title={`There is no ${status} issue.`} />
          ) : (
            <div class="panel scroll">
              <table>
                <thead>
                  <tr>
                    <th>Issue</th>
                    <th class="number">Occurrences</th>
                    <th>Releases</th>
                    <th>First</th>
                    <th>Last</th>
                  </tr>
                </thead>
                <tbody>
                  {page.data.map((issue) => (
                    <tr key={issue.id}>
                      <td>
                        <span class="unbroken">
                          <Link to={projectPath(place, 'issues', issue.id) + kept(here)}>{issue.shortId}</Link>
                        </span>{' '}
                        <Text of={issue.title} />
                        <br />
                        <span class="quiet">
                          <Text of={issue.culprit} />
                        </span>
                      </td>
                      <td class="number">{count(issue.count)}</td>
                      <td>
                        <Text of={issue.firstRelease} />
                        {issue.lastRelease !== issue.firstRelease && (
                          <>
                            {' to '}
                            <Text of={issue.lastRelease} />
                          </>
                        )}
                      </td>
                      <td class="mono">{shownTime(issue.firstSeen, zone, 0)}</td>
                      <td class="mono">{shownTime(issue.lastSeen, zone, 0)}</td>
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
  const here = useSignal(address);
  const zone = zoneOf(here);
  const path = `${apiBase(place)}/issues/${encodeURIComponent(place.id)}`;
  const issue = useQuery<Issue>({ path });
  const activity = useQuery<Page<Activity>>({ path: `${path}/activity?limit=50` });
  const suspects = useQuery<Suspects>({ path: `${path}/suspects` });
  const [error, setError] = useState<Error | null>(null);
  async function change(body: unknown): Promise<void> {
    setError(null);
    try {
      await call({ method: 'PATCH', path, body });
      issue.again();
      activity.again();
    } catch (failure) {
      setError(failure as Error);
    }
  }
  return (
    <section aria-label="Issue">
      <Loaded query={issue}>
        {(data) => (
          <>
            <h1>
              {data.shortId} <Text of={data.title} />
            </h1>
            <p class="quiet">
              <Text of={data.culprit} />
            </p>
            <div class="bar-row">
              <strong class={data.status === 'unresolved' ? 'error' : 'good'}>{data.status}</strong>
              {data.resolvedInRelease !== null && (
                <span>
                  in <Text of={data.resolvedInRelease} />
                </span>
              )}
              {data.resolvedAfterRelease !== null && (
                <span title="A release that comes later and is later than this one reopens it.">
                  in the release after <Text of={data.resolvedAfterRelease} />
                </span>
              )}
              <span>{counted(data.count, 'occurrence')}</span>
              <span>
                {shownTime(data.firstSeen, zone, 0)} to {shownTime(data.lastSeen, zone, 0)}
              </span>
              {data.status === 'unresolved' ? (
                <>
                  <button type="button" onClick={() => void change({ status: 'resolved' })}>
                    Resolve
                  </button>
                  <button type="button" onClick={() => void change({ status: 'resolved', resolvedInNextRelease: true })}>
                    Resolve in the next release
                  </button>
                  <button type="button" onClick={() => void change({ status: 'ignored' })}>
                    Ignore
                  </button>
                </>
              ) : (
                <button type="button" onClick={() => void change({ status: 'unresolved' })}>
                  Reopen
                </button>
              )}
              <Link to={projectPath(place, 'errors', data.fingerprint) + kept(here)}>Occurrences</Link>
              {data.fingerprints.slice(1, OTHERS + 1).map((other) => (
                <Link key={other} to={projectPath(place, 'errors', other) + kept(here)}>
                  Occurrences as {other.slice(0, 8)}
                </Link>
              ))}
            </div>
            {error !== null && <Failure error={error} />}
          </>
        )}
      </Loaded>
      <div class="split">
        <div class="panel">
          <h2>Suspects</h2>
          <Loaded query={suspects}>
            {(data) => (
              <>
                {data.commits.length === 0 && <p class="quiet">{data.note ?? 'No commit is suspected.'}</p>}
                <ol>
                  {data.commits.map((commit) => (
                    <li key={commit.sha}>
                      <code>{commit.sha.slice(0, 10)}</code>{' '}
                      {commit.url === null ? (
                        <Text of={commit.message.split('\n')[0]} />
                      ) : (
                        <OutsideLink to={commit.url}>
                          <Text of={commit.message.split('\n')[0]} />
                        </OutsideLink>
                      )}{' '}
                      <span class="quiet">
                        <Text of={commit.authorName} />
                      </span>
                    </li>
                  ))}
                </ol>
              </>
            )}
          </Loaded>
        </div>
        <div class="panel">
          <h2>History</h2>
          <Loaded query={activity}>{(page) => <History activities={page.data} isCut={page.hasMore} zone={zone} />}</Loaded>
          {issue.data !== null && <ChangesAround place={place} firstSeen={issue.data.firstSeen} zone={zone} />}
        </div>
      </div>
    </section>
  );
}

function History({ activities, isCut, zone }: { activities: Activity[]; isCut: boolean; zone: Zone }): JSX.Element {
  return (
    <>
    <ul class="plain">
      {activities.map((one) => (
        <li key={one.id}>
          <span class="mono">{shownTime(one.at, zone, 0)}</span> {one.kind.replaceAll('_', ' ')}{' '}
          <span class="quiet">
            <Text of={Object.entries(one.data).map(([key, value]) => `${key}: ${printed(value)}`).join(', ')} empty="" />
          </span>
        </li>
      ))}
    </ul>
    {isCut && <p class="covered partial">The latest {activities.length} are shown.</p>}
    </>
  );
}
