/** Webhooks: the signature of a delivery, by Standard Webhooks 1.0. */

import { SluiceError } from "./http.js";
import type { webhooks } from "./schema.js";

/** An event as an endpoint gets it; `type` tells what `data` has. */
export type WebhookEvent = webhooks[keyof webhooks]["post"]["requestBody"]["content"]["application/json"];

/** The delivery is not of the service, is too old, or was changed. */
export class WebhookInvalid extends SluiceError {
  override readonly name: string = "WebhookInvalid";
}

/**
 * Return the event of a delivery whose signature is right. Throws `WebhookInvalid` otherwise.
 *
 * `body` is the body as it came, before any parsing; `secrets` is the secret of the endpoint, or several.
 */
export async function verifyWebhook(
  body: string | Uint8Array,
  headers: Headers | Record<string, string | string[] | undefined>,
  secrets: string | readonly string[],
  { toleranceSeconds = 300, now = Date.now() / 1000 }: { toleranceSeconds?: number; now?: number } = {},
): Promise<WebhookEvent> {
  const known = headers instanceof Headers ? headers : new Headers(pairsOf(headers));
  const header = (name: string): string => {
    const value = known.get(name);
    if (!value) throw new WebhookInvalid(`${name} is missing`);
    return value;
  };
  const timestamp = header("webhook-timestamp");
  if (!/^\d+$/.test(timestamp) || Math.abs(now - Number(timestamp)) > toleranceSeconds) {
    throw new WebhookInvalid("webhook-timestamp is too far from now");
  }
  const encoder = new TextEncoder();
  const bytes = typeof body === "string" ? encoder.encode(body) : body;
  const head = encoder.encode(`${header("webhook-id")}.${timestamp}.`);
  const signed = new Uint8Array(head.length + bytes.length);
  signed.set(head);
  signed.set(bytes, head.length);
  const signatures = header("webhook-signature").split(" ").filter((each) => each.startsWith("v1,"));
  for (const secret of [secrets].flat()) {
    const raw = bytesOf(secret.replace(/^whsec_/, ""));
    const key = await crypto.subtle.importKey("raw", raw, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
    for (const signature of signatures) {
      // Web Crypto compares in constant time.
      if (await crypto.subtle.verify("HMAC", key, bytesOf(signature.slice(3)), signed)) {
        return JSON.parse(new TextDecoder().decode(bytes)) as WebhookEvent;
      }
    }
  }
  throw new WebhookInvalid("no signature fits");
}

function pairsOf(headers: Record<string, string | string[] | undefined>): [string, string][] {
  const pairs: [string, string][] = [];
  for (const [name, value] of Object.entries(headers)) {
    for (const each of [value ?? []].flat()) pairs.push([name, each]);
  }
  return pairs;
}

function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  try {
    return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  } catch {
    throw new WebhookInvalid("a secret or a signature is no base64");
  }
}
