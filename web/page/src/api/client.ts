// Requests of a session.
import { ApiError, type Call, request } from './request';
import { accessToken, identity, refreshSession, sessionEnded, who } from './session';

/**
 * Sends a request; after a 401 refreshes the session once. While nobody is logged in, nothing is sent: requests without a
 * token count as failures of the address. Raises ApiError, Unreachable.
 */
export async function call<T>(asked: Call): Promise<T> {
  if (who.value === null) throw new ApiError(401, 'unauthorized', 'Log in to continue.', [], '', null);
  const asker = identity();
  try {
    return await request<T>(asked, accessToken());
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
    const isRefreshed = await refreshSession();
    // Another tab may have logged in somebody else: what was asked is not theirs.
    if (isRefreshed && identity() === asker) return request<T>(asked, accessToken());
    if (!isRefreshed && (error.code === 'unauthorized' || error.code === 'token_expired')) sessionEnded();
    throw error;
  }
}

export function send<T>(method: 'POST' | 'PUT' | 'PATCH' | 'DELETE', path: string, body?: unknown): Promise<T> {
  return call<T>({ method, path, body });
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
