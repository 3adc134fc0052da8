// What a user of @sluice/client writes: uploads, and reads why a file was rejected. Compiled and run by release.sh.
import { FileRejected, Sluice } from "@sluice/client";

const { SLUICE_URL: url = "", SLUICE_API_KEY: credential = "" } = process.env;
const sluice = new Sluice({ url, credential });
let sent = 0;
const stored = await sluice.upload(new File(["Hello, Sluice!"], "hello.txt"), {
  context: "claims",
  onProgress: (now) => (sent = now),
});
if (!stored.file_id || sent === 0) throw new Error("the upload has no file, or no progress");
try {
  await sluice.upload(new File([], "empty.txt"), { context: "claims" });
} catch (error) {
  if (!(error instanceof FileRejected) || error.reason !== "blank_document") throw error;
  process.exit(0);
}
throw new Error("an empty file was accepted");
