// Sinks: exports to a warehouse, and their runs.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { time } from '../../address/address';
import type { ExportResult, SinkStatus, WarehouseSink } from '../../api/api_types';
import { send } from '../../api/client';
import { CopyAs } from '../../ui/copy';
import { Empty, Loaded, useQuery } from '../../ui/query';
import { Text } from '../../ui/text';
import { type FieldSpec, Form, field, type Option, options, required, type Values } from './form';
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
  Rows,
  type SectionProps,
  under,
  useList,
  Why,
} from './parts';
import { useOpened } from './project';
import { timeOrNever } from './token_state';

const KINDS: Option[] = [
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
  const stores: Option[] = [
    ['s3', 'S3 and compatible stores'],
    ['gcs', 'Google Cloud Storage'],
    ['azure', 'Azure'],
  ];
  return [
    field('choice', `${at}.provider`, 'Interface of the store', { options: stores, ...all }),
    field('text', `${at}.bucket`, 'Bucket', buckets),
    field('text', `${at}.region`, 'Region', s3),
    field('text', `${at}.accessKeyId`, 'Access key id', buckets),
    field('password', `${at}.secretAccessKey`, 'Secret access key', buckets),
    field('password', `${at}.sessionToken`, 'Session token, if any', s3),
    field('url', `${at}.endpoint`, 'Endpoint of a compatible store', all),
    field('check', `${at}.pathStyle`, 'The path of a URL has the bucket (path style)', s3),
    field('text', `${at}.account`, 'Account', azure),
    field('text', `${at}.container`, 'Container', azure),
    field('password', `${at}.accountKey`, 'Account key', azure),
    field('password', `${at}.sasToken`, 'SAS token, instead of an account key', azure),
    field('text', `${at}.prefix`, 'Prefix of all keys', all),
  ];
}

function configFields(kindOf: (values: Values) => string): FieldSpec[] {
  const is = (kind: string) => (values: Values) => kindOf(values) === kind;
  const snowflake = { when: is('SNOWFLAKE') };
  const bigquery = { when: is('BIGQUERY') };
  return [
    ...storeFields('config', is('BLOBSTORE')).filter((one) => one.name !== 'config.account'),
    field('text', 'config.account', 'Account', {
      when: (values) => is('SNOWFLAKE')(values) || (is('BLOBSTORE')(values) && values['config.provider'] === 'azure'),
    }),
    field('text', 'config.user', 'User', snowflake),
    field('long', 'config.privateKey', 'Private key (PEM, PKCS #8)', snowflake),
    field('text', 'config.role', 'Role, if not the default', snowflake),
    field('text', 'config.warehouse', 'Warehouse', snowflake),
    field('text', 'config.database', 'Database', snowflake),
    field('text', 'config.schema', 'Schema', snowflake),
    field('text', 'config.stage', 'External stage', {
      hint: 'The stage has to point to the object store below.',
      ...snowflake,
    }),
    ...storeFields('config.store', is('SNOWFLAKE')),
    field('text', 'config.projectId', 'Project id', bigquery),
    field('text', 'config.dataset', 'Dataset', bigquery),
    field('text', 'config.location', 'Location, if not the default', bigquery),
    field('long', 'config.credentialsJson', 'Key of the service account (JSON file)', bigquery),
  ];
}

export default function Sinks({ me, org }: SectionProps): JSX.Element {
  const list = useList<WarehouseSink>(`${org}/warehouse/sinks`, null);
  const [opened, open] = useOpened();
  const found = list.query.data?.data.find((one) => one.id === opened);
  return (
    <Refusal.Provider value={lacks(me, 'sinks:write')}>
      <Panel title="Sinks">
        <div class="bar-row">
          <CopyAs asked={list.asked} />
        </div>
        <Listed
          list={list}
          label="Sinks"
          empty="There is no sink, so no data is exported."
          head={['Name', 'Kind', 'Streams', 'State', 'Actions']}
          named={(sink) => sink.name}
          selected={opened}
          row={(sink) => [
            <Text of={sink.name} />,
            sink.kind,
            sink.streams.length === STREAMS.length ? 'all' : sink.streams.join(', '),
            <>
              {sink.enabled ? 'enabled' : 'disabled'}
              {!sink.configured && (
                <>
                  , not configured: <Text of={sink.notConfiguredReason} />
                </>
              )}
            </>,
            <Opener id={sink.id} />,
          ]}
        />
        <Why />
      </Panel>
      {found !== undefined && <One key={found.id} sink={found} list={list} whyNoExport={lacks(me, 'sinks:export')} />}
      <Panel title="New sink">
        <Form
          label="Create a sink"
          fields={[
            required('text', 'name', 'Name'),
            field('choice', 'kind', 'Kind', { options: KINDS }),
            field('many', 'streams', 'Streams', { options: options(STREAMS), initial: STREAMS }),
            ...configFields((values) => String(values['kind'])),
          ]}
          button="Create a sink"
          submit={async (body) => open((await list.send<WarehouseSink>('POST', [], body)).id)}
        />
      </Panel>
    </Refusal.Provider>
  );
}

