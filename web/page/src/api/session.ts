// The session of the browser: the access token in memory alone, the refresh token in a cookie that no script can read.
import { go } from '../address/address';
import { returnAddress } from '../address/return_path';
import { signal } from '../ui/signal';
import type { Handoff, SessionMaterial } from './api_types';
import { ApiError, request } from './request';
import type { OwingWhoami, Whoami } from './types';

const REFRESH_LOCK = 'sluice-refresh';
const EARLY_MS = 60_000;
const MAX_WAIT_S = 10;
const SIGN_ON_END = '/sso/complete';
const BEGUN_MS = 600_000;
const BEGUN = 'sluice.sign-on';
const MAX_BACK = 900; // of the 1 024 characters of a relayState

interface Token {
  text: string;
  expiresAt: number;
}

type Message = 'logout' | 'login';

let token: Token | null = null;
/** A personal access token that was pasted: in the memory of this tab. */
let pasted: string | null = null;
/** The secret of a mailed link that was in the address, which spares the login a proof of work. */
let linkSecret: string | null = null;
let refreshing: Promise<boolean> | null = null;
const channel = 'BroadcastChannel' in window ? new BroadcastChannel('sluice') : null;

/** Who is logged in. `undefined`: not known yet; null: nobody. */
export const who = signal<Whoami | OwingWhoami | null | undefined>(undefined);
/** Whose page it is: of somebody whose session has ended too, until a logout. */
export const owner = signal<Whoami | null>(null);
/** Why it is not known who is logged in. */
export const trouble = signal<Error | null>(null);

/** Tells sessions of different users or organizations apart. */
export function identity(): string {
  const me = who.value;
  return me ? `${me.principal.id} ${me.mfaPending ? '' : me.organization.id}` : '';
}

export function accessToken(): string | null {
  return pasted ?? token?.text ?? null;
}

/** Why a code in the address did not log anybody in. */
export const refused = signal<Error | null>(null);

/** The secret of an invitation that was in the address. */
export const invitation = signal<string | null>(null);

/** The code of a sign-on that this tab has not begun: it is spent when the user says so. */
export const unbegun = signal<string | null>(null);

/** Called once: by a code in the address, else by the cookie. */
export async function startSession(): Promise<void> {
  channel?.addEventListener('message', (event: MessageEvent<Message>) => {
    if (pasted !== null) return; // that session is this tab's own
    if (event.data === 'logout') forget();
    else void continueSession();
  });
  // A link with a code that is pasted over the address of this tab loads nothing.
  window.addEventListener('hashchange', () => void spendSecrets());
  if (!(await spendSecrets())) await continueSession();
}

/** Whether a secret was in the address. */
async function spendSecrets(): Promise<boolean> {
  const isSignOn = location.pathname === SIGN_ON_END;
  const code = takeSecret('code', isSignOn ? '/ui/' : location.pathname + location.search);
  const invited = takeSecret('inviteToken', '/ui/');
  if (invited !== null) invitation.value = invited;
  linkSecret = takeSecret('linkSecret', '/ui/') ?? linkSecret;
  if (isSignOn || code !== null) {
    try {
      if (isSignOn) await endSignOn(code);
      else await keep(await post<SessionMaterial>('/auth/exchange', { code, cookie: true }));
      tell('login');
    } catch (error) {
      refused.value = error as Error;
      await continueSession(); // that of the browser, if it has one
    }
    return true;
  }
  return false;
}

/** By the cookie, if it is still good. */
export async function continueSession(): Promise<void> {
  trouble.value = null;
  try {
    if (!(await refreshPatiently())) who.value = null;
  } catch (error) {
    if (who.value === undefined) trouble.value = error as Error;
  }
}

/** Once more where the server says when: many tabs that a browser restores refresh one session at once. */
async function refreshPatiently(): Promise<boolean> {
  try {
    return await refreshSession();
  } catch (error) {
    if (!(error instanceof ApiError) || error.retryAfterS === null || error.retryAfterS > MAX_WAIT_S) throw error;
    const wait = error.retryAfterS * 1_000;
    await new Promise((resolve) => setTimeout(resolve, wait));
    return refreshSession();
  }
}

