// Agents and services, and their tokens.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { call } from '../../api/client';
import type { Page, Whoami } from '../../api/types';
import { CopyAs } from '../../ui/copy';
import { useQuery } from '../../ui/query';
import { Text } from '../../ui/text';
import { Form, options } from './form';
import type { Member } from './members';
import { Danger, lacks, LIMIT, Listed, Panel, type SectionProps, under, Why } from './parts';
import { useOpened } from './project';
import { type MadeToken, TokenForm, TokenList, type Token } from './token_list';

const ROLES_OF_AGENTS = ['VIEWER', 'BILLING', 'MEMBER', 'ADMIN'];

export default function Agents({ me, org, zone }: SectionProps): JSX.Element {
  const path = `${org}/principals`;
  const asked = { path: `${path}?limit=${LIMIT}` };
  const query = useQuery<Page<Member>>(asked);
  const [opened, open] = useOpened();
  const why = lacks(me, 'tokens:write');
  return (
    <>
      <Panel title="Agents and services">
        <div class="bar-row">
          <CopyAs asked={asked} />
        </div>
        <Form
          label="Create an agent or a service"
          fields={[
            { kind: 'text', name: 'name', label: 'Name', required: true },
            {
              kind: 'choice',
              name: 'kind',
              label: 'Kind',
              options: [
                ['agent', 'agent: acts on your behalf'],
                ['service', 'service: acts for itself'],
              ],
            },
            { kind: 'choice', name: 'role', label: 'Role, at most yours', options: options(ROLES_OF_AGENTS), initial: 'MEMBER' },
          ]}
          button="Create"
          why={why}
          submit={async (body) => {
            const made = await call<Member>({ method: 'POST', path, body });
            query.again();
            open(made.principalId);
          }}
        />
        <Listed
          query={query}
          path={asked.path}
          label="Agents and services"
          empty="There is no agent and no service. Their tokens end with them, not with your session."
          head={['Name', 'Kind', 'Role', 'Owner', 'Actions']}
          row={(one) => (
            <tr key={one.principalId} aria-selected={one.principalId === opened}>
              <td>
                <Text of={one.name} />
              </td>
              <td>{one.kind}</td>
              <td>{one.role}</td>
              <td class="mono">{one.ownerPrincipalId === me.principal.id ? 'you' : <Text of={one.ownerPrincipalId} />}</td>
              <td class="bar-row">
                <button
                  type="button"
                  aria-label={`Tokens of ${one.name}`}
                  aria-expanded={one.principalId === opened}
                  onClick={() => open(one.principalId === opened ? null : one.principalId)}
                >
                  Tokens
                </button>
                <Danger
                  of={one.name}
                  why={why}
                  title={`Retire ${one.name}?`}
                  text="Its tokens are revoked, and what it owns stops working. This cannot be undone."
                  run={async () => {
                    await call({ method: 'DELETE', path: under(path, one.principalId) });
                    if (opened === one.principalId) open(null);
                    query.again();
                  }}
                >
                  Retire
                </Danger>
              </td>
            </tr>
          )}
        />
        <Why why={why} />
      </Panel>
      {opened !== '' && (
        <AgentTokens
          key={opened}
          me={me}
          agent={query.data?.data.find((one) => one.principalId === opened) ?? null}
          path={under(path, opened, 'tokens')}
          zone={zone}
          why={why}
        />
      )}
    </>
  );
}

interface AgentTokensProps extends Pick<SectionProps, 'zone'> {
  me: Whoami;
  agent: Member | null;
  path: string;
  why: string | null;
}

function AgentTokens({ me, agent, path, zone, why }: AgentTokensProps): JSX.Element {
  const query = useQuery<Page<Token>>({ path: `${path}?limit=${LIMIT}` });
  const [made, setMade] = useState<MadeToken | null>(null);
  const isForeign = agent !== null && agent.ownerPrincipalId !== me.principal.id;
  return (
    <Panel title={agent === null ? 'Tokens' : `Tokens of ${agent.name}`}>
      <TokenForm
        me={me}
        why={why ?? (isForeign ? 'Only its owner creates tokens for it.' : null)}
        made={made}
        hide={() => setMade(null)}
        create={async (body) => {
          setMade(await call<MadeToken>({ method: 'POST', path, body }));
          query.again();
        }}
      />
      <TokenList query={query} path={path} zone={zone} why={why} />
    </Panel>
  );
}
