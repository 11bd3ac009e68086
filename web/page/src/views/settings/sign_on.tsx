// Single sign-on: the connections to identity providers, what a login would do, domains, and who is linked.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { shownTime } from '../../address/time';
import { call } from '../../api/client';
import type { Page } from '../../api/types';
import { CopyAs, CopyButton } from '../../ui/copy';
import { useQuery } from '../../ui/query';
import { Empty, Loaded } from '../../ui/states';
import { OutsideLink, Text } from '../../ui/text';
import { type Body, type FieldSpec, Form, options } from './form';
import type { Member } from './members';
import { Act, Danger, lacks, LIMIT, Listed, Panel, Rows, type SectionProps, under, Why } from './parts';

type Protocol = 'SAML' | 'OIDC';

interface Connection {
  protocol: Protocol;
  enabled: boolean;
  enforced: boolean;
  defaultRole: string;
  attributeMapping: object | null;
  roleMapping: object | null;
  idpEntityId: string | null;
  idpSsoUrl: string | null;
  idpCertificateConfigured: boolean;
  idpCertificateAlternateCount: number;
  oidcIssuer: string | null;
  oidcClientId: string | null;
  oidcClientSecretConfigured: boolean;
  oidcScopes: string[];
}

interface SsoSettings {
  mfaTrust: string;
  personalTokens: boolean;
  breakGlassPrincipalId: string | null;
  enforced: boolean;
  effectiveBreakGlassPrincipalId: string | null;
  testedProtocols: Protocol[];
  confirmedByOwner: Protocol[];
}

interface Outcome {
  account: 'KNOWN' | 'LINKED' | 'CREATED' | 'REFUSED';
  reason: string | null;
  detail: string | null;
  email: string | null;
  name: string | null;
  groups: string[];
  role: string | null;
}

const NAMES: Record<Protocol, string> = { SAML: 'SAML 2.0', OIDC: 'OpenID Connect' };
const ROLES_OF_LOGINS = ['VIEWER', 'BILLING', 'MEMBER', 'ADMIN'];
const OTHER_PROVIDER = 'Changing this means another provider: users are unlinked, and their sessions end.';
const ACCOUNTS: Record<Outcome['account'], string> = {
  KNOWN: 'The login would be that of the account that is linked already.',
  LINKED: 'The login would be linked to the member with the address.',
  CREATED: 'The login would create a member.',
  REFUSED: 'The login would be refused.',
};

export default function SignOn(props: SectionProps): JSX.Element {
  const { me, org } = props;
  const path = `${org}/sso/connections`;
  const query = useQuery<{ connections: Connection[] }>({ path });
  const why = lacks(me, 'sso:write');
  return (
    <>
      <Why why={why} />
      <Loaded query={query}>
        {({ connections }) => (
          <>
            {(['SAML', 'OIDC'] as const).map((protocol) => (
              <One
                key={protocol}
                {...props}
                protocol={protocol}
                connection={connections.find((one) => one.protocol === protocol) ?? null}
                path={under(path, protocol)}
                why={why}
                again={query.again}
              />
            ))}
          </>
        )}
      </Loaded>
      <ForAll {...props} why={why} />
      <Domains {...props} why={why} />
      <Identities {...props} why={why} />
    </>
  );
}

interface OneProps extends SectionProps {
  protocol: Protocol;
  connection: Connection | null;
  path: string;
  why: string | null;
  again: () => void;
}

