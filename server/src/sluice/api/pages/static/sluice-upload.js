/**
 * <sluice-upload token="…" endpoint="…"> sends files with an upload token and shows what becomes of each.
 *
 * Attributes: `token` and `endpoint` as `POST /api/v1/upload-tokens` returns them (`token`, `upload_url`);
 * `tus-endpoint` (`tus_url`): files above 8 MB are then sent in resumable parts (tus 1.0); `lang`; `accept` and
 * `max-files`, which only help to choose: the server decides. Events, with `detail`: `sluice-upload:stored`
 * {file, message, fileId, reportId}, `sluice-upload:rejected` {file, message, reason, reportId}, and
 * `sluice-upload:failed` {file, message}. What the element contains is shown where there is no script.
 */
const TUS_ABOVE = 8 * 1024 * 1024;
const CHUNK = 8 * 1024 * 1024;
const RETRY_SECONDS = [1, 3, 6, 12, 24, 30, 30]; // without a byte more in between
const UNITS = ["byte", "kilobyte", "megabyte", "gigabyte"];

// English, for as long as the words of another language are not here.
const ENGLISH = {
  stored: "Thank you, this file has arrived.",
  choose: "Choose files",
  choose_one: "Choose a file",
  drop: "or drop them here",
  sending: "Files sent",
  waiting: "Waiting",
  uploading: "Sending",
  progress: "{size} of {max_size}",
  time_left: "{duration} left",
  checking: "Being checked",
  resuming: "Connection lost. Resuming automatically.",
  canceled: "Canceled",
  lost: "The connection was lost. Please try again.",
  cancel: "Cancel",
  retry: "Try again",
  remove: "Remove",
  removed: "Removed",
  replace: "Replace",
  report: "Report number",
  copy: "Copy",
  copied: "Copied",
  too_many: "No more files can be sent here.",
  spent: "No more files can be sent with this link.",
  unavailable: "Files cannot be received at the moment. Please try again in a few minutes.",
};

