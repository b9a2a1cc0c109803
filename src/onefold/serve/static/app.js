"use strict";
const $ = (id) => document.getElementById(id);
let table = null; // the open table: its id and the schema as it was proposed

// The address has the token once. It stays in this tab only: a cookie would go to every program of this machine.
const given = new URLSearchParams(location.search).get("token");
if (given) {
  sessionStorage.setItem("token", given);
  history.replaceState(null, "", location.pathname + location.hash);
}
const proof = () => ({ "X-Onefold-Token": sessionStorage.getItem("token") || "" });

// --- talking to the program -------------------------------------------------------------------------------

async function ask(path, options = {}) {
  say("Working …", true);
  try {
    const reply = await fetch(path, { ...options, headers: proof() });
    const told = await reply.json().catch(() => ({ error: "open the address that onefold serve printed" }));
    if (!reply.ok) throw new Error(told.error || `the program answered ${reply.status}`);
    say("");
    return told;
  } catch (error) {
    say(error.message);
    throw error;
  }
}

async function download(path, name) {
  const reply = await fetch(path, { headers: proof() });
  if (!reply.ok) return say(await reply.text());
  const link = element("a", "", { href: URL.createObjectURL(await reply.blob()), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

const send = (path, value) => ask(path, { method: "POST", body: JSON.stringify(value) });

function say(text, busy = false) {
  $("message").textContent = text;
  $("message").className = busy ? "busy" : "";
}

// Everything from a file or a federation is put into the page as text, never as HTML.
function element(tag, text = "", more = {}) {
  const made = Object.assign(document.createElement(tag), more);
  if (text !== "") made.textContent = text;
  return made;
}

function fill(id, parts) {
  $(id).replaceChildren(...parts);
}

const lines = (id, texts) => fill(id, texts.map((text) => element("li", text)));

function row(cells) {
  const made = element("tr");
  cells.forEach((cell, place) => {
    const box = element(place ? "td" : "th");
    if (!place) box.scope = "row";
    if (typeof cell === "number") box.className = "number";
    box.append(cell === null || cell === undefined ? "" : cell instanceof Node ? cell : String(cell));
    made.append(box);
  });
  return made;
}

// --- which page ---------------------------------------------------------------------------------------------

const PAGES = { try: () => {}, site: showSite, federation: showFederation };

function turn() {
  const name = location.hash.slice(1) in PAGES ? location.hash.slice(1) : "try";
  for (const page of Object.keys(PAGES)) $(page).hidden = page !== name;
  document.querySelectorAll("nav a").forEach((link) => {
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  });
  say("");
  PAGES[name]();
}

// --- try it -------------------------------------------------------------------------------------------------

async function readTable() {
  const file = $("file").files[0];
  if (!file) return say("Choose a file first.");
  const query = new URLSearchParams({ name: file.name, label: $("label").value.trim() });
  await closeTable();
  table = await ask(`/api/table?${query}`, { method: "POST", body: file });
  $("found").textContent = `${file.name}: ${table.rows} rows, ${table.schema.fields.length} columns.`;
  fill("fields", table.schema.fields.map(fieldRow));
  for (const id of ["columns", "protect", "close"]) $(id).hidden = false;
  $("made").hidden = true;
  $("columns-title").scrollIntoView();
  look();
}

async function closeTable() {
  if (table) await ask(`/api/table/${table.id}`, { method: "DELETE" });
  table = null;
  for (const id of ["columns", "protect", "made", "close"]) $(id).hidden = true;
}

const ROLES = { feature: "feature", label: "classes", person: "person", ignored: "left out", identifier: "left out (id)" };
const CATEGORY_TYPES = ["string"];

function fieldRow(field, place) {
  const limits = field.constraints || {};
  const role = element("select", "", { ariaLabel: `use of ${field.name}` });
  for (const [value, text] of Object.entries(ROLES)) role.append(new Option(text, value));
  role.value = field["onefold:role"] || "feature";
  const known = element("input", "", { type: "checkbox", ariaLabel: `I know the range or categories of ${field.name}` });
  const low = entry(limits.minimum, `smallest ${field.name}`);
  const high = entry(limits.maximum, `largest ${field.name}`);
  const levels = entry(limits.enum ? limits.enum.join(", ") : undefined, `categories of ${field.name}`);
  levels.className = "wide";
  const isCategory = Boolean(limits.enum) || CATEGORY_TYPES.includes(field.type);
  low.disabled = high.disabled = isCategory || field.type === "boolean";
  levels.disabled = !isCategory;
  const made = row([field.name, role, field.type, low, high, levels, known]);
  Object.assign(made, { controls: { role, low, high, levels, known }, place });
  made.addEventListener("change", look);
  return made;
}

function entry(value, label) {
  const made = element("input", "", { type: "text", ariaLabel: label });
  made.defaultValue = value === undefined ? "" : String(value);
  return made;
}

function declared() {
  const schema = structuredClone(table.schema);
  const known = [];
  for (const made of $("fields").children) {
    const field = schema.fields[made.place];
    const { role, low, high, levels, known: tick } = made.controls;
    field["onefold:role"] = role.value;
    field.constraints = { ...(field.constraints || {}) };
    for (const [name, box] of [["minimum", low], ["maximum", high]]) {
      if (box.disabled) continue;
      if (box.value.trim() === "") delete field.constraints[name];
      else field.constraints[name] = /^(date|datetime)$/.test(field.type) ? box.value.trim() : Number(box.value);
    }
    if (!levels.disabled && levels.value.trim() && levels.value !== levels.defaultValue) {
      const texts = levels.value.split(",").map((text) => text.trim()).filter(Boolean);
      field.constraints.enum = field.type === "string" ? texts : texts.map(Number);
    }
    if (tick.checked) known.push(field.name);
  }
  schema.onefold = { ...(schema.onefold || {}) };
  if (unit() === "person") schema.onefold.rowsPerPerson = Number($("rows-per-person").value);
  return { schema, known, unit: unit(), epsilon: epsilon(), rows_about: Number($("rows-about").value) };
}

const unit = () => document.querySelector("input[name=unit]:checked").value;
const epsilon = () => Number((10 ** Number($("epsilon").value)).toPrecision(2));

let timer = null;
function look() {
  $("epsilon-value").textContent = epsilon();
  $("person-rows").hidden = unit() !== "person";
  clearTimeout(timer);
  timer = setTimeout(preview, 300);
}

async function preview() {
  if (!table) return;
  const told = await send(`/api/table/${table.id}/preview`, declared()).catch(() => null);
  $("make").disabled = told === null;
  if (told === null) return;
  $("odds").textContent = told.odds;
  lines("blur", told.columns.map((each) => `${each.column}: noise moves half of the cells by ${each.moved} ${each.unit} or more`));
  $("curve").hidden = told.curve === null;
  if (told.curve !== null) {
    $("curve-image").src = `data:image/svg+xml;base64,${btoa(unescape(encodeURIComponent(told.curve.svg)))}`;
    $("curve-image").alt = told.curve.text;
  }
  if (told.unknown.length) say(`The promise would be void: nobody says to know ${told.unknown.join(", ")}.`);
}

async function makeTable() {
  $("make").disabled = true;
  try {
    const told = await send(`/api/table/${table.id}/make`, declared());
    fill("verdict", told.verdict.map((text) => element("p", text)));
    $("verdict").className = told.holds ? "verdict" : "verdict void";
    fill("files", told.files.map((name) => {
      const button = element("button", name, { className: "quiet" });
      button.onclick = () => download(`/api/table/${table.id}/files/${name}`, name);
      const item = element("li");
      item.append(button);
      return item;
    }));
    lines("guarantee", told.guarantee);
    lines("quality", told.quality);
    $("made").hidden = false;
    $("made-title").scrollIntoView();
  } finally {
    $("make").disabled = false;
  }
}

// --- my site ------------------------------------------------------------------------------------------------

async function showSite(told = null) {
  const site = told || (await ask("/api/site"));
  const rule = { anyone: "anyone", queriers: "approved queriers", purposes: "approved queriers, purpose by purpose" };
  $("site-title").textContent = `Site ${site.name}`;
  $("site-state").textContent = site.paused
    ? "Paused: nobody is answered."
    : `Answers ${rule[site.approval]}. ${site.log_entries} entries in the log${site.log_error ? `, WRONG: ${site.log_error}` : ", intact"}.`;
  $("pause").textContent = site.paused ? "Answer again" : "Pause: answer nobody";
  $("pause").onclick = async () => showSite(await send("/api/site/pause", { paused: !site.paused }));
  fill("approvals", site.approvals.map((each) => {
    const cell = element("span");
    for (const [decision, text] of [["approve", "Approve"], ["deny", "Deny"]]) {
      const button = element("button", text, { className: decision === "deny" ? "quiet" : "" });
      button.ariaLabel = `${text} ${each.name}, id ${each.id}, ${each.purpose || "every purpose"}`;
      button.onclick = async () => showSite(await send("/api/site/decide", { querier: each.id, purpose: each.purpose, decision }));
      cell.append(button, " ");
    }
    const state = each.waits ? "WAITS" : each.decision;
    const purpose = each.purpose === null ? "every purpose" : each.purpose;
    return row([each.name, each.id, purpose, each.stated || "", state, each.asked, each.answered, each.left ?? "no limit", cell]);
  }));
  lines("ledger", site.ledger);
  fill("log", site.log.map((each) => row([each.time, each.event, each.querier, each.purpose, each.rows ?? ""])));
}

// --- my federation ------------------------------------------------------------------------------------------

async function showFederation(told = null) {
  const found = told || (await ask("/api/federation"));
  $("federation-state").textContent = `Server ${found.running ? "running" : "NOT running"}, ${found.mode} mode, rule ${found.rule}, log intact (${found.log_entries} entries).`;
  lines("warnings", found.warnings || []);
  fill("sites", found.sites.map((site) => {
    const button = element("button", "Remove", { className: "quiet", disabled: site.status === "removed" });
    button.ariaLabel = `Remove ${site.name}`;
    button.onclick = async () => {
      if (button.textContent === "Remove") {
        button.textContent = "Really remove";
        return;
      }
      showFederation(await send("/api/federation/remove", { site: site.name }));
    };
    const promise = site.guarantee ? (site.guarantee.holds ? "private" : "void") : "none";
    return row([site.name, site.status === "member" ? "takes part" : site.status, site.online ? "yes" : "no", site.last_seen || "never", site.queries, promise, button]);
  }));
}

// --- start --------------------------------------------------------------------------------------------------

addEventListener("hashchange", turn);
addEventListener("DOMContentLoaded", async () => {
  $("read").onclick = () => readTable().catch(() => {});
  $("close").onclick = () => closeTable().catch(() => {});
  $("make").onclick = () => makeTable().catch(() => {});
  for (const id of ["epsilon", "rows-about", "rows-per-person"]) $(id).addEventListener("input", look);
  document.querySelectorAll("input[name=unit]").forEach((each) => each.addEventListener("change", look));
  const offer = await ask("/api/offer");
  $("to-site").hidden = !offer.site;
  $("to-federation").hidden = !offer.federation;
  turn();
});
