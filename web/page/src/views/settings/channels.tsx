// Channels: where messages go, whether they arrive, and what they are about.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { shownTime } from '../../address/time';
import { call } from '../../api/client';
import type { Page, Whoami } from '../../api/types';
import { CopyAs } from '../../ui/copy';
import { useQuery } from '../../ui/query';
import { Loaded } from '../../ui/states';
import { Text } from '../../ui/text';
import { type Body, type FieldSpec, Form, options, type Values } from './form';
import { Act, Danger, lacks, LIMIT, Listed, Panel, type SectionProps, under, Why } from './parts';
import { ProjectChoice, useOpened, useProject } from './project';

interface Channel {
  id: string;
  projectId: string | null;
  name: string;
  kind: string;
  enabled: boolean;
  createdAt: string;
}

interface Test {
  ok: boolean;
  detail: string;
  failure: { permanent: boolean; retryAfterSeconds: number | null } | null;
}

interface Delivery {
  id: string;
  type: string;
  title: string | null;
  state: 'CANCELLED' | 'DEAD' | 'DONE' | 'READY' | 'SENDING';
  attempts: number;
  detail: string | null;
  createdAt: string;
  attemptedAt: string | null;
  nextAttemptAt: string | null;
}

const KINDS: [string, string][] = [
  ['webhook', 'webhook: your own receiver, signed'],
  ['email', 'email'],
  ['chat-a', 'chat-a: Slack-compatible'],
  ['chat-b', 'chat-b: Discord-compatible'],
  ['teams', 'teams: a workflow of Teams'],
  ['pager', 'pager: PagerDuty Events v2'],
];
const SEVERITIES = ['info', 'warning', 'error', 'critical'];
const EVENTS: [string, string][] = [
  ['issue.new', 'an issue is new'],
  ['issue.regression', 'a resolved issue is back'],
];

/** The fields of a config, each for its kind. */
function configFields(kindOf: (values: Values) => string): FieldSpec[] {
  const only = (...kinds: string[]) => ({ when: (values: Values) => kinds.includes(kindOf(values)) });
  return [
    { kind: 'url', name: 'config.url', label: 'URL of the receiver', required: true, ...only('webhook') },
    {
      kind: 'password',
      name: 'config.secret',
      label: 'Signing secret',
      required: true,
      hint: 'whsec_ and 16 to 64 bytes in base64',
      ...only('webhook'),
    },
    { kind: 'password', name: 'config.previousSecret', label: 'Previous secret, during a change', ...only('webhook') },
    {
      kind: 'json',
      name: 'config.headers',
      label: 'Headers (JSON)',
      rows: 2,
      hint: 'For example {"X-Team": "ops"}; at most 20',
      ...only('webhook'),
    },
    {
      kind: 'lines',
      name: 'config.to',
      label: 'Addresses, one per line',
      required: true,
      hint: 'At most 20',
      ...only('email'),
    },
    {
      kind: 'url',
      name: 'config.webhookUrl',
      label: 'Webhook URL',
      hint: 'chat-a: or a bot and its channel',
      ...only('chat-a', 'chat-b'),
    },
    { kind: 'password', name: 'config.botToken', label: 'Token of a bot', ...only('chat-a') },
    { kind: 'text', name: 'config.channel', label: 'Channel of the bot', ...only('chat-a') },
    { kind: 'url', name: 'config.workflowUrl', label: 'URL of the workflow', required: true, ...only('teams') },
    {
      kind: 'password',
      name: 'config.routingKey',
      label: 'Routing key of the integration',
      required: true,
      hint: '32 letters and digits',
      ...only('pager'),
    },
    {
      kind: 'choice',
      name: 'config.severity',
      label: 'Severity',
      options: [['', 'that of the message'], ...options(SEVERITIES)],
      ...only('pager'),
    },
  ];
}

const kindGiven = (values: Values): string => String(values['kind']);

export default function Channels({ me, org, zone }: SectionProps): JSX.Element {
  const project = useProject(me);
  const path = under(`${org}/projects`, project, 'notification-channels');
  const asked = { path: `${path}?limit=${LIMIT}` };
  const query = useQuery<Page<Channel>>(project === '' ? null : asked);
  const [opened, open] = useOpened();
  const why = lacks(me, 'channels:write');
  const found = query.data?.data.find((one) => one.id === opened) ?? null;
  return (
    <>
      <Panel title="Channels">
        <div class="bar-row">
          <ProjectChoice me={me} project={project} />
          <CopyAs asked={asked} />
        </div>
        <Listed
          query={query}
          path={asked.path}
          label="Channels"
          empty="There is no channel: nobody is notified."
          head={['Name', 'Kind', 'Of', 'State', 'Created', 'Actions']}
          row={(channel) => (
            <tr key={channel.id} aria-selected={channel.id === opened}>
              <td>
                <Text of={channel.name} />
              </td>
              <td>{channel.kind}</td>
              <td>{channel.projectId === null ? 'the organization' : 'the project'}</td>
              <td>{channel.enabled ? 'enabled' : 'disabled'}</td>
              <td class="mono">{shownTime(channel.createdAt, zone, 0)}</td>
              <td>
                <button
                  type="button"
                  aria-label={`Open ${channel.name}`}
                  aria-expanded={channel.id === opened}
                  onClick={() => open(channel.id === opened ? null : channel.id)}
                >
                  {channel.id === opened ? 'Close' : 'Open'}
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
          channel={found}
          me={me}
          org={org}
          zone={zone}
          path={under(path, found.id)}
          changed={query.again}
          gone={() => {
            open(null);
            query.again();
          }}
        />
      )}
      <Panel title="New channel">
        <Form
          label="Create a channel"
          fields={[
            { kind: 'text', name: 'name', label: 'Name', required: true },
            { kind: 'choice', name: 'kind', label: 'Kind', options: KINDS },
            {
              kind: 'choice',
              name: 'scope',
              label: 'For',
              options: [
                ['project', 'this project'],
                ...(isAdmin(me) ? [['org', 'the whole organization'] as [string, string]] : []),
              ],
            },
            ...configFields(kindGiven),
          ]}
          button="Create a channel"
          why={why}
          submit={async (body) => {
            const made = await call<Channel>({ method: 'POST', path, body: { config: {}, ...body } });
            query.again();
            open(made.id);
          }}
        />
      </Panel>
    </>
  );
}

