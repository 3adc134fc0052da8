// Passkeys: ask the server what to sign, the browser to sign it, and send that with the form of the button.
"use strict";

const bytesOf = (text) => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));
const textOf = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

async function askBrowser(kind, options) {
  options.challenge = bytesOf(options.challenge);
  for (const known of [...(options.excludeCredentials ?? []), ...(options.allowCredentials ?? [])]) known.id = bytesOf(known.id);
  if (kind === "create") options.user.id = bytesOf(options.user.id);
  const credential = await navigator.credentials[kind]({ publicKey: options });
  const response = {};
  for (const name of ["clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle"]) {
    if (credential.response[name]) response[name] = textOf(credential.response[name]);
  }
  return JSON.stringify({ id: credential.id, rawId: textOf(credential.rawId), type: credential.type, response });
}

document.addEventListener("submit", async (event) => {
  const form = event.target.closest("[data-passkey]");
  if (!form || form.elements.credential.value) return;
  event.preventDefault();
  const problem = document.querySelector("[data-passkey-problem]");
  problem.hidden = true;
  try {
    if (location.origin !== form.dataset.site) throw new Error(`Passkeys work at ${form.dataset.site} only: open this page there.`);
    if (!navigator.credentials) throw new Error("This browser has no passkeys.");
    const answer = await fetch(form.dataset.options, { method: "POST" });
    if (!answer.ok) throw new Error("The server refused to begin. Load the page again, or wait a minute.");
    form.elements.credential.value = await askBrowser(form.dataset.passkey, await answer.json());
    form.submit();
  } catch (fault) {
    problem.textContent = fault.name === "NotAllowedError" ? "No passkey was chosen." : fault.message;
    problem.hidden = false;
  }
});
