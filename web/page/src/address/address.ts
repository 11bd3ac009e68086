// The address is the state: what is not in it is lost by a reload, and must not matter. Where a view is, and its addresses:
// of the page, and of what it asks of the API.
import { signal } from '../ui/signal';
import { DEFAULT_RANGE, type Range, shownTime, type Zone } from './time';

export interface Address {
  path: string;
  query: URLSearchParams;
}

/** Where the browser is. */
export const address = signal<Address>(current());

function current(): Address {
  return { path: location.pathname, query: new URLSearchParams(location.search) };
}

export function followAddress(): void {
  window.addEventListener('popstate', () => (address.value = current()));
}

/** Goes to another view, or pushes a change of this one. `inPlace`: "back" does not lead here. */
export function go(url: string, inPlace = false): void {
  if (inPlace) history.replaceState(null, '', url);
  else history.pushState(null, '', url);
  address.value = current();
}

export type Changes = Record<string, string | null>;

/** The same view with other parameters; null removes one. */
export function withChanges(from: Address, changes: Changes): string {
  const query = new URLSearchParams(from.query);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === '') query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  return text === '' ? from.path : `${from.path}?${text}`;
}

/** What can change while a list stays the same. */
const BESIDE_LISTS = new Set(['cursor', 'occurrence', 'tz']);

/** A step that "back" undoes. Another question begins at the first page of its list. */
export function push(changes: Changes): void {
  const isSameList = Object.keys(changes).every((name) => BESIDE_LISTS.has(name));
  go(withChanges(address.value, isSameList ? changes : { cursor: null, ...changes }));
}

/** While somebody types or drags: no step of its own. */
export function replace(changes: Changes): void {
  history.replaceState(null, '', withChanges(address.value, changes));
  address.value = current();
}

export function rangeOf(from: Address): Range {
  return { from: from.query.get('from') ?? DEFAULT_RANGE.from, to: from.query.get('to') ?? DEFAULT_RANGE.to };
}

/** The time that is shown, as the parameters of a request. */
export function timesOf(from: Address): string {
  return new URLSearchParams({ ...rangeOf(from) }).toString();
}

/** The parameter of a request for the page of a list that is shown. */
export function pageOf(from: Address): string {
  const cursor = from.query.get('cursor');
  return cursor === null ? '' : `&cursor=${encodeURIComponent(cursor)}`;
}

export function zoneOf(from: Address): Zone {
  return from.query.get('tz') === 'utc' ? 'utc' : 'local';
}

/** A time of an answer in the zone of the address, at whose changes the shell renders its view again. */
export function time(text: string, digits = 0): string {
  return shownTime(text, zoneOf(address.value), digits);
}

/** Parameters that follow from view to view. */
export function kept(from: Address): string {
  const query = new URLSearchParams();
  for (const name of ['from', 'to', 'tz']) {
    const value = from.query.get(name);
    if (value !== null) query.set(name, value);
  }
  const text = query.toString();
  return text === '' ? '' : `?${text}`;
}

/** Whether a click should stay in the page: not one that opens a tab. */
export function isPlainClick(event: MouseEvent): boolean {
  return event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
}

/** Where a view is: the organization, and the project where it has one. */
export interface Place {
  org: string;
  project: string;
  /** What follows in the path: an id. */
  id: string;
}

export interface ViewProps {
  place: Place;
}

export function projectPath(place: Place, view = '', id = ''): string {
  const path = `/ui/${encodeURIComponent(place.org)}/${encodeURIComponent(place.project)}/${view}`;
  return id === '' ? path : `${path}/${encodeURIComponent(id)}`;
}

export function apiBase(place: Place): string {
  return `/orgs/${encodeURIComponent(place.org)}/projects/${encodeURIComponent(place.project)}`;
}

export function exploreBase(place: Place): string {
  return `${apiBase(place)}/explore`;
}
