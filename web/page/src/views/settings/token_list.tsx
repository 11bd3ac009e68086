// Tokens of the caller, and of agents and services.
import type { JSX } from 'preact';
import { shownTime, type Zone } from '../../address/time';
import { call } from '../../api/client';
import type { Page, Whoami } from '../../api/types';
import type { Query } from '../../ui/query';
import { Text } from '../../ui/text';
import { type Body, Form, options } from './form';
import { Danger, LIMIT, Listed, Secret, under } from './parts';

export interface Token {
  id: string;
  name: string;
  hint: string;
  scopes: string[] | null;
  createdAt: string;
  expiresAt: string | null;
  lastUsedAt: string | null;
  revokedAt: string | null;
}

export interface MadeToken extends Token {
  token: string;
}

interface TokenFormProps {
  me: Whoami;
  why: string | null;
  made: MadeToken | null;
  hide: () => void;
  create: (body: Body) => Promise<void>;
}

export function TokenForm({ me, why, made, hide, create }: TokenFormProps): JSX.Element {
  return (
    <>
      <Form
        label="Create a token"
        fields={[
          { kind: 'text', name: 'name', label: 'Name of the token', required: true },
          { kind: 'number', name: 'expiresInDays', label: 'Days until it expires; empty: never', min: 1, max: 3650 },
          { kind: 'many', name: 'scopes', label: 'Permissions; none chosen: all', options: options([...me.scopes].sort()) },
        ]}
        button="Create a token"
        why={why}
        submit={create}
      />
      {made !== null && <Secret label="The new token" value={made.token} hide={hide} />}
    </>
  );
}

interface TokenListProps {
  query: Query<Page<Token>>;
  path: string;
  zone: Zone;
  why: string | null;
}

export function TokenList({ query, path, zone, why }: TokenListProps): JSX.Element {
  return (
    <Listed
      query={query}
      path={`${path}?limit=${LIMIT}`}
      label="Tokens"
      empty="There is no token."
      head={['Name', 'Token', 'Permissions', 'Last used', 'Expires', 'State', 'Actions']}
      row={(token) => (
        <tr key={token.id}>
          <td>
            <Text of={token.name} />
          </td>
          <td class="mono">{token.hint}</td>
          <td>{token.scopes === null ? 'all' : token.scopes.join(', ')}</td>
          <td class="mono">{token.lastUsedAt === null ? 'never' : shownTime(token.lastUsedAt, zone, 0)}</td>
          <td class="mono">{token.expiresAt === null ? 'never' : shownTime(token.expiresAt, zone, 0)}</td>
          <td>{tokenState(token)}</td>
          <td>
            {token.revokedAt === null && (
              <Danger
                of={token.name}
                why={why}
                title={`Revoke the token ${token.name}?`}
                text="It stops working at once, with all tokens and open invitations that were made with it."
                run={async () => {
                  await call({ method: 'DELETE', path: under(path, token.id) });
                  query.again();
                }}
              >
                Revoke
              </Danger>
            )}
          </td>
        </tr>
      )}
    />
  );
}

export function tokenState(token: { revokedAt: string | null; expiresAt: string | null }): string {
  const now = Date.now();
  if (token.revokedAt !== null && Date.parse(token.revokedAt) <= now) return 'revoked';
  if (token.expiresAt !== null && Date.parse(token.expiresAt) <= now) return 'expired';
  return token.revokedAt === null ? 'valid' : 'valid until it is revoked';
}
