// Integrations: webhooks of source control and of trackers, and what they have delivered.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { time } from '../../address/address';
import type { InboundDelivery, IntegrationBody, IntegrationWithSecret } from '../../api/api_types';
import { printed } from '../../api/numbers';
import { CopyAs, CopyButton } from '../../ui/copy';
import { Text } from '../../ui/text';
import { type FieldSpec, Form, field, options, required, type Values } from './form';
import {
  Act,
  Danger,
  type List,
  Listed,
  lacks,
  Opener,
  Panel,
  Recent,
  Refusal,
  Secret,
  type SectionProps,
  under,
  useFound,
  useList,
  Why,
} from './parts';
import { useOpened } from './project';

const KINDS = ['github', 'gitlab', 'gitea', 'forgejo', 'bitbucket', 'jira', 'linear', 'pagerduty', 'generic'];

function configFields(kindOf: (values: Values) => string, slugs: string[], of?: IntegrationBody): FieldSpec[] {
  const { projects = [], syncStatus = true, allowPlainToken = false } = of?.config ?? {};
  return [
    field('many', 'config.projects', 'Projects of releases and deployments', {
      hint: 'If you choose none, changes belong to all projects, and releases are not recorded.',
      options: options([...new Set([...slugs, ...projects])]),
      initial: projects,
      keepsEmpty: true,
    }),
    field('check', 'config.syncStatus', 'Change an issue when the state of its ticket changes', {
      initial: syncStatus,
    }),
    field('check', 'config.allowPlainToken', 'Accept a token instead of a signature', {
      initial: allowPlainToken,
      when: (values) => kindOf(values) === 'gitlab',
    }),
    field('text', 'hookId', 'Id of the webhook on the platform, if any', { nullable: true, initial: of?.hookId ?? '' }),
  ];
}

export default function Integrations({ me, org }: SectionProps): JSX.Element {
  const list = useList<IntegrationBody>(`${org}/integrations`);
  const [opened] = useOpened();
  const [made, setMade] = useState<IntegrationWithSecret | null>(null);
  const slugs = me.projects.map((one) => one.slug);
  const found = useFound(list, opened);
  return (
    <Refusal.Provider value={lacks(me, 'integrations:write')}>
      <Panel title="Integrations">
        <div class="bar-row">
          <CopyAs asked={list.asked} />
        </div>
        {made !== null && (
          <>
            <p class="notice">
              URL for the webhook of <Text of={made.name} />: <code>{made.url}</code>{' '}
              <CopyButton label="Copy the URL" text={() => made.url} />
            </p>
            <Secret label="The signing secret for the platform" value={made.secret} hide={() => setMade(null)} />
          </>
        )}
        <Listed
          list={list}
          label="Integrations"
          empty="There is no integration."
          head={['Name', 'Kind', 'Projects', 'State', 'Actions']}
          named={(one) => one.name}
          selected={opened}
          row={(one) => [
            <Text of={one.name} />,
            one.kind,
            one.config.projects.join(', ') || 'none chosen',
            one.enabled ? 'enabled' : 'disabled',
            <Opener id={one.id} />,
          ]}
        />
        <Why />
      </Panel>
      {found !== null && <One key={found.id} one={found} list={list} slugs={slugs} rotated={setMade} />}
      <Panel title="New integration">
        <Form
          label="Create an integration"
          fields={[
            required('text', 'name', 'Name'),
            field('choice', 'kind', 'Kind', { options: options(KINDS) }),
            field('password', 'secret', 'Secret (empty: create a new secret)'),
            ...configFields((values) => String(values['kind']), slugs),
          ]}
          button="Create an integration"
          submit={async (body) => setMade(await list.send<IntegrationWithSecret>('POST', [], body))}
        />
      </Panel>
    </Refusal.Provider>
  );
}

interface OneProps {
  one: IntegrationBody;
  list: List<IntegrationBody>;
  slugs: string[];
  rotated: (made: IntegrationWithSecret) => void;
}

function One({ one, list, slugs, rotated }: OneProps): JSX.Element {
  const [, open] = useOpened();
  const deliveries = useList<InboundDelivery>(under(list.path, one.id, 'deliveries'), 20);
  return (
    <Panel title={`Integration ${one.name}`}>
      <p>
        URL for the webhook: <code>{one.url}</code> <CopyButton label="Copy the URL" text={() => one.url} />
        {one.previousSecretUntil !== null && (
          <>
            <br />
            The previous secret is accepted until {time(one.previousSecretUntil)}.
          </>
        )}
      </p>
      <div class="bar-row">
        <Act run={() => list.send('PATCH', [one.id], { enabled: !one.enabled })}>
          {one.enabled ? 'Disable' : 'Enable'}
        </Act>
        <Danger
          title={`Rotate the secret of ${one.name}?`}
          text="Enter the new secret on the platform within a day. Until then, both secrets are accepted."
          run={async () => rotated(await list.send<IntegrationWithSecret>('POST', [one.id, 'rotate'], {}))}
        >
          Rotate the secret
        </Danger>
        <Danger
          title={`Delete the integration ${one.name}?`}
          text="The secrets and deliveries of the integration are deleted. All changes that it reported are kept. This cannot be undone."
          run={async () => {
            await list.send('DELETE', [one.id]);
            open(null);
          }}
        >
          Delete
        </Danger>
      </div>
      <Why />
      <Form
        label="Change the integration"
        fields={[required('text', 'name', 'Name', { initial: one.name }), ...configFields(() => one.kind, slugs, one)]}
        button="Save the integration"
        keeps
        done="Saved."
        submit={(body) => list.send('PATCH', [one.id], body)}
      />
      <Recent title="Recent deliveries" of={deliveries} />
      <Listed
        list={deliveries}
        label="Deliveries"
        empty="The platform has not sent any webhooks yet."
        head={[['Received', 'mono'], 'Event', 'State', 'Attempts', ['Result', 'mono'], 'Actions']}
        named={(delivery) => delivery.id}
        row={(delivery) => [
          time(delivery.receivedAt),
          <Text of={delivery.event} />,
          <td class={delivery.status === 'failed' ? 'error' : ''}>{delivery.status}</td>,
          <td class="number">{delivery.attempts}</td>,
          <Text of={delivery.failure ?? (delivery.result === null ? '' : printed(delivery.result))} empty="" />,
          <Act why={whyNotAgain(one, delivery)} run={() => deliveries.send('POST', [delivery.id, 'redeliver'])}>
            Process again
          </Act>,
        ]}
      />
    </Panel>
  );
}

function whyNotAgain(one: IntegrationBody, delivery: InboundDelivery): string | null {
  if (!delivery.redeliverable) return 'The body of this delivery is no longer stored.';
  return one.enabled ? null : 'The integration is disabled.';
}
