// The spans that the duration of a trace depends on: from the end of the root backwards, always into the child that
// ended last before. Without recursion: a trace may be a chain of 10 000 spans.
import type { Trace } from './rows';

export interface Stretch {
  row: number;
  fromNs: number;
  toNs: number;
}

/** Stretches of time, latest first, that do not overlap; together they cover the root `root`. */
export function criticalPath(trace: Trace, root = 0): Stretch[] {
  if (trace.length === 0) return [];
  const { parent, startOffsetNs, durationNs } = trace.data.columns;
  const children = new Map<number, number[]>();
  for (let at = root + 1; at < (trace.end[root] ?? trace.length); at++) {
    const above = parent[at] ?? -1;
    const known = children.get(above);
    if (known === undefined) children.set(above, [at]);
    else known.push(at);
  }
  const start = (at: number): number => startOffsetNs[at] ?? 0;
  const stop = (at: number): number => start(at) + (durationNs[at] ?? 0);
  for (const each of children.values()) each.sort((a, b) => stop(b) - stop(a) || b - a);
  const found: Stretch[] = [];
  const work: { row: number; untilNs: number; fromNs: number; next: number }[] = [
    { row: root, untilNs: stop(root), fromNs: start(root), next: 0 },
  ];
  while (work.length > 0) {
    const top = work[work.length - 1];
    if (top === undefined) break;
    const below = children.get(top.row) ?? [];
    let child = -1;
    while (top.next < below.length) {
      const candidate = below[top.next] ?? -1;
      top.next++;
      if (start(candidate) < top.untilNs && stop(candidate) > top.fromNs && stop(candidate) > start(candidate)) {
        child = candidate;
        break;
      }
    }
    if (child < 0) {
      if (top.untilNs > top.fromNs) found.push({ row: top.row, fromNs: top.fromNs, toNs: top.untilNs });
      work.pop();
      continue;
    }
    const until = Math.min(stop(child), top.untilNs);
    const from = Math.max(start(child), top.fromNs);
    if (top.untilNs > until) found.push({ row: top.row, fromNs: until, toNs: top.untilNs });
    top.untilNs = from;
    work.push({ row: child, untilNs: until, fromNs: from, next: 0 });
  }
  return found;
}

/** The share of each service in the path, largest first. */
export function sharesOf(path: Stretch[], service: (row: number) => string): [string, number][] {
  const total = path.reduce((sum, one) => sum + one.toNs - one.fromNs, 0);
  const by = new Map<string, number>();
  for (const one of path) by.set(service(one.row), (by.get(service(one.row)) ?? 0) + one.toNs - one.fromNs);
  return [...by]
    .map(([name, ns]): [string, number] => [name, total === 0 ? 0 : ns / total])
    .sort((a, b) => b[1] - a[1]);
}
