// Integrations: webhooks of source control and of trackers, and what they have delivered.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { shownTime } from '../../address/time';
import { call } from '../../api/client';
import type { Json } from '../../api/numbers';
import type { Page } from '../../api/types';
import { printed } from '../../trace/span';
import { CopyAs, CopyButton } from '../../ui/copy';
import { useQuery } from '../../ui/query';
import { Text } from '../../ui/text';
import { type FieldSpec, Form, options, type Values } from './form';
import { Act, Danger, lacks, LIMIT, Listed, Panel, Secret, type SectionProps, under, useFound, Why } from './parts';
import { useOpened } from './project';

interface Integration {
  id: string;
  kind: string;
  name: string;
  enabled: boolean;
  config: { projects: string[]; allowPlainToken: boolean; syncStatus: boolean };
  hookId: string | null;
  url: string;
  previousSecretUntil: string | null;
}

interface IntegrationWithSecret extends Integration {
  secret: string;
}

interface Inbound {
  id: string;
  event: string;
  status: 'failed' | 'processed';
  result: Json;
  failure: string | null;
  attempts: number;
  receivedAt: string;
  redeliverable: boolean;
}

const KINDS = ['github', 'gitlab', 'gitea', 'forgejo', 'bitbucket', 'jira', 'linear', 'pagerduty', 'generic'];

function configFields(kindOf: (values: Values) => string, slugs: string[], of?: Integration): FieldSpec[] {
  return [
    {
      kind: 'many',
      name: 'config.projects',
      label: 'Projects of its releases and deployments',
      hint: 'None chosen: its changes concern all projects, and its releases none.',
      options: options([...new Set([...slugs, ...(of?.config.projects ?? [])])]),
      initial: of?.config.projects ?? [],
      keepsEmpty: true,
    },
    {
      kind: 'check',
      name: 'config.syncStatus',
      label: 'The state of a ticket changes the issue that it is linked to',
      initial: of?.config.syncStatus ?? true,
    },
    {
      kind: 'check',
      name: 'config.allowPlainToken',
      label: 'Accept the token of a webhook in place of a signature',
      initial: of?.config.allowPlainToken ?? false,
      when: (values) => kindOf(values) === 'gitlab',
    },
    {
      kind: 'text',
      name: 'hookId',
      label: 'Id of the webhook at the platform, if any',
      nullable: true,
      initial: of?.hookId ?? '',
    },
  ];
}

export default function Integrations({ me, org, zone }: SectionProps): JSX.Element {
  const path = `${org}/integrations`;
  const asked = { path: `${path}?limit=${LIMIT}` };
  const query = useQuery<Page<Integration>>(asked);
  const [opened, open] = useOpened();
  const [made, setMade] = useState<IntegrationWithSecret | null>(null);
  const why = lacks(me, 'integrations:write');
  const slugs = me.projects.map((one) => one.slug);
  const found = useFound(query, path, opened);
  return (
    <>
      <Panel title="Integrations">
        <div class="bar-row">
          <CopyAs asked={asked} />
        </div>
        {made !== null && (
          <>
            <p class="notice">
              URL for the webhook of <Text of={made.name} />: <code>{made.url}</code>{' '}
              <CopyButton label="Copy the URL" text={() => made.url} />
            </p>
            <Secret label="The secret that the platform signs with" value={made.secret} hide={() => setMade(null)} />
          </>
        )}
        <Listed
          query={query}
          path={asked.path}
          label="Integrations"
          empty="There is no integration."
          head={['Name', 'Kind', 'Projects', 'State', 'Actions']}
          row={(one) => (
            <tr key={one.id} aria-selected={one.id === opened}>
              <td>
                <Text of={one.name} />
              </td>
              <td>{one.kind}</td>
              <td>{one.config.projects.join(', ') || 'none chosen'}</td>
              <td>{one.enabled ? 'enabled' : 'disabled'}</td>
              <td>
                <button
                  type="button"
                  aria-label={`Open ${one.name}`}
                  aria-expanded={one.id === opened}
                  onClick={() => open(one.id === opened ? null : one.id)}
                >
                  {one.id === opened ? 'Close' : 'Open'}
                </button>
              </td>
            </tr>
          )}
        />
        <Why why={why} />
      </Panel>
      {found !== null && (
        <One
          key={found.id}
          one={found}
          path={under(path, found.id)}
          zone={zone}
          why={why}
          slugs={slugs}
          changed={query.again}
          rotated={(rotated) => {
            setMade(rotated);
            query.again();
          }}
          gone={() => {
            open(null);
            query.again();
          }}
        />
      )}
      <Panel title="New integration">
        <Form
          label="Create an integration"
          fields={[
            { kind: 'text', name: 'name', label: 'Name', required: true },
            { kind: 'choice', name: 'kind', label: 'Kind', options: options(KINDS) },
            { kind: 'password', name: 'secret', label: 'Secret; empty: a new one is made' },
            ...configFields((values) => String(values['kind']), slugs),
          ]}
          button="Create an integration"
          why={why}
          submit={async (body) => {
            setMade(await call<IntegrationWithSecret>({ method: 'POST', path, body }));
            query.again();
          }}
        />
      </Panel>
    </>
  );
}