const STYLE = `
:host { display: block; color-scheme: light dark; font: 1rem/1.5 var(--sluice-font, system-ui, sans-serif);
  --accent: var(--sluice-accent, #4f46e5); --text: var(--sluice-text, #1a1a23); --muted: var(--sluice-muted, #5c5f6e);
  --surface: var(--sluice-surface, #fff); --border: var(--sluice-border, #d4d6e0); --good: var(--sluice-good, #0a7346);
  --bad: var(--sluice-bad, #b42318); --radius: var(--sluice-radius, 12px); color: var(--text); }
:host([hidden]) { display: none; }
@media (prefers-color-scheme: dark) { :host {
  --accent: var(--sluice-accent, #a5a1ff); --text: var(--sluice-text, #ededf2); --muted: var(--sluice-muted, #a3a6b5);
  --surface: var(--sluice-surface, #1b1c24); --border: var(--sluice-border, #3a3c4a);
  --good: var(--sluice-good, #5fd39b); --bad: var(--sluice-bad, #ff9b92); } }
* { box-sizing: border-box; }
label { display: flex; flex-direction: column; align-items: center; gap: 2px; padding: 32px 16px; text-align: center;
  background: var(--surface); border: 1.5px dashed var(--border); border-radius: var(--radius); cursor: pointer;
  transition: border-color .15s, background-color .15s; }
label:hover, label.over { border-color: var(--accent);
  background: color-mix(in srgb, var(--accent) 7%, var(--surface)); }
label:focus-within { outline: 2px solid var(--accent); outline-offset: 3px; }
label svg { color: var(--accent); margin-bottom: 6px; }
strong { font-weight: 600; }
.muted, .state { color: var(--muted); font-size: .875rem; }
input, .live { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%);
  white-space: nowrap; }
ul { list-style: none; margin: 12px 0 0; padding: 0; display: grid; gap: 8px; }
ul:empty { display: none; }
li { display: grid; grid-template-columns: 20px minmax(0, 1fr) auto; column-gap: 10px; align-items: start;
  padding: 12px 14px; background: var(--surface); border: 1px solid var(--border); border-radius: var(--radius); }
li > svg { margin-top: 4px; color: var(--muted); }
p { margin: 0; }
.name { font-weight: 500; overflow-wrap: anywhere; }
.state { font-variant-numeric: tabular-nums; }
.report { display: flex; flex-wrap: wrap; align-items: center; gap: 2px 8px; margin-top: 6px; color: var(--muted);
  font-size: .875rem; }
code { color: var(--text); font-size: .75rem; overflow-wrap: anywhere; user-select: all; }
.stored > svg { color: var(--good); }
.rejected > svg, .failed > svg, .resuming > svg { color: var(--bad); }
.rejected .state, .failed .state, .resuming .state { color: var(--text); }
.actions { display: flex; flex-wrap: wrap; gap: 8px; }
:is(.rejected, .failed, .canceled) > div { grid-column: 2 / -1; }
:is(.rejected, .failed, .canceled) .actions { margin-top: 10px; }
.report button { min-height: 24px; padding: 0 8px; font-size: .8125rem; }
progress { appearance: none; display: block; width: 100%; height: 6px; margin-top: 8px; border: 0; border-radius: 3px;
  overflow: hidden; background: var(--border); color: var(--accent); }
progress::-webkit-progress-bar { background: var(--border); }
progress::-webkit-progress-value { background: var(--accent); border-radius: 3px; transition: width .15s; }
progress::-moz-progress-bar { background: var(--accent); }
.checking progress { animation: pulse 1.4s ease-in-out infinite; }
@keyframes pulse { 50% { opacity: .45; } }
@media (prefers-reduced-motion: reduce) {
  *, ::-webkit-progress-value { animation: none !important; transition: none !important; } }
button { font: inherit; font-size: .875rem; font-weight: 500; min-height: 32px; padding: 2px 10px;
  color: var(--text); cursor: pointer; background: transparent; border: 1px solid var(--border); border-radius: 8px; }
button:hover { border-color: var(--accent); }
button:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
`;

const ICONS = {
  choose: "M12 16V5m0 0L7.5 9.5M12 5l4.5 4.5M4 16v2.5A1.5 1.5 0 0 0 5.5 20h13a1.5 1.5 0 0 0 1.5-1.5V16",
  file: "M6 3h8l4 4v14H6zM14 3v4h4",
  stored: "M5 13l4.5 4.5L19 7",
  rejected: "M6 6l12 12M18 6L6 18",
  failed: "M12 7v6m0 4v.01",
  resuming: "M12 8v5m0 3v.01M12 3a9 9 0 1 0 .01 0",
};

/** Return a new element with properties, attributes and children. */
function make(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function icon(path, size) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const line = document.createElementNS(svg.namespaceURI, "path");
  const drawing = { viewBox: "0 0 24 24", width: size, height: size, fill: "none", stroke: "currentColor",
    "stroke-width": 2, "stroke-linecap": "round", "stroke-linejoin": "round", "aria-hidden": "true" };
  for (const [key, value] of Object.entries(drawing)) svg.setAttribute(key, value);
  line.setAttribute("d", path);
  svg.append(line);
  return svg;
}

class Canceled extends Error {}
class ConnectionLost extends Error {}

/** Send one request; return its XMLHttpRequest. `watch` has an AbortSignal and gets the number of sent bytes. */
function request(method, url, headers, body, watch) {
  return new Promise((resolve, reject) => {
    const xhr = new XMLHttpRequest();
    const abort = () => xhr.abort();
    xhr.open(method, url);
    for (const [name, value] of Object.entries(headers)) xhr.setRequestHeader(name, value);
    xhr.upload.onprogress = (event) => watch.progress(event.loaded, event.total);
    xhr.onload = () => resolve(xhr);
    xhr.onerror = xhr.ontimeout = () => reject(new ConnectionLost());
    xhr.onabort = () => reject(new Canceled());
    xhr.onloadend = () => watch.signal.removeEventListener("abort", abort);
    watch.signal.addEventListener("abort", abort);
    if (watch.signal.aborted) return reject(new Canceled());
    xhr.send(body);
  });
}

