// The project that a section is about, in the address.
import type { JSX } from 'preact';
import { address, push } from '../../address/address';
import type { Whoami } from '../../api/types';
import { useSignal } from '../../ui/signal';

export function useProject(me: Whoami): string {
  return useSignal(address).query.get('project') ?? me.projects[0]?.slug ?? '';
}

export function ProjectChoice({ me, project }: { me: Whoami; project: string }): JSX.Element {
  return (
    <label>
      Project{' '}
      <select value={project} onChange={(event) => push({ project: event.currentTarget.value, open: null })}>
        {me.projects.map((one) => (
          <option key={one.id} value={one.slug}>
            {one.slug}
          </option>
        ))}
      </select>
    </label>
  );
}

/** The id of what is open in a list, in the address. */
export function useOpened(): [string, (id: string | null) => void] {
  const here = useSignal(address);
  return [here.query.get('open') ?? '', (id) => push({ open: id })];
}
