// What every page needs: talking to the program, telling people, and making parts of a page.
export const $ = (id) => document.getElementById(id);

// The address has the token once. It stays in this tab only: a cookie would go to every program of this machine.
const given = new URLSearchParams(location.search).get("token");
if (given) {
  sessionStorage.setItem("token", given);
  history.replaceState(null, "", location.pathname + location.hash);
}
const proof = () => ({ "X-Onefold-Token": sessionStorage.getItem("token") || "" });

// --- talking to the program ---------------------------------------------------------------------------------

const SILENT = "The program does not answer. Is onefold serve still running?";

async function reach(path, options) {
  const reply = await fetch(path, { ...options, headers: proof() }).catch((error) => {
    throw error.name === "AbortError" ? error : new Error(SILENT);
  });
  if (reply.ok) return reply;
  const told = await reply.json().catch(() => ({}));
  throw new Error(sentence(told.error || `the program answered ${reply.status}`));
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");

// Ask without a word to anybody: for pages that look again by themselves, and for forecasts.
export async function quietly(path, options = {}) {
  return (await reach(path, options)).json();
}

export async function ask(path, options = {}) {
  busy(true);
  try {
    const told = await quietly(path, options);
    say("");
    return told;
  } catch (error) {
    say(error.message, "wrong");
    throw error;
  } finally {
    busy(false);
  }
}

export const send = (path, value, how = ask) => how(path, { method: "POST", body: JSON.stringify(value) });

export async function download(path, name) {
  try {
    const link = element("a", "", { download: name });
    link.href = URL.createObjectURL(await (await reach(path, {})).blob());
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    say(`${name} was downloaded.`, "good");
  } catch (error) {
    say(error.message, "wrong");
  }
}

// --- telling people -----------------------------------------------------------------------------------------

export function say(text, kind = "") {
  if ($("message").textContent === text && $("message").className === kind) return;
  $("message").textContent = text;
  $("message").className = kind;
}

// Work that takes seconds is told in words, and counted for the eyes only.
let works = 0;
let started = 0;
let clock = null;
function busy(begins) {
  works += begins ? 1 : -1;
  document.body.classList.toggle("busy", works > 0);
  document.body.setAttribute("aria-busy", works > 0);
  if (works && clock === null) {
    started = Date.now();
    say("Working …", "work");
    clock = setInterval(() => document.body.style.setProperty("--seconds", `"${Math.round((Date.now() - started) / 1000)} s"`), 1000);
  } else if (!works) {
    clearInterval(clock);
    clock = null;
    document.body.style.removeProperty("--seconds");
    if ($("message").className === "work") say("");
  }
}

// Resolves with true if the question was answered with yes. `body` are parts of a page.
export function confirmed(title, body, yes, kind = "") {
  $("dialog-title").textContent = title;
  $("dialog-body").replaceChildren(...body);
  Object.assign($("dialog-yes"), { textContent: yes, className: kind });
  $("dialog").returnValue = "";
  $("dialog").showModal();
  return new Promise((resolve) => {
    $("dialog").addEventListener("close", () => resolve($("dialog").returnValue === "yes"), { once: true });
  });
}

// --- parts of a page ----------------------------------------------------------------------------------------

// Everything from a file or a federation is put into the page as text, never as HTML.
export function element(tag, text = "", more = {}, parts = []) {
  const made = Object.assign(document.createElement(tag), more);
  if (text !== "") made.textContent = text;
  made.append(...parts);
  return made;
}

// Replace what is inside, and leave the focus where it was: on the control with the same key.
export function fill(id, parts) {
  const key = $(id).contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  $(id).replaceChildren(...parts);
  if (key !== undefined) [...$(id).querySelectorAll("[data-key]")].find((each) => each.dataset.key === key)?.focus();
}

export const lines = (id, texts) => fill(id, texts.map((text) => element("li", text)));

// A row of a table. On narrow screens it is a card, where every cell has the name of its column.
export function row(names, cells) {
  const made = element("tr");
  cells.forEach((cell, place) => {
    const box = element(place ? "td" : "th");
    if (!place) box.scope = "row";
    else box.dataset.name = names[place];
    if (typeof cell === "number") box.className = "number";
    if (cell === null || cell === undefined || cell === "") box.classList.add("empty");
    else box.append(cell instanceof Node ? cell : String(cell));
    made.append(box);
  });
  return made;
}

export const namesOf = (id) => [...$(id).closest("table").querySelectorAll("thead th")].map((each) => each.textContent);

export function button(text, act, { key, label, kind = "", disabled = false } = {}) {
  const made = element("button", text, { type: "button", className: kind, disabled });
  if (label) made.ariaLabel = label;
  if (key !== undefined) made.dataset.key = key;
  made.onclick = () => Promise.resolve(act()).catch(() => {});
  return made;
}

export const pill = (text, kind = "") => element("span", text, { className: `pill ${kind}` });
