// Where a view is, and its addresses: of the page, and of what it asks of the API.

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