function One({ me, protocol, connection, path, why, again }: OneProps): JSX.Element {
  const change = async (body: Body): Promise<void> => {
    await call({ method: 'PUT', path, body });
    again();
  };
  return (
    <Panel title={NAMES[protocol]}>
      <div class="bar-row">
        <span>{stateOf(connection)}</span>
        {connection !== null && (
          <>
            {connection.enabled ? (
              <Danger
                of={NAMES[protocol]}
                why={why}
                title={`Disable ${NAMES[protocol]}?`}
                text="Nobody logs in through it any more, and the sessions of those who have end. Nobody is unlinked."
                run={async () => change({ enabled: false })}
              >
                Disable
              </Danger>
            ) : (
              <Act of={NAMES[protocol]} why={why} run={async () => change({ enabled: true })}>
                Enable
              </Act>
            )}
            {connection.enforced ? (
              <Act of={NAMES[protocol]} why={why} run={async () => change({ enforced: false })}>
                No longer enforce
              </Act>
            ) : (
              <Danger
                of={NAMES[protocol]}
                why={why ?? (connection.enabled ? null : 'It is not enabled.')}
                title={`Enforce ${NAMES[protocol]}?`}
                text="Members cannot log in with a password any more, but for the owner who keeps a way in."
                run={async () => change({ enforced: true })}
              >
                Enforce
              </Danger>
            )}
            <Danger
              of={NAMES[protocol]}
              why={why}
              title={`Delete the connection ${NAMES[protocol]}?`}
              text="Its users are unlinked and their sessions end; accounts and memberships stay. This cannot be undone."
              typed={protocol}
              run={async () => {
                await call({ method: 'DELETE', path });
                again();
              }}
            >
              Delete
            </Danger>
          </>
        )}
        <CopyAs asked={{ path }} />
      </div>
      <Addresses protocol={protocol} slug={me.organization.slug} exists={connection !== null} />
      <details open={connection === null}>
        <summary>Provider settings, and roles of its users</summary>
        <Form
          key={connection === null ? 'new' : 'change'}
          label={`Configure ${NAMES[protocol]}`}
          fields={protocol === 'SAML' ? samlFields(connection) : oidcFields(connection)}
          button={connection === null ? 'Create the connection' : 'Save the connection'}
          why={why}
          keeps
          done="Saved."
          submit={change}
        />
      </details>
      {connection !== null && <DryRun protocol={protocol} path={`${path}/dry-run`} />}
    </Panel>
  );
}

function stateOf(connection: Connection | null): string {
  if (connection === null) return 'There is no connection.';
  if (!connection.enabled) return 'The connection is disabled.';
  return connection.enforced ? 'The connection is enabled and enforced.' : 'The connection is enabled.';
}

/** What has to be entered at the provider. */
function Addresses({ protocol, slug, exists }: { protocol: Protocol; slug: string; exists: boolean }): JSX.Element {
  const base = `${location.origin}/sso/${protocol.toLowerCase()}/${encodeURIComponent(slug)}`;
  const rows: [string, string][] =
    protocol === 'SAML'
      ? [
          ['Entity ID, audience', `${base}/metadata`],
          ['ACS, recipient', `${base}/acs`],
        ]
      : [['Redirect URI', `${base}/callback`]];
  return (
    <dl class="pairs">
      {[...rows, ['Start address', `${base}/start`] as [string, string]].map(([name, value]) => (
        <>
          <dt key={name}>{name}</dt>
          <dd>
            {value} <CopyButton label={`Copy: ${name}`} text={() => value} />
          </dd>
        </>
      ))}
      {protocol === 'SAML' && (
        <>
          <dt>Metadata</dt>
          <dd>
            {exists ? (
              <OutsideLink to={`${base}/metadata`}>Open the metadata</OutsideLink>
            ) : (
              'once the connection exists; it may be empty'
            )}
          </dd>
        </>
      )}
    </dl>
  );
}

function samlFields(of: Connection | null): FieldSpec[] {
  return [
    { kind: 'text', name: 'idpEntityId', label: 'Entity ID of the provider', nullable: true, initial: of?.idpEntityId ?? '', hint: OTHER_PROVIDER },
    { kind: 'url', name: 'idpSsoUrl', label: 'Sign-on URL of the provider', nullable: true, initial: of?.idpSsoUrl ?? '' },
    {
      kind: 'long',
      name: 'idpCertificate',
      label: 'Certificate that the provider signs with',
      hint: of?.idpCertificateConfigured ? 'There is one. Empty: it stays.' : 'PEM, or base64 alone',
    },
    {
      kind: 'json',
      name: 'idpCertificateAlternates',
      label: 'Alternate certificates (JSON)',
      rows: 2,
      hint: `A list of up to 3, which replaces the present ${of?.idpCertificateAlternateCount ?? 0}. Empty: they stay.`,
    },
    ...mappingFields(of),
  ];
}

function oidcFields(of: Connection | null): FieldSpec[] {
  return [
    { kind: 'url', name: 'oidcIssuer', label: 'Issuer', nullable: true, initial: of?.oidcIssuer ?? '', hint: OTHER_PROVIDER },
    { kind: 'text', name: 'oidcClientId', label: 'Client ID', nullable: true, initial: of?.oidcClientId ?? '', hint: OTHER_PROVIDER },
    {
      kind: 'password',
      name: 'oidcClientSecret',
      label: 'Client secret',
      hint: of?.oidcClientSecretConfigured ? 'There is one. Empty: it stays.' : 'Kept encrypted, never shown',
    },
    {
      kind: 'lines',
      name: 'oidcScopes',
      label: 'Scopes, one per line',
      initial: (of?.oidcScopes ?? []).join('\n'),
      hint: 'Empty: they stay; a new connection gets the usual ones',
    },
    ...mappingFields(of),
  ];
}

