// From the path to the view. Every view is a file of its own, loaded when it is shown first.
import type { ComponentType } from 'preact';
import type { Place, ViewProps } from './address/address';

export type View = ComponentType<ViewProps>;

interface Found {
  name: string;
  place: Place;
  load: () => Promise<{ default: View }>;
}

const OF_PROJECT: Record<string, () => Promise<{ default: View }>> = {
  '': () => import('./views/overview/overview'),
  explore: () => import('./views/explore/explore'),
  trace: () => import('./trace/view'),
  errors: () => import('./views/errors/errors'),
  logs: () => import('./views/logs/logs'),
  map: () => import('./views/map/map'),
  issues: () => import('./views/issues/issues'),
};
const OF_ORGANIZATION: Record<string, () => Promise<{ default: View }>> = {
  approvals: () => import('./views/approvals/approvals'),
  settings: () => import('./views/settings/settings'),
};

/** null: the chooser of organization and project. */
export function findView(path: string): Found | null {
  const [, root, org = '', second = '', third = '', id = ''] = path.split('/').map(decode);
  if (root !== 'ui' || org === '') return null;
  const ofOrganization = Object.hasOwn(OF_ORGANIZATION, second) ? OF_ORGANIZATION[second] : undefined;
  // A project may be called like a view of organizations: what follows tells them apart.
  const isOfProject = path.split('/').length > 4 && Object.hasOwn(OF_PROJECT, third);
  if (ofOrganization !== undefined && !isOfProject) {
    return { name: second, place: { org, project: '', id: third }, load: ofOrganization };
  }
  const ofProject = Object.hasOwn(OF_PROJECT, third) ? OF_PROJECT[third] : undefined;
  if (second === '' || ofProject === undefined) return null;
  return { name: third === '' ? 'overview' : third, place: { org, project: second, id }, load: ofProject };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
