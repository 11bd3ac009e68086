// The login, over the page: with a password, through the organization's provider, with a token, or by an invitation.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { address, go } from '../../address/address';
import { ApiError } from '../../api/request';
import { accept, beginSignOn, forgetSignOn, invitation, logIn, logInWithToken, logOut, refused, requestLoginLink, spendSignOn, unbegun, verifySecondFactor } from '../../api/session';
import type { OwingWhoami, Whoami } from '../../api/types';
import { findView } from '../../router';
import { useSignal } from '../../ui/signal';
import { Button } from '../../ui/button';
import { Failure } from '../../ui/query';

type Way = 'password' | 'sso' | 'token';

const WAYS: [Way, string][] = [
  ['password', 'Use a password'],
  ['sso', 'Sign in with SSO'],
  ['token', 'Use an access token'],
];
const PROTOCOLS = ['oidc', 'saml'];

export function Login({ me }: { me: Whoami | OwingWhoami | null }): JSX.Element {
  const invited = useSignal(invitation);
  const code = useSignal(unbegun);
  return (
    <div class="login">
      <section class="card" role="dialog" aria-label="Log in" aria-modal="true">
        <h1>Sluice</h1>
        {me?.mfaPending ? (
          <SecondFactor />
        ) : invited !== null ? (
          <Invited />
        ) : code !== null ? (
          <Unbegun code={code} />
        ) : (
          <FirstFactor />
        )}
      </section>
    </div>
  );
}

function FirstFactor(): JSX.Element {
  const earlier = useSignal(refused);
  const [way, setWay] = useState<Way>('password');
  const [error, setError] = useState<Error | null>(null);
  const [isBusy, setBusy] = useState(false);
  const [isAttacked, setAttacked] = useState(false);
  const shown = error ?? earlier;
  async function submit(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const text = (name: string): string => String(form.get(name) ?? '').trim();
    refused.value = null;
    setBusy(true);
    setError(null);
    try {
      if (way === 'token') await logInWithToken(text('token'));
      else if (way === 'sso') await signOn(text('org'));
      else {
        const password = String(form.get('password') ?? '');
        const credentials = { email: text('email'), password, orgSlug: text('org'), totp: text('totp') };
        await logIn(credentials, () => setAttacked(true));
      }
    } catch (failure) {
      setError(failure as Error);
    } finally {
      setBusy(false);
    }
  }
  return (
    <form onSubmit={(event) => void submit(event)}>
      {way === 'password' && (
        <>
          <Field name="email" label="E-mail address" type="email" autocomplete="username" required />
          <Field name="password" label="Password" type="password" autocomplete="current-password" required />
          <details>
            <summary>Second factor, organization</summary>
            <Field name="totp" label="Code of the second factor" autocomplete="one-time-code" />
            <Field name="org" label="Organization (slug), if you are in several" />
          </details>
        </>
      )}
      {way === 'sso' && (
        <Field
          name="org"
          label="Organization (slug), whose identity provider you use"
          autocomplete="organization"
          value={findView(address.value.path)?.place.org ?? ''}
          required
        />
      )}
      {way === 'token' && (
        <Field name="token" label="Personal access token, kept in this tab alone" type="password" required />
      )}
      {way === 'password' && isAttacked && <Attacked isBusy={isBusy} />}
      <Failure error={shown} />
      <button type="submit" disabled={isBusy}>
        {isBusy ? 'Logging in...' : way === 'sso' ? 'Go to the provider' : 'Log in'}
      </button>
      {WAYS.filter(([other]) => other !== way).map(([other, name]) => (
        <Button
          key={other}
          class="quiet"
          onClick={() => {
            setWay(other);
            setError(null);
          }}
        >
          {name}
        </Button>
      ))}
      <p class="quiet">
        On the server, <code>sluice open</code> opens this page logged in.
      </p>
    </form>
  );
}

/** What is shown while many passwords are tried at the account from elsewhere. */
function Attacked({ isBusy }: { isBusy: boolean }): JSX.Element {
  const [said, setSaid] = useState('');
  async function mail(event: MouseEvent): Promise<void> {
    const form = new FormData((event.currentTarget as HTMLButtonElement).form ?? undefined);
    try {
      await requestLoginLink(String(form.get('email') ?? '').trim());
      setSaid('If there is such an account, a link is on its way. Open it in this browser.');
    } catch (failure) {
      setSaid((failure as Error).message);
    }
  }
  return (
    <div role="status">
      <p>
        Many wrong passwords were entered for this account. Before each login your browser solves a short computation.
        {isBusy && ' One moment...'}
      </p>
      <p>{said}</p>
      <Button class="quiet" onClick={(event) => void mail(event)}>
        Mail me a link instead
      </Button>
    </div>
  );
}

