// Signs and verifies with what the senders of webhooks publish: a line of JSON with cases in, a line with answers out.
import { createPrivateKey, createHmac, sign as signBytes } from "node:crypto";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { sign as signGitHub, verify as verifyGitHub } from "@octokit/webhooks-methods";
import { verifyKey } from "discord-interactions";
import { Webhook } from "standardwebhooks";
import Stripe from "stripe";

// As the package exports it; the package as a whole takes a second to load.
const { verifySlackRequest } = createRequire(import.meta.url)("@slack/bolt/dist/receivers/verify-request.js");
const stripe = new Stripe("sk_test_none");
const PKCS8 = "302e020100300506032b657004220420"; // in front of the 32 bytes of an Ed25519 key

// Slack and Discord publish what verifies, not what signs: `verify` is asked whether `sign` is right.
const schemes = {
  github: {
    sign: ({ secret, body }) => signGitHub(secret, body),
    verify: ({ secret, body, signature }) => verifyGitHub(secret, body, signature),
  },
  slack: {
    sign: ({ secret, body, time }) => `v0=${createHmac("sha256", secret).update(`v0:${time}:${body}`).digest("hex")}`,
    verify: ({ secret, body, time, signature, now }) => {
      const headers = { "x-slack-request-timestamp": Number(time), "x-slack-signature": signature };
      verifySlackRequest({ signingSecret: secret, body, headers, nowMilliseconds: now * 1000 });
      return true;
    },
  },
  discord: {
    sign: ({ secret, body, time }) => {
      const key = createPrivateKey({ key: Buffer.from(PKCS8 + secret, "hex"), format: "der", type: "pkcs8" });
      return signBytes(null, Buffer.from(time + body), key).toString("hex");
    },
    verify: ({ publicKey, body, time, signature }) => verifyKey(body, signature, time, publicKey),
  },
  stripe: {
    sign: ({ secret, body, time }) =>
      stripe.webhooks.generateTestHeaderString({ payload: body, secret, timestamp: Number(time) }),
    verify: ({ secret, body, signature, now }) =>
      stripe.webhooks.signature.verifyHeader(body, signature, secret, 300, undefined, now * 1000),
  },
  standard: {
    sign: ({ secret, body, id, time }) => new Webhook(secret).sign(id, new Date(Number(time) * 1000), body),
    verify: ({ secret, body, id, time, signature }) => {
      const headers = { "webhook-id": id, "webhook-timestamp": time, "webhook-signature": signature };
      new Webhook(secret).verify(body, headers, { jsonParse: false });
      return true;
    },
  },
};

async function answer({ scheme, ask, ...given }) {
  if (ask === "sign") return schemes[scheme].sign(given);
  try {
    return await schemes[scheme].verify(given);
  } catch {
    return false;
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const answers = [];
  for (const one of JSON.parse(line)) answers.push(await answer(one));
  process.stdout.write(`${JSON.stringify(answers)}\n`);
}
