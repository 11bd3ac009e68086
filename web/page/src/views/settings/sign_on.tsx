// Single sign-on: the connections to identity providers, what a login would do, domains, and who is linked.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { time } from '../../address/address';
import {
  type ConnectionDryRunResult,
  type ConnectionList,
  type Domain,
  type LinkedIdentity,
  type Member,
  type MemberPage,
  NewDomain,
  type Protocol,
  type ShownSettings,
  type SsoConnection,
} from '../../api/api_types';
import { send } from '../../api/client';
import { CopyAs, CopyButton } from '../../ui/copy';
import { Named } from '../../ui/elements';
import { Loaded, useQuery } from '../../ui/query';
import { Text } from '../../ui/text';
import { OutsideLink } from '../../ui/values';
import { type Body, type FieldSpec, Form, field, fieldsOf, type Option, options, required } from './form';
import { Act, Danger, LIMIT, lacks, Panel, Refusal, type SectionProps, under, useList, Why } from './parts';
import { Resource } from './resource';

const NAMES: Record<Protocol, string> = { SAML: 'SAML 2.0', OIDC: 'OpenID Connect' };
const ROLES_OF_LOGINS = ['VIEWER', 'BILLING', 'MEMBER', 'ADMIN'];
const OTHER_PROVIDER = 'A new value means a new provider: users are unlinked, and their sessions end.';
const ACCOUNTS: Record<ConnectionDryRunResult['account'], string> = {
  KNOWN: 'The user would log in to the account that is already linked.',
  LINKED: 'The user would be linked to the member with this address.',
  CREATED: 'The login would create a member.',
  REFUSED: 'The login would be refused.',
};

export default function SignOn({ me, org }: SectionProps): JSX.Element {
  const path = `${org}/sso/connections`;
  const query = useQuery<ConnectionList>({ path });
  return (
    <Refusal.Provider value={lacks(me, 'sso:write')}>
      <Why />
      <Loaded query={query}>
        {({ connections }) => (
          <>
            {(['SAML', 'OIDC'] as const).map((protocol) => (
              <Named.Provider key={protocol} value={NAMES[protocol]}>
                <One
                  slug={me.organization.slug}
                  protocol={protocol}
                  connection={connections.find((one) => one.protocol === protocol) ?? null}
                  path={under(path, protocol)}
                  again={query.again}
                />
              </Named.Provider>
            ))}
          </>
        )}
      </Loaded>
      <ForAll org={org} />
      <Domains org={org} />
      <Identities org={org} />
    </Refusal.Provider>
  );
}

interface OneProps {
  slug: string;
  protocol: Protocol;
  connection: SsoConnection | null;
  path: string;
  again: () => void;
}

function One({ slug, protocol, connection, path, again }: OneProps): JSX.Element {
  const name = NAMES[protocol];
  const change = async (body: Body): Promise<void> => {
    await send('PUT', path, body);
    again();
  };
  return (
    <Panel title={name}>
      <div class="bar-row">
        <span>{stateOf(connection)}</span>
        {connection !== null && (
          <>
            {connection.enabled ? (
              <Danger
                title={`Disable ${name}?`}
                text="Members can no longer log in through this connection, and sessions that began through it end. Users stay linked."
                run={() => change({ enabled: false })}
              >
                Disable
              </Danger>
            ) : (
              <Act run={() => change({ enabled: true })}>Enable</Act>
            )}
            {connection.enforced ? (
              <Act run={() => change({ enforced: false })}>Stop enforcing</Act>
            ) : (
              <Danger
                why={connection.enabled ? null : 'The connection is not enabled.'}
                title={`Enforce ${name}?`}
                text="Members can no longer log in with a password, except the break-glass owner."
                run={() => change({ enforced: true })}
              >
                Enforce
              </Danger>
            )}
            <Danger
              title={`Delete the connection ${name}?`}
              text="Users of the provider are unlinked, and their sessions end. Accounts and memberships are kept. This cannot be undone."
              typed={protocol}
              run={async () => {
                await send('DELETE', path);
                again();
              }}
            >
              Delete
            </Danger>
          </>
        )}
        <CopyAs asked={{ path }} />
      </div>
      <Addresses protocol={protocol} slug={slug} exists={connection !== null} />
      <details open={connection === null}>
        <summary>Provider settings and role mapping</summary>
        <Form
          key={connection === null ? 'new' : 'change'}
          label={`Configure ${name}`}
          fields={protocol === 'SAML' ? samlFields(connection) : oidcFields(connection)}
          button={connection === null ? 'Create the connection' : 'Save the connection'}
          keeps
          done="Saved."
          submit={change}
        />
      </details>
      {connection !== null && <DryRun protocol={protocol} path={`${path}/dry-run`} />}
    </Panel>
  );
}

