// What forms and links cannot do: copy a text, choose all rows, filter while typing, follow a job, drop a file. Every page works
// without it, but for the drop zone, which then is a file field.
"use strict";

const later = (run, milliseconds) => {
  let timer;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(run, milliseconds);
  };
};

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const text = document.getElementById(button.dataset.copy).textContent.trim();
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(document.getElementById(button.dataset.copy));
    button.textContent = "Selected: press Ctrl+C";
  }
  setTimeout(() => (button.textContent = before), 2000);
});

// Shortcuts of one sign can be switched off: speech input types letters, too (WCAG 2.1.4).
const hasLetters = () => !document.cookie.split("; ").includes("sluice_letters=off");

// "/" and Ctrl+K lead to the search field from every page.
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select, [contenteditable]");
  const slash = event.key === "/" && hasLetters() && !typing && !event.ctrlKey && !event.metaKey && !event.altKey;
  const combined = event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey;
  if (!slash && !combined) return;
  const menu = document.querySelector(".side-narrow details");
  if (menu && menu.offsetParent) menu.open = true;
  const field = [...document.querySelectorAll(".find input")].find((each) => each.offsetParent);
  if (!field) return;
  event.preventDefault();
  field.focus();
  field.select();
});

// Letters: the rows of a list, the main action of the page, and the sheet that names them.
function moveRow(step) {
  const links = [...document.querySelectorAll("main tbody tr")].map((row) => row.querySelector("td a[href], th a[href]")).filter(Boolean);
  const row = document.activeElement.closest("main tbody tr");
  const at = links.findIndex((link) => row && row.contains(link));
  const next = links[at < 0 ? (step > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, at + step))];
  if (!next) return;
  next.focus();
  next.closest("tr").scrollIntoView({ block: "nearest" });
}

const letters = {
  j: () => moveRow(1),
  k: () => moveRow(-1),
  x: () => document.activeElement.closest("tbody tr")?.querySelector("input[type=checkbox][name]")?.click(),
  e: () => document.querySelector("main [data-main], main .head .primary")?.click(),
  "?": () => document.getElementById("shortcuts").showModal(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.target.closest("input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable], dialog")) return;
  const act = Object.hasOwn(letters, event.key) ? letters[event.key] : null;
  if (!act || !(hasLetters() || event.key === "?")) return;
  event.preventDefault();
  act();
});

const switched = document.getElementById("letters");
if (switched) {
  switched.checked = hasLetters();
  switched.addEventListener("change", () => {
    document.cookie = `sluice_letters=${switched.checked ? "on" : "off"}; path=/console; max-age=31536000; samesite=lax`;
  });
}

document.addEventListener("change", (event) => {
  if (!event.target.matches("[data-all]")) return;
  for (const box of event.target.form.querySelectorAll("input[type=checkbox][name]")) box.checked = event.target.checked;
});

// Only the newest answer is shown: an older one that comes late would overwrite it.
let asked = 0;

// A filter that cannot be read (422) is explained in the results: the field that is being typed into keeps the focus.
async function show(address) {
  const mine = ++asked;
  const response = await fetch(address, { headers: { Accept: "text/html" }, redirect: "manual" });
  if (mine !== asked) return;
  if (!response.ok && response.status !== 422) {
    location.assign(address);
    return;
  }
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  if (mine !== asked) return;
  replace(document.getElementById("results"), page.getElementById("results"));
  // The links beside the heading have the filter too, as the one that exports the list.
  const [actions, newer] = [document, page].map((each) => each.querySelector(".head .actions"));
  if (actions && newer) replace(actions, newer);
  history.replaceState(null, "", address);
}

// Who has reached a link or a box with the keyboard stays on it, if it is still there.
function replace(shown, newer) {
  const focused = shown.contains(document.activeElement) ? document.activeElement : null;
  shown.replaceWith(document.adoptNode(newer));
  const names = (each) => `${each.tagName} ${each.getAttribute("href")} ${each.name} ${each.value}`;
  const same = focused && [...newer.querySelectorAll("a, button, input")].find((each) => names(each) === names(focused));
  if (same) same.focus({ preventScroll: true });
}

for (const form of document.querySelectorAll("form[data-filter]")) {
  let last = "";
  const ask = (again) => {
    const fields = [...new FormData(form)].filter(([, value]) => value !== "");
    // Not `form.action`: that is a field of this name, where there is one.
    const address = form.getAttribute("action") + (fields.length ? `?${new URLSearchParams(fields)}` : "");
    if (!again && address === last) return;
    last = address;
    show(address);
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    ask(true);
  });
  form.addEventListener("input", later(() => ask(false), 300));
}

// A job shows its progress as long as it works and somebody looks.
const seconds = 2;

async function refresh() {
  const shown = document.querySelector("[data-refresh]");
  if (!shown) return;
  if (document.visibilityState === "visible" && !shown.contains(document.activeElement)) {
    try {
      const response = await fetch(location.href, { headers: { Accept: "text/html" }, redirect: "manual" });
      const page = response.ok ? new DOMParser().parseFromString(await response.text(), "text/html") : null;
      const newer = page?.getElementById(shown.id);
      if (newer && !shown.contains(document.activeElement)) shown.replaceWith(document.adoptNode(newer));
    } catch {
      // The server is unavailable for a moment: the next try may reach it.
    }
  }
  setTimeout(refresh, seconds * 1000);
}
setTimeout(refresh, seconds * 1000);

// A chosen file becomes the text of a field.
document.addEventListener("change", (event) => {
  const field = document.getElementById(event.target.dataset.base64Into);
  const file = event.target.files?.[0];
  if (!field || !file) return;
  const reader = new FileReader();
  reader.onload = () => (field.value = reader.result.slice(reader.result.indexOf(",") + 1));
  reader.readAsDataURL(file);
});

for (const zone of document.querySelectorAll("[data-drop]")) {
  const field = zone.querySelector("input[type=file]");
  for (const name of ["dragenter", "dragover"]) {
    zone.addEventListener(name, (event) => {
      event.preventDefault();
      zone.classList.add("over");
    });
  }
  zone.addEventListener("dragleave", () => zone.classList.remove("over"));
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    zone.classList.remove("over");
    if (!event.dataTransfer.files.length) return;
    field.files = event.dataTransfer.files;
    field.form.requestSubmit();
  });
  field.addEventListener("change", () => field.files.length && field.form.requestSubmit());
}
