// What the page says of answers beyond their types in `api_types.ts`, which are made from the API's description.
import type * as api from './api_types';

export type Whoami = Required<api.Whoami> & { mfaPending: false; organization: api.WhoamiOrganization };

/** A session that owes its second factor. */
export type OwingWhoami = api.Whoami & { mfaPending: true };

export interface Page<T> {
  data: T[];
  nextCursor: string | null;
  hasMore: boolean;
}
