// Channels: where messages go, whether they arrive, and what they are about.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { time } from '../../address/address';
import type {
  ChannelSubscriptions,
  ChannelTest,
  DeliveryPage,
  NotificationChannel,
  StoredDelivery,
} from '../../api/api_types';
import { send } from '../../api/client';
import type { Whoami } from '../../api/types';
import { CopyAs } from '../../ui/copy';
import { Loaded, useQuery } from '../../ui/query';
import { Text } from '../../ui/text';
import { type FieldSpec, Form, field, type Option, options, required, type Values } from './form';
import {
  Act,
  Danger,
  LIMIT,
  type List,
  Listed,
  lacks,
  Opener,
  Panel,
  Recent,
  Refusal,
  type SectionProps,
  under,
  useList,
  Why,
} from './parts';
import { ProjectChoice, useOpened, useProject } from './project';

const KINDS: Option[] = [
  ['webhook', 'webhook: your own receiver, signed'],
  ['email', 'email'],
  ['chat-a', 'chat-a: Slack-compatible'],
  ['chat-b', 'chat-b: Discord-compatible'],
  ['teams', 'teams: a workflow of Teams'],
  ['pager', 'pager: PagerDuty Events v2'],
];
const SEVERITIES = ['info', 'warning', 'error', 'critical'];
const EVENTS: Option[] = [
  ['issue.new', 'an issue is new'],
  ['issue.regression', 'a resolved issue occurs again'],
];

/** The fields of a config, each for its kind. */
function configFields(kindOf: (values: Values) => string): FieldSpec[] {
  const only = (...kinds: string[]) => ({ when: (values: Values) => kinds.includes(kindOf(values)) });
  return [
    required('url', 'config.url', 'URL of the receiver', only('webhook')),
    required('password', 'config.secret', 'Signing secret', {
      hint: 'whsec_ and 16 to 64 bytes in base64',
      ...only('webhook'),
    }),
    field('password', 'config.previousSecret', 'Previous secret, during a change', only('webhook')),
    field('json', 'config.headers', 'Headers (JSON)', {
      rows: 2,
      hint: 'For example {"X-Team": "ops"}, at most 20 headers',
      ...only('webhook'),
    }),
    required('lines', 'config.to', 'Addresses, one per line', { hint: 'At most 20 addresses', ...only('email') }),
    field('url', 'config.webhookUrl', 'Webhook URL', {
      hint: 'For chat-a, you can enter the token and channel of a bot instead.',
      ...only('chat-a', 'chat-b'),
    }),
    field('password', 'config.botToken', 'Token of a bot', only('chat-a')),
    field('text', 'config.channel', 'Channel of the bot', only('chat-a')),
    required('url', 'config.workflowUrl', 'URL of the workflow', only('teams')),
    required('password', 'config.routingKey', 'Routing key of the integration', {
      hint: '32 letters and digits',
      ...only('pager'),
    }),
    field('choice', 'config.severity', 'Severity', {
      options: [['', 'the severity of the message'], ...options(SEVERITIES)],
      ...only('pager'),
    }),
  ];
}

export default function Channels({ me, org }: SectionProps): JSX.Element {
  const project = useProject(me);
  const path = under(`${org}/projects`, project, 'notification-channels');
  const list = useList<NotificationChannel>(path, LIMIT, project !== '');
  const [opened, open] = useOpened();
  const found = list.query.data?.data.find((one) => one.id === opened);
  const isForAdmins = found?.projectId === null && !isAdmin(me);
  const why = lacks(me, 'channels:write');
  return (
    <Refusal.Provider value={why}>
      <Panel title="Channels">
        <div class="bar-row">
          <ProjectChoice me={me} project={project} />
          <CopyAs asked={list.asked} />
        </div>
        <Listed
          list={list}
          label="Channels"
          empty="There is no channel, so no notifications are sent."
          head={['Name', 'Kind', 'Belongs to', 'State', ['Created', 'mono'], 'Actions']}
          named={(channel) => channel.name}
          selected={opened}
          row={(channel) => [
            <Text of={channel.name} />,
            channel.kind,
            channel.projectId === null ? 'the organization' : 'the project',
            channel.enabled ? 'enabled' : 'disabled',
            time(channel.createdAt),
            <Opener id={channel.id} />,
          ]}
        />
        <Why />
      </Panel>
      {found !== undefined && (
        <Refusal.Provider
          value={why ?? (isForAdmins ? 'Only administrators can change channels of the organization.' : null)}
        >
          <One key={found.id} channel={found} org={org} list={list} />
        </Refusal.Provider>
      )}
      <Panel title="New channel">
        <Form
          label="Create a channel"
          fields={[
            required('text', 'name', 'Name'),
            field('choice', 'kind', 'Kind', { options: KINDS }),
            field('choice', 'scope', 'For', {
              options: [
                ['project', 'this project'],
                ...(isAdmin(me) ? [['org', 'the whole organization'] as Option] : []),
              ],
            }),
            ...configFields((values) => String(values['kind'])),
          ]}
          button="Create a channel"
          submit={async (body) => open((await list.send<NotificationChannel>('POST', [], { config: {}, ...body })).id)}
        />
      </Panel>
    </Refusal.Provider>
  );
}

