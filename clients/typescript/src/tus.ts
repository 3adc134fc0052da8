/** Resumable uploads by tus 1.0: create, append parts, and continue at the server's offset after an interruption. */

import { ConnectionFailed, SluiceError, errorOf, segment, type Transport } from "./http.js";

export interface ResumableOptions {
  /** Bytes of each part; 8 MiB if left out, at least 256 KiB. */
  chunkSize?: number;
  /** The URL of an upload that was begun before: it continues, or a new one begins if the server has it no more. */
  uploadUrl?: string | undefined;
  /** Called with the URL of the upload once it exists. Keep it, to continue after a restart of the program or the page. */
  onUploadUrl?: (url: string) => void;
  /** Called with the bytes that have been sent, and the bytes of the file. */
  onProgress?: (sent: number, total: number) => void;
  signal?: AbortSignal | undefined;
}

const TUS = { "Tus-Resumable": "1.0.0" };
const CHUNK = 8 * 1024 * 1024;
const SMALLEST_CHUNK = 256 * 1024; // the service takes only 1,000 smaller parts of an upload

/**
 * Send a file in parts and return the response with its verdict. Throws `FileRejected` if it is rejected.
 *
 * Every failure that can pass is tried again from the offset of the server, as often as the transport retries; a part
 * that has arrived resets the count of attempts. The service acknowledges the last byte only together with the verdict, so
 * a verdict that failed to come is asked for by sending that byte again.
 */
export async function sendResumable(
  transport: Transport,
  file: Blob,
  metadata: Record<string, string>,
  options: ResumableOptions,
): Promise<Response> {
  const { signal, onProgress } = options;
  const chunk = Math.max(options.chunkSize ?? CHUNK, SMALLEST_CHUNK);
  let url = options.uploadUrl && uploadUrlOf(transport, options.uploadUrl);
  let offset: number | null = null; // of the server; null: unknown
  let furthest = 0;
  let attempt = 0;
  const reached = (response: Response): number => {
    const reached = offsetOf(response);
    if (reached > furthest) attempt = 0;
    furthest = Math.max(furthest, reached);
    return reached;
  };

  for (;;) {
    let response: Response | null = null;
    try {
      if (url !== undefined && offset === null) {
        response = await transport.attempt({ method: "HEAD", url, headers: TUS, signal });
        if (response.ok) offset = reached(response);
        if (response.ok && response.headers.get("Upload-Length") !== `${file.size}`) {
          throw new SluiceError("the upload at this URL is that of another file");
        }
        if (response.status === 404 || response.status === 410) url = undefined;
      }
      if (url === undefined) {
        response = await create(transport, file, metadata, signal);
        if (response.ok) {
          url = uploadUrlOf(transport, locationOf(response));
          options.onUploadUrl?.(url);
          if (file.size === 0) return response; // nothing is missing: the verdict is here
          offset = 0;
        }
      }
      if (url !== undefined && offset !== null) {
        const begin: number = offset;
        const part = file.slice(begin, begin + chunk);
        const onSent = onProgress && ((sent: number) => onProgress(begin + Math.min(sent, part.size), file.size));
        const headers = { ...TUS, "Upload-Offset": `${begin}`, "Content-Type": "application/offset+octet-stream" };
        offset = null; // until the response states it
        response = await transport.attempt({ method: "PATCH", url, headers, body: part, signal, onSent });
        if (response.ok && begin + part.size >= file.size) return response;
        if (response.ok) {
          const next = reached(response);
          if (next <= begin) throw new ConnectionFailed("the service keeps nothing of what it is sent");
          offset = next;
        }
      }
    } catch (fault) {
      if (!(fault instanceof ConnectionFailed)) throw fault;
      response = null;
    }
    if (response && !response.ok && !isPassing(response)) throw await errorOf(response);
    if (offset === null) await transport.pause(attempt++, response, signal);
  }
}

async function create(
  transport: Transport,
  file: Blob,
  metadata: Record<string, string>,
  signal?: AbortSignal,
): Promise<Response> {
  const encode = (text: string) => btoa(String.fromCharCode(...new TextEncoder().encode(text)));
  const pairs = Object.entries(metadata).map(([name, value]) => `${name} ${encode(value)}`);
  const headers = { ...TUS, "Upload-Length": `${file.size}`, "Upload-Metadata": pairs.join(",") };
  return transport.attempt({ method: "POST", url: `${transport.url}/api/v1/uploads`, headers, signal });
}

/** 409: another request of the same upload still ends. 460: a part was changed on its way. */
function isPassing({ status }: Response): boolean {
  return status === 409 || status === 423 || status === 429 || status === 460 || status >= 500;
}

function offsetOf(response: Response): number {
  const offset = response.headers.get("Upload-Offset");
  if (offset === null || !/^\d+$/.test(offset)) throw new ConnectionFailed("the response has no Upload-Offset");
  return Number(offset);
}

/** Only the id is taken of a URL: the credential goes to no other host than that of the client. */
export function uploadUrlOf(transport: Transport, url: string): string {
  return `${transport.url}/api/v1/uploads/${segment(url.replace(/\/+$/, "").split("/").pop() ?? "")}`;
}

function locationOf(response: Response): string {
  const location = response.headers.get("Location");
  if (location === null) throw new ConnectionFailed("the response has no Location");
  return location;
}
