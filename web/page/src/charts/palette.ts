// Okabe and Ito's colours, told apart by colour-blind people; none of them is red, which means an error.
export const HUES = ['#0072b2', '#e69f00', '#009e73', '#cc79a7', '#56b4e9', '#8a6d3b', '#5b5ea6', '#7f7f7f'] as const;

function preferredAt(name: string): number {
  let hash = 2166136261;
  for (let at = 0; at < name.length; at++) hash = Math.imul(hash ^ name.charCodeAt(at), 16777619);
  return (hash >>> 0) % HUES.length;
}

/** A colour for each name: the one that its letters give, or the next that none of the names before it has. */
export function huesOf(names: string[]): Map<string, string> {
  const taken = new Set<number>();
  const hues = new Map<string, string>();
  for (const name of [...new Set(names)].sort()) {
    if (taken.size === HUES.length) taken.clear();
    let at = preferredAt(name);
    while (taken.has(at)) at = (at + 1) % HUES.length;
    taken.add(at);
    hues.set(name, HUES[at] ?? HUES[0]);
  }
  return hues;
}