/** Send a file as a form. By the key the server recognizes a second try after a lost response. */
function sendForm(upload, headers, watch) {
  const form = new FormData();
  form.append("file", upload.file);
  return request("POST", upload.endpoint, { ...headers, "Idempotency-Key": upload.key }, form, watch);
}

/** Send a file by tus 1.0: create the upload, then append parts from where the server stands. */
async function sendTus(upload, headers, watch) {
  const { file, tusEndpoint } = upload;
  const tus = { ...headers, "Tus-Resumable": "1.0.0" };
  const still = { signal: watch.signal, progress() {} };
  let offset = null;
  if (upload.location) {
    const head = await request("HEAD", upload.location, tus, null, still);
    if (head.status >= 500) return head;
    if (head.status < 400) offset = Number(head.getResponseHeader("Upload-Offset"));
  }
  if (offset === null) {
    const encode = (text) => btoa(String.fromCharCode(...new TextEncoder().encode(text)));
    const metadata = `filename ${encode(file.name)},filetype ${encode(file.type)}`;
    const asked = { ...tus, "Upload-Length": file.size, "Upload-Metadata": metadata };
    const created = await request("POST", tusEndpoint, asked, null, still);
    if (created.status !== 201) return created;
    // Only the id is taken: the token goes to no other host than that of the endpoint.
    const id = created.getResponseHeader("Location")?.replace(/\/+$/, "").split("/").pop();
    if (!id || /^\.+$/.test(id)) throw new ConnectionLost(); // not a server of tus
    upload.location = `${tusEndpoint.replace(/\/+$/, "")}/${encodeURIComponent(id)}`;
    offset = 0;
  }
  for (;;) {
    const begin = offset;
    const part = file.slice(begin, begin + CHUNK);
    const append = { ...tus, "Upload-Offset": begin, "Content-Type": "application/offset+octet-stream" };
    const progress = (sent) => watch.progress(begin + Math.min(sent, part.size), file.size);
    const appended = await request("PATCH", upload.location, append, part, { signal: watch.signal, progress });
    if (appended.status >= 300 || begin + part.size >= file.size) return appended;
    offset = Number(appended.getResponseHeader("Upload-Offset"));
    if (!(offset > begin)) throw new ConnectionLost(); // not a server of tus
  }
}

class SluiceUpload extends HTMLElement {
  #words = ENGLISH;
  #queue = [];
  #isBusy = false;
  #list;
  #input;
  #live;
  #label;
  #chooser;
  #replaced;

