// The inbox of approvals: what is asked, for whom, what a vote would do.
import { Fragment, type JSX } from 'preact';
import { useState } from 'preact/hooks';
import { address, push, zoneOf } from '../../address/address';
import { shownTime } from '../../address/time';
import { call } from '../../api/client';
import type { Call } from '../../api/request';
import type { Json } from '../../api/numbers';
import type { Page } from '../../api/types';
import type { Place, ViewProps } from '../../address/place';
import { printed } from '../../trace/span';
import { CopyAs } from '../../ui/copy';
import { Link } from '../../ui/link';
import { useQuery } from '../../ui/query';
import { useSignal } from '../../ui/signal';
import { Empty, Failure, Loaded } from '../../ui/states';
import { Text } from '../../ui/text';

interface Request {
  id: string;
  requesterPrincipalId: string;
  onBehalfOfPrincipalId: string | null;
  action: string;
  riskClass: string;
  targetType: string;
  targetId: string;
  status: string;
  minApprovers: number;
  decidedAt: string | null;
  reason: string | null;
  expiresAt: string;
  createdAt: string;
  payload: { [key: string]: Json };
}

interface Vote {
  approver: string;
  approverName: string | null;
  onBehalfOfName: string | null;
  decision: 'APPROVE' | 'REJECT';
  reason: string | null;
  at: string;
  counts: boolean | null;
}

/** A request as the API shows it to one who may vote. */
interface View {
  request: Request;
  requesterName: string | null;
  onBehalfOfName: string | null;
  deciderName: string | null;
  approverRoles: string[];
  votes: Vote[];
  approvals: number;
  remaining: number;
  hasIndependentApprover: boolean;
  viewer: { mayApprove: boolean; mayReject: boolean; withdraws: boolean; why: { approve: string | null; reject: string | null } };
}

const STATUSES = ['PENDING', 'APPROVED', 'REJECTED', 'EXPIRED'];

export default function Approvals({ place }: ViewProps): JSX.Element {
  const base = `/orgs/${encodeURIComponent(place.org)}/approval-requests`;
  return place.id === '' ? <Inbox place={place} base={base} /> : <One place={place} base={base} />;
}

function Inbox({ place, base }: { place: Place; base: string }): JSX.Element {
  const here = useSignal(address);
  const status = here.query.get('status') ?? 'PENDING';
  const cursor = here.query.get('cursor');
  const asked: Call = {
    path: `${base}/inbox?status=${encodeURIComponent(status)}&limit=50${cursor === null ? '' : `&cursor=${encodeURIComponent(cursor)}`}`,
  };
  const query = useQuery<Page<View> & { pendingCount: number }>(asked);
  return (
    <section aria-label="Approvals" class="narrow">
      <div class="bar-row">
        <h1>Approvals</h1>
        <span class="segments" role="group" aria-label="Status">
          {STATUSES.map((name) => (
            <button
              key={name}
              type="button"
              aria-pressed={status === name}
              onClick={() => push({ status: name === 'PENDING' ? null : name, cursor: null })}
            >
              {name.toLowerCase()}
              {name === 'PENDING' && query.data !== null && ` (${query.data.pendingCount})`}
            </button>
          ))}
        </span>
        <CopyAs asked={asked} />
      </div>
      <Loaded query={query}>
        {(page) =>
          page.data.length === 0 ? (
            <Empty title={`No request is ${status.toLowerCase()}.`} />
          ) : (
            <>
              {page.data.map((view) => (
                <Card key={view.request.id} view={view} base={base} place={place} done={query.again} />
              ))}
              {page.hasMore && (
                <button type="button" onClick={() => push({ cursor: page.nextCursor })}>
                  More
                </button>
              )}
            </>
          )
        }
      </Loaded>
    </section>
  );
}

function One({ place, base }: { place: Place; base: string }): JSX.Element {
  const asked: Call = { path: `${base}/${encodeURIComponent(place.id)}/view` };
  const query = useQuery<View>(asked);
  return (
    <section aria-label="Approval request" class="narrow">
      <div class="bar-row">
        <h1>Approval request</h1>
        <Link to={`/ui/${encodeURIComponent(place.org)}/approvals`}>All requests</Link>
        <CopyAs asked={asked} />
      </div>
      <Loaded query={query}>{(view) => <Card view={view} base={base} place={place} done={query.again} />}</Loaded>
    </section>
  );
}

interface CardProps {
  view: View;
  base: string;
  place: Place;
  done: () => void;
}

interface Outcome {
  remaining: number;
  idempotent: boolean;
}

