// Try it: a file goes in, its columns are described, and a private table comes out.
import { $, ask, button, download, element, fill, lines, namesOf, quietly, row, say, send } from "/static/page.js";
import { picture } from "/static/curve.js";

const EPSILONS = [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1, 1.5, 2, 3, 4, 6, 8, 12, 16];
const ROLES = { feature: "feature", label: "classes", person: "person", ignored: "left out", identifier: "left out (id)" };
const TYPES = { string: "category", integer: "whole number", number: "number", boolean: "yes or no", date: "date", datetime: "time" };
// How numbers are written, as the file of a schema says it: decimal mark, mark between thousands, unit behind.
const WRITTEN = [[".", ""], [".", ","], [",", ""], [",", "."], [",", " "], [".", " "], [".", "'"], [",", "'"]]
  .flatMap(([point, group]) => [true, false].map((bare) => ({ point, group, bare, text: `1${group}234${point}5${bare ? "" : " kg"}` })));
const STEPS = ["columns", "protect", "made", "found"];
let table = null; // the open table: its id and the schema as it was proposed
let curve = null; // the forecast for what is declared
let largest = Infinity;

// --- the file -----------------------------------------------------------------------------------------------

async function readTable(file) {
  if (!file) return;
  if (!/\.(csv|parquet|npz)$/i.test(file.name)) return say("The name of a table must end in .csv, .parquet or .npz.", "wrong");
  if (file.size > largest) return say(`A table may have at most ${largest / 2 ** 20} MiB here: onefold synthesize takes larger ones.`, "wrong");
  await closeTable();
  table = await ask(`/api/table?${new URLSearchParams({ name: file.name })}`, { method: "POST", body: file });
  const names = table.schema.fields.map((field) => field.name);
  $("found-text").textContent = `${file.name}: ${count(table.rows, "row")}, ${count(names.length, "column")}.`;
  fill("label", [new Option("none", ""), ...names.map((name) => new Option(name, name))]);
  lines("notes", table.notes);
  showFields();
  for (const id of ["columns", "protect", "found"]) $(id).hidden = false;
  $("drop").hidden = true;
  $("found-text").focus();
}

const count = (number, what) => `${number.toLocaleString("en")} ${what}${number === 1 ? "" : "s"}`;

async function closeTable() {
  if (table) await ask(`/api/table/${table.id}`, { method: "DELETE" });
  table = curve = null;
  $("file").value = "";
  for (const id of STEPS) $(id).hidden = true;
  $("drop").hidden = false;
  lines("notes", []);
}

async function chooseClasses() {
  const told = await send(`/api/table/${table.id}/label`, { label: $("label").value }).catch(() => null);
  if (told === null) return void ($("label").value = table.schema.fields.find((field) => field["onefold:role"] === "label")?.name || "");
  table.schema = told.schema;
  showFields();
}

// --- the columns --------------------------------------------------------------------------------------------

function showFields() {
  const names = namesOf("fields");
  fill("fields", table.schema.fields.map((field, place) => fieldRow(names, field, place)));
  look();
}

function fieldRow(names, field, place) {
  const limits = field.constraints || {};
  const role = element("select", "", { ariaLabel: `use of ${field.name}` });
  for (const [value, text] of Object.entries(ROLES)) role.append(new Option(text, value));
  role.value = field["onefold:role"] || "feature";
  const known = element("input", "", { type: "checkbox", ariaLabel: `I know the type of ${field.name}, its range or categories, and how it is written` });
  const low = entry(limits.minimum, `smallest ${field.name}`);
  const high = entry(limits.maximum, `largest ${field.name}`);
  const levels = entry(limits.enum?.map(quoted).join(", "), `categories of ${field.name}`);
  levels.classList.add("wide");
  const written = /^(date|datetime)$/.test(field.type) ? entry(field.format || "default", `how ${field.name} is written`) : numberFormats(field);
  const made = row(names, [field.name, role, TYPES[field.type] || field.type, low, high, levels, written, known]);
  made.title = field["onefold:review"] || "";
  Object.assign(made, { controls: { role, low, high, levels, written, known }, field, place });
  showUse(made);
  made.addEventListener("change", () => {
    showUse(made);
    look();
  });
  return made;
}

function numberFormats(field) {
  const made = element("select", "", { ariaLabel: `how numbers of ${field.name} are written` });
  WRITTEN.forEach((each, place) => made.append(new Option(each.text, place)));
  const same = (each) => each.point === (field.decimalChar ?? ".") && each.group === (field.groupChar ?? "") && each.bare === (field.bareNumber ?? true);
  made.value = Math.max(WRITTEN.findIndex(same), 0);
  return made;
}

