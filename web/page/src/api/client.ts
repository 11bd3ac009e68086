// The only place that sends requests. Answers are exact; errors say what to do.
import { parseExact, parseFast } from './numbers';
import type { Challenge } from './proof_of_work';
import { accessToken, identity, refreshSession, sessionEnded, who } from './session';

export interface Detail {
  path: string;
  message: string;
  code: string;
}

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly details: Detail[],
    readonly requestId: string,
    readonly retryAfterS: number | null,
    readonly challenge: Challenge | null = null,
  ) {
    super(message);
  }
}

/** What reads or sets the cookie of the session; nothing else gets it. */
const KEEPS_COOKIE = /^\/(?:auth\/|sso\/handoff$)/;

export interface Call {
  method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  path: string;
  body?: unknown;
  signal?: AbortSignal;
  /** Large: numbers are looked at only where one could be rounded. */
  large?: boolean;
}

/**
 * Sends a request; after a 401 refreshes the session once. While nobody is logged in, nothing is sent: requests without a
 * token count as failures of the address. Raises ApiError, Unreachable.
 */
export async function call<T>(asked: Call): Promise<T> {
  if (who.value === null) throw new ApiError(401, 'unauthorized', 'Log in to go on.', [], '', null);
  const asker = identity();
  const first = await send(asked, accessToken());
  if (first.status !== 401) return read<T>(first, asked);
  const isRefreshed = await refreshSession();
  // Another tab may have logged in somebody else: what was asked is not theirs.
  if (isRefreshed && identity() === asker) return read<T>(await send(asked, accessToken()), asked);
  const failure = await toError(first);
  if (!isRefreshed && (failure.code === 'unauthorized' || failure.code === 'token_expired')) sessionEnded();
  throw failure;
}

/** Sends a request once, whose 401 does not mean that the session has ended. */
export async function callOnce<T>(asked: Call): Promise<T> {
  return read<T>(await send(asked, accessToken()), asked);
}

/** Sends a request without a session. */
export async function callAnonymously<T>(asked: Call): Promise<T> {
  return read<T>(await send(asked, null), asked);
}

/** No answer came: the server is away, or the connection broke. */
export class Unreachable extends Error {
  constructor() {
    super('The server cannot be reached.');
  }
}

async function send(asked: Call, token: string | null): Promise<Response> {
  try {
    return await fetchOnce(asked, token);
  } catch (error) {
    if (asked.signal?.aborted || !(error instanceof TypeError)) throw error;
    throw new Unreachable();
  }
}

function fetchOnce(asked: Call, token: string | null): Promise<Response> {
  const headers: Record<string, string> = {};
  if (token !== null) headers['Authorization'] = `Bearer ${token}`;
  if (asked.body !== undefined) headers['Content-Type'] = 'application/json';
  return fetch(asked.path, {
    method: asked.method ?? 'GET',
    headers,
    credentials: KEEPS_COOKIE.test(asked.path) ? 'same-origin' : 'omit',
    cache: 'no-store',
    redirect: 'error',
    ...(asked.body === undefined ? {} : { body: JSON.stringify(asked.body) }),
    ...(asked.signal === undefined ? {} : { signal: asked.signal }),
  });
}

async function read<T>(response: Response, asked: Call): Promise<T> {
  if (!response.ok) throw await toError(response);
  if (response.status === 204) return undefined as T;
  const text = await response.text();
  return (asked.large ? parseFast(text) : parseExact(text)) as T;
}

interface Envelope {
  error?: { code?: string; message?: string; details?: Detail[] | Challenge; requestId?: string };
}

async function toError(response: Response): Promise<ApiError> {
  let envelope: Envelope = {};
  try {
    envelope = (await response.json()) as Envelope;
  } catch {
    // a proxy's own answer
  }
  const error = envelope.error ?? {};
  const details = error.details ?? [];
  const wait = Number(response.headers.get('Retry-After'));
  return new ApiError(
    response.status,
    error.code ?? 'unknown',
    error.message ?? `The server answered ${response.status}.`,
    Array.isArray(details) ? details : [],
    error.requestId ?? response.headers.get('X-Request-Id') ?? '',
    response.headers.has('Retry-After') && Number.isFinite(wait) ? wait : null,
    'challenge' in details ? details : null,
  );
}

/** The command that asks the same. The token is a variable: nobody copies a secret. */
export function asCurl(asked: Call): string {
  const url = new URL(asked.path, location.origin).href;
  const parts = [`curl -sS -H "Authorization: Bearer $TOKEN"`];
  if (asked.method !== undefined && asked.method !== 'GET') parts.push(`-X ${asked.method}`);
  if (asked.body !== undefined) {
    parts.push(`-H 'Content-Type: application/json'`, `-d ${quote(JSON.stringify(asked.body))}`);
  }
  return `${parts.join(' ')} ${quote(url)}`;
}

function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
