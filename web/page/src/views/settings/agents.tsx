// Agents and services, and their tokens.
import type { JSX } from 'preact';
import { type Member, NewPrincipal } from '../../api/api_types';
import { CopyAs } from '../../ui/copy';
import { Text } from '../../ui/text';
import { Form, fieldsOf, options } from './form';
import { Danger, Listed, lacks, Opener, Panel, Refusal, type SectionProps, under, useList, Why } from './parts';
import { useOpened } from './project';
import { TokensOf, type TokensOfProps } from './tokens';

const ROLES_OF_AGENTS = ['VIEWER', 'BILLING', 'MEMBER', 'ADMIN'];

export default function Agents({ me, org }: SectionProps): JSX.Element {
  const path = `${org}/principals`;
  const list = useList<Member>(path);
  const [opened, open] = useOpened();
  const agent = list.query.data?.data.find((one) => one.principalId === opened);
  const isForeign = agent !== undefined && agent.ownerPrincipalId !== me.principal.id;
  return (
    <Refusal.Provider value={lacks(me, 'tokens:write')}>
      <Panel title="Agents and services">
        <div class="bar-row">
          <CopyAs asked={list.asked} />
        </div>
        <Form
          label="Create an agent or a service"
          fields={fieldsOf(NewPrincipal, {
            name: 'Name',
            kind: {
              label: 'Kind',
              options: [
                ['agent', 'agent: acts on your behalf'],
                ['service', 'service: acts for itself'],
              ],
            },
            role: { label: 'Role, at most yours', options: options(ROLES_OF_AGENTS), initial: 'MEMBER' },
          })}
          button="Create"
          submit={async (body) => open((await list.send<Member>('POST', [], body)).principalId)}
        />
        <Listed
          list={list}
          label="Agents and services"
          empty="There is no agent or service. Their tokens stay valid after your session ends."
          head={['Name', 'Kind', 'Role', ['Owner', 'mono'], ['Actions', 'bar-row']]}
          by={(one) => one.principalId}
          named={(one) => one.name}
          selected={opened}
          row={(one) => [
            <Text of={one.name} />,
            one.kind,
            one.role,
            one.ownerPrincipalId === me.principal.id ? 'you' : <Text of={one.ownerPrincipalId} />,
            <>
              <Opener id={one.principalId} open="Tokens" close="Tokens" label="Tokens of" />
              <Danger
                title={`Retire ${one.name}?`}
                text="Its tokens are revoked, and agents and services that it owns stop working. This cannot be undone."
                run={async () => {
                  await list.send('DELETE', [one.principalId]);
                  if (opened === one.principalId) open(null);
                }}
              >
                Retire
              </Danger>
            </>,
          ]}
        />
        <Why />
      </Panel>
      {opened !== '' && (
        <AgentTokens
          key={opened}
          me={me}
          title={agent === undefined ? 'Tokens' : `Tokens of ${agent.name}`}
          path={under(path, opened, 'tokens')}
          mayNotCreate={isForeign ? 'Only the owner can create tokens for it.' : null}
        />
      )}
    </Refusal.Provider>
  );
}

/** `path`: the path of its tokens. */
function AgentTokens({ path, ...its }: Omit<TokensOfProps, 'list'> & { path: string }): JSX.Element {
  return <TokensOf {...its} list={useList(path)} bar={null} />;
}
