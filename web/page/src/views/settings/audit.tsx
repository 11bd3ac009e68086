// The audit log, newest first.
import type { JSX } from 'preact';
import { address, push } from '../../address/address';
import { shownTime } from '../../address/time';
import type { Json } from '../../api/numbers';
import type { Page } from '../../api/types';
import { printed } from '../../trace/span';
import { CopyAs } from '../../ui/copy';
import { useQuery } from '../../ui/query';
import { useSignal } from '../../ui/signal';
import { Text } from '../../ui/text';
import { LIMIT, Listed, Panel, type SectionProps } from './parts';

interface AuditEvent {
  seq: number;
  at: string;
  actorPrincipalId: string | null;
  action: string;
  objectId: string;
  data: Record<string, Json>;
}

const FILTERS: [string, string][] = [
  ['action', 'Action'],
  ['actorPrincipalId', 'Who (id)'],
  ['objectId', 'Object (id)'],
];

export default function Audit({ org, zone }: SectionProps): JSX.Element {
  const here = useSignal(address);
  const filters = new URLSearchParams({ limit: String(LIMIT) });
  for (const [name] of FILTERS) {
    const value = here.query.get(name);
    if (value !== null) filters.set(name, value);
  }
  const asked = { path: `${org}/audit?${filters.toString()}` };
  const query = useQuery<Page<AuditEvent>>(asked);
  return (
    <Panel title="Audit log">
      <form
        class="bar-row"
        aria-label="Filter the audit log"
        onSubmit={(event) => {
          event.preventDefault();
          const form = new FormData(event.currentTarget);
          push(Object.fromEntries(FILTERS.map(([name]) => [name, String(form.get(name) ?? '').trim()])));
        }}
      >
        {FILTERS.map(([name, label]) => (
          <input key={name} type="search" name={name} aria-label={label} placeholder={label} value={here.query.get(name) ?? ''} />
        ))}
        <button type="submit">Filter</button>
        <CopyAs asked={asked} />
      </form>
      <Listed
        query={query}
        path={asked.path}
        label="Events"
        empty="No event matches."
        head={['Time', 'Action', 'Who', 'Object', 'Data']}
        row={(event) => (
          <tr key={event.seq}>
            <td class="mono">{shownTime(event.at, zone, 0)}</td>
            <td>{event.action}</td>
            <td class="mono">
              <Text of={event.actorPrincipalId} />
            </td>
            <td class="mono">
              <Text of={event.objectId} />
            </td>
            <td>
              <Text
                of={Object.entries(event.data)
                  .map(([key, value]) => `${key}: ${printed(value)}`)
                  .join(', ')}
                empty=""
              />
            </td>
          </tr>
        )}
      />
    </Panel>
  );
}
