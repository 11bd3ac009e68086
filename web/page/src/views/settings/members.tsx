// Members of the organization and their roles.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { Member } from '../../api/api_types';
import type { Whoami } from '../../api/types';
import { CopyAs } from '../../ui/copy';
import { Named } from '../../ui/elements';
import { Link, Text } from '../../ui/text';
import { Act, Danger, Listed, lacks, Panel, Refusal, type SectionProps, useList, useWhy, Why } from './parts';

export const ROLES = ['VIEWER', 'BILLING', 'MEMBER', 'ADMIN', 'OWNER'];

export default function Members({ me, org }: SectionProps): JSX.Element {
  const isSelf = (member: Member): boolean => member.principalId === me.principal.id;
  const list = useList<Member>(`${org}/members`);
  return (
    <Refusal.Provider value={lacks(me, 'members:write')}>
      <Panel title="Members">
        <div class="bar-row">
          <CopyAs asked={list.asked} />
        </div>
        <Listed
          list={list}
          label="Members"
          empty="There is no member."
          head={['Name', 'Address', 'Kind', 'Second factor', ['Role', 'bar-row'], 'Actions']}
          by={(member) => member.principalId}
          named={(member) => member.name}
          row={(member) => [
            <>
              <Text of={member.name} />
              {isSelf(member) && <span class="quiet"> (you)</span>}
            </>,
            <>
              <Text of={member.email} />
              {member.email !== null && !member.emailVerified && <span class="quiet"> not verified</span>}
            </>,
            member.kind,
            member.kind === 'user' && (member.mfaEnabled ? 'yes' : 'no'),
            <RoleChoice member={member} me={me} change={(body) => list.send('PATCH', [member.principalId], body)} />,
            member.kind === 'user' ? (
              <Danger
                why={whyNot(me, member)}
                title={`Remove ${member.name}?`}
                text={
                  'The sessions and tokens of the member end, and its agents and services stop working. ' +
                  (isSelf(member)
                    ? 'You are removing yourself and lose access.'
                    : 'This cannot be undone, but you can invite the member again.')
                }
                run={() => list.send('DELETE', [member.principalId])}
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
            ),
          ]}
        />
        <Why />
      </Panel>
    </Refusal.Provider>
  );
}

function whyNot(me: Whoami, member: Member): string | null {
  return member.role === 'OWNER' && me.role !== 'OWNER' ? 'Only owners can change owners.' : null;
}

interface RoleChoiceProps {
  member: Member;
  me: Whoami;
  change: (body: unknown) => Promise<unknown>;
}

function RoleChoice({ member, me, change }: RoleChoiceProps): JSX.Element {
  const [role, setRole] = useState<string>(member.role);
  const why = useWhy(whyNot(me, member));
  const grantable = ROLES.filter((one) => one !== 'OWNER' || me.role === 'OWNER' || member.role === 'OWNER');
  return (
    <>
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
      <Named.Provider value={`the role of ${member.name}`}>
        <Act
          why={why ?? (role === member.role ? 'The member already has this role.' : null)}
          run={() => change({ role })}
        >
          Change
        </Act>
      </Named.Provider>
    </>
  );
}
