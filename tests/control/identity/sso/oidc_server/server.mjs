// An OpenID provider over TLS. The configuration is the first line of stdin, in JSON; each further line is a command.
// Each line is answered with a line on stdout. The end of stdin ends the process.
import { createServer } from 'node:https';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

import Provider from 'oidc-provider';

console.info = console.error; // notices of the library; stdout has the answers
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const answer = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);
const options = JSON.parse((await lines.next()).value);
const accounts = new Map(Object.entries(options.accounts));

let provider;
const server = createServer(
  { key: readFileSync(options.key), cert: readFileSync(options.certificate) },
  (request, response) => provider.callback()(request, response),
);
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const issuer = `https://127.0.0.1:${server.address().port}`;

// Codes, sessions and grants are in the memory of the process, so they outlive a change of keys.
function start(jwks) {
  provider = new Provider(issuer, {
    clients: [options.client],
    jwks,
    cookies: { keys: ['of tests'] },
    scopes: ['openid'],
    claims: {
      openid: ['sub', 'amr'],
      email: ['email', 'email_verified'],
      profile: ['name'],
      groups: ['groups'],
    },
    conformIdTokenClaims: !options.claimsInIdToken,
    pkce: { required: () => true },
    findAccount: (_context, id) => accounts.has(id) && {
      accountId: id,
      claims: () => ({ ...accounts.get(id), sub: id }),
    },
    features: { devInteractions: { enabled: true } },
  });
  // The development form asks for a name and a password; how that account authenticates is added to its result.
  provider.use(async (context, next) => {
    await next();
    const uid = context.method === 'POST' && /^\/interaction\/([^/]+)$/.exec(context.path)?.[1];
    const interaction = uid && await provider.Interaction.find(uid);
    if (interaction?.result?.login) {
      interaction.result.login.amr = accounts.get(interaction.result.login.accountId)?.amr;
      await interaction.save(600);
    }
  });
}

start(options.jwks);
answer({ issuer });
for await (const line of lines) {
  const command = JSON.parse(line);
  if (command.jwks) start(command.jwks);
  answer({});
}
process.exit(0);
