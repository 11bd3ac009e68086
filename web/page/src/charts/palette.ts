// Okabe and Ito's colours, told apart by colour-blind people; none of them is red, which means an error.
export const HUES = ['#0072b2', '#e69f00', '#009e73', '#cc79a7', '#56b4e9', '#8a6d3b', '#5b5ea6', '#7f7f7f'] as const;

/** The same name always has the same colour. */
export function hueOf(name: string): string {
  let hash = 2166136261;
  for (let at = 0; at < name.length; at++) hash = Math.imul(hash ^ name.charCodeAt(at), 16777619);
  return HUES[(hash >>> 0) % HUES.length] ?? HUES[0];
}
