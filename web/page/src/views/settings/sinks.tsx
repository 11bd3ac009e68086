// Sinks: exports to a warehouse, and their runs.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { shownTime } from '../../address/time';
import { call } from '../../api/client';
import { CopyAs } from '../../ui/copy';
import { useQuery } from '../../ui/query';
import { Empty, Loaded } from '../../ui/states';
import { Text } from '../../ui/text';
import { type Body, type FieldSpec, Form, options, type Values } from './form';
import { Act, Danger, lacks, Panel, Rows, type SectionProps, under, Why } from './parts';
import { useOpened } from './project';

interface Sink {
  id: string;
  name: string;
  kind: string;
  enabled: boolean;
  streams: string[];
  configured: boolean;
  notConfiguredReason: string | null;
}

interface Run {
  id: string;
  stream: string;
  status: 'FAILED' | 'NOT_CONFIGURED' | 'SUCCEEDED';
  rows: number;
  bytes: number;
  objectKeys: string[];
  error: string | null;
  startedAt: string;
  finishedAt: string | null;
}

interface Status {
  sink: Sink;
  checkpoints: { stream: string; cursorAt: string | null; rowsExported: number; lastRunAt: string | null }[];
  runs: Run[];
}

interface Exported {
  rows: number;
  runs: { runId: string; stream: string; status: string; rows: number; error: string | null; idle: boolean }[];
}

const KINDS: [string, string][] = [
  ['BLOBSTORE', 'an object store: S3, Google Cloud Storage, Azure'],
  ['SNOWFLAKE', 'Snowflake'],
  ['BIGQUERY', 'BigQuery'],
];
const STREAMS = ['ERROR_ESSENCES', 'INGEST_OUTCOMES', 'ISSUE_ROLLUPS', 'RELEASE_HEALTH_ROLLUPS'];

/** The fields of an object store, at `at` of the body. */
function storeFields(at: string, isAsked: (values: Values) => boolean): FieldSpec[] {
  const provider = (values: Values): string => String(values[`${at}.provider`] ?? 's3');
  const all = { when: isAsked };
  const buckets = { when: (values: Values) => isAsked(values) && provider(values) !== 'azure' };
  const s3 = { when: (values: Values) => isAsked(values) && provider(values) === 's3' };
  const azure = { when: (values: Values) => isAsked(values) && provider(values) === 'azure' };
  return [
    {
      kind: 'choice',
      name: `${at}.provider`,
      label: 'Interface of the store',
      options: [
        ['s3', 'S3, and compatible'],
        ['gcs', 'Google Cloud Storage'],
        ['azure', 'Azure'],
      ],
      ...all,
    },
    { kind: 'text', name: `${at}.bucket`, label: 'Bucket', ...buckets },
    { kind: 'text', name: `${at}.region`, label: 'Region', ...s3 },
    { kind: 'text', name: `${at}.accessKeyId`, label: 'Access key id', ...buckets },
    { kind: 'password', name: `${at}.secretAccessKey`, label: 'Secret access key', ...buckets },
    { kind: 'password', name: `${at}.sessionToken`, label: 'Session token, if any', ...s3 },
    { kind: 'url', name: `${at}.endpoint`, label: 'Endpoint of a compatible store', ...all },
    { kind: 'check', name: `${at}.pathStyle`, label: 'The bucket is in the path', ...s3 },
    { kind: 'text', name: `${at}.account`, label: 'Account', ...azure },
    { kind: 'text', name: `${at}.container`, label: 'Container', ...azure },
    { kind: 'password', name: `${at}.accountKey`, label: 'Account key', ...azure },
    { kind: 'password', name: `${at}.sasToken`, label: 'or SAS token', ...azure },
    { kind: 'text', name: `${at}.prefix`, label: 'Prefix of all keys', ...all },
  ];
}