/** Leaves for the organization's provider, which leads back to this view. Raises ApiError where there is none. */
async function signOn(org: string): Promise<void> {
  const back = encodeURIComponent(beginSignOn());
  for (const protocol of PROTOCOLS) {
    const start = `/sso/${protocol}/${encodeURIComponent(org)}/start?relayState=${back}`;
    // Asked first, and not followed: what refuses is shown here, and not in place of the page.
    const answer = await fetch(start, { redirect: 'manual', credentials: 'same-origin', cache: 'no-store' });
    if (answer.type === 'opaqueredirect') {
      location.assign(start);
      return;
    }
    if (answer.status !== 404) throw await refusal(answer);
  }
  throw new Error(`There is no organization ${org} with single sign-on.`);
}

async function refusal(answer: Response): Promise<Error> {
  const body = (await answer.json().catch(() => ({}))) as { error?: { message?: string; requestId?: string } };
  const message = body.error?.message ?? `The server answered ${answer.status}.`;
  return new ApiError(answer.status, '', message, [], body.error?.requestId ?? '', null);
}

/** A sign-on that was begun elsewhere: at the provider's portal, or by somebody else. */
function Unbegun({ code }: { code: string }): JSX.Element {
  const [isBusy, setBusy] = useState(false);
  async function submit(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    setBusy(true);
    try {
      await spendSignOn(code, null);
    } catch (failure) {
      refused.value = failure as Error;
    }
  }
  return (
    <form onSubmit={(event) => void submit(event)}>
      <p>
        A sign-on that this tab did not begin ends here. Continue only if you have just signed in at your organization's
        provider: otherwise you would use the account of somebody else.
      </p>
      <button type="submit" disabled={isBusy}>
        Continue
      </button>
      <Button class="quiet" onClick={() => void forgetSignOn()}>
        Cancel
      </Button>
    </form>
  );
}

function Invited(): JSX.Element {
  const [error, setError] = useState<Error | null>(null);
  const [hasAccount, setHasAccount] = useState(false);
  const [isBusy, setBusy] = useState(false);
  async function submit(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const text = (name: string): string => String(form.get(name) ?? '').trim();
    setError(null);
    setBusy(true);
    try {
      await accept({
        name: text('name') || 'unnamed',
        password: String(form.get('password') ?? ''),
        totp: text('totp'),
        existingAccount: hasAccount,
      });
      go('/ui/', true);
    } catch (failure) {
      setError(failure as Error);
    } finally {
      setBusy(false);
    }
  }
  return (
    <form onSubmit={(event) => void submit(event)}>
      <p>You are invited to an organization.</p>
      <label>
        <input type="checkbox" checked={hasAccount} onChange={(event) => setHasAccount(event.currentTarget.checked)} /> I
        have an account with this address already
      </label>
      {!hasAccount && <Field name="name" label="Your name" autocomplete="name" required />}
      <Field
        name="password"
        label={hasAccount ? 'Its password' : 'A new password, of at least 12 characters'}
        type="password"
        autocomplete={hasAccount ? 'current-password' : 'new-password'}
        required
      />
      {hasAccount && <Field name="totp" label="Code of its second factor, if it has one" autocomplete="one-time-code" />}
      <Failure error={error} />
      <button type="submit" disabled={isBusy}>
        Join
      </button>
      <Button class="quiet" onClick={() => (invitation.value = null)}>
        Log in instead
      </Button>
    </form>
  );
}

function SecondFactor(): JSX.Element {
  const [error, setError] = useState<Error | null>(null);
  async function submit(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    const code = String(new FormData(event.currentTarget as HTMLFormElement).get('code') ?? '').trim();
    setError(null);
    try {
      await verifySecondFactor(code);
    } catch (failure) {
      setError(failure as Error);
    }
  }
  return (
    <form onSubmit={(event) => void submit(event)}>
      <Field name="code" label="Code of the second factor, or a recovery code" autocomplete="one-time-code" required />
      <Failure error={error} />
      <button type="submit">Verify</button>
      <Button class="quiet" onClick={() => void logOut()}>
        Log out
      </Button>
    </form>
  );
}

interface FieldProps {
  name: string;
  label: string;
  type?: 'text' | 'email' | 'password';
  autocomplete?: string;
  required?: boolean;
  value?: string;
}

export function Field({ name, label, type = 'text', autocomplete, required = false, value }: FieldProps): JSX.Element {
  return (
    <label class="field">
      <span>{label}</span>
      <input
        name={name}
        type={type}
        required={required}
        autocomplete={(autocomplete ?? 'off') as 'off'}
        {...(value === undefined ? {} : { defaultValue: value })}
      />
    </label>
  );
}