function isAdmin(me: Whoami): boolean {
  return me.role === 'ADMIN' || me.role === 'OWNER';
}

interface OneProps extends SectionProps {
  channel: Channel;
  path: string;
  changed: () => void;
  gone: () => void;
}

function One({ channel, me, org, zone, path, changed, gone }: OneProps): JSX.Element {
  const isOfOrg = channel.projectId === null;
  const why =
    lacks(me, 'channels:write') ??
    (isOfOrg && !isAdmin(me) ? 'Channels of the organization are managed by administrators.' : null);
  const [result, setResult] = useState<Test | null>(null);
  const asked = { path: `${org}/deliveries?channelId=${encodeURIComponent(channel.id)}&limit=20` };
  const deliveries = useQuery<Page<Delivery>>(asked);
  const kind = (): string => channel.kind;
  return (
    <Panel title={`Channel ${channel.name}`}>
      <div class="bar-row">
        <Act
          why={why}
          run={async () => {
            setResult(null);
            setResult(await call<Test>({ method: 'POST', path: `${path}/test` }));
            deliveries.again();
          }}
        >
          Send a test
        </Act>
        <Act
          why={why}
          run={async () => {
            await call({ method: 'PATCH', path, body: { enabled: !channel.enabled } });
            changed();
          }}
        >
          {channel.enabled ? 'Disable' : 'Enable'}
        </Act>
        <Danger
          why={why}
          title={`Delete the channel ${channel.name}?`}
          text="Its config is erased and its waiting deliveries are cancelled. This cannot be undone."
          run={async () => {
            await call({ method: 'DELETE', path });
            gone();
          }}
        >
          Delete
        </Danger>
      </div>
      <Why why={why} />
      {channel.kind === 'pager' && <p class="quiet">A test opens an incident and closes it.</p>}
      {result !== null && (
        <p class={result.ok ? 'good' : 'error'} role="status">
          <Text of={result.detail} />
          {result.failure !== null &&
            (result.failure.permanent
              ? ' Another attempt would fail, too.'
              : ` Another attempt may succeed${result.failure.retryAfterSeconds === null ? '' : ` in ${result.failure.retryAfterSeconds} s`}.`)}
        </p>
      )}
      <Subscriptions path={`${path}/subscriptions`} why={why} />
      <h3>Name and config</h3>
      <Form
        label="Rename the channel"
        fields={[{ kind: 'text', name: 'name', label: 'Name', required: true, initial: channel.name }]}
        button="Save the name"
        why={why}
        keeps
        done="Saved."
        submit={async (body) => {
          await call({ method: 'PATCH', path, body });
          changed();
        }}
      />
      <details>
        <summary>Replace the config, which is never shown</summary>
        <Form
          label="Replace the config"
          fields={configFields(kind)}
          button="Replace the config"
          why={why}
          done="The config is replaced."
          submit={async (body: Body) => {
            await call({ method: 'PATCH', path, body: { config: {}, ...body } });
            changed();
          }}
        />
      </details>
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
        empty="Nothing was sent yet."
        head={['Created', 'Message', 'State', 'Attempts', 'Detail', 'Actions']}
        row={(one) => (
          <tr key={one.id}>
            <td class="mono">{shownTime(one.createdAt, zone, 0)}</td>
            <td>
              {one.type} {one.title !== null && <Text of={one.title} />}
            </td>
            <td>
              {one.state}
              {one.nextAttemptAt !== null && one.state === 'READY' && `, next attempt ${shownTime(one.nextAttemptAt, zone, 0)}`}
            </td>
            <td class="number">{one.attempts}</td>
            <td>{one.detail !== null && <Text of={one.detail} />}</td>
            <td>
              <Act
                of={one.id}
                why={why ?? whyNotAgain(one, channel)}
                run={async () => {
                  await call({ method: 'POST', path: under(`${org}/deliveries`, one.id, 'redeliver') });
                  deliveries.again();
                }}
              >
                Redeliver
              </Act>
            </td>
          </tr>
        )}
      />
    </Panel>
  );
}

function whyNotAgain(one: Delivery, channel: Channel): string | null {
  if (one.state === 'READY' || one.state === 'SENDING') return 'The delivery has not ended.';
  if (one.type.endsWith('.test')) return 'It was a test: send another one.';
  return channel.enabled ? null : 'The channel is disabled.';
}

function Subscriptions({ path, why }: { path: string; why: string | null }): JSX.Element {
  const query = useQuery<{ events: string[] }>({ path });
  return (
    <>
      <h3>Subscriptions</h3>
      <p class="quiet">Messages about approvals come besides, where a request names the channel or all are notified.</p>
      <Loaded query={query}>
        {({ events }) => (
          <Form
            key={events.join()}
            label="Subscriptions"
            fields={[
              { kind: 'many', name: 'events', label: 'Notified when', options: EVENTS, initial: events, keepsEmpty: true },
            ]}
            button="Save the subscriptions"
            why={why}
            keeps
            done="Saved."
            submit={async (body) => {
              await call({ method: 'PUT', path, body });
            }}
          />
        )}
      </Loaded>
    </>
  );
}
