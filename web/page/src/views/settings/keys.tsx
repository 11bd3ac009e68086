// Keys of projects, with which exporters send.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { shownTime, type Zone } from '../../address/time';
import { call } from '../../api/client';
import type { Page } from '../../api/types';
import { CopyAs } from '../../ui/copy';
import { useQuery } from '../../ui/query';
import { Text } from '../../ui/text';
import { Form } from './form';
import { Act, Danger, lacks, LIMIT, Listed, Panel, Secret, type SectionProps, under, Why } from './parts';
import { ProjectChoice, useProject } from './project';

interface Key {
  id: string;
  name: string;
  hint: string;
  enabled: boolean;
  createdAt: string;
  revokedAt: string | null;
}

interface MadeKey extends Key {
  key: string;
  dsn: string;
  project: string;
}

export default function Keys({ me, org, zone }: SectionProps): JSX.Element {
  const project = useProject(me);
  const path = under(`${org}/projects`, project, 'keys');
  const asked = { path: `${path}?limit=${LIMIT}` };
  const query = useQuery<Page<Key>>(project === '' ? null : asked);
  const [made, setMade] = useState<MadeKey | null>(null);
  const why = lacks(me, 'keys:write');
  return (
    <Panel title="Project keys">
      <div class="bar-row">
        <ProjectChoice me={me} project={project} />
        <CopyAs asked={asked} />
      </div>
      <Form
        label="Create a key"
        fields={[{ kind: 'text', name: 'name', label: 'Name of the key', required: true }]}
        button="Create a key"
        why={why}
        submit={async (body) => {
          setMade({ ...(await call<MadeKey>({ method: 'POST', path, body })), project });
          query.again();
        }}
      />
      {made !== null && (
        <>
          <Secret label={`The new key of ${made.project}`} value={made.key} hide={() => setMade(null)} />
          <Secret label="Its DSN" value={made.dsn} />
        </>
      )}
      <Listed
        query={query}
        path={asked.path}
        label="Keys"
        empty="The project has no key: nothing can be sent to it."
        head={['Name', 'Key', 'State', 'Created', 'Actions']}
        row={(key) => (
          <tr key={key.id}>
            <td>
              <Text of={key.name} />
            </td>
            <td class="mono">{key.hint}</td>
            <td>{keyState(key, zone)}</td>
            <td class="mono">{shownTime(key.createdAt, zone, 0)}</td>
            <td class="bar-row">
              {key.revokedAt === null && (
                <>
                  <Act
                    of={key.name}
                    why={why}
                    run={async () => {
                      await call({ method: 'PATCH', path: under(path, key.id), body: { enabled: !key.enabled } });
                      query.again();
                    }}
                  >
                    {key.enabled ? 'Disable' : 'Enable'}
                  </Act>
                  <Danger
                    of={key.name}
                    why={why}
                    title={`Rotate the key ${key.name}?`}
                    text="A new key takes its place. The old one works for another day."
                    run={async () => {
                      setMade(await call<MadeKey>({ method: 'POST', path: under(path, key.id, 'rotate'), body: {} }));
                      query.again();
                    }}
                  >
                    Rotate
                  </Danger>
                  <Danger
                    of={key.name}
                    why={why}
                    title={`Revoke the key ${key.name}?`}
                    text="Exporters with it are refused at once. This cannot be undone."
                    run={async () => {
                      await call({ method: 'DELETE', path: under(path, key.id) });
                      query.again();
                    }}
                  >
                    Revoke
                  </Danger>
                </>
              )}
            </td>
          </tr>
        )}
      />
      <Why why={why} />
    </Panel>
  );
}

function keyState(key: Key, zone: Zone): string {
  if (key.revokedAt !== null) {
    return Date.parse(key.revokedAt) <= Date.now() ? 'revoked' : `works until ${shownTime(key.revokedAt, zone, 0)}`;
  }
  return key.enabled ? 'enabled' : 'disabled';
}
