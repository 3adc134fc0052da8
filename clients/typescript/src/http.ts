/** Requests: the credential, retries, progress of what is sent, and responses that are errors. */

import type { components } from "./schema.js";

export type Report = components["schemas"]["FullReport"] | components["schemas"]["SenderReport"];
export type Reason = components["schemas"]["Reason"];
type Bytes = Uint8Array<ArrayBuffer>;

const PIECE = 64 * 1024;

/** What this client throws, besides the reason of an `AbortSignal`. */
export class SluiceError extends Error {
  override readonly name: string = "SluiceError";
}

/** No response came, or a response that is not of the service. */
export class ConnectionFailed extends SluiceError {
  override readonly name: string = "ConnectionFailed";
}

/** A response of 400 or more. `code` is a code of `docs/errors.md`; a page of another origin cannot read it. */
export class ApiError extends SluiceError {
  override readonly name: string = "ApiError";

  constructor(
    message: string,
    readonly status: number,
    readonly code: string | null,
    readonly errors: readonly string[],
    readonly requestId: string | null,
  ) {
    super(message);
  }
}

/** A file broke a rule. `message` is the sentence for the person who sent it. */
export class FileRejected extends ApiError {
  override readonly name: string = "FileRejected";

  constructor(
    readonly reason: Reason,
    readonly report: Report,
    ...of: ConstructorParameters<typeof ApiError>
  ) {
    super(...of);
  }
}

export interface ClientOptions {
  /** Where the service is, such as `https://files.example.com`. */
  url: string;
  /** An API key, an upload token, or the token of a user; a function is asked before each request. */
  credential: string | (() => string | Promise<string>);
  /** The language of the sentences, such as `de`; in pages the browser's own if left out. */
  language?: string;
  /** How often a failed request is sent again; 3 if left out. */
  retries?: number;
  /** The longest wait before a retry, in seconds; a longer `Retry-After` ends the retries. 60 if left out. */
  longestWait?: number;
  /** Instead of the global `fetch`; uploads in pages then have no progress. */
  fetch?: typeof globalThis.fetch;
}

export interface Request {
  method: string;
  url: string;
  headers?: Record<string, string>;
  body?: string | Blob | FormData;
  /** Whether it may be sent again when its outcome is unknown. */
  isRepeatable?: boolean;
  signal?: AbortSignal | undefined;
  /** Called with the bytes of `body` that have been sent. */
  onSent?: ((bytes: number) => void) | undefined;
}

export class Transport {
  readonly url: string;
  readonly retries: number;
  readonly #options: ClientOptions;

  constructor(options: ClientOptions) {
    this.url = options.url.replace(/\/+$/, "");
    this.retries = options.retries ?? 3;
    this.#options = options;
  }

  /** Send a request, again if need be, and return its response. Throws `ApiError` and `ConnectionFailed`. */
  async send(request: Request): Promise<Response> {
    for (let attempt = 0; ; attempt++) {
      const response = await this.attempt(request).catch((fault: unknown) => {
        if (fault instanceof ConnectionFailed && request.isRepeatable && attempt < this.retries) return null;
        throw fault;
      });
      if (response?.ok) return response;
      if (response && !mayPass(response, request)) throw await errorOf(response);
      await this.pause(attempt, response, request.signal);
    }
  }