function isAdmin(me: Whoami): boolean {
  return me.role === 'ADMIN' || me.role === 'OWNER';
}

interface OneProps {
  channel: NotificationChannel;
  org: string;
  list: List<NotificationChannel>;
}

function One({ channel, org, list }: OneProps): JSX.Element {
  const [, open] = useOpened();
  const [result, setResult] = useState<ChannelTest | null>(null);
  const asked = { path: `${org}/deliveries?channelId=${encodeURIComponent(channel.id)}&limit=20` };
  const deliveries = { asked, query: useQuery<DeliveryPage>(asked) };
  const change = (body: object): Promise<unknown> => list.send('PATCH', [channel.id], body);
  return (
    <Panel title={`Channel ${channel.name}`}>
      <div class="bar-row">
        <Act
          run={async () => {
            setResult(null);
            setResult(await send<ChannelTest>('POST', under(list.path, channel.id, 'test')));
            deliveries.query.again();
          }}
        >
          Send a test
        </Act>
        <Act run={() => change({ enabled: !channel.enabled })}>{channel.enabled ? 'Disable' : 'Enable'}</Act>
        <Danger
          title={`Delete the channel ${channel.name}?`}
          text="The config of the channel is erased, and waiting deliveries are cancelled. This cannot be undone."
          run={async () => {
            await list.send('DELETE', [channel.id]);
            open(null);
          }}
        >
          Delete
        </Danger>
      </div>
      <Why />
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
      <Subscriptions path={under(list.path, channel.id, 'subscriptions')} />
      <h3>Name and config</h3>
      <Form
        label="Rename the channel"
        fields={[required('text', 'name', 'Name', { initial: channel.name })]}
        button="Save the name"
        keeps
        done="Saved."
        submit={change}
      />
      <details>
        <summary>Replace the config (it is never shown)</summary>
        <Form
          label="Replace the config"
          fields={configFields(() => channel.kind)}
          button="Replace the config"
          done="The config is replaced."
          submit={(body) => change({ config: {}, ...body })}
        />
      </details>
      <Recent title="Recent deliveries" of={deliveries} />
      <Listed<StoredDelivery>
        list={deliveries}
        label="Deliveries"
        empty="No messages have been sent yet."
        head={[['Created', 'mono'], 'Message', 'State', 'Attempts', 'Detail', 'Actions']}
        named={(one) => one.id}
        row={(one) => [
          time(one.createdAt),
          <>
            {one.type} {one.title !== null && <Text of={one.title} />}
          </>,
          <>
            {one.state}
            {one.nextAttemptAt !== null && one.state === 'READY' && `, next attempt ${time(one.nextAttemptAt)}`}
          </>,
          <td class="number">{one.attempts}</td>,
          one.detail !== null && <Text of={one.detail} />,
          <Act
            why={whyNotAgain(one, channel)}
            run={async () => {
              await send('POST', under(`${org}/deliveries`, one.id, 'redeliver'));
              deliveries.query.again();
            }}
          >
            Redeliver
          </Act>,
        ]}
      />
    </Panel>
  );
}

function whyNotAgain(one: StoredDelivery, channel: NotificationChannel): string | null {
  if (one.state === 'READY' || one.state === 'SENDING') return 'The delivery is still in progress.';
  if (one.type.endsWith('.test')) return 'Tests cannot be redelivered. Send another test.';
  return channel.enabled ? null : 'The channel is disabled.';
}

function Subscriptions({ path }: { path: string }): JSX.Element {
  const query = useQuery<ChannelSubscriptions>({ path });
  return (
    <>
      <h3>Subscriptions</h3>
      <p class="quiet">
        Approval notifications are sent in addition, if a request names this channel or notifies all channels.
      </p>
      <Loaded query={query}>
        {({ events }) => (
          <Form
            key={events.join()}
            label="Subscriptions"
            fields={[field('many', 'events', 'Notify when', { options: EVENTS, initial: events, keepsEmpty: true })]}
            button="Save the subscriptions"
            keeps
            done="Saved."
            submit={(body) => send('PUT', path, body)}
          />
        )}
      </Loaded>
    </>
  );
}
