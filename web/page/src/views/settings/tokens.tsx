// Access tokens of the caller, and of agents and services.
import type { JSX } from 'preact';
import { type MadeToken, NewToken, type Token } from '../../api/api_types';
import type { Whoami } from '../../api/types';
import { Text } from '../../ui/text';
import { fieldsOf, options } from './form';
import { Danger, type List, lacks, Refusal, Secret, type SectionProps, useList } from './parts';
import { Resource } from './resource';
import { timeOrNever, tokenState } from './token_state';

export default function Tokens({ me, org }: SectionProps): JSX.Element {
  return (
    <Refusal.Provider value={lacks(me, 'tokens:write')}>
      <TokensOf me={me} title="Your access tokens" list={useList(`${org}/tokens`)} />
    </Refusal.Provider>
  );
}

export interface TokensOfProps {
  me: Whoami;
  title: string;
  list: List<Token>;
  bar?: null;
  mayNotCreate?: string | null;
}

export function TokensOf({ me, ...its }: TokensOfProps): JSX.Element {
  return (
    <Resource<Token, MadeToken>
      {...its}
      create="Create a token"
      fields={fieldsOf(NewToken, {
        name: 'Name of the token',
        expiresInDays: 'Days until the token expires (empty: never)',
        scopes: { label: 'Permissions (none chosen: all)', options: options([...me.scopes].sort()) },
      })}
      made={(made, hide) => <Secret label="The new token" value={made.token} hide={hide} />}
      label="Tokens"
      empty="There is no token."
      head={['Name', ['Token', 'mono'], 'Permissions', ['Last used', 'mono'], ['Expires', 'mono'], 'State', 'Actions']}
      named={(token) => token.name}
      row={(token, does) => [
        <Text of={token.name} />,
        token.hint,
        token.scopes === null ? 'all' : token.scopes.join(', '),
        timeOrNever(token.lastUsedAt),
        timeOrNever(token.expiresAt),
        tokenState(token),
        token.revokedAt === null && (
          <Danger
            title={`Revoke the token ${token.name}?`}
            text="The token stops working at once. Tokens and open invitations that were created with it stop working, too."
            run={does.remove}
          >
            Revoke
          </Danger>
        ),
      ]}
    />
  );
}
