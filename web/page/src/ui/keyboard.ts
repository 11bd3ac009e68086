// Keys of the page and of its views. Single letters act outside of fields alone, and can be switched off.
import { useLayoutEffect } from 'preact/hooks';

/** The keys, what they do in words, and what does it. */
export type Shortcut = [keys: string, does: string, run: () => void];

const registered = new Set<Shortcut>();
const OFF = 'sluice.keys';
const SEQUENCE_MS = 1_000;
let pending = '';
let pendingUntil = 0;

export function areKeysOn(): boolean {
  return localStorage.getItem(OFF) !== 'off';
}

export function setKeysOn(on: boolean): void {
  if (on) localStorage.removeItem(OFF);
  else localStorage.setItem(OFF, 'off');
}

export function shortcuts(): Shortcut[] {
  return [...registered];
}

/** Keys for as long as a component is shown. They are in force at once, not after the next frame: a key that is held
 * down, or two in a row, would act on what was. */
export function useKeys(keys: Shortcut[], dependencies: unknown[]): void {
  useLayoutEffect(() => {
    for (const one of keys) registered.add(one);
    return () => {
      for (const one of keys) registered.delete(one);
    };
  }, dependencies);
}

function isField(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.matches('input, textarea, select, [contenteditable]');
}

export function followKeys(): void {
  window.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || isField(event.target)) return;
    if (event.key.length === 1 && !areKeysOn()) return;
    if (document.querySelector('dialog[open], [aria-modal="true"]') !== null) return; // the view is behind it
    const now = Date.now();
    const typed = pending !== '' && now < pendingUntil ? `${pending} ${event.key}` : event.key;
    pending = '';
    const found = [...registered].reverse().find(([keys]) => keys === typed);
    if (found !== undefined) {
      event.preventDefault();
      found[2]();
    } else if ([...registered].some(([keys]) => keys.startsWith(`${event.key} `))) {
      pending = event.key;
      pendingUntil = now + SEQUENCE_MS;
    }
  });
}
