// Keys of projects, with which exporters send.
import type { JSX } from 'preact';
import { time } from '../../address/address';
import { type MadeKey, NewKey, type ProjectKey } from '../../api/api_types';
import { Text } from '../../ui/text';
import { fieldsOf } from './form';
import { Act, Danger, LIMIT, lacks, Secret, type SectionProps, under, useList } from './parts';
import { ProjectChoice, useProject } from './project';
import { Resource } from './resource';

export default function Keys({ me, org }: SectionProps): JSX.Element {
  const project = useProject(me);
  return (
    <Resource<ProjectKey, MadeKey>
      title="Project keys"
      list={useList(under(`${org}/projects`, project, 'keys'), LIMIT, project !== '')}
      why={lacks(me, 'keys:write')}
      bar={<ProjectChoice me={me} project={project} />}
      create="Create a key"
      fields={fieldsOf(NewKey, { name: 'Name of the key' })}
      made={(made, hide) => (
        <>
          <Secret label={`The new key of ${project}`} value={made.key} hide={hide} />
          <Secret label="The DSN of the new key" value={made.dsn} />
        </>
      )}
      label="Keys"
      empty="The project has no key, so no data can be sent to it."
      head={['Name', ['Key', 'mono'], 'State', ['Created', 'mono'], ['Actions', 'bar-row']]}
      named={(key) => key.name}
      row={(key, does) => [
        <Text of={key.name} />,
        key.hint,
        keyState(key),
        time(key.createdAt),
        key.revokedAt === null && (
          <>
            <Act run={() => does.change({ enabled: !key.enabled })}>{key.enabled ? 'Disable' : 'Enable'}</Act>
            <Danger
              title={`Rotate the key ${key.name}?`}
              text="A new key replaces this key, which works for another day."
              run={() => does.make('rotate')}
            >
              Rotate
            </Danger>
            <Danger
              title={`Revoke the key ${key.name}?`}
              text="Exports with this key are refused at once. This cannot be undone."
              run={does.remove}
            >
              Revoke
            </Danger>
          </>
        ),
      ]}
    />
  );
}

function keyState(key: ProjectKey): string {
  if (key.revokedAt !== null) {
    return Date.parse(key.revokedAt) <= Date.now() ? 'revoked' : `works until ${time(key.revokedAt)}`;
  }
  return key.enabled ? 'enabled' : 'disabled';
}