  /** Send a request once and return the response, whatever its status. Throws `ConnectionFailed` if there is none. */
  async attempt(request: Request): Promise<Response> {
    const { credential, language } = this.#options;
    const secret = typeof credential === "function" ? await credential() : credential;
    const headers: Record<string, string> = { Accept: "application/json", Authorization: `Bearer ${secret}` };
    if (language) headers["Accept-Language"] = language;
    const complete = { ...request, headers: { ...headers, ...request.headers } };
    request.signal?.throwIfAborted();
    const isWatchedInPage = request.onSent && !this.#options.fetch && typeof XMLHttpRequest !== "undefined";
    return isWatchedInPage ? sendByXhr(complete) : sendByFetch(this.#options.fetch ?? globalThis.fetch, complete);
  }

  /** Wait before the next attempt. Throws the error of `response` if there have been enough, or the wait is too long. */
  async pause(attempt: number, response: Response | null, signal?: AbortSignal): Promise<void> {
    const asked = Number(response?.headers.get("Retry-After")) || 0;
    if (attempt >= this.retries || asked > (this.#options.longestWait ?? 60)) {
      throw response ? await errorOf(response) : new ConnectionFailed("the connection was lost");
    }
    const backoff = Math.min(0.5 * 2 ** attempt, 8) * (0.75 + Math.random() / 2);
    await response?.body?.cancel(); // the connection can be used again
    await sleep(Math.max(backoff, asked), signal);
  }
}

/** Return a value as one segment of a path. Throws `SluiceError` for one that would be another path. */
export function segment(text: string): string {
  if (text === "" || text === "." || text === "..") throw new SluiceError(`expected an id or a key, found "${text}"`);
  return encodeURIComponent(text);
}

/** Return whether the same request can succeed later. A change that may have been made is not repeated. */
function mayPass(response: Response, request: Request): boolean {
  const { status, headers } = response;
  const isRefused = status === 429 || (status === 503 && headers.get("Sluice-Error-Code") !== "outcome_unknown");
  const isInUse = status === 409 && headers.has("Retry-After"); // the first upload with this Idempotency-Key
  return isRefused || isInUse || (status >= 500 && request.isRepeatable === true);
}

/** Return the error of a response of 400 or more. */
export async function errorOf(response: Response): Promise<SluiceError> {
  const text = await response.text();
  let body: Partial<components["schemas"]["ErrorEnvelope"]>;
  try {
    body = JSON.parse(text || "{}");
  } catch {
    return new ConnectionFailed(`the service did not return this itself: status ${response.status}`);
  }
  const code = response.headers.get("Sluice-Error-Code");
  const errors = body.errors ?? [];
  const of = [response.status, code, errors, response.headers.get("Request-Id")] as const;
  const report = body.report;
  if (report?.reason) return new FileRejected(report.reason, report, report.message, ...of);
  return new ApiError([body.message ?? `status ${response.status}`, ...errors].join(": "), ...of);
}

async function sendByFetch(fetch: typeof globalThis.fetch, request: Request): Promise<Response> {
  const { method, url, signal, onSent } = request;
  const init: RequestInit & { duplex?: "half" } = { method, signal: signal ?? null, redirect: "manual" };
  const headers = new Headers(request.headers);
  if (request.body !== undefined) {
    if (onSent) {
      const encoded = new Response(request.body); // a form gets its boundary here
      const type = encoded.headers.get("Content-Type");
      if (type && !headers.has("Content-Type")) headers.set("Content-Type", type);
      init.body = counted(encoded.body!, onSent);
      init.duplex = "half";
    } else {
      init.body = request.body;
    }
  }
  try {
    return await fetch(url, { ...init, headers });
  } catch (fault) {
    signal?.throwIfAborted();
    throw notAnswered(method, url, fault);
  }
}

function notAnswered(method: string, url: string, cause?: unknown): ConnectionFailed {
  return new ConnectionFailed(`${method} ${new URL(url).pathname} got no response`, { cause });
}

/** Return the same bytes in small pieces, and tell of each when it is asked for: a `Blob` in memory is one piece. */
function counted(whole: ReadableStream<Bytes>, onSent: (bytes: number) => void): ReadableStream<Bytes> {
  const reader = whole.getReader();
  let piece: Bytes = new Uint8Array();
  let sent = 0;
  return new ReadableStream({
    async pull(controller) {
      while (piece.length === 0) {
        const next = await reader.read();
        if (next.done) return controller.close();
        piece = next.value;
      }
      const bytes = piece.subarray(0, PIECE);
      piece = piece.subarray(PIECE);
      controller.enqueue(bytes);
      onSent((sent += bytes.length));
    },
    cancel: (reason) => reader.cancel(reason),
  });
}

/** Send a request by XMLHttpRequest: in pages only that tells how many bytes have left. */
function sendByXhr({ method, url, headers, body, signal, onSent }: Request): Promise<Response> {
  return new Promise((resolve, reject) => {
    const xhr = new XMLHttpRequest();
    const abort = () => xhr.abort();
    xhr.open(method, url);
    xhr.responseType = "blob";
    for (const [name, value] of Object.entries(headers ?? {})) xhr.setRequestHeader(name, value);
    xhr.upload.onprogress = (event) => onSent?.(event.loaded);
    xhr.onload = () => {
      const lines = xhr.getAllResponseHeaders().trim().split("\r\n").filter(Boolean);
      const received = new Headers();
      for (const line of lines) received.append(line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1));
      resolve(new Response(xhr.status === 204 ? null : xhr.response, { status: xhr.status, headers: received }));
    };
    xhr.onerror = xhr.ontimeout = () => reject(notAnswered(method, url));
    xhr.onabort = () => reject(signal?.reason);
    xhr.onloadend = () => signal?.removeEventListener("abort", abort);
    signal?.addEventListener("abort", abort);
    xhr.send(body ?? null);
  });
}

function sleep(seconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, 1000 * seconds);
    signal?.addEventListener("abort", stop, { once: true });
  });
}
