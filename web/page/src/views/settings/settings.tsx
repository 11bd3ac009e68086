// Settings: account, keys of projects, tokens, members, audit.
import type { ComponentChildren, JSX } from 'preact';
import { useState } from 'preact/hooks';
import { address, go, zoneOf } from '../../address/address';
import { shownTime, type Zone } from '../../address/time';
import { call } from '../../api/client';
import { loadWho, who } from '../../api/session';
import type { Json, Page, Whoami } from '../../api/types';
import type { ViewProps } from '../../router';
import { printed } from '../../trace/span';
import { CopyButton } from '../../ui/copy';
import { Link } from '../../ui/link';
import { useQuery } from '../../ui/query';
import { useSignal } from '../../ui/signal';
import { Failure, Loaded } from '../../ui/states';
import { Text } from '../../ui/text';
import { Field } from '../login/login';

const SECTIONS: [string, string][] = [
  ['keys', 'Project keys'],
  ['tokens', 'Access tokens'],
  ['members', 'Members'],
  ['audit', 'Audit log'],
  ['account', 'Account'],
];

export default function Settings({ place }: ViewProps): JSX.Element {
  const here = useSignal(address);
  const zone = zoneOf(here);
  const me = useSignal(who);
  const section = place.id === '' ? 'keys' : place.id;
  const org = `/orgs/${encodeURIComponent(place.org)}`;
  return (
    <section aria-label="Settings" class="narrow">
      <h1>Settings</h1>
      <nav class="bar-row" aria-label="Sections">
        {SECTIONS.map(([id, name]) => (
          <Link key={id} to={`/ui/${encodeURIComponent(place.org)}/settings/${id}`} current={section === id}>
            {name}
          </Link>
        ))}
      </nav>
      {section === 'keys' && me && <Keys me={me} org={org} zone={zone} />}
      {section === 'tokens' && <Tokens org={org} zone={zone} />}
      {section === 'members' && <Members org={org} />}
      {section === 'audit' && <Audit org={org} zone={zone} />}
      {section === 'account' && me && <Account me={me} />}
    </section>
  );
}

/** A secret that the API shows once. */
function Secret({ label, value }: { label: string; value: string }): JSX.Element {
  return (
    <div class="notice" role="status">
      <p>
        {label}: it is shown once. <CopyButton label="Copy" text={() => value} />
      </p>
      <code>{value}</code>
    </div>
  );
}

interface Key {
  id: string;
  name: string;
  hint: string;
  enabled: boolean;
  createdAt: string;
  revokedAt: string | null;
}

function Keys({ me, org, zone }: { me: Whoami; org: string; zone: Zone }): JSX.Element {
  const here = useSignal(address);
  const project = here.query.get('project') ?? me.projects[0]?.slug ?? '';
  const path = `${org}/projects/${encodeURIComponent(project)}/keys`;
  const query = useQuery<Page<Key>>(project === '' ? null : { path: `${path}?limit=100` });
  const [made, setMade] = useState<{ key: string; dsn: string } | null>(null);
  const action = useAction();
  return (
    <div class="panel">
      <div class="bar-row">
        <label>
          Project{' '}
          <select value={project} onChange={(event) => go(`${here.path}?project=${encodeURIComponent(event.currentTarget.value)}`)}>
            {me.projects.map((one) => (
              <option key={one.id} value={one.slug}>
                {one.slug}
              </option>
            ))}
          </select>
        </label>
        <Create
          label="Name of the key"
          button="Create a key"
          create={(name) =>
            action.run(async () => {
              setMade(await call({ method: 'POST', path, body: { name } }));
              query.again();
            })
          }
        />
      </div>
      {action.error !== null && <Failure error={action.error} />}
      {made !== null && (
        <>
          <Secret label="The new key" value={made.key} />
          <Secret label="Its DSN" value={made.dsn} />
        </>
      )}
      <Loaded query={query}>
        {(page) => (
          <Rows head={['Name', 'Key', 'State', 'Created', '']}>
            {page.data.map((key) => (
              <tr key={key.id}>
                <td>
                  <Text of={key.name} />
                </td>
                <td class="mono">{key.hint}</td>
                <td>{key.revokedAt !== null ? 'revoked' : key.enabled ? 'enabled' : 'disabled'}</td>
                <td class="mono">{shownTime(key.createdAt, zone, 0)}</td>
                <td>
                  {key.revokedAt === null && (
                    <button
                      type="button"
                      onClick={() =>
                        void action.run(async () => {
                          if (!confirm(`Revoke the key ${key.name}? Exporters with it are refused at once.`)) return;
                          await call({ method: 'DELETE', path: `${path}/${key.id}` });
                          query.again();
                        })
                      }
                    >
                      Revoke
                    </button>
                  )}
                </td>
              </tr>
            ))}
          </Rows>
        )}
      </Loaded>
    </div>
  );
}

interface Token {
  id: string;
  name: string;
  hint: string;
  scopes: string[] | null;
  createdAt: string;
  expiresAt: string | null;
  lastUsedAt: string | null;
  revokedAt: string | null;
}

