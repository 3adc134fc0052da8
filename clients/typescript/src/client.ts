/** The client: `upload`, and the operations of the API by nouns. */

import { type ClientOptions, type Request, SluiceError, Transport, segment } from "./http.js";
import { type Body, type Data, type Item, OPERATIONS, type Operation, type Query } from "./operations.js";
import { type ResumableOptions, sendResumable, uploadUrlOf } from "./tus.js";

const RESUMABLE_ABOVE = 8 * 1024 * 1024;

export interface FormOptions {
  /** The context; an upload token names its own. */
  context?: string;
  /** The name of the file; that of a `File` if left out. */
  filename?: string;
  metadata?: Record<string, unknown>;
  /** Called with the bytes that have been sent, and the bytes of the file. */
  onProgress?: (sent: number, total: number) => void;
  signal?: AbortSignal | undefined;
}

export interface UploadOptions extends FormOptions, ResumableOptions {
  /** Whether the file is sent in parts, by tus; if left out, files above 8 MiB and those with an `uploadUrl` are. */
  resumable?: boolean;
  /** For an upload by form: the same key never stores a second file. A random one if left out. */
  idempotencyKey?: string;
}

export type UploadedFile = Data<"upload_file">;
export type Event = Item<"list_events">;

export interface Page<T> {
  items: T[];
  pagination: { page: number; page_size: number; total: number; total_pages: number };
}

/** A list in pages: `for await` reads all its items, `pages()` page by page, `page()` the first one. */
export class List<T> implements AsyncIterable<T> {
  readonly #load: (page: number) => Promise<Page<T>>;
  readonly #first: number;

  constructor(load: (page: number) => Promise<Page<T>>, first: number) {
    this.#load = load;
    this.#first = first;
  }

  page(): Promise<Page<T>> {
    return this.#load(this.#first);
  }

  async *pages(): AsyncGenerator<Page<T>, void, undefined> {
    for (let number = this.#first; ; number++) {
      const page = await this.#load(number);
      yield page;
      if (number >= page.pagination.total_pages) return;
    }
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    for await (const page of this.pages()) yield* page.items;
  }
}

type Values = Record<string, unknown>;
interface Parts {
  path?: Record<string, string>;
  query?: Values | undefined;
  body?: unknown;
}

export class Sluice {
  readonly #transport: Transport;

  constructor(options: ClientOptions) {
    this.#transport = new Transport(options);
  }

