// The only place that sends requests. Answers are exact; errors say what to do.
import type { Challenge, ChallengeErrorBody, ErrorBody, Issue } from './api_types';
import { parseExact, parseFast } from './numbers';

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly details: Issue[],
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

/** Sends a request, whose 401 does not mean that the session has ended. Raises ApiError, Unreachable. */
export async function request<T>(asked: Call, token: string | null): Promise<T> {
  return read<T>(await sent(asked, token), asked);
}

/** No answer came: the server is away, or the connection broke. */
export class Unreachable extends Error {
  constructor() {
    super('The server cannot be reached.');
  }
}

async function sent(asked: Call, token: string | null): Promise<Response> {
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

async function toError(response: Response): Promise<ApiError> {
  // A proxy's own answer may be no JSON.
  const { error = {} }: { error?: Partial<ErrorBody | ChallengeErrorBody> } = await response.json().catch(() => ({}));
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