interface OneProps {
  sink: WarehouseSink;
  list: List<WarehouseSink>;
  whyNoExport: string | null;
}

function One({ sink, list, whyNoExport }: OneProps): JSX.Element {
  const [, open] = useOpened();
  const path = under(list.path, sink.id);
  const asked = { path: `${path}/status` };
  const query = useQuery<SinkStatus>(asked);
  const [exported, setExported] = useState<ExportResult | null>(null);
  const change = (body: unknown): Promise<unknown> => list.send('PATCH', [sink.id], body);
  return (
    <Panel title={`Sink ${sink.name}`}>
      <div class="bar-row">
        <Refusal.Provider value={whyNoExport}>
          <Act
            why={sink.enabled ? null : 'The sink is disabled.'}
            run={async () => {
              setExported(null);
              setExported(await send<ExportResult>('POST', `${path}/export`, {}));
              query.again();
            }}
          >
            Run now
          </Act>
        </Refusal.Provider>
        <Act run={() => change({ enabled: !sink.enabled })}>{sink.enabled ? 'Disable' : 'Enable'}</Act>
        <Danger
          title={`Delete the sink ${sink.name}?`}
          text="The config, checkpoints and runs of the sink are deleted. Data that was already exported is not deleted. This cannot be undone."
          run={async () => {
            await list.send('DELETE', [sink.id]);
            open(null);
          }}
        >
          Delete
        </Danger>
      </div>
      <Why besides={whyNoExport} />
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
          required('text', 'name', 'Name', { initial: sink.name }),
          field('many', 'streams', 'Streams', { options: options(STREAMS), initial: sink.streams }),
        ]}
        button="Save the sink"
        keeps
        done="Saved."
        submit={change}
      />
      <details open={!sink.configured}>
        <summary>Replace the config (it is never shown)</summary>
        <Form
          label="Replace the config"
          fields={configFields(() => sink.kind)}
          button="Replace the config"
          done="The config is replaced."
          submit={async (body) => {
            await list.send('PUT', [sink.id, 'config'], { config: {}, ...body });
            query.again();
          }}
        />
      </details>
      <Recent title="Runs" of={{ query, asked }} />
      <Loaded query={query}>
        {({ checkpoints, runs }) => (
          <>
            <Rows
              label="Streams"
              head={['Stream', ['Exported up to', 'mono'], 'Rows', ['Last run', 'mono']]}
              items={checkpoints}
              by={(one) => one.stream}
              row={(one) => [
                one.stream,
                one.cursorAt === null ? 'nothing yet' : time(one.cursorAt),
                <td class="number">{one.rowsExported}</td>,
                timeOrNever(one.lastRunAt),
              ]}
            />
            {runs.length === 0 ? (
              <Empty title="The sink has not run yet." />
            ) : (
              <Rows
                label="Runs"
                head={[['Started', 'mono'], 'Stream', 'State', 'Rows', 'Bytes', ['Objects, error', 'mono']]}
                items={runs}
                row={(run) => [
                  time(run.startedAt),
                  run.stream,
                  <td class={run.status === 'FAILED' ? 'error' : ''}>
                    {run.finishedAt === null ? 'running' : run.status}
                  </td>,
                  <td class="number">{run.rows}</td>,
                  <td class="number">{run.bytes}</td>,
                  <Text of={run.error ?? run.objectKeys.join(' ')} empty="" />,
                ]}
              />
            )}
          </>
        )}
      </Loaded>
    </Panel>
  );
}