function stateOf(connection: SsoConnection | null): string {
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
              'Create the connection first. All of its fields may be empty.'
            )}
          </dd>
        </>
      )}
    </dl>
  );
}

function samlFields(of: SsoConnection | null): FieldSpec[] {
  return [
    field('text', 'idpEntityId', 'Entity ID of the provider', {
      nullable: true,
      initial: of?.idpEntityId ?? '',
      hint: OTHER_PROVIDER,
    }),
    field('url', 'idpSsoUrl', 'Sign-on URL of the provider', { nullable: true, initial: of?.idpSsoUrl ?? '' }),
    field('long', 'idpCertificate', 'Signing certificate of the provider', {
      hint: of?.idpCertificateConfigured
        ? 'A certificate is configured. Leave this field empty to keep it.'
        : 'PEM, or only the base64 text',
    }),
    field('json', 'idpCertificateAlternates', 'Alternate certificates (JSON)', {
      rows: 2,
      hint: `A list of up to 3 certificates. ${of?.idpCertificateAlternateCount ?? 0} are configured. Leave this field empty to keep them.`,
    }),
    ...mappingFields(of),
  ];
}

function oidcFields(of: SsoConnection | null): FieldSpec[] {
  return [
    field('url', 'oidcIssuer', 'Issuer', { nullable: true, initial: of?.oidcIssuer ?? '', hint: OTHER_PROVIDER }),
    field('text', 'oidcClientId', 'Client ID', {
      nullable: true,
      initial: of?.oidcClientId ?? '',
      hint: OTHER_PROVIDER,
    }),
    field('password', 'oidcClientSecret', 'Client secret', {
      hint: of?.oidcClientSecretConfigured
        ? 'A secret is configured. Leave this field empty to keep it.'
        : 'Stored encrypted, never shown',
    }),
    field('lines', 'oidcScopes', 'Scopes, one per line', {
      initial: (of?.oidcScopes ?? []).join('\n'),
      hint: 'Leave this field empty to keep the scopes. A new connection gets the default scopes.',
    }),
    ...mappingFields(of),
  ];
}

function mappingFields(of: SsoConnection | null): FieldSpec[] {
  const json = (value: object | null | undefined): string => (value ? JSON.stringify(value, null, 2) : '');
  return [
    field('choice', 'defaultRole', 'Role of users without a mapped group', {
      options: options(ROLES_OF_LOGINS),
      initial: of?.defaultRole ?? 'VIEWER',
    }),
    field('json', 'roleMapping', 'Roles of groups (JSON)', {
      nullable: true,
      initial: json(of?.roleMapping),
      hint: 'For example {"platform-team": "ADMIN"}. If empty, members keep their roles.',
    }),
    field('json', 'attributeMapping', 'Names of attributes (JSON)', {
      nullable: true,
      initial: json(of?.attributeMapping),
      hint: 'For example {"email": "mail", "groups": "memberOf"}. If empty, the default names apply.',
    }),
  ];
}