function configFields(kindOf: (values: Values) => string): FieldSpec[] {
  const is = (kind: string) => (values: Values) => kindOf(values) === kind;
  const snowflake = { when: is('SNOWFLAKE') };
  const bigquery = { when: is('BIGQUERY') };
  return [
    ...storeFields('config', is('BLOBSTORE')).filter((field) => field.name !== 'config.account'),
    {
      kind: 'text',
      name: 'config.account',
      label: 'Account',
      when: (values) => is('SNOWFLAKE')(values) || (is('BLOBSTORE')(values) && values['config.provider'] === 'azure'),
    },
    { kind: 'text', name: 'config.user', label: 'User', ...snowflake },
    { kind: 'long', name: 'config.privateKey', label: 'Private key (PEM, PKCS #8)', ...snowflake },
    { kind: 'text', name: 'config.role', label: 'Role, if not the default', ...snowflake },
    { kind: 'text', name: 'config.warehouse', label: 'Warehouse', ...snowflake },
    { kind: 'text', name: 'config.database', label: 'Database', ...snowflake },
    { kind: 'text', name: 'config.schema', label: 'Schema', ...snowflake },
    { kind: 'text', name: 'config.stage', label: 'External stage', hint: 'It points to the object store below.', ...snowflake },
    ...storeFields('config.store', is('SNOWFLAKE')),
    { kind: 'text', name: 'config.projectId', label: 'Project id', ...bigquery },
    { kind: 'text', name: 'config.dataset', label: 'Dataset', ...bigquery },
    { kind: 'text', name: 'config.location', label: 'Location, if not the default', ...bigquery },
    { kind: 'long', name: 'config.credentialsJson', label: "The service account's key (JSON, as it is)", ...bigquery },
  ];
}

export default function Sinks({ me, org, zone }: SectionProps): JSX.Element {
  const path = `${org}/warehouse/sinks`;
  const asked = { path };
  const query = useQuery<{ data: Sink[] }>(asked);
  const [opened, open] = useOpened();
  const why = lacks(me, 'sinks:write');
  const found = query.data?.data.find((one) => one.id === opened) ?? null;
  return (
    <>
      <Panel title="Sinks">
        <div class="bar-row">
          <CopyAs asked={asked} />
        </div>
        <Loaded query={query}>
          {({ data }) =>
            data.length === 0 ? (
              <Empty title="There is no sink: nothing is exported." />
            ) : (
              <Rows label="Sinks" head={['Name', 'Kind', 'Streams', 'State', 'Actions']}>
                {data.map((sink) => (
                  <tr key={sink.id} aria-selected={sink.id === opened}>
                    <td>
                      <Text of={sink.name} />
                    </td>
                    <td>{sink.kind}</td>
                    <td>{sink.streams.length === STREAMS.length ? 'all' : sink.streams.join(', ')}</td>
                    <td>
                      {sink.enabled ? 'enabled' : 'disabled'}
                      {!sink.configured && (
                        <>
                          , not configured: <Text of={sink.notConfiguredReason} />
                        </>
                      )}
                    </td>
                    <td>
                      <button
                        type="button"
                        aria-label={`Open ${sink.name}`}
                        aria-expanded={sink.id === opened}
                        onClick={() => open(sink.id === opened ? null : sink.id)}
                      >
                        {sink.id === opened ? 'Close' : 'Open'}
                      </button>
                    </td>
                  </tr>
                ))}
              </Rows>
            )
          }
        </Loaded>
        <Why why={why} />
      </Panel>
      {found !== null && (
        <One
          key={found.id}
          sink={found}
          path={under(path, found.id)}
          zone={zone}
          why={why}
          whyNoExport={lacks(me, 'sinks:export')}
          changed={query.again}
          gone={() => {
            open(null);
            query.again();
          }}
        />
      )}
      <Panel title="New sink">
        <Form
          label="Create a sink"
          fields={[
            { kind: 'text', name: 'name', label: 'Name', required: true },
            { kind: 'choice', name: 'kind', label: 'Kind', options: KINDS },
            { kind: 'many', name: 'streams', label: 'Streams', options: options(STREAMS), initial: STREAMS },
            ...configFields((values) => String(values['kind'])),
          ]}
          button="Create a sink"
          why={why}
          submit={async (body) => {
            const made = await call<Sink>({ method: 'POST', path, body });
            query.again();
            open(made.id);
          }}
        />
      </Panel>
    </>
  );
}

interface OneProps extends Pick<SectionProps, 'zone'> {
  sink: Sink;
  path: string;
  why: string | null;
  whyNoExport: string | null;
  changed: () => void;
  gone: () => void;
}

