// Invitations: by a link that is shown once, or by mail.
import type { JSX } from 'preact';
import { time } from '../../address/address';
import { type Invitation, type MadeInvitation, NewInvitation } from '../../api/api_types';
import { Text } from '../../ui/text';
import { fieldsOf, options } from './form';
import { ROLES } from './members';
import { Danger, lacks, Secret, type SectionProps, useList } from './parts';
import { Resource } from './resource';

export default function Invitations({ me, org }: SectionProps): JSX.Element {
  const grantable = ROLES.filter((one) => one !== 'OWNER' || me.role === 'OWNER');
  return (
    <Resource<Invitation, MadeInvitation>
      title="Invitations"
      list={useList(`${org}/invitations`)}
      why={lacks(me, 'members:write') ?? (me.principal.kind === 'user' ? null : 'Only users can invite members.')}
      create="Invite"
      form="Invite a member"
      fields={fieldsOf(NewInvitation, {
        email: { kind: 'email', label: 'E-mail address' },
        role: { label: 'Role', options: options(grantable), initial: 'MEMBER' },
        sendMail: 'Mail the link to the address, so that only the invited person sees it',
      })}
      made={(made, hide) =>
        made.inviteToken === null ? (
          <p class="notice" role="status">
            The invitation was mailed to <Text of={made.email} />.
          </p>
        ) : (
          <Secret
            label={`The invitation link for ${made.email}, valid for seven days`}
            value={`${location.origin}/ui/invitations#inviteToken=${made.inviteToken}`}
            hide={hide}
          />
        )
      }
      label="Invitations"
      empty="There are no invitations yet."
      head={['Address', 'Role', 'State', 'Sent', ['Created', 'mono'], ['Expires', 'mono'], 'Actions']}
      named={(one) => one.email}
      row={(one, does) => [
        <Text of={one.email} />,
        one.role,
        one.state.toLowerCase(),
        one.mailed ? 'by mail' : 'as a link',
        time(one.createdAt),
        time(one.expiresAt),
        one.state === 'OPEN' && (
          <Danger
            title={`Revoke the invitation of ${one.email}?`}
            text="The link stops working at once."
            run={does.remove}
          >
            Revoke
          </Danger>
        ),
      ]}
    />
  );
}