/** A secret leaves the address at once: it must not be in the history. `address` takes its place. */
function takeSecret(name: string, address: string): string | null {
  const found = new RegExp(`^#${name}=([\\w-]{20,128})$`).exec(location.hash);
  if (found === null) return null;
  go(address, true);
  return found[1] ?? null;
}

/** Marks a single sign-on as begun by this tab; where it leads back to, for `relayState`. */
export function beginSignOn(): string {
  const begun = Array.from(crypto.getRandomValues(new Uint8Array(16)), (one) => one.toString(16).padStart(2, '0')).join(
    '',
  );
  sessionStorage.setItem(BEGUN, `${begun} ${Date.now()}`);
  const here = location.pathname + location.search;
  const back = here.startsWith('/ui/') && here.length <= MAX_BACK ? here : '/ui/';
  return `${back}${back.includes('?') ? '&' : '?'}begun=${begun}`;
}

/**
 * The end of a single sign-on. Its code says who has logged in, not in which browser: anybody can send somebody the code
 * of an account of their own. So it is spent at once only where this tab has begun the sign-on.
 */
async function endSignOn(code: string | null): Promise<void> {
  const [begun = '', at = '0'] = (sessionStorage.getItem(BEGUN) ?? '').split(' ');
  sessionStorage.removeItem(BEGUN);
  if (code === null) {
    go('/ui/', true);
    throw new Error("This address has no code. Begin at your organization's sign-in address.");
  }
  if (begun === '' || Date.now() - Number(at) > BEGUN_MS) {
    unbegun.value = code;
    who.value = null;
    return;
  }
  await spendSignOn(code, begun);
}

/** The user goes to where they wanted. `begun`: what the sign-on has to lead back with; null: the user has agreed. */
export async function spendSignOn(code: string, begun: string | null): Promise<void> {
  unbegun.value = null;
  const made = await post<Handoff>('/sso/handoff', { code, cookie: true });
  const next = returnAddress(made.next ?? '/ui/', location.origin) ?? new URL('/ui/', location.origin);
  if (begun !== null && next.searchParams.get('begun') !== begun) {
    await post('/auth/logout', { cookie: true });
    throw new Error('This is not the sign-on that was started in this tab. Start again.');
  }
  if (next.searchParams.has('begun')) next.searchParams.delete('begun'); // rewrites the query
  if (next.pathname.startsWith('/ui/')) {
    go(next.pathname + next.search, true);
    await keep(made);
    tell('login');
  } else {
    location.replace(next.href); // another page of this origin, whose requests have the cookie
  }
}

/** The session that the browser has, instead of that of the sign-on. */
export async function forgetSignOn(): Promise<void> {
  unbegun.value = null;
  await continueSession();
}

export interface Credentials {
  email: string;
  password: string;
  orgSlug: string;
  totp: string;
}

/** `onProofOfWork` is called when the server wants a proof of work first, which takes seconds. */
export async function logIn(credentials: Credentials, onProofOfWork: () => void): Promise<void> {
  const { email, password, orgSlug, totp } = credentials;
  const body = {
    email,
    password,
    cookie: true,
    ...(orgSlug ? { orgSlug } : {}),
    ...(totp ? { totp } : {}),
    ...(linkSecret === null ? {} : { linkSecret }),
  };
  try {
    await keep(await post<SessionMaterial>('/auth/login', body));
  } catch (error) {
    const asked = error instanceof ApiError ? error.challenge : null;
    if (asked === null) throw error;
    onProofOfWork();
    const { solve } = await import('./proof_of_work');
    const solved = { challenge: asked.challenge, proof: await solve(asked) };
    await keep(await post<SessionMaterial>('/auth/login', { ...body, ...solved }));
  }
  tell('login');
}

/** Mails a link with which this browser needs no proof of work, if there is such an account. */
export async function requestLoginLink(email: string): Promise<void> {
  await post('/auth/login/link', { email });
}

export interface Acceptance {
  name: string;
  password: string;
  totp: string;
  existingAccount: boolean;
}

