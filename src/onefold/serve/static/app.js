// Which page is shown, and the start.
import { $, ask, quietly, say } from "/static/page.js";
import { startTry } from "/static/try.js";
import { badge, showFederation, showSite, unwatch, watch } from "/static/people.js";

const PAGES = {
  try: unwatch,
  site: () => watch("/api/site", showSite),
  federation: () => watch("/api/federation", showFederation),
};
const TITLES = { try: "Try it", site: "My site", federation: "My federation" };

function turn(moved) {
  const asked = location.hash.slice(1);
  if (asked === "content") return; // the link that skips the head of the page
  const name = asked in PAGES ? asked : "try";
  for (const page of Object.keys(PAGES)) $(page).hidden = page !== name;
  document.querySelectorAll("nav a").forEach((link) => {
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  });
  document.title = `${TITLES[name]} – onefold`;
  say("");
  if (moved) {
    scrollTo(0, 0);
    $("content").focus({ preventScroll: true });
  }
  PAGES[name]();
}

const offer = await ask("/api/offer").catch(() => null);
if (offer !== null) {
  startTry(offer);
  $("to-site").hidden = !offer.site;
  $("to-federation").hidden = !offer.federation;
  $("more-pages").hidden = offer.site && offer.federation;
  addEventListener("hashchange", () => turn(true));
  if (!location.hash && (offer.site || offer.federation)) history.replaceState(null, "", offer.site ? "#site" : "#federation");
  turn(false);
  if (offer.site) quietly("/api/site").then((site) => badge(site.approvals.filter((each) => each.waits).length), () => {});
}
