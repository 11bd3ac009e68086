// Resolves texts as browsers do (URL Standard). Standard input: [text, base] as JSON, one per line; standard output: for each
// [origin, path with query and fragment] on a line, or null where it is no URL.
import { createInterface } from 'node:readline';

for await (const line of createInterface({ input: process.stdin })) {
  const [text, base] = JSON.parse(line);
  const url = URL.canParse(text, base) ? new URL(text, base) : null;
  const answer = url === null ? null : [url.origin, url.pathname + url.search + url.hash];
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
