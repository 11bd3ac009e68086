// The audit log, newest first.
import type { JSX } from 'preact';
import { address, push, time } from '../../address/address';
import type { Event as AuditEvent, EventPage } from '../../api/api_types';
import { CopyAs } from '../../ui/copy';
import { useQuery } from '../../ui/query';
import { useSignal } from '../../ui/signal';
import { Text } from '../../ui/text';
import { Details } from '../../ui/values';
import { LIMIT, Listed, Panel, type SectionProps } from './parts';

const FILTERS: [string, string][] = [
  ['action', 'Action'],
  ['actorPrincipalId', 'Actor (id)'],
  ['objectId', 'Object (id)'],
];

export default function Audit({ org }: SectionProps): JSX.Element {
  const here = useSignal(address);
  const filters = new URLSearchParams({ limit: String(LIMIT) });
  for (const [name] of FILTERS) {
    const value = here.query.get(name);
    if (value !== null) filters.set(name, value);
  }
  const asked = { path: `${org}/audit?${filters.toString()}` };
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
          <input
            key={name}
            type="search"
            name={name}
            aria-label={label}
            placeholder={label}
            value={here.query.get(name) ?? ''}
          />
        ))}
        <button type="submit">Filter</button>
        <CopyAs asked={asked} />
      </form>
      <Listed<AuditEvent>
        list={{ asked, query: useQuery<EventPage>(asked) }}
        label="Events"
        empty="No event matches."
        head={[['Time', 'mono'], 'Action', ['Actor', 'mono'], ['Object', 'mono'], 'Data']}
        by={(event) => event.seq}
        row={(event) => [
          time(event.at),
          event.action,
          <Text of={event.actorPrincipalId} />,
          <Text of={event.objectId} />,
          <Details of={event.data} />,
        ]}
      />
    </Panel>
  );
}
