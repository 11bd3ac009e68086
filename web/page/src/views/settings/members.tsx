// Members of the organization and their roles.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { call } from '../../api/client';
import type { Page, Whoami } from '../../api/types';
import { CopyAs } from '../../ui/copy';
import { Link } from '../../ui/link';
import { useQuery } from '../../ui/query';
import { Text } from '../../ui/text';
import { Act, Danger, lacks, LIMIT, Listed, Panel, type SectionProps, under, Why } from './parts';

export interface Member {
  principalId: string;
  kind: string;
  name: string;
  email: string | null;
  emailVerified: boolean;
  role: string;
  ownerPrincipalId: string | null;
  mfaEnabled: boolean;
}

export const ROLES = ['VIEWER', 'BILLING', 'MEMBER', 'ADMIN', 'OWNER'];

export default function Members({ me, org }: SectionProps): JSX.Element {
  const path = `${org}/members`;
  const asked = { path: `${path}?limit=${LIMIT}` };
  const query = useQuery<Page<Member>>(asked);
  const why = lacks(me, 'members:write');
  return (
    <Panel title="Members">
      <div class="bar-row">
        <CopyAs asked={asked} />
      </div>
      <Listed
        query={query}
        path={asked.path}
        label="Members"
        empty="There is no member."
        head={['Name', 'Address', 'Kind', 'Second factor', 'Role', 'Actions']}
        row={(member) => (
          <MemberRow
            key={member.principalId}
            member={member}
            me={me}
            path={under(path, member.principalId)}
            why={whyNot(me, member, why)}
            again={query.again}
          />
        )}
      />
      <Why why={why} />
    </Panel>
  );
}

function whyNot(me: Whoami, member: Member, why: string | null): string | null {
  return why ?? (member.role === 'OWNER' && me.role !== 'OWNER' ? 'Only owners change owners.' : null);
}

interface MemberRowProps {
  member: Member;
  me: Whoami;
  path: string;
  why: string | null;
  again: () => void;
}

function MemberRow({ member, me, path, why, again }: MemberRowProps): JSX.Element {
  const [role, setRole] = useState(member.role);
  const isSelf = member.principalId === me.principal.id;
  const grantable = ROLES.filter((one) => one !== 'OWNER' || me.role === 'OWNER' || member.role === 'OWNER');
  const same = role === member.role ? 'It is the role that the member has.' : null;
  return (
    <tr>
      <td>
        <Text of={member.name} />
        {isSelf && <span class="quiet"> (you)</span>}
      </td>
      <td>
        <Text of={member.email} />
        {member.email !== null && !member.emailVerified && <span class="quiet"> not verified</span>}
      </td>
      <td>{member.kind}</td>
      <td>{member.kind === 'user' ? (member.mfaEnabled ? 'yes' : 'no') : ''}</td>
      <td class="bar-row">
        <select
          aria-label={`Role of ${member.name}`}
          value={role}
          disabled={why !== null}
          onChange={(event) => setRole(event.currentTarget.value)}
        >
          {grantable.map((one) => (
            <option key={one} value={one}>
              {one}
            </option>
          ))}
        </select>
        <Act
          of={`the role of ${member.name}`}
          why={why ?? same}
          run={async () => {
            await call({ method: 'PATCH', path, body: { role } });
            again();
          }}
        >
          Change
        </Act>
      </td>
      <td>
        {member.kind === 'user' ? (
          <Danger
            of={member.name}
            why={why}
            title={`Remove ${member.name}?`}
            text={
              'The sessions and tokens of the member end, and its agents and services stop working. ' +
              (isSelf ? 'It is you: you lose access.' : 'This cannot be undone; the member can be invited again.')
            }
            run={async () => {
              await call({ method: 'DELETE', path });
              again();
            }}
          >
            Remove
          </Danger>
        ) : (
          <Link
            to={`/ui/${encodeURIComponent(me.organization.slug)}/settings/agents?open=${encodeURIComponent(member.principalId)}`}
            label={`Tokens of ${member.name}`}
          >
            Tokens
          </Link>
        )}
      </td>
    </tr>
  );
}
