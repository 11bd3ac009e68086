// The account of the caller: password, address, second factor.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { AccountLink, Proposal, RecoveryCodes, SessionUser } from '../../api/api_types';
import { send } from '../../api/client';
import { beginSignOn, loadWho } from '../../api/session';
import type { Whoami } from '../../api/types';
import { CopyButton } from '../../ui/copy';
import { Button } from '../../ui/elements';
import { Loaded, useQuery } from '../../ui/query';
import { Text } from '../../ui/text';
import { Form, required } from './form';
import { Act, Panel, Secret, type SectionProps } from './parts';

export default function Account({ me }: SectionProps): JSX.Element {
  const query = useQuery<SessionUser>(me.session ? { path: '/auth/user' } : null);
  if (!me.session) {
    return (
      <Panel title="Account">
        <p>You are logged in with an access token. To change your account, log out and log in with your password.</p>
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
            <SecondFactor me={me} user={user} again={query.again} />
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
          ...(me.passwordSet ? [required('password', 'current', 'Current password')] : []),
          required('password', 'password', 'New password', {
            hint: 'At least 12 characters. All your other sessions end.',
          }),
        ]}
        button="Save"
        done="The password is set."
        submit={async (body) => {
          await send('POST', '/auth/password', body);
          await loadWho();
        }}
      />
    </Panel>
  );
}

function Profile({ user, again }: { user: SessionUser; again: () => void }): JSX.Element {
  const [isMailed, setMailed] = useState(false);
  async function change(method: 'PATCH' | 'POST', path: string, body: unknown): Promise<void> {
    await send(method, path, body);
    await loadWho();
    again();
  }
  return (
    <Panel title="Name and address">
      <Form
        label="Name"
        fields={[required('text', 'name', 'Name', { initial: user.name })]}
        button="Save the name"
        keeps
        done="Saved."
        submit={(body) => change('PATCH', '/auth/user', body)}
      />
      <p>
        Your address is <Text of={user.email} />,{' '}
        {user.emailVerified
          ? 'which is verified.'
          : 'which is not verified: you cannot join other organizations with it.'}
      </p>
      {!user.emailVerified && (
        <>
          <div class="bar-row">
            <Act
              run={async () => {
                await send('POST', '/auth/email/verification');
                setMailed(true);
              }}
            >
              Mail a token to this address
            </Act>
            {isMailed && <span role="status">The mail is on its way. Its token is valid for 30 minutes.</span>}
          </div>
          <Form
            label="Verify the address"
            fields={[
              required('text', 'token', 'Token from the mail'),
              required('password', 'password', 'New password of the account'),
            ]}
            button="Verify the address"
            submit={(body) => change('POST', '/auth/email/verification/confirm', body)}
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
        Link this account to your user at the organization's identity provider to log in through the provider. Owners,
        and members whose address is not in a proven domain, can only be linked in this way.
      </p>
      {urls === null ? (
        <Act run={async () => setUrls(Object.entries((await send<AccountLink>('POST', '/auth/sso/links')).startUrls))}>
          Link this account
        </Act>
      ) : (
        <div class="bar-row" role="status">
          Within ten minutes, in this browser:
          {urls.map(([protocol, url]) => (
            <Button
              key={protocol}
              onClick={() => {
                const start = new URL(url);
                start.searchParams.set('relayState', beginSignOn());
                location.assign(start);
              }}
            >
              Log in through {protocol}
            </Button>
          ))}
        </div>
      )}
    </Panel>
  );
}

interface SecondFactorProps {
  me: Whoami;
  user: SessionUser;
  again: () => void;
}

function SecondFactor({ me, user, again }: SecondFactorProps): JSX.Element {
  const [proposal, setProposal] = useState<Proposal | null>(null);
  const [codes, setCodes] = useState<string[] | null>(null);
  return (
    <Panel title="Second factor">
      {codes !== null && (
        <Secret
          label="Recovery codes, each of which replaces a code from the app once. Keep them separate from the app"
          value={codes.join('\n')}
          hide={() => setCodes(null)}
        />
      )}
      {user.mfaEnabled ? (
        <>
          <p>Logins need a code from your authenticator app.</p>
          <Form
            label="Disable the second factor"
            fields={[
              required('password', 'password', 'Password'),
              required('text', 'code', 'Code from the app, or a recovery code'),
            ]}
            button="Disable the second factor"
            submit={async (body) => {
              await send('POST', '/auth/totp/disable', body);
              setCodes(null);
              again();
            }}
          />
        </>
      ) : proposal === null ? (
        <>
          <p>Logins need only your password.</p>
          <Form
            label="Enrol a second factor"
            fields={[required('password', 'password', 'Password')]}
            button="Enrol an authenticator app"
            why={me.passwordSet ? null : 'Set a password first.'}
            submit={async (body) => setProposal(await send<Proposal>('POST', '/auth/totp', body))}
          />
        </>
      ) : (
        <>
          <p>
            <a href={proposal.uri}>Open the link in an authenticator app</a> on this device, or enter this secret in the
            app: <code class="secret">{proposal.secret}</code>{' '}
            <CopyButton label="Copy the secret" text={() => proposal.secret} />{' '}
            <CopyButton label="Copy the otpauth link" text={() => proposal.uri} />
          </p>
          <Form
            label="Confirm the second factor"
            fields={[required('text', 'code', 'Code that the app shows')]}
            button="Confirm"
            submit={async (body) => {
              setCodes((await send<RecoveryCodes>('POST', '/auth/totp/confirm', body)).recoveryCodes);
              setProposal(null);
              again();
            }}
          />
          <Button onClick={() => setProposal(null)}>Cancel</Button>
        </>
      )}
    </Panel>
  );
}
