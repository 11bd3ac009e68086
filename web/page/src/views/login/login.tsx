// The login, over the page: with a password, through the organization's provider, with a token, or by an invitation.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { address, go } from '../../address/address';
import { ApiError } from '../../api/request';
import {
  accept,
  beginSignOn,
  forgetSignOn,
  invitation,
  logIn,
  logInWithToken,
  logOut,
  refused,
  requestLoginLink,
  spendSignOn,
  unbegun,
  verifySecondFactor,
} from '../../api/session';
import type { OwingWhoami, Whoami } from '../../api/types';
import { findView } from '../../router';
import { Button } from '../../ui/elements';
import { type Action, Failure, useAction } from '../../ui/query';
import { useSignal } from '../../ui/signal';

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

/** What is typed in the fields of a form, by their names. */
type Typed = (name: string) => string;

function typedIn(form: HTMLFormElement | null): Typed {
  const data = new FormData(form ?? undefined);
  return (name) => String(data.get(name) ?? '');
}

/** Does `work` with what was typed when the form is sent. */
function sending(action: Action, work: (typed: Typed) => Promise<void>): (event: SubmitEvent) => void {
  return (event) => {
    event.preventDefault();
    const typed = typedIn(event.currentTarget as HTMLFormElement);
    void action.run(() => work(typed));
  };
}

function FirstFactor(): JSX.Element {
  const earlier = useSignal(refused);
  const [way, setWay] = useState<Way>('password');
  const action = useAction();
  const [isAttacked, setAttacked] = useState(false);
  async function submit(typed: Typed): Promise<void> {
    const text = (name: string): string => typed(name).trim();
    refused.value = null;
    if (way === 'token') return logInWithToken(text('token'));
    if (way === 'sso') return signOn(text('org'));
    const credentials = { email: text('email'), password: typed('password'), orgSlug: text('org'), totp: text('totp') };
    await logIn(credentials, () => setAttacked(true));
  }
  return (
    <form onSubmit={sending(action, submit)}>
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
          label="Organization (slug) that you sign in to"
          autocomplete="organization"
          value={findView(address.value.path)?.place.org ?? ''}
          required
        />
      )}
      {way === 'token' && (
        <Field name="token" label="Personal access token (kept only in this tab)" type="password" required />
      )}
      {way === 'password' && isAttacked && <Attacked isBusy={action.isBusy} />}
      <Failure error={action.error ?? earlier} />
      <button type="submit" disabled={action.isBusy}>
        {action.isBusy ? 'Logging in...' : way === 'sso' ? 'Go to the provider' : 'Log in'}
      </button>
      {WAYS.filter(([other]) => other !== way).map(([other, name]) => (
        <Button
          key={other}
          class="quiet"
          onClick={() => {
            setWay(other);
            action.clear();
          }}
        >
          {name}
        </Button>
      ))}
      <p class="quiet">
        On the server, the command <code>sluice open</code> opens this page and logs you in.
      </p>
    </form>
  );
}

/** What is shown while many passwords are tried at the account from elsewhere. */
function Attacked({ isBusy }: { isBusy: boolean }): JSX.Element {
  const [said, setSaid] = useState('');
  async function mail(email: string): Promise<void> {
    try {
      await requestLoginLink(email);
      setSaid('If the account exists, a link was mailed. Open the link in this browser.');
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
      <Button class="quiet" onClick={(event) => void mail(typedIn(event.currentTarget.form)('email').trim())}>
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
  const action = useAction();
  const spend = (): Promise<void> => spendSignOn(code, null).catch((failure: Error) => void (refused.value = failure));
  return (
    <form onSubmit={sending(action, spend)}>
      <p>
        This tab did not start this sign-on. Continue only if you have just signed in at your organization's identity
        provider. Otherwise you could use another person's account.
      </p>
      <button type="submit" disabled={action.isBusy}>
        Continue
      </button>
      <Button class="quiet" onClick={() => void forgetSignOn()}>
        Cancel
      </Button>
    </form>
  );
}

function Invited(): JSX.Element {
  const action = useAction();
  const [hasAccount, setHasAccount] = useState(false);
  async function submit(typed: Typed): Promise<void> {
    const name = typed('name').trim() || 'unnamed';
    await accept({ name, password: typed('password'), totp: typed('totp').trim(), existingAccount: hasAccount });
    go('/ui/', true);
  }
  return (
    <form onSubmit={sending(action, submit)}>
      <p>You are invited to an organization.</p>
      <label>
        <input type="checkbox" checked={hasAccount} onChange={(event) => setHasAccount(event.currentTarget.checked)} />{' '}
        I already have an account with this address
      </label>
      {!hasAccount && <Field name="name" label="Your name" autocomplete="name" required />}
      <Field
        name="password"
        label={hasAccount ? 'Password of the account' : 'A new password, of at least 12 characters'}
        type="password"
        autocomplete={hasAccount ? 'current-password' : 'new-password'}
        required
      />
      {hasAccount && (
        <Field name="totp" label="Code of the second factor, if the account has one" autocomplete="one-time-code" />
      )}
      <Failure error={action.error} />
      <button type="submit" disabled={action.isBusy}>
        Join
      </button>
      <Button class="quiet" onClick={() => (invitation.value = null)}>
        Log in instead
      </Button>
    </form>
  );
}

function SecondFactor(): JSX.Element {
  const action = useAction();
  return (
    <form onSubmit={sending(action, (typed) => verifySecondFactor(typed('code').trim()))}>
      <Field name="code" label="Code of the second factor, or a recovery code" autocomplete="one-time-code" required />
      <Failure error={action.error} />
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

function Field({ label, autocomplete = 'off', value, ...input }: FieldProps): JSX.Element {
  return (
    <label class="field">
      <span>{label}</span>
      <input type="text" {...input} autocomplete={autocomplete as 'off'} defaultValue={value} />
    </label>
  );
}
