// The inbox of approvals: what is asked, for whom, what a vote would do.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { address, push, zoneOf } from '../../address/address';
import { shownTime, type Zone } from '../../address/time';
import { call, type Call } from '../../api/client';
import { who } from '../../api/session';
import type { Json } from '../../api/types';
import type { ViewProps } from '../../router';
import { printed } from '../../trace/span';
import { CopyAs } from '../../ui/copy';
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
  remaining: number;
  idempotent: boolean;
}

const STATUSES = ['PENDING', 'APPROVED', 'REJECTED', 'EXPIRED'];

export default function Approvals({ place }: ViewProps): JSX.Element {
  const here = useSignal(address);
  const zone = zoneOf(here);
  const base = `/orgs/${encodeURIComponent(place.org)}/approval-requests`;
  const status = here.query.get('status') ?? 'PENDING';
  const asked: Call = { path: `${base}?status=${status}&limit=100` };
  const query = useQuery<{ data: Request[] }>(asked);
  return (
    <section aria-label="Approvals" class="narrow">
      <div class="bar-row">
        <h1>Approvals</h1>
        <span class="segments" role="group" aria-label="Status">
          {STATUSES.map((name) => (
            <button key={name} type="button" aria-pressed={status === name} onClick={() => push({ status: name })}>
              {name.toLowerCase()}
            </button>
          ))}
        </span>
        <CopyAs asked={asked} />
      </div>
      <Loaded query={query}>
        {({ data }) =>
          data.length === 0 ? (
            <Empty title={`No request is ${status.toLowerCase()}.`} />
          ) : (
            <>
              {[...data]
                .sort((a, b) => (a.expiresAt < b.expiresAt ? -1 : 1))
                .map((request) => (
                  <Card key={request.id} request={request} base={base} zone={zone} done={query.again} />
                ))}
            </>
          )
        }
      </Loaded>
    </section>
  );
}

interface CardProps {
  request: Request;
  base: string;
  zone: Zone;
  done: () => void;
}

function Card({ request, base, zone, done }: CardProps): JSX.Element {
  const me = useSignal(who);
  const [reason, setReason] = useState('');
  const [typed, setTyped] = useState('');
  const [error, setError] = useState<Error | null>(null);
  const [counted, setCounted] = useState<Vote | null>(null);
  const isOwn = me?.principal.id === request.requesterPrincipalId || me?.principal.id === request.onBehalfOfPrincipalId;
  const mayVote = me?.scopes.includes('approvals:decide') || me?.scopes.includes('approvals:approve');
  const mustType = request.riskClass === 'CRITICAL';
  const why = isOwn
    ? 'It is your own request: somebody else must approve it. You can withdraw it.'
    : mayVote === false
      ? 'Your role may not vote.'
      : mustType && typed !== request.targetId
        ? `Type ${request.targetId} to confirm.`
        : null;
  const isSilent = reason.trim() === '';
  async function vote(which: 'approve' | 'reject'): Promise<void> {
    setError(null);
    try {
      const body = isSilent ? {} : { reason };
      setCounted(await call<Vote>({ method: 'POST', path: `${base}/${request.id}/${which}`, body }));
      done();
    } catch (failure) {
      setError(failure as Error);
    }
  }
  return (
    <article class="panel" aria-label={`${request.action} ${request.targetId}`}>
      <h2>
        <Text of={request.action} />: <Text of={request.targetType} /> <Text of={request.targetId} />
      </h2>
      <dl class="pairs">
        <dt>Risk</dt>
        <dd>{request.riskClass}</dd>
        <dt>Approvals needed</dt>
        <dd>{request.minApprovers}</dd>
        <dt>Requested by</dt>
        <dd>
          {request.requesterPrincipalId}
          {request.onBehalfOfPrincipalId !== null && ` for ${request.onBehalfOfPrincipalId}`}
        </dd>
        <dt>Created, expires</dt>
        <dd>
          {shownTime(request.createdAt, zone, 0)}, {shownTime(request.expiresAt, zone, 0)}
        </dd>
        {Object.entries(request.payload ?? {}).map(([key, value]) => (
          <>
            <dt key={key}>
              <Text of={key} />
            </dt>
            <dd>
              <Text of={printed(value)} />
            </dd>
          </>
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
      {request.status === 'PENDING' && (
        <div class="bar-row">
          <input
            type="text"
            aria-label="Reason"
            placeholder="reason"
            value={reason}
            onInput={(event) => setReason(event.currentTarget.value)}
          />
          {mustType && !isOwn && (
            <input
              type="text"
              aria-label={`Type ${request.targetId} to confirm`}
              placeholder={request.targetId}
              value={typed}
              onInput={(event) => setTyped(event.currentTarget.value)}
            />
          )}
          <button type="button" disabled={why !== null} onClick={() => void vote('approve')}>
            Approve
          </button>
          <button type="button" disabled={isSilent || mayVote === false} onClick={() => void vote('reject')}>
            {isOwn ? 'Withdraw' : 'Reject'}
          </button>
          {why !== null && <span class="quiet">{why}</span>}
          {isSilent && mayVote !== false && (
            <span class="quiet">{isOwn ? 'To withdraw it' : 'To reject it'}, give a reason.</span>
          )}
        </div>
      )}
      {counted !== null && request.status === 'PENDING' && (
        <p role="status">
          {counted.idempotent ? 'You have approved it before.' : 'Your approval counts.'} Needed besides:{' '}
          {counted.remaining}.
        </p>
      )}
      {error !== null && <Failure error={error} />}
    </article>
  );
}