/** Joins the organization of the invitation. */
export async function accept({ name, password, totp, existingAccount }: Acceptance): Promise<void> {
  const body = {
    inviteToken: invitation.value,
    name,
    password,
    existingAccount,
    cookie: true,
    ...(totp ? { totp } : {}),
  };
  await keep(await post<SessionMaterial>('/auth/invitations/accept', body));
  invitation.value = null;
  tell('login');
}

/** The second factor of a session that still needs it. The session gets other tokens. */
export async function verifySecondFactor(code: string): Promise<void> {
  await keep(await post<SessionMaterial>('/auth/totp/verify', { code, cookie: true }, accessToken()));
  tell('login');
}

/** The session goes on in another organization of the account, at its first view. */
export async function switchOrganization(orgSlug: string): Promise<void> {
  const made = await inTurn(() => post<SessionMaterial>('/auth/switch', { orgSlug, cookie: true }));
  owner.value = null; // what is shown is of the other organization
  who.value = undefined;
  go('/ui/', true);
  try {
    await keep(made);
  } catch (error) {
    trouble.value = error as Error;
  }
  tell('login');
}

export async function logInWithToken(text: string): Promise<void> {
  pasted = text;
  try {
    await loadWho();
  } catch (error) {
    pasted = null;
    throw error;
  }
}

export async function logOut(): Promise<void> {
  if (pasted === null) {
    try {
      await post('/auth/logout', { cookie: true });
    } catch (error) {
      if (!isRefused(error)) throw error; // the session goes on
    }
    tell('logout');
  }
  forget();
}

/** Whether there is a session now. Tabs take turns: each refresh spends the token that the last one has left. Raises
 * what says nothing about the session: the server is away, or busy. */
export function refreshSession(): Promise<boolean> {
  if (pasted !== null) return Promise.resolve(false);
  refreshing ??= inTurn(async () => {
    try {
      await keep(await post<SessionMaterial>('/auth/refresh', { cookie: true }));
      return true;
    } catch (error) {
      if (!isRefused(error)) throw error;
      return false;
    }
  }).finally(() => {
    refreshing = null;
  });
  return refreshing;
}

/** The login appears over the page, which keeps its state. */
export function sessionEnded(): void {
  token = null;
  pasted = null;
  who.value = null;
}

export async function loadWho(): Promise<void> {
  const me = await callAnonymouslyWithToken<Whoami | OwingWhoami>('/auth/whoami');
  if (!me.mfaPending) owner.value = me;
  else if (owner.value?.principal.id !== me.principal.id) owner.value = null;
  who.value = me;
}

function isRefused(error: unknown): boolean {
  return error instanceof ApiError && [400, 401, 403].includes(error.status);
}

async function callAnonymouslyWithToken<T>(path: string): Promise<T> {
  const response = await fetch(path, {
    headers: { Authorization: `Bearer ${accessToken() ?? ''}` },
    credentials: 'omit',
    cache: 'no-store',
  });
  if (!response.ok) throw new Error(response.status === 401 ? 'The token is not valid.' : `Status ${response.status}`);
  return (await response.json()) as T;
}

/** Who it is is asked each time: the cookie is shared with tabs that log in somebody else. */
async function keep(material: SessionMaterial): Promise<void> {
  const { accessToken: text, expiresIn } = material.tokens;
  token = { text, expiresAt: Date.now() + expiresIn * 1000 };
  scheduleRefresh();
  await loadWho();
}

function scheduleRefresh(): void {
  const current = token;
  if (current === null) return;
  const wait = Math.max(EARLY_MS, current.expiresAt - Date.now() - EARLY_MS);
  setTimeout(() => {
    if (token === current && document.visibilityState === 'visible') refreshSession().catch(() => undefined); // the next 401 asks again
  }, wait);
}

function forget(): void {
  owner.value = null;
  sessionEnded();
}

/** The other tabs. */
function tell(message: Message): void {
  channel?.postMessage(message);
}

/** One tab after the other. */
function inTurn<T>(work: () => Promise<T>): Promise<T> {
  return 'locks' in navigator ? (navigator.locks.request(REFRESH_LOCK, work) as Promise<T>) : work();
}

function post<T>(path: string, body: unknown, token: string | null = null): Promise<T> {
  return request<T>({ method: 'POST', path, body }, token);
}