function One({ sink, path, zone, why, whyNoExport, changed, gone }: OneProps): JSX.Element {
  const asked = { path: `${path}/status` };
  const query = useQuery<Status>(asked);
  const [exported, setExported] = useState<Exported | null>(null);
  return (
    <Panel title={`Sink ${sink.name}`}>
      <div class="bar-row">
        <Act
          why={whyNoExport ?? (sink.enabled ? null : 'The sink is disabled.')}
          run={async () => {
            setExported(null);
            setExported(await call<Exported>({ method: 'POST', path: `${path}/export`, body: {} }));
            query.again();
          }}
        >
          Run now
        </Act>
        <Act
          why={why}
          run={async () => {
            await call({ method: 'PATCH', path, body: { enabled: !sink.enabled } });
            changed();
          }}
        >
          {sink.enabled ? 'Disable' : 'Enable'}
        </Act>
        <Danger
          why={why}
          title={`Delete the sink ${sink.name}?`}
          text="Its config, its checkpoints and its runs are deleted; what it has exported stays where it is. This cannot be undone."
          run={async () => {
            await call({ method: 'DELETE', path });
            gone();
          }}
        >
          Delete
        </Danger>
      </div>
      <Why why={why ?? whyNoExport} />
      {exported !== null && (
        <div role="status">
          <p>{exported.rows} rows were exported.</p>
          <ul class="plain">
            {exported.runs.map((run) => (
              <li key={run.runId}>
                {run.stream}: {run.idle ? 'nothing to export' : run.status}
                {run.error !== null && (
                  <span class="error">
                    <Text of={run.error} />
                  </span>
                )}
              </li>
            ))}
          </ul>
        </div>
      )}
      <Form
        label="Change the sink"
        fields={[
          { kind: 'text', name: 'name', label: 'Name', required: true, initial: sink.name },
          { kind: 'many', name: 'streams', label: 'Streams', options: options(STREAMS), initial: sink.streams },
        ]}
        button="Save the sink"
        why={why}
        keeps
        done="Saved."
        submit={async (body) => {
          await call({ method: 'PATCH', path, body });
          changed();
        }}
      />
      <details open={!sink.configured}>
        <summary>Replace the config, which is never shown</summary>
        <Form
          label="Replace the config"
          fields={configFields(() => sink.kind)}
          button="Replace the config"
          why={why}
          done="The config is replaced."
          submit={async (body: Body) => {
            await call({ method: 'PUT', path: `${path}/config`, body: { config: {}, ...body } });
            changed();
            query.again();
          }}
        />
      </details>
      <h3>Runs</h3>
      <div class="bar-row">
        <button type="button" onClick={query.again}>
          Reload
        </button>
        <CopyAs asked={asked} />
      </div>
      <Loaded query={query}>
        {({ checkpoints, runs }) => (
          <>
            <Rows label="Streams" head={['Stream', 'Exported up to', 'Rows', 'Last run']}>
              {checkpoints.map((one) => (
                <tr key={one.stream}>
                  <td>{one.stream}</td>
                  <td class="mono">{one.cursorAt === null ? 'nothing yet' : shownTime(one.cursorAt, zone, 0)}</td>
                  <td class="number">{one.rowsExported}</td>
                  <td class="mono">{one.lastRunAt === null ? 'never' : shownTime(one.lastRunAt, zone, 0)}</td>
                </tr>
              ))}
            </Rows>
            {runs.length === 0 ? (
              <Empty title="It has not run yet." />
            ) : (
              <Rows label="Runs" head={['Begun', 'Stream', 'State', 'Rows', 'Bytes', 'Objects, error']}>
                {runs.map((run) => (
                  <tr key={run.id}>
                    <td class="mono">{shownTime(run.startedAt, zone, 0)}</td>
                    <td>{run.stream}</td>
                    <td class={run.status === 'FAILED' ? 'error' : ''}>
                      {run.finishedAt === null ? 'goes on' : run.status}
                    </td>
                    <td class="number">{run.rows}</td>
                    <td class="number">{run.bytes}</td>
                    <td class="mono">
                      <Text of={run.error ?? run.objectKeys.join(' ')} empty="" />
                    </td>
                  </tr>
                ))}
              </Rows>
            )}
          </>
        )}
      </Loaded>
    </Panel>
  );
}
