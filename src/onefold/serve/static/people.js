// My site and my federation: they look again every few seconds, as long as somebody looks at them.
import { $, ask, button, confirmed, element, fill, lines, namesOf, pill, quietly, row, say, send } from "/static/page.js";

const SECONDS = 3;
const RULES = {
  anyone: "It answers anyone whom the server lets ask.",
  queriers: "It answers queriers that you have approved.",
  purposes: "It answers what you have approved, querier by querier and purpose by purpose.",
};
const EVENTS = {
  approved: ["approved", "good"],
  denied: ["denied", "bad"],
  waiting: ["asked, waits", "warn"],
  answered: ["answered", "good"],
  paused: ["paused", "warn"],
  resumed: ["answers again", "good"],
};
// What the site does now: its files and its process say so.
const DOING = {
  empty: ["has no model: nobody is answered", "bad"],
  stopped: ["does not run: nobody is answered", "bad"],
  connecting: ["runs, not connected: nobody is answered", "warn"],
  paused: ["paused: nobody is answered", "warn"],
  sums: ["takes part with sums, and is not asked", "good"],
  answers: ["answers", "good"],
};
const STATES = { member: ["takes part", "good"], removed: ["removed", "bad"] };

const rows = (number) => `${number.toLocaleString("en")} row${number === 1 ? "" : "s"}`;
const entries = (number) => `${number.toLocaleString("en")} ${number === 1 ? "entry" : "entries"}`;
const time = (text) => text.slice(0, 19).replace("T", " ");
const event = (name) => pill(...(EVENTS[name] || [name.replaceAll("-", " ")]));
const purposeOf = (each) => (each.purpose === null ? "every purpose" : each.purpose);
const code = (text) => element("code", text);

// --- looking again ------------------------------------------------------------------------------------------

let shown = "";
let timer = null;
let lasting = ""; // what was told last stays: an error of looking again goes when looking works again

export function watch(path, show) {
  clearTimeout(timer);
  shown = lasting = "";
  const update = async (how) => {
    const told = await how(path);
    const plain = JSON.stringify({ ...told, now: "" });
    if (plain !== shown) show(told);
    shown = plain;
  };
  const again = async () => {
    const mine = timer;
    if (!document.hidden) await update(quietly).then(() => say(lasting, lasting && "good"), (error) => say(error.message, "wrong"));
    if (mine === timer) timer = setTimeout(again, 1000 * SECONDS);
  };
  timer = setTimeout(again, 1000 * SECONDS);
  return update(ask).catch(() => {});
}

export const unwatch = () => clearTimeout(timer);

function tell(text) {
  lasting = text;
  say(text, "good");
}

// --- my site ------------------------------------------------------------------------------------------------

export function showSite(site) {
  $("site-title").textContent = `Site ${site.name}`;
  const [doing, mood] = DOING[site.state] || [site.state, "bad"];
  Object.assign($("site-state"), { textContent: doing, className: `pill ${mood}` });
  $("site-rule").textContent = RULES[site.approval] || "";
  Object.assign($("pause"), { textContent: site.paused ? "End the pause" : "Pause: answer nobody", className: site.paused ? "" : "quiet" });
  $("pause").onclick = () => decide("/api/site/pause", { paused: !site.paused }, site.paused ? "The pause has ended." : "The site is paused.");
  const waiting = site.approvals.filter((each) => each.waits);
  const decided = site.approvals.filter((each) => each.decision !== "waiting");
  $("waiting-section").hidden = site.approval === "anyone" && !waiting.length;
  fill("waiting", waiting.length ? waiting.map(request) : [element("li", "Nobody waits.", { className: "none" })]);
  badge(waiting.length);
  $("decided-none").hidden = decided.length > 0;
  $("decided-table").hidden = !decided.length;
  const names = namesOf("decided");
  fill("decided", decided.map((each) => row(names, [
    each.name, code(each.id), purposeOf(each), pill(each.decision, each.decision === "approved" ? "good" : "bad"),
    each.answered, each.left ?? "no limit", each.until === null ? "no end" : time(new Date(1000 * each.until).toISOString()), buttons(each, each.decision),
  ])));
  showBudget(site.budget);
  lines("ledger", site.ledger);
  $("log-state").textContent = site.log_error ? `The log is WRONG: ${site.log_error}` : `${entries(site.log_entries)}; none was changed afterwards.`;
  $("log-state").className = site.log_error ? "wrong" : "";
  $("log-table").hidden = !site.log.length;
  const heads = namesOf("log");
  fill("log", site.log.map((each) => row(heads, [time(each.time), event(each.event), each.querier, each.purpose, each.rows])));
}

export function badge(number) {
  $("site-badge").hidden = number === 0;
  $("site-badge").textContent = number ? `${number} waiting` : "";
}

