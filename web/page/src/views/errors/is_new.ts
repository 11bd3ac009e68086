/** Whether an error occurred first in a window that begins at `from`; both are times of the API, with nine digits. */
export function isNew(firstEver: string | null, from: string): boolean {
  return firstEver !== null && firstEver >= from;
}
