// The directory: SCIM tokens, and the new owner of what removed users own.
import type { JSX } from 'preact';
import { time } from '../../address/address';
import {
  type MadeScimToken,
  type MemberPage,
  NewScimToken,
  type ScimToken,
  type ShownScimSettings,
} from '../../api/api_types';
import { send } from '../../api/client';
import { CopyButton } from '../../ui/copy';
import { Loaded, useQuery } from '../../ui/query';
import { Text } from '../../ui/text';
import { Form, field, fieldsOf, type Option } from './form';
import { Danger, LIMIT, lacks, Panel, Refusal, Secret, type SectionProps, useList } from './parts';
import { Resource } from './resource';
import { timeOrNever, tokenState } from './token_state';

export default function Directory({ me, org }: SectionProps): JSX.Element {
  const path = `${org}/scim-settings`;
  const settings = useQuery<ShownScimSettings>({ path });
  const members = useQuery<MemberPage>({ path: `${org}/members?limit=${LIMIT}` });
  const list = useList<ScimToken>(`${org}/scim-tokens`);
  const why =
    lacks(me, 'sso:write') ??
    (me.principal.kind === 'user' ? null : 'Only a user can do this, not an agent or a service.');
  const users = (members.data?.data ?? []).filter((one) => one.kind === 'user');
  return (
    <>
      <Refusal.Provider value={why}>
        <Panel title="Directory">
          <Loaded query={settings}>
            {(found) => (
              <>
                <p>
                  Endpoint: <code>{found.endpoint}</code> <CopyButton label="Copy" text={() => found.endpoint} />
                  <br />
                  {found.users} users and {found.groups} groups are provisioned.
                </p>
                <Form
                  key={`${found.successorPrincipalId}${users.length}`}
                  label="Settings of the directory"
                  fields={[
                    field(
                      'choice',
                      'successorPrincipalId',
                      'New owner of the agents and services of users that the directory removes',
                      {
                        nullable: true,
                        options: [
                          ['', 'none: agents and services are retired'],
                          ...users.map((one): Option => [one.principalId, `${one.name} (${one.email ?? ''})`]),
                        ],
                        initial: found.successorPrincipalId ?? '',
                      },
                    ),
                  ]}
                  button="Save the settings"
                  keeps
                  done="Saved."
                  submit={async (body) => {
                    await send('PUT', path, body);
                    settings.again();
                  }}
                />
                <Danger
                  title="Disconnect the directory?"
                  text="The tokens, users and groups of the directory are deleted. Members keep their roles, and deactivated users do not become members again. This cannot be undone."
                  typed={me.organization.slug}
                  run={async () => {
                    await send('DELETE', `${org}/scim-directory`);
                    settings.again();
                    list.query.again();
                  }}
                >
                  Disconnect the directory
                </Danger>
              </>
            )}
          </Loaded>
        </Panel>
      </Refusal.Provider>
      <Resource<ScimToken, MadeScimToken>
        title="SCIM tokens"
        list={list}
        why={why}
        create="Issue a token"
        form="Issue a SCIM token"
        fields={fieldsOf(NewScimToken, {
          name: 'Name of the token',
          expiresInDays: 'Days until the token expires (empty: never)',
        })}
        made={(made, hide) => <Secret label={`The new token, for ${made.endpoint}`} value={made.token} hide={hide} />}
        label="SCIM tokens"
        empty="There is no token, so no directory can provision this organization."
        head={[
          'Name',
          ['Token', 'mono'],
          ['Created', 'mono'],
          ['Last used', 'mono'],
          ['Expires', 'mono'],
          'State',
          ['Actions', 'bar-row'],
        ]}
        named={(token) => token.name}
        row={(token, does) => [
          <Text of={token.name} />,
          token.hint,
          time(token.createdAt),
          timeOrNever(token.lastUsedAt),
          timeOrNever(token.expiresAt),
          tokenState(token),
          <>
            {tokenState(token) === 'valid' && (
              <Danger
                title={`Rotate the token ${token.name}?`}
                text="A new token replaces this token, which stays valid for a day."
                run={() => does.make('rotate')}
              >
                Rotate
              </Danger>
            )}
            {tokenState(token) !== 'revoked' && (
              <Danger
                title={`Revoke the token ${token.name}?`}
                text="The directory that uses this token can no longer provision users and groups. This cannot be undone."
                run={does.remove}
              >
                Revoke
              </Danger>
            )}
          </>,
        ]}
      />
    </>
  );
}