// Only what is asked of a column in this use can be filled in.
function showUse(made) {
  const { role, low, high, levels, written, known } = made.controls;
  const used = role.value === "feature" || role.value === "label";
  const isCategory = Boolean(made.field.constraints?.enum) || made.field.type === "string";
  const isRange = used && !isCategory && made.field.type !== "boolean";
  const isNumber = used && /^(number|integer|date|datetime)$/.test(made.field.type);
  for (const [box, shown] of [[low, isRange], [high, isRange], [levels, used && isCategory], [written, isNumber], [known, used]]) {
    box.disabled = !shown;
    box.closest("td").classList.toggle("unused", !shown);
  }
  made.classList.toggle("left-out", !used);
  made.classList.toggle("unknown", used && !known.checked);
}

function entry(value, label) {
  const made = element("input", "", { type: "text", ariaLabel: label, autocomplete: "off" });
  made.defaultValue = value === undefined ? "" : String(value);
  return made;
}

// A category with a comma, a quote or a space at its ends stands in quotes.
const quoted = (level) => (/[,"]|^\s|\s$|^$/.test(String(level)) ? `"${String(level).replaceAll('"', '""')}"` : String(level));

export function unquoted(text) {
  const found = [...text.matchAll(/\s*(?:"((?:[^"]|"")*)"|([^,]*))\s*(?:,|$)/g)];
  return found.map((each) => (each[1] === undefined ? each[2].trim() : each[1].replaceAll('""', '"'))).filter((each) => each !== "");
}

function declared() {
  const schema = structuredClone(table.schema);
  const known = [];
  for (const made of $("fields").children) {
    const field = schema.fields[made.place];
    const { role, low, high, levels, written, known: tick } = made.controls;
    field["onefold:role"] = role.value;
    field.constraints = { ...(field.constraints || {}) };
    for (const [name, box] of [["minimum", low], ["maximum", high]]) {
      if (box.disabled) continue;
      if (box.value.trim() === "") delete field.constraints[name];
      else field.constraints[name] = /^(date|datetime)$/.test(field.type) ? box.value.trim() : number(box.value, made.field.name);
    }
    if (!levels.disabled && levels.value !== levels.defaultValue) {
      const texts = unquoted(levels.value);
      field.constraints.enum = field.type === "string" ? texts : texts.map((text) => number(text, made.field.name));
    }
    if (written.tagName === "INPUT") field.format = written.value.trim() || "default";
    else if (!written.disabled) Object.assign(field, { decimalChar: WRITTEN[written.value].point, groupChar: WRITTEN[written.value].group, bareNumber: WRITTEN[written.value].bare });
    if (tick.checked && !tick.disabled) known.push(field.name);
  }
  schema.onefold = { ...(schema.onefold || {}) };
  if (unit() === "person") schema.onefold.rowsPerPerson = Number($("rows-per-person").value);
  return { schema, known, unit: unit(), epsilon: epsilon(), rows_about: Number($("rows-about").value), ground: $("ground").value };
}

function number(text, name) {
  const found = Number(text.trim().replace(",", "."));
  if (text.trim() === "" || !Number.isFinite(found)) throw new Error(`A limit of ${name} is not a number.`);
  return found;
}

// --- what to protect ----------------------------------------------------------------------------------------

const unit = () => document.querySelector("input[name=unit]:checked").value;
const epsilon = () => EPSILONS[Number($("epsilon").value)];

let timer = null;
function look() {
  $("epsilon-value").textContent = epsilon();
  $("epsilon").setAttribute("aria-valuetext", `epsilon ${epsilon()}`);
  $("person-rows").hidden = unit() !== "person";
  drawCurve();
  clearTimeout(timer);
  timer = setTimeout(preview, 250);
}

let asked = "";
async function preview() {
  if (!table) return;
  let told = null;
  let plain = null;
  try {
    plain = declared();
    told = await send(`/api/table/${table.id}/preview`, plain, quietly);
  } catch (error) {
    say(error.message, "wrong");
  }
  $("make").disabled = told === null || told.columns.length === 0;
  if (told === null) return;
  showLearnable(told);
  say("");
  const left = [...$("fields").children].filter((made) => made.classList.contains("unknown")).map((made) => made.field.name).join(", ");
  $("left-note").textContent = left && `Left out, because nobody says to know it: ${left}. Tick “I know this” above where it is true.`;
  const { epsilon: _, ground: __, ...about } = plain; // the curve is the same for every epsilon
  if (JSON.stringify(about) !== asked) showCurve(plain, JSON.stringify(about));
}

function showLearnable(told) {
  $("odds").textContent = told.odds;
  $("gauge-bar").style.setProperty("--share", `${Math.max(2 * told.right - 100, 1)}%`);
  const ofEntries = unit() === "entry";
  $("learnable-table").classList.toggle("entries", ofEntries);
  $("learnable-table").hidden = told.columns.length === 0;
  fill("learnable", told.columns.map((each) => row(["", "", "", ""], [each.column, each.before, each.after, ...(ofEntries ? [each.moved] : [])])));
}

async function showCurve(plain, about) {
  asked = about;
  curve = null;
  $("curve-image").replaceChildren(element("p", "Computing the forecast …", { className: "help" }));
  const told = await send(`/api/table/${table.id}/curve`, plain, quietly).catch(() => ({ curve: null }));
  if (asked !== about) return; // something was changed since
  curve = told.curve;
  if (curve === null) {
    asked = "";
    $("curve-image").replaceChildren();
  }
  drawCurve();
}

function drawCurve() {
  if (!curve) return;
  $("curve-image").replaceChildren(picture(curve, epsilon()));
  $("curve-help").textContent = `Share of ${curve.measure}. A forecast before anything is spent: it looks at no row.`;
}

// --- the private table --------------------------------------------------------------------------------------

const WORDS = {
  "private-table.csv": ["Private table", "CSV"],
  "guarantee.json": ["Guarantee", "JSON"],
  "report.html": ["Report", "HTML"],
  "report.json": ["Numbers of the report", "JSON"],
  "schema.json": ["Schema", "JSON"],
};

// A large table takes minutes, and browsers do not wait so long for one answer.
async function made(path, value) {
  let told = await send(path, value);
  while (told.working) told = await ask(path);
  return told;
}

async function makeTable() {
  $("make").disabled = true;
  try {
    const told = await made(`/api/table/${table.id}/make`, declared());
    fill("verdict", told.verdict.map((text) => element("p", text)));
    showAccount(told.account);
    fill("files", told.files.map((name, place) => {
      const [text, kind] = WORDS[name] || [name, ""];
      const made = button("", () => download(`/api/table/${table.id}/files/${name}`, name), { kind: place ? "quiet" : "large" });
      made.append(text, " ", element("small", kind));
      made.dataset.file = name;
      return made;
    }));
    $("made-rows").textContent = `${count(told.rows, "private row")}${told.rows ? ", the first:" : ""}`;
    const head = element("thead", "", {}, [element("tr", "", {}, told.columns.map((name) => element("th", name, { scope: "col" })))]);
    fill("first", [head, element("tbody", "", {}, told.first.map((cells) => element("tr", "", {}, cells.map((cell) => element("td", cell)))))]);
    lines("guarantee", told.guarantee);
    lines("quality", told.quality);
    $("made").hidden = false;
    $("made-title").focus();
    $("made-title").scrollIntoView();
  } catch (error) {
    say(error.message, "wrong");
  } finally {
    $("make").disabled = false;
  }
}

function showAccount(account) {
  lines("spent", account.spent);
  lines("account", [`Every table that you make is counted in ${account.file}:`, ...account.spent]);
}

export function startTry(offer) {
  largest = offer.largest;
  showAccount(offer.account);
  const tried = (work) => work.catch((error) => say(error.message, "wrong"));
  $("file").onchange = () => tried(readTable($("file").files[0]));
  $("close").onclick = () => tried(closeTable().then(() => $("file").focus()));
  $("make").onclick = makeTable;
  $("label").onchange = chooseClasses;
  for (const id of ["epsilon", "rows-about", "rows-per-person"]) $(id).addEventListener("input", look);
  document.querySelectorAll("input[name=unit]").forEach((each) => each.addEventListener("change", look));
  // A file that misses the field must not open in place of the page.
  for (const name of ["dragover", "drop"]) addEventListener(name, (event) => event.preventDefault());
  for (const [name, over] of [["dragover", true], ["dragleave", false], ["drop", false]]) $("drop").addEventListener(name, () => $("drop").classList.toggle("over", over));
  $("drop").addEventListener("drop", (event) => tried(readTable(event.dataTransfer.files[0])));
}
