// A value that components follow.
import { useEffect, useState } from 'preact/hooks';

export interface Signal<T> {
  value: T;
  subscribe(listener: (value: T) => void): () => void;
}

export function signal<T>(initial: T): Signal<T> {
  let current = initial;
  const listeners = new Set<(value: T) => void>();
  return {
    get value(): T {
      return current;
    },
    set value(next: T) {
      if (Object.is(current, next)) return;
      current = next;
      for (const listener of [...listeners]) listener(next);
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** The value, and a render when it changes. */
export function useSignal<T>(followed: Signal<T>): T {
  const [value, setValue] = useState(followed.value);
  useEffect(() => {
    setValue(() => followed.value);
    return followed.subscribe((next) => setValue(() => next));
  }, [followed]);
  return value;
}
