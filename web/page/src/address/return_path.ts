// Where a sign-on leads back to, checked as what the browser goes to and not as the text that it came in.

/** The address of this origin that `next` leads to; null if it leads elsewhere, or its path begins with two slashes. */
export function returnAddress(next: string, origin: string): URL | null {
  if (!next.startsWith('/') || !URL.canParse(next, origin)) return null;
  const url = new URL(next, origin);
  if (url.origin !== origin || url.pathname.startsWith('//')) return null;
  return new URL(origin + url.pathname + url.search + url.hash); // without a user name and a password
}