  connectedCallback() {
    if (this.shadowRoot) return;
    const root = this.attachShadow({ mode: "open", delegatesFocus: true });
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(STYLE);
    root.adoptedStyleSheets = [sheet];
    const accept = this.getAttribute("accept") ?? "";
    this.#input = make("input", { type: "file", multiple: this.#mostFiles !== 1, accept });
    this.#input.onchange = () => {
      this.#add([...this.#input.files]);
      this.#input.value = "";
    };
    const drop = make("span", { className: "muted" });
    this.#label = make("label", {}, icon(ICONS.choose, 28), make("strong"), drop, this.#input);
    this.#label.part = "drop";
    this.#chooser = make("input", { type: "file", accept, hidden: true });
    this.#chooser.onchange = () => {
      const [file] = this.#chooser.files;
      this.#chooser.value = "";
      if (file) this.#replace(this.#replaced, file);
    };
    this.#list = make("ul");
    this.#live = make("p", { className: "live", role: "status" });
    root.append(this.#label, this.#list, this.#live, this.#chooser);
    this.#takeDrops();
    this.#show();
    this.#loadWords();
  }

  get #mostFiles() {
    return Number(this.getAttribute("max-files")) || Infinity;
  }

  #takeDrops() {
    const over = (isOver) => (event) => {
      event.preventDefault();
      this.#label.classList.toggle("over", isOver);
    };
    for (const name of ["dragenter", "dragover"]) this.#label.addEventListener(name, over(true));
    this.#label.addEventListener("dragleave", over(false));
    this.#label.addEventListener("drop", (event) => {
      over(false)(event);
      this.#add([...event.dataTransfer.files]);
    });
  }

  #show() {
    const [choose, drop] = this.#label.querySelectorAll("strong, span");
    choose.textContent = this.#words[this.#mostFiles === 1 ? "choose_one" : "choose"];
    drop.textContent = this.#words.drop;
    this.#list.ariaLabel = this.#words.sending;
    const { locale: lang = "en", direction: dir = "ltr" } = this.#words;
    for (const part of [this.#label, this.#list, this.#live]) Object.assign(part, { lang, dir });
    for (const upload of this.#queue) this.#draw(upload);
  }

  async #loadWords() {
    // Of the service, wherever this file comes from: `endpoint` is its `…/api/v1/files/upload`.
    const endpoint = new URL(this.getAttribute("endpoint") ?? "", document.baseURI);
    const url = new URL("../../../static/words.json", endpoint);
    if (this.lang) url.searchParams.set("lang", this.lang);
    try {
      this.#words = { ...ENGLISH, ...(await (await fetch(url)).json()) };
      this.#show();
    } catch {
      // English stays.
    }
  }

  #add(files) {
    for (const file of files) {
      const upload = { row: make("li") };
      this.#queue.push(upload);
      this.#list.append(upload.row);
      this.#begin(upload, file);
    }
    this.#next();
  }

  /** Let a file wait for its turn, if there are not too many of them. */
  #begin(upload, file) {
    const key = crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`; // there is none without TLS
    Object.assign(upload, { file, key, state: "waiting", share: 0, text: "", location: null, reportId: null, since: null });
    const counted = this.#queue.filter((each) => each.state !== "rejected" && each.state !== "canceled");
    if (counted.length <= this.#mostFiles) this.#draw(upload);
    else this.#end(upload, "rejected", this.#words.too_many, { reason: "too_many" });
  }

  #replace(upload, file) {
    this.#begin(upload, file);
    upload.row.querySelector(".actions button").focus();
    this.#next();
  }

  /** Remove a file from the list; who did it by keyboard goes on at the next one. */
  #remove(upload) {
    const { row, file } = upload;
    const beside = row.nextElementSibling ?? row.previousElementSibling;
    this.#queue.splice(this.#queue.indexOf(upload), 1);
    row.remove();
    (beside?.querySelector(".actions button") ?? this.#input).focus();
    this.#live.textContent = `${file.name}: ${this.#words.removed}`;
  }

  /** Send the files one after the other. */
  async #next() {
    const upload = this.#queue.find((each) => each.state === "waiting");
    if (this.#isBusy || !upload) return;
    this.#isBusy = true;
    try {
      await this.#send(upload);
    } finally {
      this.#isBusy = false;
      this.#next();
    }
  }

  async #send(upload) {
    upload.endpoint = new URL(this.getAttribute("endpoint") ?? "", document.baseURI).href;
    const tus = this.getAttribute("tus-endpoint");
    upload.tusEndpoint = tus && new URL(tus, document.baseURI).href;
    upload.abort = new AbortController();
    const watch = {
      signal: upload.abort.signal,
      progress: (sent, total) => {
        upload.share = total ? sent / total : 1;
        upload.since ??= { share: upload.share, time: Date.now() };
        this.#move(upload, sent >= total ? "checking" : "uploading");
      },
    };
    this.#move(upload, "uploading");
    const headers = { Authorization: `Bearer ${this.getAttribute("token")}`, Accept: "application/json" };
    if (this.#words.locale) headers["Accept-Language"] = this.#words.locale;
    try {
      this.#judge(upload, await this.#sendPatiently(upload, headers, watch));
    } catch (fault) {
      if (fault instanceof Canceled) this.#end(upload, "canceled", this.#words.canceled);
      else this.#end(upload, "failed", this.#words.lost);
    }
  }

  /** Send a file; a resumable one continues by itself where it was interrupted. */
  async #sendPatiently(upload, headers, watch) {
    if (!upload.tusEndpoint || upload.file.size <= TUS_ABOVE) return sendForm(upload, headers, watch);
    for (let tries = 0, reached = 0; ; tries += 1) {
      let response = null;
      let lost = null;
      try {
        response = await sendTus(upload, headers, watch);
        if (response.status < 500 && response.status !== 409) return response;
      } catch (fault) {
        if (!(fault instanceof ConnectionLost)) throw fault;
        lost = fault;
      }
      if (upload.share > reached) [tries, reached] = [0, upload.share];
      if (tries === RETRY_SECONDS.length && lost) throw lost;
      if (tries === RETRY_SECONDS.length) return response;
      if (lost) this.#move(upload, "resuming");
      upload.since = null;
      const asked = Number(response?.getResponseHeader("Retry-After")) || 0;
      await this.#pause(Math.max(RETRY_SECONDS[tries], Math.min(asked, 30)), watch.signal);
    }
  }

  #pause(seconds, signal) {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(resolve, 1000 * seconds);
      addEventListener("online", resolve, { once: true, signal });
      signal.addEventListener("abort", () => {
        clearTimeout(timer);
        reject(new Canceled());
      }, { once: true });
    });
  }

  /** Show what the server decided: its own sentence, where it has one. */
  #judge(upload, response) {
    let body = {};
    try {
      body = JSON.parse(response.responseText);
    } catch {
      // not a response of the service itself
    }
    const { data, report } = body;
    const reportId = data?.report_id ?? report?.report_id ?? null;
    upload.reportId = reportId;
    if (response.status < 300 && data) {
      this.#end(upload, "stored", this.#words.stored, { fileId: data.file_id, reportId });
    } else if (response.status === 401) {
      this.#end(upload, "rejected", this.#words.spent, { reason: "spent", reportId });
    } else if (response.status >= 400 && response.status < 500 && response.status !== 429 && report) {
      this.#end(upload, "rejected", report.message, { reason: report.reason, reportId });
    } else {
      this.#end(upload, "failed", report?.message ?? this.#words.unavailable);
    }
  }

  #end(upload, state, text, detail = {}) {
    upload.text = text;
    this.#move(upload, state);
    if (state === "canceled") return;
    const init = { bubbles: true, composed: true, detail: { file: upload.file, message: text, ...detail } };
    this.dispatchEvent(new CustomEvent(`sluice-upload:${state}`, init));
  }

  #move(upload, state) {
    const isNews = upload.state !== state;
    upload.state = state;
    if (isNews) {
      this.#draw(upload);
      if (state !== "uploading") this.#live.textContent = `${upload.file.name}: ${upload.text || this.#words[state]}`;
    }
    const bar = upload.row.querySelector("progress");
    if (!bar) return;
    bar.value = Math.round(100 * upload.share);
    upload.row.querySelector(".state").textContent = this.#stateOf(upload);
  }

  /** Return a number in words, which keeps its own direction in a sentence, and is not broken into two lines. */
  #number(value, options) {
    const text = new Intl.NumberFormat(this.#words.locale, { numberingSystem: "latn", ...options }).format(value);
    return `\u2068${text.replaceAll(" ", "\u00a0")}\u2069`;
  }

  #size(bytes) {
    let step = 0;
    for (; bytes >= 1024 && step < UNITS.length - 1; step += 1) bytes /= 1024;
    return this.#number(bytes, { style: "unit", unit: UNITS[step], maximumFractionDigits: step > 1 ? 1 : 0 });
  }

  /** Return what is shown below the name of a file: while it is sent, how much of it, and how long it takes. */
  #stateOf({ state, text, share, since, file }) {
    if (text || state !== "uploading" || !since) return text || this.#words[state];
    const { progress, time_left } = this.#words;
    const sizes = progress.replace("{size}", this.#size(share * file.size)).replace("{max_size}", this.#size(file.size));
    const parts = [this.#number(share, { style: "percent" }), sizes];
    const seconds = (Date.now() - since.time) / 1000;
    if (seconds > 2 && share > since.share) {
      const left = ((1 - share) * seconds) / (share - since.share);
      const [unit, length] = left < 60 ? ["second", 1] : left < 3600 ? ["minute", 60] : ["hour", 3600];
      const time = this.#number(Math.ceil(left / length), { style: "unit", unit, unitDisplay: "long" });
      parts.push(time_left.replace("{duration}", time));
    }
    return parts.join(" · ");
  }

  #draw(upload) {
    const { row, state, file } = upload;
    const isOpen = ["waiting", "uploading", "checking", "resuming"].includes(state);
    const hadFocus = row.contains(this.shadowRoot.activeElement);
    row.className = state;
    const what = make("div", {}, make("p", { className: "name" }, make("bdi", { textContent: file.name })),
      make("p", { className: "state", textContent: this.#stateOf(upload) }));
    if (isOpen && state !== "waiting") {
      const ariaLabel = `${this.#words.uploading}: ${file.name}`;
      what.append(make("progress", { max: 100, value: Math.round(100 * upload.share), ariaLabel }));
    }
    if (upload.reportId && state !== "stored") what.append(this.#reportOf(upload));
    const actions = make("div", { className: "actions" });
    const offer = (word, onclick) => actions.append(this.#button(word, file.name, onclick));
    if (isOpen) offer("cancel", () => this.#cancel(upload));
    if (state === "failed" || state === "canceled") offer("retry", () => this.#retry(upload));
    if (state === "rejected") offer("replace", () => this.#choose(upload));
    if (!isOpen && state !== "stored") offer("remove", () => this.#remove(upload));
    row.replaceChildren(icon(ICONS[state] ?? ICONS.file, 18), what, actions);
    if (hadFocus) (actions.querySelector("button") ?? this.#input).focus();
  }

  #button(word, about, onclick) {
    const textContent = this.#words[word];
    return make("button", { type: "button", textContent, ariaLabel: `${textContent}: ${about}`, onclick });
  }

  /** Return the number under which the people who run the page find what happened. */
  #reportOf({ reportId }) {
    const code = make("code", { textContent: reportId });
    const button = this.#button("copy", reportId, async () => {
      try {
        await navigator.clipboard.writeText(reportId); // there is none without TLS
      } catch {
        getSelection().selectAllChildren(code);
        if (!document.execCommand("copy")) return;
      }
      button.textContent = this.#live.textContent = this.#words.copied;
    });
    return make("p", { className: "report" }, `${this.#words.report}: `, code, button);
  }

  #choose(upload) {
    this.#replaced = upload;
    this.#chooser.click();
  }

  #cancel(upload) {
    if (upload.state === "waiting") this.#end(upload, "canceled", this.#words.canceled);
    else upload.abort.abort();
  }

  #retry(upload) {
    Object.assign(upload, { state: "waiting", text: "", share: 0, since: null, reportId: null });
    this.#draw(upload);
    this.#next();
  }
}

if (!customElements.get("sluice-upload")) customElements.define("sluice-upload", SluiceUpload);