function request(each) {
  const asks = element("p", "", {}, [element("b", each.name), ` asks about ${rows(each.asked)}`]);
  const why = element("p", "", {}, ["Purpose: ", element("b", each.stated || each.purpose || "not stated")]);
  const who = element("p", "", { className: "help" }, ["id of the key ", code(each.id), ` · ${each.decision === "waiting" ? "new here" : `${each.decision} before, and asks for more`}`]);
  return element("li", "", {}, [element("div", "", {}, [asks, why, who]), buttons(each, "waiting")]);
}

function buttons(each, decision) {
  const about = `${each.name}, id ${each.id}, ${purposeOf(each)}`;
  const key = `${each.public} ${each.purpose ?? ""}`;
  const text = decision === "approved" ? "Change" : "Approve";
  const yes = button(text, () => approve(each), { key: `approve ${key}`, label: `${text} ${about}`, kind: decision === "waiting" ? "" : "quiet" });
  const no = button("Deny", () => decide("/api/site/decide", { querier: each.id, purpose: each.purpose, decision: "deny" }, `${each.name} was denied.`), { key: `deny ${key}`, label: `Deny ${about}`, kind: "quiet", disabled: decision === "denied" });
  return element("div", "", { className: "buttons" }, [yes, no]);
}

async function approve(each) {
  const limit = element("input", "", { type: "number", min: 1, step: 1, id: "approve-rows" });
  const end = element("input", "", { type: "date", id: "approve-until" });
  const body = [
    element("p", "", {}, each.purpose === null ? ["It holds for ", element("b", "every purpose"), each.stated ? `; stated was: ${each.stated}` : ""] : ["Purpose: ", element("b", each.purpose)]),
    element("p", "", {}, ["Compare this id with the one that the querier tells you in another way: ", code(each.id)]),
    element("p", "", { className: "inline" }, [element("label", "At most so many rows in all (empty: no limit)", { htmlFor: "approve-rows" }), limit]),
    element("p", "", { className: "inline" }, [element("label", "Until the end of this day (empty: no end)", { htmlFor: "approve-until" }), end]),
  ];
  if (!(await confirmed(`Approve ${each.name}?`, body, "Approve"))) return;
  const decision = { querier: each.id, purpose: each.purpose, decision: "approve", rows: limit.value ? Number(limit.value) : null, until: end.value || null };
  await decide("/api/site/decide", decision, `${each.name} was approved.`);
}

async function decide(path, value, words) {
  const told = await send(path, value);
  shown = "";
  showSite(told);
  tell(words);
  if (document.activeElement === document.body) $("waiting-title").focus();
}

function showBudget(budget) {
  $("ledger-details").hidden = budget === null;
  if (budget === null) return fill("budget", [element("p", "Nothing was released with noise from this site, so nothing was spent.")]);
  const per = `per ${budget.unit}`;
  if (budget.limit === null) return fill("budget", [element("p", "", {}, [element("b", `epsilon ${budget.spent} spent`, { className: "large-number" }), ` ${per}; no limit is set.`])]);
  const bar = element("meter", "", { min: 0, max: budget.limit, value: budget.left, ariaLabel: `epsilon left: ${budget.left} of ${budget.limit}` });
  fill("budget", [element("p", "", {}, [element("b", `epsilon ${budget.left} left`, { className: "large-number" }), ` of ${budget.limit} ${per}; ${budget.spent} spent.`]), bar]);
}

// --- my federation ------------------------------------------------------------------------------------------

export function showFederation(found) {
  Object.assign($("federation-state"), { textContent: found.running ? "server runs" : "server does not run", className: `pill ${found.running ? "good" : "bad"}` });
  $("federation-facts").textContent = `In ${found.mode} mode, answers are combined by the rule “${found.rule}”. The log of who came and went has ${entries(found.log_entries)}; none was changed afterwards.`;
  lines("warnings", found.warnings || []);
  const names = namesOf("sites");
  fill("sites", found.sites.map((site) => {
    const gone = site.status === "removed";
    const remove = button("Remove", () => removeSite(site), { key: site.name, label: `Remove ${site.name}`, kind: "quiet", disabled: gone });
    const promise = site.guarantee ? (site.guarantee.holds ? pill("private", "good") : pill("void", "bad")) : "none";
    const away = site.status === "member" && !site.online;
    const state = pill(...(away ? ["member, not connected", "warn"] : STATES[site.status] || [site.status]));
    return row(names, [site.name, state, site.online ? pill("yes", "good") : "no", site.last_seen ? time(site.last_seen) : "never", site.queries, promise, remove]);
  }));
}

async function removeSite(site) {
  const body = [element("p", "It is asked nothing any more, what it has sent is deleted, and every later answer is that of a federation which never had it.")];
  if (!(await confirmed(`Remove ${site.name}?`, body, `Remove ${site.name}`, "danger"))) return;
  shown = "";
  showFederation(await send("/api/federation/remove", { site: site.name }));
  tell(`${site.name} was removed.`);
  $("sites-title").focus();
}