  /** Upload a file. Throws `FileRejected` if it breaks a rule of the context. */
  async upload(file: Blob, options: UploadOptions = {}): Promise<UploadedFile> {
    const isResumable = options.resumable ?? (options.uploadUrl !== undefined || file.size > RESUMABLE_ABOVE);
    if (!isResumable) {
      return this.#sendForm("/api/v1/files/upload", file, options, {
        "Idempotency-Key": options.idempotencyKey ?? randomKey(),
      });
    }
    const metadata: Record<string, string> = { filename: nameOf(file, options) };
    if (options.context !== undefined) metadata.context = options.context;
    if (options.metadata !== undefined) metadata.metadata = JSON.stringify(options.metadata);
    if (file.type) metadata.filetype = file.type;
    return dataOf(await sendResumable(this.#transport, file, metadata, options));
  }

  /** Judge a file as an upload of it would be, and store nothing. A rejection is a report too, and no error. */
  validate(file: Blob, options: FormOptions = {}): Promise<Data<"validate_file">> {
    return this.#sendForm("/api/v1/files/validate", file, options, {});
  }

  /** Resumable uploads, by their URLs. */
  readonly uploads = {
    get: async (url: string): Promise<Data<"get_upload">> =>
      dataOf(await this.#transport.send({ method: "GET", url: uploadUrlOf(this.#transport, url), isRepeatable: true })),
    cancel: async (url: string): Promise<void> => {
      const headers = { "Tus-Resumable": "1.0.0" };
      const request = { method: "DELETE", url: uploadUrlOf(this.#transport, url), headers, isRepeatable: true };
      await this.#transport.send(request);
    },
  };

  readonly contexts = {
    create: (body: Body<"create_context">) => this.#call("create_context", { body }),
    list: (query?: Query<"list_contexts">) => this.#list("list_contexts", query),
    get: (context_key: string) => this.#call("get_context", { path: { context_key } }),
    update: (context_key: string, body: Body<"update_context">) =>
      this.#call("update_context", { path: { context_key }, body }),
    hold: (context_key: string, body: Body<"hold_context">) =>
      this.#call("hold_context", { path: { context_key }, body }),
    endHold: (context_key: string) => this.#call("end_context_hold", { path: { context_key } }),
    rotateCheckSecret: (context_key: string, check_name: string) =>
      this.#call("rotate_check_secret", { path: { context_key, check_name } }),
    examples: (context_key: string) => this.#call("list_examples", { path: { context_key } }),
    /** Add an example of what a context expects. The file is read, and not kept. */
    addExample: (context_key: string, file: Blob, options: Pick<FormOptions, "filename" | "signal"> = {}) =>
      this.#sendForm<Data<"add_example">>(`/api/v1/contexts/${segment(context_key)}/examples`, file, options, {}),
    removeExample: (context_key: string, example_id: string) =>
      this.#call("remove_example", { path: { context_key, example_id } }),
    replay: (context_key: string, body: Body<"replay_change">) =>
      this.#call("replay_change", { path: { context_key }, body }),
  };

  readonly files = {
    list: (query?: Query<"list_files"> & { [name: `metadata.${string}`]: string }) => this.#list("list_files", query),
    getDownloadUrl: (file_id: string, query?: Query<"get_download_url">) =>
      this.#call("get_download_url", { path: { file_id }, query }),
    getPreviewUrl: (file_id: string, query?: Query<"get_preview_url">) =>
      this.#call("get_preview_url", { path: { file_id }, query }),
    getMetadata: (file_id: string) => this.#call("get_file_metadata", { path: { file_id } }),
    getReceipt: (file_id: string) => this.#call("get_receipt", { path: { file_id } }),
    delete: (file_id: string) => this.#call("delete_file", { path: { file_id } }),
    restore: (file_id: string) => this.#call("restore_file", { path: { file_id } }),
    hold: (file_id: string, body: Body<"hold_file">) => this.#call("hold_file", { path: { file_id }, body }),
    endHold: (file_id: string) => this.#call("end_file_hold", { path: { file_id } }),
    bulkDelete: (body: Body<"bulk_delete_files">) => this.#call("bulk_delete_files", { body }),
    bulkRestore: (body: Body<"bulk_restore_files">) => this.#call("bulk_restore_files", { body }),
    export: (body: Body<"export_files">) => this.#call("export_files", { body }),
  };

  readonly jobs = {
    list: (query?: Query<"list_jobs">) => this.#list("list_jobs", query),
    get: (job_id: string) => this.#call("get_job", { path: { job_id } }),
    getExportUrl: (job_id: string, query?: Query<"get_export_url">) =>
      this.#call("get_export_url", { path: { job_id }, query }),
    cancel: (job_id: string) => this.#call("cancel_job", { path: { job_id } }),
  };

  readonly erasures = {
    create: (body: Body<"create_erasure">) => this.#call("create_erasure", { body }),
    get: (job_id: string) => this.#call("get_erasure", { path: { job_id } }),
    getReceipt: (job_id: string, query?: Query<"get_erasure_receipt">) =>
      this.#call("get_erasure_receipt", { path: { job_id }, query }),
  };

  readonly quarantine = {
    /** All files in quarantine, in portions of `limit`. */
    list: (query: Query<"list_quarantined_files"> = {}) =>
      this.#follow("list_quarantined_files", query, (file) => file.file_id, false),
    /** The file in a ZIP archive with the password `infected`. */
    download: async (file_id: string): Promise<Blob> =>
      (await this.#request("download_quarantined_file", { path: { file_id } })).blob(),
    /** A picture of the file as a PNG: nothing of it but pixels. */
    preview: async (file_id: string, query?: Query<"preview_quarantined_file">): Promise<Blob> =>
      (await this.#request("preview_quarantined_file", { path: { file_id }, query })).blob(),
    release: (file_id: string, body: Body<"release_quarantined_file">) =>
      this.#call("release_quarantined_file", { path: { file_id }, body }),
    refuse: (file_id: string, body: Body<"refuse_quarantined_file">) =>
      this.#call("refuse_quarantined_file", { path: { file_id }, body }),
    rescan: (file_id: string, body: Body<"rescan_quarantined_file">) =>
      this.#call("rescan_quarantined_file", { path: { file_id }, body }),
  };

  readonly reports = {
    list: (query?: Query<"list_reports">) => this.#list("list_reports", query),
    get: (report_id: string) => this.#call("get_report", { path: { report_id } }),
  };

  readonly buckets = {
    add: (tenant_id: string, body: Body<"add_bucket">) => this.#call("add_bucket", { path: { tenant_id }, body }),
    list: (tenant_id: string) => this.#call("list_buckets", { path: { tenant_id } }),
    get: (tenant_id: string, config_id: string) => this.#call("get_bucket", { path: { tenant_id, config_id } }),
    update: (tenant_id: string, config_id: string, body: Body<"update_bucket">) =>
      this.#call("update_bucket", { path: { tenant_id, config_id }, body }),
    delete: (tenant_id: string, config_id: string) => this.#call("delete_bucket", { path: { tenant_id, config_id } }),
    setDefault: (tenant_id: string, config_id: string) =>
      this.#call("set_default_bucket", { path: { tenant_id, config_id } }),
  };

  readonly apiKeys = {
    create: (body: Body<"create_api_key">) => this.#call("create_api_key", { body }),
    list: (query?: Query<"list_api_keys">) => this.#list("list_api_keys", query),
    get: (api_key_id: string) => this.#call("get_api_key", { path: { api_key_id } }),
    update: (api_key_id: string, body: Body<"update_api_key">) =>
      this.#call("update_api_key", { path: { api_key_id }, body }),
    rotate: (api_key_id: string, body: Body<"rotate_api_key"> = {}) =>
      this.#call("rotate_api_key", { path: { api_key_id }, body }),
    revoke: (api_key_id: string) => this.#call("revoke_api_key", { path: { api_key_id } }),
  };

  readonly uploadTokens = {
    create: (body: Body<"create_upload_token">) => this.#call("create_upload_token", { body }),
    list: (query?: Query<"list_upload_tokens">) => this.#list("list_upload_tokens", query),
    get: (token_id: string) => this.#call("get_upload_token", { path: { token_id } }),
    revoke: (token_id: string) => this.#call("revoke_upload_token", { path: { token_id } }),
  };

  readonly cors = {
    get: () => this.#call("get_cors", {}),
    replace: (body: Body<"replace_cors">) => this.#call("replace_cors", { body }),
  };

  readonly events = {
    /** The events behind `after` that there are now; all that are kept, without `after`. */
    list: (query: Query<"list_events"> = {}) => this.#follow("list_events", query, (event) => event.id, false),
    /** The events behind `after`, and each further one when it happens, until the loop is left. */
    follow: (query: Query<"list_events"> = {}) =>
      this.#follow("list_events", { wait: 30, ...query }, (event) => event.id, true),
  };

  readonly hashLists = {
    list: (query?: Query<"list_hashes">) => this.#list("list_hashes", query),
    add: (body: Body<"add_hashes">) => this.#call("add_hashes", { body }),
    remove: (digest: string) => this.#call("remove_hash", { path: { digest } }),
    quarantine: (digest: string) => this.#call("quarantine_denied_files", { path: { digest } }),
  };

  readonly webhooks = {
    list: () => this.#call("list_webhook_endpoints", {}),
    create: (body: Body<"create_webhook_endpoint">) => this.#call("create_webhook_endpoint", { body }),
    get: (endpoint_id: string) => this.#call("get_webhook_endpoint", { path: { endpoint_id } }),
    update: (endpoint_id: string, body: Body<"update_webhook_endpoint">) =>
      this.#call("update_webhook_endpoint", { path: { endpoint_id }, body }),
    delete: (endpoint_id: string) => this.#call("delete_webhook_endpoint", { path: { endpoint_id } }),
    rotateSecret: (endpoint_id: string) => this.#call("rotate_webhook_secret", { path: { endpoint_id } }),
    test: (endpoint_id: string) => this.#call("test_webhook_endpoint", { path: { endpoint_id } }),
    recover: (endpoint_id: string, body: Body<"recover_webhook_events">) =>
      this.#call("recover_webhook_events", { path: { endpoint_id }, body }),
    listDeliveries: (endpoint_id: string, query?: Query<"list_webhook_deliveries">) =>
      this.#list("list_webhook_deliveries", query, { endpoint_id }),
    redeliver: (delivery_id: string) => this.#call("redeliver_webhook", { path: { delivery_id } }),
  };

  readonly tenant = {
    getUsage: (query?: Query<"get_usage">) => this.#call("get_usage", { query }),
    getPlan: () => this.#call("get_plan", {}),
    listAuditEvents: (query?: Query<"list_audit_events">) => this.#list("list_audit_events", query),
  };

  readonly service = {
    listLocales: () => this.#call("list_locales", {}),
    getMessages: (locale: string) => this.#call("get_messages", { path: { locale } }),
    isLive: () => this.#call("live", {}),
    isReady: () => this.#call("ready", {}),
    getReceiptKeys: () => this.#call("receipt_keys", {}),
  };

  async #sendForm<T>(path: string, file: Blob, options: FormOptions, headers: Record<string, string>): Promise<T> {
    const { context, metadata, onProgress, signal } = options;
    const body = new FormData();
    if (context !== undefined) body.append("context", context);
    if (metadata !== undefined) body.append("metadata", JSON.stringify(metadata));
    body.append("file", file, nameOf(file, options));
    const onSent = onProgress && ((sent: number) => onProgress(Math.min(sent, file.size), file.size));
    const url = this.#transport.url + path;
    const request: Request = { method: "POST", url, headers, body, isRepeatable: true, signal, onSent };
    return dataOf(await this.#transport.send(request));
  }

  #request(operation: Operation, { path, query, body }: Parts): Promise<Response> {
    const [method, template] = OPERATIONS[operation].split(" ") as [string, string];
    const filled = template.replace(/\{(\w+)\}/g, (_, name) => segment(path?.[name] ?? ""));
    const url = new URL(this.#transport.url + filled);
    for (const [name, value] of Object.entries(query ?? {})) {
      for (const each of [value ?? []].flat()) url.searchParams.append(name, String(each));
    }
    // A repeated POST may create a second one; the other methods set or remove what is named.
    const request: Request = { method, url: url.href, isRepeatable: method !== "POST" };
    if (body !== undefined) {
      request.body = JSON.stringify(body);
      request.headers = { "Content-Type": "application/json" };
    }
    return this.#transport.send(request);
  }

  async #call<K extends Operation>(operation: K, parts: Parts): Promise<Data<K>> {
    return dataOf(await this.#request(operation, parts));
  }

  #list<K extends Operation>(
    operation: K,
    query?: Values & { page?: number },
    path: Record<string, string> = {},
  ): List<Item<K>> {
    return new List(async (page) => {
      const response = await this.#request(operation, { path, query: { ...query, page } });
      const { data, pagination } = await jsonOf(response);
      return { items: data, pagination } as Page<Item<K>>;
    }, query?.page ?? 1);
  }

  /** Yield the items of a list that continues after an id, to its end or endlessly. */
  async *#follow<K extends Operation>(
    operation: K,
    query: Values,
    idOf: (item: Item<K>) => string,
    isEndless: boolean,
  ): AsyncGenerator<Item<K>, void, undefined> {
    for (let after = query.after; ; ) {
      const items = (await this.#call(operation, { query: { ...query, after } })) as Item<K>[];
      yield* items;
      const last = items.at(-1);
      if (last !== undefined) after = idOf(last);
      else if (!isEndless) return;
    }
  }
}

function nameOf(file: Blob, options: FormOptions): string {
  const name = options.filename ?? (file as Partial<File>).name;
  if (!name) throw new SluiceError("a Blob has no name: give `filename`");
  return name;
}

async function jsonOf(response: Response): Promise<{ data?: unknown; pagination?: unknown }> {
  return (await response.json()) as object;
}

async function dataOf<T>(response: Response): Promise<T> {
  const body = await jsonOf(response);
  return ("data" in body ? body.data : body) as T;
}

/** `crypto.randomUUID` exists only in secure contexts. */
function randomKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