function Tokens({ org, zone }: { org: string; zone: Zone }): JSX.Element {
  const query = useQuery<Page<Token>>({ path: `${org}/tokens?limit=100` });
  const [made, setMade] = useState<string | null>(null);
  const action = useAction();
  return (
    <div class="panel">
      <Create
        label="Name of the token"
        button="Create a token"
        create={(name) =>
          action.run(async () => {
            const { token } = await call<{ token: string }>({ method: 'POST', path: `${org}/tokens`, body: { name } });
            setMade(token);
            query.again();
          })
        }
      />
      {action.error !== null && <Failure error={action.error} />}
      {made !== null && <Secret label="The new token" value={made} />}
      <Loaded query={query}>
        {(page) => (
          <Rows head={['Name', 'Token', 'Scopes', 'Last used', 'State', '']}>
            {page.data.map((token) => (
              <tr key={token.id}>
                <td>
                  <Text of={token.name} />
                </td>
                <td class="mono">{token.hint}</td>
                <td>{token.scopes === null ? 'all of your role' : token.scopes.join(', ')}</td>
                <td class="mono">{token.lastUsedAt === null ? 'never' : shownTime(token.lastUsedAt, zone, 0)}</td>
                <td>{token.revokedAt !== null ? 'revoked' : 'valid'}</td>
                <td>
                  {token.revokedAt === null && (
                    <button
                      type="button"
                      onClick={() =>
                        void action.run(async () => {
                          await call({ method: 'DELETE', path: `${org}/tokens/${token.id}` });
                          query.again();
                        })
                      }
                    >
                      Revoke
                    </button>
                  )}
                </td>
              </tr>
            ))}
          </Rows>
        )}
      </Loaded>
    </div>
  );
}

interface Member {
  principalId: string;
  kind: string;
  name: string;
  email: string | null;
  role: string;
  mfaEnabled: boolean;
}

function Members({ org }: { org: string }): JSX.Element {
  const query = useQuery<Page<Member>>({ path: `${org}/members?limit=100` });
  return (
    <div class="panel">
      <Loaded query={query}>
        {(page) => (
          <Rows head={['Name', 'Address', 'Kind', 'Role', 'Second factor']}>
            {page.data.map((member) => (
              <tr key={member.principalId}>
                <td>
                  <Text of={member.name} />
                </td>
                <td>
                  <Text of={member.email} />
                </td>
                <td>{member.kind}</td>
                <td>{member.role}</td>
                <td>{member.mfaEnabled ? 'yes' : 'no'}</td>
              </tr>
            ))}
          </Rows>
        )}
      </Loaded>
    </div>
  );
}

interface AuditEvent {
  seq: number;
  at: string;
  actorPrincipalId: string | null;
  action: string;
  objectId: string;
  data: Record<string, Json>;
}

function Audit({ org, zone }: { org: string; zone: Zone }): JSX.Element {
  const query = useQuery<Page<AuditEvent>>({ path: `${org}/audit?limit=100` });
  return (
    <div class="panel scroll">
      <Loaded query={query}>
        {(page) => (
          <Rows head={['Time', 'Action', 'Who', 'Object', 'Data']}>
            {page.data.map((event) => (
              <tr key={event.seq}>
                <td class="mono">{shownTime(event.at, zone, 0)}</td>
                <td>{event.action}</td>
                <td class="mono">
                  <Text of={event.actorPrincipalId} />
                </td>
                <td class="mono">
                  <Text of={event.objectId} />
                </td>
                <td>
                  <Text of={Object.entries(event.data).map(([key, value]) => `${key}: ${printed(value)}`).join(', ')} empty="" />
                </td>
              </tr>
            ))}
          </Rows>
        )}
      </Loaded>
    </div>
  );
}

function Account({ me }: { me: Whoami }): JSX.Element {
  const action = useAction();
  const [isDone, setDone] = useState(false);
  if (!me.session) return <p class="panel">You use an access token: an account needs a session.</p>;
  return (
    <form
      class="panel grid"
      onSubmit={(event) => {
        event.preventDefault();
        const form = new FormData(event.currentTarget);
        void action.run(async () => {
          const current = String(form.get('current') ?? '');
          const body = { password: String(form.get('password') ?? ''), ...(current === '' ? {} : { current }) };
          await call({ method: 'POST', path: '/auth/password', body });
          await loadWho();
          setDone(true);
        });
      }}
    >
      <h2>{me.passwordSet ? 'Change the password' : 'Set a password'}</h2>
      <p class="quiet">
        Your address is <Text of={me.principal.email} />.
      </p>
      {me.passwordSet && <Field name="current" label="Current password" type="password" autocomplete="current-password" required />}
      <Field name="password" label="New password" type="password" autocomplete="new-password" required />
      {action.error !== null && <Failure error={action.error} />}
      {isDone && <p class="good">The password is set.</p>}
      <button type="submit">Save</button>
    </form>
  );
}

interface Action {
  error: Error | null;
  run(work: () => Promise<void>): Promise<void>;
}

function useAction(): Action {
  const [error, setError] = useState<Error | null>(null);
  return {
    error,
    async run(work) {
      setError(null);
      try {
        await work();
      } catch (failure) {
        setError(failure as Error);
      }
    },
  };
}

function Create({ label, button, create }: { label: string; button: string; create: (name: string) => Promise<void> }): JSX.Element {
  const [name, setName] = useState('');
  return (
    <form
      class="bar-row"
      onSubmit={(event) => {
        event.preventDefault();
        void create(name).then(() => setName(''));
      }}
    >
      <input type="text" aria-label={label} placeholder={label} value={name} required onInput={(event) => setName(event.currentTarget.value)} />
      <button type="submit">{button}</button>
    </form>
  );
}

function Rows({ head, children }: { head: string[]; children: ComponentChildren }): JSX.Element {
  return (
    <table>
      <thead>
        <tr>
          {head.map((name) => (
            <th key={name}>{name}</th>
          ))}
        </tr>
      </thead>
      <tbody>{children}</tbody>
    </table>
  );
}
