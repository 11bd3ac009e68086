// Runs the script of the page on which a login ends, without a browser; prints what the page shows. Standard input: the
// page, the responses of the server by path ({status, body}), the fragment of the address.
import { readFileSync } from "node:fs";

const { html, responses, hash } = JSON.parse(readFileSync(0, "utf8"));
const elements = {};
const element = (id) => (elements[id] ??= { hidden: true, textContent: "", addEventListener() {} });
const asked = [];
async function fetch(path, options) {
  const { status, body } = responses[path];
  asked.push([path, options.body ?? null, options.headers.Authorization ?? null]);
  return { ok: status === 200, status, json: async () => JSON.parse(body) };
}
const [, script] = /<script>([\s\S]*?)<\/script>/.exec(html);
const page = { getElementById: element };
const history = { replaceState() {} };
const location = { hash, pathname: "/sso/complete", origin: "https://sluice.example" };
new Function("document", "location", "history", "fetch", script)(page, location, history, fetch);
setImmediate(() => setImmediate(() => console.log(JSON.stringify({ elements, asked }))));
