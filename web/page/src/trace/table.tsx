// The table of a trace: its spans summed up by service and name.
import type { JSX } from 'preact';
import { useMemo } from 'preact/hooks';
import { Table } from '../ui/elements';
import { duration } from '../ui/format';
import { Text } from '../ui/text';
import { totalsByName } from './by_name';
import type { Trace } from './rows';

const MAX_NAMES = 30; // those with the most self time; a page of some hundred elements stays quick

export function ByName({ trace }: { trace: Trace }): JSX.Element {
  const all = useMemo(() => totalsByName(trace), [trace]);
  const rows = all.slice(0, MAX_NAMES);
  return (
    <div class="scroll panel">
      <Table
        head={[
          'Service',
          'Name',
          ['Spans', 'number'],
          ['Errors', 'number'],
          ['Self time', 'number'],
          ['Total', 'number'],
        ]}
        items={rows}
        by={(row) => JSON.stringify([row.service, row.name])}
        row={(row) => [
          <Text of={row.service} />,
          <Text of={row.name} />,
          row.spans,
          row.errors,
          duration(row.selfNs / 1e6),
          duration(row.totalNs / 1e6),
        ]}
      />
      {rows.length < all.length && (
        <p class="covered partial">
          {rows.length} of {all.length.toLocaleString('en')} names are shown.
        </p>
      )}
    </div>
  );
}
