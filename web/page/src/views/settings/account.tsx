// The account of the caller: password, address, second factor.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { call } from '../../api/client';
import { beginSignOn, loadWho } from '../../api/session';
import type { Whoami } from '../../api/types';
import { CopyButton } from '../../ui/copy';
import { type Query, useQuery } from '../../ui/query';
import { Loaded } from '../../ui/states';
import { Text } from '../../ui/text';
import { Form } from './form';
import { Act, Panel, Secret, type SectionProps } from './parts';

interface User {
  id: string;
  email: string;
  name: string;
  locale: string;
  theme: string;
  emailVerified: boolean;
  mfaEnabled: boolean;
}

export default function Account({ me }: SectionProps): JSX.Element {
  const query = useQuery<User>(me.session ? { path: '/auth/user' } : null);
  if (!me.session) {
    return (
      <Panel title="Account">
        <p>You use an access token: an account needs a session. Log out, and log in with your password.</p>
      </Panel>
    );
  }
  return (
    <>
      <Password me={me} />
      <Loaded query={query}>
        {(user) => (
          <>
            <Profile user={user} again={query.again} />
            <SecondFactor me={me} user={user} query={query} />
            <SingleSignOn />
          </>
        )}
      </Loaded>
    </>
  );
}

function Password({ me }: { me: Whoami }): JSX.Element {
  return (
    <Panel title={me.passwordSet ? 'Change the password' : 'Set a password'}>
      <Form
        label="Password"
        fields={[
          ...(me.passwordSet
            ? [{ kind: 'password' as const, name: 'current', label: 'Current password', required: true }]
            : []),
          {
            kind: 'password',
            name: 'password',
            label: 'New password',
            required: true,
            hint: 'At least 12 characters. All your other sessions end.',
          },
        ]}
        button="Save"
        done="The password is set."
        submit={async (body) => {
          await call({ method: 'POST', path: '/auth/password', body });
          await loadWho();
        }}
      />
    </Panel>
  );
}

function Profile({ user, again }: { user: User; again: () => void }): JSX.Element {
  const [isMailed, setMailed] = useState(false);
  return (
    <Panel title="Name and address">
      <Form
        label="Name"
        fields={[{ kind: 'text', name: 'name', label: 'Name', required: true, initial: user.name }]}
        button="Save the name"
        keeps
        done="Saved."
        submit={async (body) => {
          await call({ method: 'PATCH', path: '/auth/user', body });
          await loadWho();
          again();
        }}
      />
      <p>
        Your address is <Text of={user.email} />,{' '}
        {user.emailVerified ? 'which is verified.' : 'which is not verified: you cannot join other organizations with it.'}
      </p>
      {!user.emailVerified && (
        <>
          <div class="bar-row">
            <Act
              run={async () => {
                await call({ method: 'POST', path: '/auth/email/verification' });
                setMailed(true);
              }}
            >
              Mail a token to the address
            </Act>
            {isMailed && <span role="status">The mail is on its way. Its token is valid for 30 minutes.</span>}
          </div>
          <Form
            label="Verify the address"
            fields={[
              { kind: 'text', name: 'token', label: 'Token of the mail', required: true },
              { kind: 'password', name: 'password', label: 'Password that the account is to have', required: true },
            ]}
            button="Verify the address"
            submit={async (body) => {
              await call({ method: 'POST', path: '/auth/email/verification/confirm', body });
              await loadWho();
              again();
            }}
          />
        </>
      )}
    </Panel>
  );
}

/** Links the account to a user of the organization's provider, through a login there. */
function SingleSignOn(): JSX.Element {
  const [urls, setUrls] = useState<[string, string][] | null>(null);
  return (
    <Panel title="Single sign-on">
      <p class="quiet">
        Linked to your user at the organization's identity provider, you log in to this account through it. Owners, and
        members outside of proven domains, are linked in this way alone.
      </p>
      {urls === null ? (
        <Act
          run={async () => {
            const made = await call<{ startUrls: Record<string, string> }>({ method: 'POST', path: '/auth/sso/links' });
            setUrls(Object.entries(made.startUrls));
          }}
        >
          Link this account
        </Act>
      ) : (
        <div class="bar-row" role="status">
          Within ten minutes, in this browser:
          {urls.map(([protocol, url]) => (
            <button
              key={protocol}
              type="button"
              onClick={() => {
                const start = new URL(url);
                start.searchParams.set('relayState', beginSignOn());
                location.assign(start);
              }}
            >
              Log in through {protocol}
            </button>
          ))}
        </div>
      )}
    </Panel>
  );
}

interface Proposal {
  secret: string;
  uri: string;
}

interface SecondFactorProps {
  me: Whoami;
  user: User;
  query: Query<User>;
}

function SecondFactor({ me, user, query }: SecondFactorProps): JSX.Element {
  const [proposal, setProposal] = useState<Proposal | null>(null);
  const [codes, setCodes] = useState<string[] | null>(null);
  return (
    <Panel title="Second factor">
      {codes !== null && (
        <>
          <Secret
            label="Recovery codes: each replaces a code of the app, once. Keep them apart from it"
            value={codes.join('\n')}
            hide={() => setCodes(null)}
          />
        </>
      )}
      {user.mfaEnabled ? (
        <>
          <p>Logins need a code of your authenticator app.</p>
          <Form
            label="Disable the second factor"
            fields={[
              { kind: 'password', name: 'password', label: 'Password', required: true },
              { kind: 'text', name: 'code', label: 'Code of the app, or a recovery code', required: true },
            ]}
            button="Disable the second factor"
            submit={async (body) => {
              await call({ method: 'POST', path: '/auth/totp/disable', body });
              setCodes(null);
              query.again();
            }}
          />
        </>
      ) : proposal === null ? (
        <>
          <p>Logins need your password alone.</p>
          <Form
            label="Enrol a second factor"
            fields={[{ kind: 'password', name: 'password', label: 'Password', required: true }]}
            button="Enrol an authenticator app"
            why={me.passwordSet ? null : 'Set a password first.'}
            submit={async (body) => setProposal(await call<Proposal>({ method: 'POST', path: '/auth/totp', body }))}
          />
        </>
      ) : (
        <>
          <p>
            <a href={proposal.uri}>Open it in an authenticator app</a> of this device, or enter the secret there:{' '}
            <code class="secret">{proposal.secret}</code>{' '}
            <CopyButton label="Copy the secret" text={() => proposal.secret} />{' '}
            <CopyButton label="Copy the otpauth link" text={() => proposal.uri} />
          </p>
          <Form
            label="Confirm the second factor"
            fields={[{ kind: 'text', name: 'code', label: 'Code that the app shows', required: true }]}
            button="Confirm"
            submit={async (body) => {
              const made = await call<{ recoveryCodes: string[] }>({ method: 'POST', path: '/auth/totp/confirm', body });
              setCodes(made.recoveryCodes);
              setProposal(null);
              query.again();
            }}
          />
          <button type="button" onClick={() => setProposal(null)}>
            Cancel
          </button>
        </>
      )}
    </Panel>
  );
}
