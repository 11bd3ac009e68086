// What a project scrubs beyond the built-in rules, and the keys that it exempts from them.
import type { JSX } from 'preact';
import type { Project } from '../../api/api_types';
import { send } from '../../api/client';
import { CopyAs } from '../../ui/copy';
import { Loaded, useQuery } from '../../ui/query';
import { Form, field } from './form';
import { lacks, Panel, Refusal, type SectionProps, under, Why } from './parts';
import { ProjectChoice, useProject } from './project';

export default function Scrubbing({ me, org }: SectionProps): JSX.Element {
  const project = useProject(me);
  const path = under(`${org}/projects`, project);
  const query = useQuery<Project>(project === '' ? null : { path });
  return (
    <Refusal.Provider value={lacks(me, 'projects:write')}>
      <Panel title="Scrubbing">
        <div class="bar-row">
          <ProjectChoice me={me} project={project} />
          <CopyAs asked={{ path }} />
        </div>
        <p class="quiet">
          Values whose key contains a word such as <code>token</code> or <code>password</code>, and card and social
          security numbers in texts, are replaced by [scrubbed] before they are stored. A change applies to data that is
          sent after the change.
        </p>
        <Loaded query={query}>
          {(rules) => (
            <Form
              key={rules.id}
              label="Scrubbing"
              fields={[
                field('lines', 'sensitiveWords', 'Further sensitive words, one per line', {
                  hint: 'Values of attributes are scrubbed if their key contains one of these words. At most 100.',
                  initial: rules.sensitiveWords.join('\n'),
                  keepsEmpty: true,
                }),
                field('lines', 'exemptKeys', 'Exempt keys, one per line', {
                  hint:
                    'Complete keys, as they are stored, whose values are not secrets. Card and social security numbers in these ' +
                    'values are still scrubbed. Keys that contain words such as password or cookie cannot be exempted. At most 100.',
                  initial: rules.exemptKeys.join('\n'),
                  keepsEmpty: true,
                  isExact: true,
                }),
              ]}
              button="Save"
              done="Saved."
              keeps
              submit={async (body) => {
                await send('PATCH', path, body);
                query.again();
              }}
            />
          )}
        </Loaded>
        <Why />
      </Panel>
    </Refusal.Provider>
  );
}
