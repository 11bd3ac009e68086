// The inbox of approvals: what is asked, for whom, what a vote would do.
import { Fragment, type JSX } from 'preact';
import { useState } from 'preact/hooks';
import { address, type Place, pageOf, push, time, type ViewProps } from '../../address/address';
import type { ApprovalInbox, ApprovalView, VoteResult } from '../../api/api_types';
import { send } from '../../api/client';
import { type Json, printed } from '../../api/numbers';
import { CopyAs } from '../../ui/copy';
import { Button, Segments } from '../../ui/elements';
import { Empty, Failure, Loaded, More, useAction, useQuery } from '../../ui/query';
import { useSignal } from '../../ui/signal';
import { Link, Text } from '../../ui/text';

const STATUSES = ['PENDING', 'APPROVED', 'REJECTED', 'EXPIRED'];

export default function Approvals({ place }: ViewProps): JSX.Element {
  const base = `/orgs/${encodeURIComponent(place.org)}/approval-requests`;
  return place.id === '' ? <Inbox place={place} base={base} /> : <One place={place} base={base} />;
}

function Inbox({ place, base }: { place: Place; base: string }): JSX.Element {
  const here = useSignal(address);
  const status = here.query.get('status') ?? 'PENDING';
  const asked = { path: `${base}/inbox?status=${encodeURIComponent(status)}&limit=50${pageOf(here)}` };
  const query = useQuery<ApprovalInbox>(asked);
  const pending = query.data === null ? '' : ` (${query.data.pendingCount})`;
  return (
    <section aria-label="Approvals" class="narrow">
      <div class="bar-row">
        <h1>Approvals</h1>
        <Segments
          label="Status"
          options={STATUSES.map((name) => [name, name.toLowerCase() + (name === 'PENDING' ? pending : '')])}
          chosen={status}
          choose={(name) => push({ status: name === 'PENDING' ? null : name })}
        />
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
              <More page={page} />
            </>
          )
        }
      </Loaded>
    </section>
  );
}

function One({ place, base }: { place: Place; base: string }): JSX.Element {
  const asked = { path: `${base}/${encodeURIComponent(place.id)}/view` };
  const query = useQuery<ApprovalView>(asked);
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
  view: ApprovalView;
  base: string;
  place: Place;
  done: () => void;
}

function Card({ view, base, place, done }: CardProps): JSX.Element {
  const { request, viewer } = view;
  const [reason, setReason] = useState('');
  const [typed, setTyped] = useState('');
  const action = useAction();
  const [counted, setCounted] = useState<VoteResult | null>(null);
  const mustType = request.riskClass === 'CRITICAL' && viewer.mayApprove;
  const isSilent = reason.trim() === '';
  const noApproval =
    viewer.why.approve ?? (mustType && typed !== request.targetId ? `Type ${request.targetId} to approve.` : null);
  const noRejection =
    viewer.why.reject ??
    (isSilent ? `Enter a reason to ${viewer.withdraws ? 'withdraw' : 'reject'} the request.` : null);
  function vote(which: 'approve' | 'reject'): void {
    void action.run(async () => {
      setCounted(await send<VoteResult>('POST', `${base}/${request.id}/${which}`, isSilent ? {} : { reason }));
      done();
    });
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
          <After text=" by " of={view.deciderName} />
        </dd>
        <dt>Risk</dt>
        <dd>{request.riskClass}</dd>
        <dt>Approvals</dt>
        <dd>
          {view.approvals} of {request.minApprovers}
          {view.remaining > 0 && ` (${view.remaining} more needed)`}; approvers: {view.approverRoles.join(' or ')}
          {request.status === 'PENDING' &&
            !view.hasIndependentApprover &&
            view.remaining === 0 &&
            '; one approver must be independent of the requester'}
        </dd>
        <dt>Requested by</dt>
        <dd>
          <Text of={view.requesterName ?? request.requesterPrincipalId} />
          <After text=" for " of={view.onBehalfOfName ?? request.onBehalfOfPrincipalId} />
        </dd>
        <dt>Created, expires</dt>
        <dd>
          {time(request.createdAt)}, {time(request.expiresAt)}
        </dd>
        {Object.entries((request.payload ?? {}) as Record<string, Json>).map(([key, value]) => (
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
              <After text=" for " of={vote.onBehalfOfName} />, {time(vote.at)}
              <After text=": " of={vote.reason} />
              {vote.counts === false && (
                <span class="quiet"> (does not count, because the voter may no longer decide)</span>
              )}
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
          <Button disabled={noApproval !== null} onClick={() => vote('approve')}>
            Approve
          </Button>
          <Button disabled={noRejection !== null} onClick={() => vote('reject')}>
            {viewer.withdraws ? 'Withdraw' : 'Reject'}
          </Button>
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
          {counted.idempotent ? 'You have already approved.' : 'Your approval counts.'} Approvals still needed:{' '}
          {counted.remaining}.
        </p>
      )}
      <Failure error={action.error} />
    </article>
  );
}

/** What somebody has written or is called, if that is known, after words of ours. */
function After({ text, of }: { text: string; of: string | null }): JSX.Element | null {
  return of === null ? null : (
    <>
      {text}
      <Text of={of} />
    </>
  );
}