function DryRun({ protocol, path }: { protocol: Protocol; path: string }): JSX.Element {
  const [result, setResult] = useState<ConnectionDryRunResult | null>(null);
  return (
    <Refusal.Provider value={null}>
      <details>
        <summary>Test the connection without logging in</summary>
        <Form
          label={`Dry run of ${NAMES[protocol]}`}
          fields={[
            required(
              'json',
              'attributes',
              protocol === 'SAML' ? 'Attributes of the assertion (JSON)' : 'Claims of the ID token (JSON)',
              {
                initial: '{"email": "ada@example.com", "email_verified": true, "groups": []}',
              },
            ),
            field('text', 'subject', 'Subject', {
              hint: 'The subject of a login. Leave this field empty for a new user.',
            }),
          ]}
          button="Show what would happen"
          keeps
          submit={async (body) => {
            setResult(null);
            setResult(await send<ConnectionDryRunResult>('POST', path, body));
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
    </Refusal.Provider>
  );
}

type PartProps = Pick<SectionProps, 'org'>;

function ForAll({ org }: PartProps): JSX.Element {
  const path = `${org}/sso/settings`;
  const query = useQuery<ShownSettings>({ path });
  const members = useQuery<MemberPage>({ path: `${org}/members?limit=${LIMIT}` });
  const owners = (members.data?.data ?? []).filter((one) => one.role === 'OWNER' && one.kind === 'user');
  return (
    <Panel title="For all connections">
      <Loaded query={query}>
        {(settings) => {
          const kept = settings.breakGlassPrincipalId;
          const known = owners.map((one): Option => [one.principalId, `${one.name} (${one.email ?? ''})`]);
          const unknown: Option[] = kept === null || known.some(([id]) => id === kept) ? [] : [[kept, kept]];
          return (
            <>
              <p class="quiet">
                Users have logged in through: {settings.testedProtocols.join(', ') || 'none'}. Confirmed by an owner:{' '}
                {settings.confirmedByOwner.join(', ') || 'none'}. Single sign-on is {settings.enforced ? '' : 'not '}
                enforced.
                {settings.effectiveBreakGlassPrincipalId !== null &&
                  ` The break-glass owner is ${nameOf(owners, settings.effectiveBreakGlassPrincipalId)}.`}
              </p>
              <Form
                key={`${JSON.stringify(settings)}${owners.length}`}
                label="Settings for all connections"
                fields={[
                  field('choice', 'mfaTrust', 'Logins count as logins with a second factor', {
                    options: [
                      ['ASSERTED', 'when the provider says so'],
                      ['ALWAYS', 'always'],
                      ['NEVER', 'never'],
                    ],
                    initial: settings.mfaTrust,
                  }),
                  field('choice', 'breakGlassPrincipalId', 'Break-glass owner, who may always log in with a password', {
                    nullable: true,
                    options: [['', 'chosen by Sluice'], ...known, ...unknown],
                    initial: kept ?? '',
                  }),
                  field('check', 'personalTokens', 'Access tokens of users work while single sign-on is enforced', {
                    initial: settings.personalTokens,
                  }),
                ]}
                button="Save the settings"
                keeps
                submit={async (body) => {
                  await send('PUT', path, body);
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

function Domains({ org }: PartProps): JSX.Element {
  return (
    <Resource<Domain>
      title="Domains"
      list={useList(`${org}/sso/domains`, null)}
      bar={null}
      create="Add the domain"
      form="Add a domain"
      fields={fieldsOf(NewDomain, { domain: { label: 'Domain', placeholder: 'example.com' } })}
      label="Domains"
      empty="There is no domain."
      head={['Domain', ['TXT record', 'mono'], 'State', ['Actions', 'bar-row']]}
      named={(one) => one.domain}
      row={(one, does) => [
        <Text of={one.domain} />,
        <>
          <Text of={one.txtRecord} /> <CopyButton label="Copy" text={() => one.txtRecord} />
        </>,
        one.verifiedAt === null ? 'not proven' : `proven ${time(one.verifiedAt)}`,
        <>
          {one.verifiedAt === null && <Act run={() => does.post('verify')}>Verify</Act>}
          <Danger
            title={`Remove the domain ${one.domain}?`}
            text="Members who were linked because of this domain stay linked. If you add the domain again, it has to be proven again."
            run={does.remove}
          >
            Remove
          </Danger>
        </>,
      ]}
    >
      <p class="quiet">
        A member whose address is in a proven domain is linked to the provider's user with the same address.
      </p>
    </Resource>
  );
}

function Identities({ org }: PartProps): JSX.Element {
  return (
    <Resource<LinkedIdentity>
      title="Linked users"
      list={useList(`${org}/sso/identities`)}
      bar={null}
      label="Linked users"
      empty="No member is linked to a user of a provider."
      head={['Address', ['Subject', 'mono'], ['Last login', 'mono'], 'Actions']}
      named={(one) => one.email}
      row={(one, does) => [
        <Text of={one.email} />,
        <Text of={one.subject} />,
        time(one.lastLoginAt),
        <Danger
          title={`Unlink ${one.email}?`}
          text="The membership is kept. The member's single sign-on sessions end, and the user has to be linked again at the next login."
          run={does.remove}
        >
          Unlink
        </Danger>,
      ]}
    />
  );
}
