// The table of a trace: its spans summed up by service and name.
import type { JSX } from 'preact';
import { useMemo } from 'preact/hooks';
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
      <table>
        <thead>
          <tr>
            <th>Service</th>
            <th>Name</th>
            <th class="number">Spans</th>
            <th class="number">Errors</th>
            <th class="number">Self time</th>
            <th class="number">Total</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={JSON.stringify([row.service, row.name])}>
              <td>
                <Text of={row.service} />
              </td>
              <td>
                <Text of={row.name} />
              </td>
              <td class="number">{row.spans}</td>
              <td class="number">{row.errors}</td>
              <td class="number">{duration(row.selfNs / 1e6)}</td>
              <td class="number">{duration(row.totalNs / 1e6)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length < all.length && (
        <p class="covered partial">
          {rows.length} of {all.length.toLocaleString('en')} names are shown.
        </p>
      )}
    </div>
  );
}