function mappingFields(of: Connection | null): FieldSpec[] {
  const json = (value: object | null | undefined): string => (value ? JSON.stringify(value, null, 2) : '');
  return [
    { kind: 'choice', name: 'defaultRole', label: 'Role without a group', options: options(ROLES_OF_LOGINS), initial: of?.defaultRole ?? 'VIEWER' },
    {
      kind: 'json',
      name: 'roleMapping',
      label: 'Roles of groups (JSON)',
      nullable: true,
      initial: json(of?.roleMapping),
      hint: 'For example {"platform-team": "ADMIN"}. Empty: members keep their roles.',
    },
    {
      kind: 'json',
      name: 'attributeMapping',
      label: 'Names of attributes (JSON)',
      nullable: true,
      initial: json(of?.attributeMapping),
      hint: 'For example {"email": "mail", "groups": "memberOf"}. Empty: the usual names.',
    },
  ];
}

function DryRun({ protocol, path }: { protocol: Protocol; path: string }): JSX.Element {
  const [result, setResult] = useState<Outcome | null>(null);
  return (
    <details>
      <summary>Try it without logging in</summary>
      <Form
        label={`Dry run of ${NAMES[protocol]}`}
        fields={[
          {
            kind: 'json',
            name: 'attributes',
            label: protocol === 'SAML' ? 'Attributes of the assertion (JSON)' : 'Claims of the ID token (JSON)',
            required: true,
            initial: '{"email": "ada@example.com", "email_verified": true, "groups": []}',
          },
          { kind: 'text', name: 'subject', label: 'Subject', hint: 'As in a login; empty: somebody new' },
        ]}
        button="Show what would happen"
        keeps
        submit={async (body) => {
          setResult(null);
          setResult(await call<Outcome>({ method: 'POST', path, body }));
        }}
      />
      {result !== null && (
        <div role="status">
          <p class={result.account === 'REFUSED' ? 'error' : 'good'}>{ACCOUNTS[result.account]}</p>
          <dl class="pairs">
            {result.reason !== null && (
              <>
                <dt>Reason</dt>
                <dd>
                  {result.reason}: <Text of={result.detail} />
                </dd>
              </>
            )}
            <dt>Address, name</dt>
            <dd>
              <Text of={result.email} />, <Text of={result.name} />
            </dd>
            <dt>Groups</dt>
            <dd>
              <Text of={result.groups.join(', ')} empty="none" />
            </dd>
            <dt>Role</dt>
            <dd>{result.role ?? 'none'}</dd>
          </dl>
        </div>
      )}
    </details>
  );
}

interface PartProps extends SectionProps {
  why: string | null;
}

function ForAll({ org, why }: PartProps): JSX.Element {
  const path = `${org}/sso/settings`;
  const query = useQuery<SsoSettings>({ path });
  const members = useQuery<Page<Member>>({ path: `${org}/members?limit=${LIMIT}` });
  const owners = (members.data?.data ?? []).filter((one) => one.role === 'OWNER' && one.kind === 'user');
  return (
    <Panel title="For all connections">
      <Loaded query={query}>
        {(settings) => {
          const kept = settings.breakGlassPrincipalId;
          const known = owners.map((one): [string, string] => [one.principalId, `${one.name} (${one.email ?? ''})`]);
          const unknown: [string, string][] = kept === null || known.some(([id]) => id === kept) ? [] : [[kept, kept]];
          return (
            <>
              <p class="quiet">
                Logged in through: {settings.testedProtocols.join(', ') || 'nobody yet'}. Confirmed by an owner:{' '}
                {settings.confirmedByOwner.join(', ') || 'none'}. Single sign-on is {settings.enforced ? '' : 'not '}enforced.
                {settings.effectiveBreakGlassPrincipalId !== null &&
                  ` The way in is kept by ${nameOf(owners, settings.effectiveBreakGlassPrincipalId)}.`}
              </p>
              <Form
                key={`${JSON.stringify(settings)}${owners.length}`}
                label="Settings for all connections"
                fields={[
                  {
                    kind: 'choice',
                    name: 'mfaTrust',
                    label: 'Logins count as ones with a second factor',
                    options: [
                      ['ASSERTED', 'when the provider says so'],
                      ['ALWAYS', 'always'],
                      ['NEVER', 'never'],
                    ],
                    initial: settings.mfaTrust,
                  },
                  {
                    kind: 'choice',
                    name: 'breakGlassPrincipalId',
                    label: 'Owner who may always log in with a password',
                    nullable: true,
                    options: [['', 'chosen by Sluice'], ...known, ...unknown],
                    initial: kept ?? '',
                  },
                  {
                    kind: 'check',
                    name: 'personalTokens',
                    label: 'Access tokens of users work while single sign-on is enforced',
                    initial: settings.personalTokens,
                  },
                ]}
                button="Save the settings"
                why={why}
                keeps
                submit={async (body) => {
                  await call({ method: 'PUT', path, body });
                  query.again();
                }}
              />
            </>
          );
        }}
      </Loaded>
    </Panel>
  );
}

