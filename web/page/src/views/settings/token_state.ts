// Whether a token is valid, and times that may be missing.
import { time } from '../../address/address';
import type { Token } from '../../api/api_types';

export function timeOrNever(at: string | null): string {
  return at === null ? 'never' : time(at);
}

export function tokenState({ revokedAt, expiresAt }: Pick<Token, 'revokedAt' | 'expiresAt'>): string {
  const now = Date.now();
  if (revokedAt !== null && Date.parse(revokedAt) <= now) return 'revoked';
  if (expiresAt !== null && Date.parse(expiresAt) <= now) return 'expired';
  return revokedAt === null ? 'valid' : `valid until ${time(revokedAt)}`;
}
