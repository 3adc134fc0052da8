/** Passes the file of a form to Sluice. The API key stays on the server. */

import { FileRejected, Sluice, SluiceError } from "@sluice/client";
import type { NextRequest } from "next/server";

export const runtime = "nodejs";

const { SLUICE_URL: url = "http://127.0.0.1:8000", SLUICE_API_KEY: credential = "" } = process.env;

export async function POST(request: NextRequest): Promise<Response> {
  const file = (await request.formData()).get("file");
  if (!(file instanceof File)) return Response.json({ message: "Please choose a file." }, { status: 400 });
  const language = request.headers.get("Accept-Language");
  const sluice = new Sluice({ url, credential, ...(language ? { language } : {}) });
  try {
    const stored = await sluice.upload(file, { context: "claims" });
    return Response.json({ file_id: stored.file_id }, { status: 201 }); // what the application keeps
  } catch (error) {
    // The message of a rejection is the sentence for the person who sent the file.
    if (error instanceof FileRejected) return Response.json({ message: error.message }, { status: 400 });
    if (!(error instanceof SluiceError)) throw error;
    return Response.json({ message: "Files cannot be received now. Please try again later." }, { status: 503 });
  }
}
