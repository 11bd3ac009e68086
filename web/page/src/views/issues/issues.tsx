// Issues of a project; one with its history, its occurrences and the commits that may have caused it.
import type { JSX } from 'preact';
import {
  address,
  apiBase,
  kept,
  type Place,
  pageOf,
  projectPath,
  push,
  time,
  type ViewProps,
} from '../../address/address';
import type { IssueActivityPage, IssueChange, IssuePage, IssueSuspects, TrackedIssue } from '../../api/api_types';
import { send } from '../../api/client';
import type { Call } from '../../api/request';
import { CopyAs } from '../../ui/copy';
import { Button, options, Segments, Table } from '../../ui/elements';
import { count, counted } from '../../ui/format';
import { Empty, Failure, Loaded, More, useAction, useQuery } from '../../ui/query';
import { useSignal } from '../../ui/signal';
import { Link, Text } from '../../ui/text';
import { Details, MaybeLink } from '../../ui/values';
import { ChangesAround, Cut } from './changes';

// Fingerprints shown beside the current one: of merged issues, and from before an upgrade of the rules of grouping.
const OTHERS = 5;

const STATUSES = options(['unresolved', 'resolved', 'ignored']);

export default function Issues({ place }: ViewProps): JSX.Element {
  return place.id === '' ? <List place={place} /> : <One place={place} />;
}

function List({ place }: { place: Place }): JSX.Element {
  const here = useSignal(address);
  const status = here.query.get('status') ?? 'unresolved';
  const asked: Call = { path: `${apiBase(place)}/issues?status=${status}&limit=50${pageOf(here)}` };
  const query = useQuery<IssuePage>(asked);
  return (
    <section aria-label="Issues">
      <div class="bar-row">
        <h1>Issues</h1>
        <Segments label="Status" options={STATUSES} chosen={status} choose={(name) => push({ status: name })} />
        <CopyAs asked={asked} />
      </div>
      <Loaded query={query}>
        {(page) =>
          page.data.length === 0 ? (
            <Empty title={`There is no ${status} issue.`} />
          ) : (
            <div class="panel scroll">
              <Table
                head={['Issue', ['Occurrences', 'number'], 'Releases', ['First', 'mono'], ['Last', 'mono']]}
                items={page.data}
                row={(issue) => [
                  <>
                    <span class="unbroken">
                      <Link to={projectPath(place, 'issues', issue.id) + kept(here)}>{issue.shortId}</Link>
                    </span>{' '}
                    <Text of={issue.title} />
                    <br />
                    <span class="quiet">
                      <Text of={issue.culprit} />
                    </span>
                  </>,
                  count(issue.count),
                  <>
                    <Text of={issue.firstRelease} />
                    {issue.lastRelease !== issue.firstRelease && (
                      <>
                        {' to '}
                        <Text of={issue.lastRelease} />
                      </>
                    )}
                  </>,
                  time(issue.firstSeen),
                  time(issue.lastSeen),
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
  const path = `${apiBase(place)}/issues/${encodeURIComponent(place.id)}`;
  const issue = useQuery<TrackedIssue>({ path });
  const activity = useQuery<IssueActivityPage>({ path: `${path}/activity?limit=50` });
  const suspects = useQuery<IssueSuspects>({ path: `${path}/suspects` });
  const action = useAction();
  async function change(body: Partial<IssueChange>): Promise<void> {
    await send('PATCH', path, body);
    issue.again();
    activity.again();
  }
  /** A button that changes the issue. */
  function does(name: string, body: Partial<IssueChange>): JSX.Element {
    return <Button onClick={() => void action.run(() => change(body))}>{name}</Button>;
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
                <span title="The issue is reopened if the error occurs in a newer release that was not known when the issue was resolved.">
                  in the release after <Text of={data.resolvedAfterRelease} />
                </span>
              )}
              <span>{counted(data.count, 'occurrence')}</span>
              <span>
                {time(data.firstSeen)} to {time(data.lastSeen)}
              </span>
              {data.status === 'unresolved' ? (
                <>
                  {does('Resolve', { status: 'resolved' })}
                  {does('Resolve in the next release', { status: 'resolved', resolvedInNextRelease: true })}
                  {does('Ignore', { status: 'ignored' })}
                </>
              ) : (
                does('Reopen', { status: 'unresolved' })
              )}
              <Link to={projectPath(place, 'errors', data.fingerprint) + kept(here)}>Occurrences</Link>
              {data.fingerprints.slice(1, OTHERS + 1).map((other) => (
                <Link key={other} to={projectPath(place, 'errors', other) + kept(here)}>
                  Occurrences as {other.slice(0, 8)}
                </Link>
              ))}
            </div>
            <Failure error={action.error} />
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
                      <MaybeLink to={commit.url} name={commit.message.split('\n')[0]} />{' '}
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
          <Loaded query={activity}>
            {(page) => (
              <>
                <ul class="plain">
                  {page.data.map((one) => (
                    <li key={one.id}>
                      <span class="mono">{time(one.at)}</span> {one.kind.replaceAll('_', ' ')}{' '}
                      <span class="quiet">
                        <Details of={one.data} />
                      </span>
                    </li>
                  ))}
                </ul>
                <Cut page={page} />
              </>
            )}
          </Loaded>
          {issue.data !== null && <ChangesAround place={place} firstSeen={issue.data.firstSeen} />}
        </div>
      </div>
    </section>
  );
}