function nameOf(owners: Member[], id: string): string {
  return owners.find((one) => one.principalId === id)?.name ?? id;
}

interface Domain {
  id: string;
  domain: string;
  txtRecord: string;
  verifiedAt: string | null;
}

function Domains({ org, zone, why }: PartProps): JSX.Element {
  const path = `${org}/sso/domains`;
  const query = useQuery<{ data: Domain[] }>({ path });
  return (
    <Panel title="Domains">
      <p class="quiet">Members whose address is in a proven domain are linked to the provider's user with that address.</p>
      <Form
        label="Add a domain"
        fields={[{ kind: 'text', name: 'domain', label: 'Domain', required: true, placeholder: 'example.com' }]}
        button="Add the domain"
        why={why}
        submit={async (body) => {
          await call({ method: 'POST', path, body });
          query.again();
        }}
      />
      <Loaded query={query}>
        {({ data }) =>
          data.length === 0 ? (
            <Empty title="There is no domain." />
          ) : (
            <Rows label="Domains" head={['Domain', 'TXT record', 'State', 'Actions']}>
              {data.map((one) => (
                <tr key={one.id}>
                  <td>
                    <Text of={one.domain} />
                  </td>
                  <td class="mono">
                    <Text of={one.txtRecord} /> <CopyButton label="Copy" text={() => one.txtRecord} />
                  </td>
                  <td>{one.verifiedAt === null ? 'not proven' : `proven ${shownTime(one.verifiedAt, zone, 0)}`}</td>
                  <td class="bar-row">
                    {one.verifiedAt === null && (
                      <Act
                        of={one.domain}
                        why={why}
                        run={async () => {
                          await call({ method: 'POST', path: under(path, one.id, 'verify') });
                          query.again();
                        }}
                      >
                        Verify
                      </Act>
                    )}
                    <Danger
                      of={one.domain}
                      why={why}
                      title={`Remove the domain ${one.domain}?`}
                      text="Members who were linked by it stay linked. It has to be proven again if it is added again."
                      run={async () => {
                        await call({ method: 'DELETE', path: under(path, one.id) });
                        query.again();
                      }}
                    >
                      Remove
                    </Danger>
                  </td>
                </tr>
              ))}
            </Rows>
          )
        }
      </Loaded>
    </Panel>
  );
}

interface Identity {
  id: string;
  subject: string;
  principalId: string;
  email: string;
  lastLoginAt: string;
}

function Identities({ org, zone, why }: PartProps): JSX.Element {
  const path = `${org}/sso/identities`;
  const asked = { path: `${path}?limit=${LIMIT}` };
  const query = useQuery<Page<Identity>>(asked);
  return (
    <Panel title="Linked users">
      <Listed
        query={query}
        path={asked.path}
        label="Linked users"
        empty="No member is linked to a user of a provider."
        head={['Address', 'Subject', 'Last login', 'Actions']}
        row={(one) => (
          <tr key={one.id}>
            <td>
              <Text of={one.email} />
            </td>
            <td class="mono">
              <Text of={one.subject} />
            </td>
            <td class="mono">{shownTime(one.lastLoginAt, zone, 0)}</td>
            <td>
              <Danger
                of={one.email}
                why={why}
                title={`Unlink ${one.email}?`}
                text="The member stays, and its sessions of single sign-on end. At the next login it has to be linked again."
                run={async () => {
                  await call({ method: 'DELETE', path: under(path, one.id) });
                  query.again();
                }}
              >
                Unlink
              </Danger>
            </td>
          </tr>
        )}
      />
    </Panel>
  );
}
