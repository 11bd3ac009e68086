// What a project scrubs beyond the built-in rules, and the keys that it exempts from them.
import type { JSX } from 'preact';
import { call } from '../../api/client';
import { CopyAs } from '../../ui/copy';
import { useQuery } from '../../ui/query';
import { Loaded } from '../../ui/states';
import { type FieldSpec, Form } from './form';
import { lacks, Panel, type SectionProps, under, Why } from './parts';
import { ProjectChoice, useProject } from './project';

interface Rules {
  id: string;
  sensitiveWords: string[];
  exemptKeys: string[];
}

function fields(of: Rules): FieldSpec[] {
  return [
    {
      kind: 'lines',
      name: 'sensitiveWords',
      label: 'Further sensitive words, one per line',
      hint: 'Values of attributes are scrubbed if their key contains one of these words. At most 100.',
      initial: of.sensitiveWords.join('\n'),
      keepsEmpty: true,
    },
    {
      kind: 'lines',
      isExact: true,
      name: 'exemptKeys',
      label: 'Exempt keys, one per line',
      hint:
        'Complete keys, as they are stored, whose values are not secrets. Card and social security numbers in these ' +
        'values are scrubbed nevertheless. Keys of passwords, cookies and the like cannot be exempted. At most 100.',
      initial: of.exemptKeys.join('\n'),
      keepsEmpty: true,
    },
  ];
}

export default function Scrubbing({ me, org }: SectionProps): JSX.Element {
  const project = useProject(me);
  const path = under(`${org}/projects`, project);
  const query = useQuery<Rules>(project === '' ? null : { path });
  const why = lacks(me, 'projects:write');
  return (
    <Panel title="Scrubbing">
      <div class="bar-row">
        <ProjectChoice me={me} project={project} />
        <CopyAs asked={{ path }} />
      </div>
      <p class="quiet">
        Values whose key contains a word such as <code>token</code> or <code>password</code>, and card and social security
        numbers in texts, are replaced by [scrubbed] before they are stored. A change applies to data sent after it.
      </p>
      <Loaded query={query}>
        {(rules) => (
          <Form
            key={rules.id}
            label="Scrubbing"
            fields={fields(rules)}
            button="Save"
            done="Saved."
            why={why}
            keeps
            submit={async (body) => {
              await call({ method: 'PATCH', path, body });
              query.again();
            }}
          />
        )}
      </Loaded>
      <Why why={why} />
    </Panel>
  );
}