function Card({ view, base, place, done }: CardProps): JSX.Element {
  const { request, viewer } = view;
  const zone = zoneOf(useSignal(address));
  const [reason, setReason] = useState('');
  const [typed, setTyped] = useState('');
  const [error, setError] = useState<Error | null>(null);
  const [counted, setCounted] = useState<Outcome | null>(null);
  const mustType = request.riskClass === 'CRITICAL' && viewer.mayApprove;
  const isSilent = reason.trim() === '';
  const noApproval = viewer.why.approve ?? (mustType && typed !== request.targetId ? `Type ${request.targetId} to approve.` : null);
  const noRejection =
    viewer.why.reject ?? (isSilent ? `${viewer.withdraws ? 'To withdraw it' : 'To reject it'}, give a reason.` : null);
  async function vote(which: 'approve' | 'reject'): Promise<void> {
    setError(null);
    try {
      const body = isSilent ? {} : { reason };
      setCounted(await call<Outcome>({ method: 'POST', path: `${base}/${request.id}/${which}`, body }));
      done();
    } catch (failure) {
      setError(failure as Error);
    }
  }
  return (
    <article class="panel" aria-label={`${request.action} ${request.targetId}`}>
      <h2>
        <Link to={`/ui/${encodeURIComponent(place.org)}/approvals/${encodeURIComponent(request.id)}`}>
          <Text of={request.action} />: <Text of={request.targetType} /> <Text of={request.targetId} />
        </Link>
      </h2>
      <dl class="pairs">
        <dt>Status</dt>
        <dd>
          {request.status}
          {view.deciderName !== null && (
            <>
              {' '}
              by <Text of={view.deciderName} />
            </>
          )}
        </dd>
        <dt>Risk</dt>
        <dd>{request.riskClass}</dd>
        <dt>Approvals</dt>
        <dd>
          {view.approvals} of {request.minApprovers}
          {view.remaining > 0 && ` (${view.remaining} more needed)`}; approvers: {view.approverRoles.join(' or ')}
          {request.status === 'PENDING' && !view.hasIndependentApprover && view.remaining === 0 && '; one must be independent of the requester'}
        </dd>
        <dt>Requested by</dt>
        <dd>
          <Text of={view.requesterName ?? request.requesterPrincipalId} />
          {request.onBehalfOfPrincipalId !== null && (
            <>
              {' '}
              for <Text of={view.onBehalfOfName ?? request.onBehalfOfPrincipalId} />
            </>
          )}
        </dd>
        <dt>Created, expires</dt>
        <dd>
          {shownTime(request.createdAt, zone, 0)}, {shownTime(request.expiresAt, zone, 0)}
        </dd>
        {Object.entries(request.payload ?? {}).map(([key, value]) => (
          <Fragment key={key}>
            <dt>
              <Text of={key} />
            </dt>
            <dd>
              <Text of={printed(value)} />
            </dd>
          </Fragment>
        ))}
        {request.reason !== null && (
          <>
            <dt>Reason</dt>
            <dd>
              <Text of={request.reason} />
            </dd>
          </>
        )}
      </dl>
      {view.votes.length > 0 && (
        <ul class="plain" aria-label="Votes">
          {view.votes.map((vote) => (
            <li key={vote.approver + vote.at}>
              <strong>{vote.decision === 'APPROVE' ? 'Approved' : 'Rejected'}</strong> by{' '}
              <Text of={vote.approverName ?? vote.approver} />
              {vote.onBehalfOfName !== null && (
                <>
                  {' '}
                  for <Text of={vote.onBehalfOfName} />
                </>
              )}
              , {shownTime(vote.at, zone, 0)}
              {vote.reason !== null && (
                <>
                  : <Text of={vote.reason} />
                </>
              )}
              {vote.counts === false && <span class="quiet"> (does not count: the voter may no longer decide)</span>}
            </li>
          ))}
        </ul>
      )}
      {request.status === 'PENDING' && (
        <div class="bar-row">
          <input
            type="text"
            aria-label="Reason"
            placeholder="reason"
            value={reason}
            onInput={(event) => setReason(event.currentTarget.value)}
          />
          {mustType && (
            <input
              type="text"
              aria-label={`Type ${request.targetId} to confirm`}
              placeholder={request.targetId}
              value={typed}
              onInput={(event) => setTyped(event.currentTarget.value)}
            />
          )}
          <button type="button" disabled={noApproval !== null} onClick={() => void vote('approve')}>
            Approve
          </button>
          <button type="button" disabled={noRejection !== null} onClick={() => void vote('reject')}>
            {viewer.withdraws ? 'Withdraw' : 'Reject'}
          </button>
          {[...new Set([noApproval, noRejection])].map(
            (why) =>
              why !== null && (
                <span key={why} class="quiet">
                  {why}
                </span>
              ),
          )}
        </div>
      )}
      {counted !== null && request.status === 'PENDING' && (
        <p role="status">
          {counted.idempotent ? 'You had already approved.' : 'Your approval counts.'} Approvals still needed:{' '}
          {counted.remaining}.
        </p>
      )}
      {error !== null && <Failure error={error} />}
    </article>
  );
}
