// The login, over the page.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { ApiError, call } from '../../api/client';
import { loadWho, logIn, logInWithToken, logOut, refreshSession } from '../../api/session';
import type { Whoami } from '../../api/types';
import { Failure } from '../../ui/states';

type Way = 'password' | 'token';

export function Login({ me }: { me: Whoami | null }): JSX.Element {
  return (
    <div class="login">
      <section class="card" role="dialog" aria-label="Log in" aria-modal="true">
        <h1>Sluice</h1>
        {me?.mfaPending ? <SecondFactor /> : <FirstFactor />}
      </section>
    </div>
  );
}

function FirstFactor(): JSX.Element {
  const [way, setWay] = useState<Way>('password');
  const [error, setError] = useState<Error | null>(null);
  const [isBusy, setBusy] = useState(false);
  async function submit(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const text = (name: string): string => String(form.get(name) ?? '').trim();
    setBusy(true);
    setError(null);
    try {
      if (way === 'token') await logInWithToken(text('token'));
      else await logIn(text('email'), String(form.get('password') ?? ''), text('org'), text('totp'));
    } catch (failure) {
      setError(failure as Error);
    } finally {
      setBusy(false);
    }
  }
  return (
    <form onSubmit={(event) => void submit(event)}>
      {way === 'password' ? (
        <>
          <Field name="email" label="E-mail address" type="email" autocomplete="username" required />
          <Field name="password" label="Password" type="password" autocomplete="current-password" required />
          <details>
            <summary>Second factor, organization</summary>
            <Field name="totp" label="Code of the second factor" autocomplete="one-time-code" />
            <Field name="org" label="Organization (slug), if you are in several" />
          </details>
        </>
      ) : (
        <Field name="token" label="Personal access token, kept in this tab alone" type="password" required />
      )}
      {error !== null && <Failure error={error} />}
      <button type="submit" disabled={isBusy}>
        {isBusy ? 'Logging in...' : 'Log in'}
      </button>
      <button type="button" class="quiet" onClick={() => setWay(way === 'token' ? 'password' : 'token')}>
        {way === 'token' ? 'Use a password' : 'Use an access token'}
      </button>
      <p class="quiet">
        On the machine of Sluice: <code>sluice open</code> opens this page logged in.
      </p>
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
      await call({ method: 'POST', path: '/auth/totp/verify', body: { code } });
      await refreshSession();
      await loadWho();
    } catch (failure) {
      setError(failure instanceof ApiError ? failure : (failure as Error));
    }
  }
  return (
    <form onSubmit={(event) => void submit(event)}>
      <Field name="code" label="Code of the second factor, or a recovery code" autocomplete="one-time-code" required />
      {error !== null && <Failure error={error} />}
      <button type="submit">Verify</button>
      <button type="button" class="quiet" onClick={() => void logOut()}>
        Log out
      </button>
    </form>
  );
}

interface FieldProps {
  name: string;
  label: string;
  type?: 'text' | 'email' | 'password';
  autocomplete?: string;
  required?: boolean;
}

export function Field({ name, label, type = 'text', autocomplete, required = false }: FieldProps): JSX.Element {
  return (
    <label class="field">
      <span>{label}</span>
      <input name={name} type={type} required={required} autocomplete={(autocomplete ?? 'off') as 'off'} />
    </label>
  );
}
