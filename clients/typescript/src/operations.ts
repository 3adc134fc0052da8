/** The operations of the API: method and path of each, and the types of what it takes and returns. */

import type { operations } from "./schema.js";

/** Operations that no method calls by this table, each with the reason. */
export const NOT_BY_NAME = {
  upload_file: "`upload` sends it, with progress",
  validate_file: "`validate` sends it, with progress",
  add_example: "`contexts.addExample` sends it as a form",
  create_upload: "`upload` sends it for large files",
  head_upload: "`upload` asks where to continue",
  append_to_upload: "`upload` sends it for each part",
  get_upload: "`uploads.get` takes the URL of an upload",
  cancel_upload: "`uploads.cancel` takes the URL of an upload",
  import_hashes: "files of millions of lines: the command `sluice hashes import` sends them",
  discover_uploads: "this client knows what Sluice speaks of tus; the question is for other clients",
} as const;

type Webhook = `webhook_${string}`;
export type Operation = Exclude<keyof operations, keyof typeof NOT_BY_NAME | Webhook>;

/** Method and path by `operationId`. The compiler finds an operation that is missing here. */
export const OPERATIONS = {
  create_context: "POST /api/v1/contexts",
  list_contexts: "GET /api/v1/contexts",
  get_context: "GET /api/v1/contexts/{context_key}",
  update_context: "PATCH /api/v1/contexts/{context_key}",
  hold_context: "PUT /api/v1/contexts/{context_key}/hold",
  rotate_check_secret: "POST /api/v1/contexts/{context_key}/external-checks/{check_name}/rotate-secret",
  end_context_hold: "DELETE /api/v1/contexts/{context_key}/hold",
  list_examples: "GET /api/v1/contexts/{context_key}/examples",
  remove_example: "DELETE /api/v1/contexts/{context_key}/examples/{example_id}",
  replay_change: "POST /api/v1/contexts/{context_key}/replay",
  list_files: "GET /api/v1/files",
  get_download_url: "GET /api/v1/files/{file_id}",
  get_preview_url: "GET /api/v1/files/{file_id}/preview",
  delete_file: "DELETE /api/v1/files/{file_id}",
  get_file_metadata: "GET /api/v1/files/{file_id}/metadata",
  restore_file: "POST /api/v1/files/{file_id}/restore",
  hold_file: "PUT /api/v1/files/{file_id}/hold",
  end_file_hold: "DELETE /api/v1/files/{file_id}/hold",
  bulk_delete_files: "POST /api/v1/files/bulk-delete",
  bulk_restore_files: "POST /api/v1/files/bulk-restore",
  export_files: "POST /api/v1/files/export",
  list_jobs: "GET /api/v1/jobs",
  get_job: "GET /api/v1/jobs/{job_id}",
  get_export_url: "GET /api/v1/jobs/{job_id}/download",
  cancel_job: "POST /api/v1/jobs/{job_id}/cancel",
  create_erasure: "POST /api/v1/erasures",
  get_erasure: "GET /api/v1/erasures/{job_id}",
  get_erasure_receipt: "GET /api/v1/erasures/{job_id}/receipt",
  get_receipt: "GET /api/v1/files/{file_id}/receipt",
  list_quarantined_files: "GET /api/v1/quarantine",
  download_quarantined_file: "GET /api/v1/quarantine/{file_id}/download",
  preview_quarantined_file: "GET /api/v1/quarantine/{file_id}/preview",
  release_quarantined_file: "POST /api/v1/quarantine/{file_id}/release",
  refuse_quarantined_file: "POST /api/v1/quarantine/{file_id}/refuse",
  rescan_quarantined_file: "POST /api/v1/quarantine/{file_id}/rescan",
  list_reports: "GET /api/v1/reports",
  get_report: "GET /api/v1/reports/{report_id}",
  add_bucket: "POST /api/v1/tenants/{tenant_id}/storage-configs",
  list_buckets: "GET /api/v1/tenants/{tenant_id}/storage-configs",
  get_bucket: "GET /api/v1/tenants/{tenant_id}/storage-configs/{config_id}",
  update_bucket: "PATCH /api/v1/tenants/{tenant_id}/storage-configs/{config_id}",
  delete_bucket: "DELETE /api/v1/tenants/{tenant_id}/storage-configs/{config_id}",
  set_default_bucket: "POST /api/v1/tenants/{tenant_id}/storage-configs/{config_id}/set-default",
  create_api_key: "POST /api/v1/api-keys",
  list_api_keys: "GET /api/v1/api-keys",
  get_api_key: "GET /api/v1/api-keys/{api_key_id}",
  update_api_key: "PATCH /api/v1/api-keys/{api_key_id}",
  revoke_api_key: "DELETE /api/v1/api-keys/{api_key_id}",
  rotate_api_key: "POST /api/v1/api-keys/{api_key_id}/rotate",
  create_upload_token: "POST /api/v1/upload-tokens",
  list_upload_tokens: "GET /api/v1/upload-tokens",
  get_upload_token: "GET /api/v1/upload-tokens/{token_id}",
  revoke_upload_token: "DELETE /api/v1/upload-tokens/{token_id}",
  get_cors: "GET /api/v1/cors",
  replace_cors: "PUT /api/v1/cors",
  list_events: "GET /api/v1/events",
  list_hashes: "GET /api/v1/hash-lists",
  add_hashes: "POST /api/v1/hash-lists",
  remove_hash: "DELETE /api/v1/hash-lists/{digest}",
  quarantine_denied_files: "POST /api/v1/hash-lists/{digest}/quarantine",
  list_webhook_endpoints: "GET /api/v1/webhook-endpoints",
  create_webhook_endpoint: "POST /api/v1/webhook-endpoints",
  get_webhook_endpoint: "GET /api/v1/webhook-endpoints/{endpoint_id}",
  update_webhook_endpoint: "PATCH /api/v1/webhook-endpoints/{endpoint_id}",
  delete_webhook_endpoint: "DELETE /api/v1/webhook-endpoints/{endpoint_id}",
  rotate_webhook_secret: "POST /api/v1/webhook-endpoints/{endpoint_id}/rotate-secret",
  test_webhook_endpoint: "POST /api/v1/webhook-endpoints/{endpoint_id}/test",
  recover_webhook_events: "POST /api/v1/webhook-endpoints/{endpoint_id}/recover",
  list_webhook_deliveries: "GET /api/v1/webhook-endpoints/{endpoint_id}/deliveries",
  redeliver_webhook: "POST /api/v1/webhook-deliveries/{delivery_id}/redeliver",
  get_usage: "GET /api/v1/usage",
  get_plan: "GET /api/v1/plan",
  list_audit_events: "GET /api/v1/audit",
  list_locales: "GET /api/v1/messages",
  get_messages: "GET /api/v1/messages/{locale}",
  live: "GET /health/live",
  ready: "GET /health/ready",
  receipt_keys: "GET /.well-known/sluice-receipts.json",
} as const satisfies Record<Operation, string>;

type Answers<K extends keyof operations> = operations[K]["responses"];
type Success<K extends keyof operations> = Answers<K>[keyof Answers<K> & (200 | 201 | 202)];
type Json<T> = T extends { content: { "application/json": infer J } } ? J : never;

/** What an operation returns: the `data` of its envelope, or the whole response if it has none. */
export type Data<K extends keyof operations> = Json<Success<K>> extends { data: infer D } ? D : Json<Success<K>>;

/** One item of a list. */
export type Item<K extends keyof operations> = Data<K> extends readonly (infer T)[] ? T : never;

/** The JSON that an operation takes. */
export type Body<K extends keyof operations> = Json<NonNullable<operations[K]["requestBody"]>>;

/** The query parameters of an operation. */
export type Query<K extends keyof operations> = NonNullable<operations[K]["parameters"]["query"]>;