interface OneProps extends Pick<SectionProps, 'zone'> {
  one: Integration;
  path: string;
  why: string | null;
  slugs: string[];
  changed: () => void;
  rotated: (made: IntegrationWithSecret) => void;
  gone: () => void;
}

function One({ one, path, zone, why, slugs, changed, rotated, gone }: OneProps): JSX.Element {
  const asked = { path: `${path}/deliveries?limit=20` };
  const deliveries = useQuery<Page<Inbound>>(asked);
  return (
    <Panel title={`Integration ${one.name}`}>
      <p>
        URL for the webhook: <code>{one.url}</code> <CopyButton label="Copy the URL" text={() => one.url} />
        {one.previousSecretUntil !== null && (
          <>
            <br />
            The previous secret is accepted until {shownTime(one.previousSecretUntil, zone, 0)}.
          </>
        )}
      </p>
      <div class="bar-row">
        <Act
          why={why}
          run={async () => {
            await call({ method: 'PATCH', path, body: { enabled: !one.enabled } });
            changed();
          }}
        >
          {one.enabled ? 'Disable' : 'Enable'}
        </Act>
        <Danger
          why={why}
          title={`Rotate the secret of ${one.name}?`}
          text="The platform has to get the new secret within a day, in which both are accepted."
          run={async () => rotated(await call<IntegrationWithSecret>({ method: 'POST', path: `${path}/rotate`, body: {} }))}
        >
          Rotate the secret
        </Danger>
        <Danger
          why={why}
          title={`Delete the integration ${one.name}?`}
          text="Its secrets and deliveries are deleted; what it has reported stays. This cannot be undone."
          run={async () => {
            await call({ method: 'DELETE', path });
            gone();
          }}
        >
          Delete
        </Danger>
      </div>
      <Why why={why} />
      <Form
        label="Change the integration"
        fields={[
          { kind: 'text', name: 'name', label: 'Name', required: true, initial: one.name },
          ...configFields(() => one.kind, slugs, one),
        ]}
        button="Save the integration"
        why={why}
        keeps
        done="Saved."
        submit={async (body) => {
          await call({ method: 'PATCH', path, body });
          changed();
        }}
      />
      <h3>Recent deliveries</h3>
      <div class="bar-row">
        <button type="button" onClick={deliveries.again}>
          Reload
        </button>
        <CopyAs asked={asked} />
      </div>
      <Listed
        query={deliveries}
        path={asked.path}
        label="Deliveries"
        empty="The platform has sent nothing yet."
        head={['Received', 'Event', 'State', 'Attempts', 'Result', 'Actions']}
        row={(delivery) => (
          <tr key={delivery.id}>
            <td class="mono">{shownTime(delivery.receivedAt, zone, 0)}</td>
            <td>
              <Text of={delivery.event} />
            </td>
            <td class={delivery.status === 'failed' ? 'error' : ''}>{delivery.status}</td>
            <td class="number">{delivery.attempts}</td>
            <td class="mono">
              <Text of={delivery.failure ?? (delivery.result === null ? '' : printed(delivery.result))} empty="" />
            </td>
            <td>
              <Act
                of={delivery.id}
                why={why ?? whyNotAgain(one, delivery)}
                run={async () => {
                  await call({ method: 'POST', path: under(`${path}/deliveries`, delivery.id, 'redeliver') });
                  deliveries.again();
                }}
              >
                Process again
              </Act>
            </td>
          </tr>
        )}
      />
    </Panel>
  );
}

function whyNotAgain(one: Integration, delivery: Inbound): string | null {
  if (!delivery.redeliverable) return 'Its body is not kept any more.';
  return one.enabled ? null : 'The integration is disabled.';
}
