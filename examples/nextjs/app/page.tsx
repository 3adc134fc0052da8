"use client";

import { type FormEvent, useState } from "react";

export default function Claim() {
  const [sentence, setSentence] = useState("");

  async function send(event: FormEvent<HTMLFormElement>) {
    event.preventDefault();
    setSentence("Sending …");
    const answer = await fetch("/api/claims", { method: "POST", body: new FormData(event.currentTarget) });
    const { message } = (await answer.json()) as { message?: string };
    setSentence(answer.ok ? "Thank you: we have your file." : (message ?? "That did not work."));
  }

  return (
    <form onSubmit={send}>
      <input type="file" name="file" required />
      <button>Send</button>
      <p role="status">{sentence}</p>
    </form>
  );
}
