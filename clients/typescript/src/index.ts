/** Client of Sluice, the upload gate. */

export {
  type Event,
  type FormOptions,
  List,
  type Page,
  Sluice,
  type UploadedFile,
  type UploadOptions,
} from "./client.js";
export {
  ApiError,
  type ClientOptions,
  ConnectionFailed,
  FileRejected,
  type Reason,
  type Report,
  SluiceError,
} from "./http.js";
export { type Body, type Data, type Item, NOT_BY_NAME, type Operation, OPERATIONS, type Query } from "./operations.js";
export type { ResumableOptions } from "./tus.js";
export { verifyWebhook, type WebhookEvent, WebhookInvalid } from "./webhooks.js";
