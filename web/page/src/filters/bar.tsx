// The bar of filters: text, the API's own; below it a chip for each term; suggestions of keys and values.
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { push } from '../address/address';
import { call } from '../api/client';
import { Button } from '../ui/elements';
import { useKeys } from '../ui/keyboard';
import { Text } from '../ui/text';
import { equals, partsOf, termsOf, withoutTerm } from './language';

interface Props {
  text: string;
  /** Of the explore API, for suggestions. */
  base: string;
  times: string;
  signal: 'spans' | 'logs';
}

interface Suggestion {
  text: string;
  hint: string;
}

export function FilterBar({ text, base, times, signal }: Props): JSX.Element {
  const [typed, setTyped] = useState(text);
  const [found, setFound] = useState<Suggestion[]>([]);
  const [chosen, setChosen] = useState(-1);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => setTyped(text), [text]);
  useKeys([['/', 'edit the filters', () => input.current?.focus()]], []);

  const last = termsOf(typed).at(-1) ?? '';
  const isOpen = !typed.endsWith(' ') && typed !== '' && typed !== text;
  useEffect(() => {
    if (!isOpen) {
      setFound([]);
      return;
    }
    const controller = new AbortController();
    const timer = setTimeout(() => {
      suggest(last, base, times, signal, controller.signal).then(
        (all) => {
          setFound(all);
          setChosen(-1);
        },
        () => setFound([]),
      );
    }, 150);
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [last, isOpen, base, times]);

  function take(one: Suggestion): void {
    const before = typed.slice(0, typed.length - last.length);
    setTyped(before + one.text);
    setFound([]);
    input.current?.focus();
  }
  function keyed(event: KeyboardEvent): void {
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      if (found.length === 0) return;
      event.preventDefault();
      setChosen((at) => (at + (event.key === 'ArrowDown' ? 1 : -1) + found.length) % found.length);
    } else if (event.key === 'Tab' || (event.key === 'Enter' && chosen >= 0)) {
      const one = found[Math.max(0, chosen)];
      if (one === undefined || found.length === 0) return;
      event.preventDefault();
      take(one);
    } else if (event.key === 'Escape') {
      if (found.length > 0) setFound([]);
      else input.current?.blur();
    }
  }
  return (
    <form
      class="filter-bar"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        setFound([]);
        push({ q: typed.trim(), box: null });
      }}
    >
      <div class="combo">
        <input
          ref={input}
          type="text"
          aria-label="Filters"
          role="combobox"
          aria-expanded={found.length > 0}
          aria-controls="filter-suggestions"
          aria-autocomplete="list"
          {...(chosen >= 0 ? { 'aria-activedescendant': `suggestion-${chosen}` } : {})}
          autocomplete="off"
          spellcheck={false}
          placeholder="serviceName:cart durationMs:>100 -http.route:/health has:user.id"
          value={typed}
          onInput={(event) => setTyped(event.currentTarget.value)}
          onKeyDown={keyed}
        />
        <ul id="filter-suggestions" role="listbox" aria-label="Suggestions" hidden={found.length === 0}>
          {found.map((one, at) => (
            <li
              key={one.text}
              id={`suggestion-${at}`}
              role="option"
              aria-selected={at === chosen}
              onPointerDown={(event) => {
                event.preventDefault();
                take(one);
              }}
            >
              <Text of={one.text} /> <span class="quiet">{one.hint}</span>
            </li>
          ))}
        </ul>
      </div>
      <button type="submit">Run</button>
      <div class="chips">
        {termsOf(text).map((term) => (
          <Button
            key={term}
            class="chip"
            aria-label={`Remove the filter ${term}`}
            onClick={() => push({ q: withoutTerm(text, term), box: null })}
          >
            <Text of={term} /> <span aria-hidden="true">x</span>
          </Button>
        ))}
      </div>
    </form>
  );
}

interface Key {
  key: string;
  spans?: number;
  records?: number;
}

const MAX_SUGGESTED = 200; // characters of a value
const KEPT_MS = 60_000;
let kept: { path: string; at: number; keys: Promise<Key[]> } | null = null;

/** The keys of a time, asked for once a minute and not with every letter. */
function keysOf(path: string): Promise<Key[]> {
  if (kept === null || kept.path !== path || Date.now() - kept.at > KEPT_MS) {
    const keys = call<{ data: Key[] }>({ path }).then((answer) => answer.data);
    kept = { path, at: Date.now(), keys };
    keys.catch(() => (kept = null));
  }
  return kept.keys;
}

async function suggest(
  term: string,
  base: string,
  times: string,
  of: 'spans' | 'logs',
  signal: AbortSignal,
): Promise<Suggestion[]> {
  const { isExcluded, key, value } = partsOf(term);
  const where = of === 'logs' ? `${base}/logs/attributes` : `${base}/attributes`;
  if (value === null) {
    const prefix = key.toLowerCase();
    const data = await keysOf(`${where}?${times}`);
    return data
      .filter((one) => one.key.toLowerCase().includes(prefix))
      .slice(0, 12)
      .map((one) => ({
        text: equals(one.key, '', isExcluded).replace(/""$/, ''),
        hint: `${one.spans ?? one.records ?? 0}`,
      }));
  }
  if (/^[<>*[]/.test(value)) return [];
  const query = `key=${encodeURIComponent(key)}&prefix=${encodeURIComponent(value)}&limit=12&${times}`;
  const { data } = await call<{ data: { value: string; count: number }[] }>({
    path: `${where}/values?${query}`,
    signal,
  });
  return data
    .filter((one) => one.value.length <= MAX_SUGGESTED)
    .map((one) => ({ text: equals(key, one.value, isExcluded), hint: `${one.count}` }));
}
