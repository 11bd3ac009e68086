// Where the nodes of a directed graph are drawn: callers left of what they call, few crossings.

export interface Edge {
  from: string;
  to: string;
}

export interface Placed {
  name: string;
  /** 0 is leftmost. */
  layer: number;
  /** 0 is topmost in its layer. */
  row: number;
}

const PASSES = 4;

/** A place for each name that an edge or `alone` has; an edge that closes a cycle does not count. */
export function layered(edges: Edge[], alone: string[] = []): Placed[] {
  const names = [...new Set([...edges.flatMap((edge) => [edge.from, edge.to]), ...alone])].sort();
  const forward = withoutCycles(names, edges);
  const layers = longestPaths(names, forward);
  const columns: string[][] = [];
  for (const name of names) (columns[layers.get(name) ?? 0] ??= []).push(name);
  for (let pass = 0; pass < PASSES; pass++) untangle(columns, forward, pass % 2 === 0);
  return columns.flatMap((column, layer) => column.map((name, row) => ({ name, layer, row })));
}

/** The edges without those that lead back to a node from which the search has come; iterative, for chains are long. */
function withoutCycles(names: string[], edges: Edge[]): Edge[] {
  const leaving = new Map<string, Edge[]>();
  const entered = new Set(edges.filter((edge) => edge.from !== edge.to).map((edge) => edge.to));
  for (const edge of edges) {
    if (edge.from !== edge.to) leaving.set(edge.from, [...(leaving.get(edge.from) ?? []), edge]);
  }
  const state = new Map<string, 'open' | 'done'>();
  const kept: Edge[] = [];
  const starts = [...names.filter((name) => !entered.has(name)), ...names];
  for (const start of starts) {
    if (state.has(start)) continue;
    const path: [string, number][] = [[start, 0]];
    state.set(start, 'open');
    while (path.length > 0) {
      const top = path[path.length - 1];
      if (top === undefined) break;
      const edge = leaving.get(top[0])?.[top[1]++];
      if (edge === undefined) {
        state.set(top[0], 'done');
        path.pop();
      } else if (state.get(edge.to) !== 'open') {
        kept.push(edge);
        if (!state.has(edge.to)) {
          state.set(edge.to, 'open');
          path.push([edge.to, 0]);
        }
      }
    }
  }
  return kept;
}

function longestPaths(names: string[], edges: Edge[]): Map<string, number> {
  const layers = new Map(names.map((name) => [name, 0]));
  const waiting = new Map(names.map((name) => [name, 0]));
  for (const edge of edges) waiting.set(edge.to, (waiting.get(edge.to) ?? 0) + 1);
  const ready = names.filter((name) => waiting.get(name) === 0);
  for (let name = ready.pop(); name !== undefined; name = ready.pop()) {
    for (const edge of edges) {
      if (edge.from !== name) continue;
      layers.set(edge.to, Math.max(layers.get(edge.to) ?? 0, (layers.get(name) ?? 0) + 1));
      const left = (waiting.get(edge.to) ?? 0) - 1;
      waiting.set(edge.to, left);
      if (left === 0) ready.push(edge.to);
    }
  }
  return layers;
}

/** Orders each column by the mean row of its neighbours in the column before (or behind). */
function untangle(columns: string[][], edges: Edge[], isForward: boolean): void {
  const rows = new Map(columns.flatMap((column) => column.map((name, row) => [name, row] as const)));
  const order = isForward ? columns.keys() : [...columns.keys()].reverse();
  for (const at of order) {
    const column = columns[at] ?? [];
    const weight = new Map(column.map((name) => [name, meanRow(name, edges, rows, isForward) ?? rows.get(name) ?? 0]));
    column.sort((a, b) => (weight.get(a) ?? 0) - (weight.get(b) ?? 0) || (a < b ? -1 : 1));
    for (const [row, name] of column.entries()) rows.set(name, row);
  }
}

function meanRow(name: string, edges: Edge[], rows: Map<string, number>, isForward: boolean): number | null {
  const near = edges
    .filter((edge) => (isForward ? edge.to : edge.from) === name)
    .map((edge) => rows.get(isForward ? edge.from : edge.to) ?? 0);
  return near.length === 0 ? null : near.reduce((sum, row) => sum + row, 0) / near.length;
}
