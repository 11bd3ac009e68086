// The directory: SCIM tokens, and who inherits from users that it removes.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { shownTime } from '../../address/time';
import { call } from '../../api/client';
import type { Page } from '../../api/types';
import { CopyAs, CopyButton } from '../../ui/copy';
import { useQuery } from '../../ui/query';
import { Loaded } from '../../ui/states';
import { Text } from '../../ui/text';
import { Form } from './form';
import type { Member } from './members';
import { Danger, lacks, LIMIT, Listed, Panel, Secret, type SectionProps, under, Why } from './parts';
import { tokenState } from './token_list';

interface ScimToken {
  id: string;
  name: string;
  hint: string;
  createdAt: string;
  expiresAt: string | null;
  lastUsedAt: string | null;
  revokedAt: string | null;
}

interface MadeScimToken extends ScimToken {
  token: string;
  endpoint: string;
}

interface ScimSettings {
  successorPrincipalId: string | null;
  endpoint: string;
  users: number;
  groups: number;
}

export default function Directory({ me, org, zone }: SectionProps): JSX.Element {
  const path = `${org}/scim-tokens`;
  const asked = { path: `${path}?limit=${LIMIT}` };
  const query = useQuery<Page<ScimToken>>(asked);
  const settings = useQuery<ScimSettings>({ path: `${org}/scim-settings` });
  const members = useQuery<Page<Member>>({ path: `${org}/members?limit=${LIMIT}` });
  const [made, setMade] = useState<MadeScimToken | null>(null);
  const why = lacks(me, 'sso:write') ?? (me.principal.kind === 'user' ? null : 'Only a user can do this, not an agent or a service.');
  const users = (members.data?.data ?? []).filter((one) => one.kind === 'user');
  return (
    <>
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
                  {
                    kind: 'choice',
                    name: 'successorPrincipalId',
                    label: 'Who gets the agents and services of a user whom the directory removes',
                    nullable: true,
                    options: [
                      ['', 'nobody: they are retired'],
                      ...users.map((one): [string, string] => [one.principalId, `${one.name} (${one.email ?? ''})`]),
                    ],
                    initial: found.successorPrincipalId ?? '',
                  },
                ]}
                button="Save the settings"
                why={why}
                keeps
                done="Saved."
                submit={async (body) => {
                  await call({ method: 'PUT', path: `${org}/scim-settings`, body });
                  settings.again();
                }}
              />
              <Danger
                why={why}
                title="Disconnect the directory?"
                text="Its tokens are revoked, and its users and groups are deleted. Members keep their roles; deactivated users stay out. This cannot be undone."
                typed={me.organization.slug}
                run={async () => {
                  await call({ method: 'DELETE', path: `${org}/scim-directory` });
                  settings.again();
                  query.again();
                }}
              >
                Disconnect the directory
              </Danger>
            </>
          )}
        </Loaded>
      </Panel>
      <Panel title="SCIM tokens">
        <div class="bar-row">
          <CopyAs asked={asked} />
        </div>
        <Form
          label="Issue a SCIM token"
          fields={[
            { kind: 'text', name: 'name', label: 'Name of the token', required: true },
            { kind: 'number', name: 'expiresInDays', label: 'Days until it expires; empty: never', min: 1, max: 3650 },
          ]}
          button="Issue a token"
          why={why}
          submit={async (body) => {
            setMade(await call<MadeScimToken>({ method: 'POST', path, body }));
            query.again();
          }}
        />
        {made !== null && (
          <Secret label={`The new token, for ${made.endpoint}`} value={made.token} hide={() => setMade(null)} />
        )}
        <Listed
          query={query}
          path={asked.path}
          label="SCIM tokens"
          empty="There is no token: no directory provisions this organization."
          head={['Name', 'Token', 'Created', 'Last used', 'Expires', 'State', 'Actions']}
          row={(token) => (
            <tr key={token.id}>
              <td>
                <Text of={token.name} />
              </td>
              <td class="mono">{token.hint}</td>
              <td class="mono">{shownTime(token.createdAt, zone, 0)}</td>
              <td class="mono">{token.lastUsedAt === null ? 'never' : shownTime(token.lastUsedAt, zone, 0)}</td>
              <td class="mono">{token.expiresAt === null ? 'never' : shownTime(token.expiresAt, zone, 0)}</td>
              <td>{tokenState(token)}</td>
              <td class="bar-row">
                {tokenState(token) === 'valid' && (
                  <Danger
                    of={token.name}
                    why={why}
                    title={`Rotate the token ${token.name}?`}
                    text="A new token takes its place. The old one stays valid for a day."
                    run={async () => {
                      const rotated = { method: 'POST' as const, path: under(path, token.id, 'rotate'), body: {} };
                      setMade(await call<MadeScimToken>(rotated));
                      query.again();
                    }}
                  >
                    Rotate
                  </Danger>
                )}
                {tokenState(token) !== 'revoked' && (
                  <Danger
                    of={token.name}
                    why={why}
                    title={`Revoke the token ${token.name}?`}
                    text="The directory that has it provisions nothing from now on. This cannot be undone."
                    run={async () => {
                      await call({ method: 'DELETE', path: under(path, token.id) });
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
    </>
  );
}
