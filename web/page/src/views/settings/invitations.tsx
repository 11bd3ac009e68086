// Invitations: by a link that is shown once, or by mail.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { shownTime } from '../../address/time';
import { call } from '../../api/client';
import type { Page } from '../../api/types';
import { CopyAs } from '../../ui/copy';
import { useQuery } from '../../ui/query';
import { Text } from '../../ui/text';
import { Form, options } from './form';
import { ROLES } from './members';
import { Danger, lacks, LIMIT, Listed, Panel, Secret, type SectionProps, under, Why } from './parts';

interface Invitation {
  id: string;
  email: string;
  role: string;
  state: 'ACCEPTED' | 'EXPIRED' | 'OPEN' | 'REVOKED';
  mailed: boolean;
  createdAt: string;
  expiresAt: string;
}

interface MadeInvitation extends Invitation {
  inviteToken: string | null;
}

export default function Invitations({ me, org, zone }: SectionProps): JSX.Element {
  const path = `${org}/invitations`;
  const asked = { path: `${path}?limit=${LIMIT}` };
  const query = useQuery<Page<Invitation>>(asked);
  const [made, setMade] = useState<MadeInvitation | null>(null);
  const why = lacks(me, 'members:write') ?? (me.principal.kind === 'user' ? null : 'Only users may invite.');
  const grantable = ROLES.filter((one) => one !== 'OWNER' || me.role === 'OWNER');
  return (
    <Panel title="Invitations">
      <div class="bar-row">
        <CopyAs asked={asked} />
      </div>
      <Form
        label="Invite somebody"
        fields={[
          { kind: 'email', name: 'email', label: 'E-mail address', required: true },
          { kind: 'choice', name: 'role', label: 'Role', options: options(grantable), initial: 'MEMBER' },
          { kind: 'check', name: 'sendMail', label: 'Mail the link to the address; nobody else sees it' },
        ]}
        button="Invite"
        why={why}
        submit={async (body) => {
          setMade(await call<MadeInvitation>({ method: 'POST', path, body }));
          query.again();
        }}
      />
      {made !== null &&
        (made.inviteToken === null ? (
          <p class="notice" role="status">
            The invitation was mailed to <Text of={made.email} />.
          </p>
        ) : (
          <Secret
            label={`The link that ${made.email} joins with, for seven days`}
            value={`${location.origin}/ui/invitations#inviteToken=${made.inviteToken}`}
            hide={() => setMade(null)}
          />
        ))}
      <Listed
        query={query}
        path={asked.path}
        label="Invitations"
        empty="Nobody was invited yet."
        head={['Address', 'Role', 'State', 'Sent', 'Created', 'Expires', 'Actions']}
        row={(one) => (
          <tr key={one.id}>
            <td>
              <Text of={one.email} />
            </td>
            <td>{one.role}</td>
            <td>{one.state.toLowerCase()}</td>
            <td>{one.mailed ? 'by mail' : 'as a link'}</td>
            <td class="mono">{shownTime(one.createdAt, zone, 0)}</td>
            <td class="mono">{shownTime(one.expiresAt, zone, 0)}</td>
            <td>
              {one.state === 'OPEN' && (
                <Danger
                  of={one.email}
                  why={why}
                  title={`Revoke the invitation of ${one.email}?`}
                  text="Its link stops working at once."
                  run={async () => {
                    await call({ method: 'DELETE', path: under(path, one.id) });
                    query.again();
                  }}
                >
                  Revoke
                </Danger>
              )}
            </td>
          </tr>
        )}
      />
      <Why why={why} />
    </Panel>
  );
}
