// The forecast as a picture: utility against epsilon, with the choice marked. Colours are those of the page.
const SPACE = "http://www.w3.org/2000/svg";
const WIDE = 440;
const HIGH = 250;
const EDGE = { left: 46, right: 14, top: 16, bottom: 42 };

function part(tag, more, text = "") {
  const made = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(more)) made.setAttribute(name, value);
  made.textContent = text;
  return made;
}

// The score at an epsilon between those that were computed.
function between(x, xs, ys) {
  const next = xs.findIndex((each) => each >= x);
  if (next === 0) return ys[0];
  if (next < 0) return ys[ys.length - 1];
  const share = (Math.log(x) - Math.log(xs[next - 1])) / (Math.log(xs[next]) - Math.log(xs[next - 1]));
  return ys[next - 1] + share * (ys[next] - ys[next - 1]);
}

export function picture(curve, marked) {
  const xs = curve.epsilons;
  const ys = curve.scores.forecast;
  const [first, last] = [Math.log(Math.min(xs[0], marked)), Math.log(Math.max(xs[xs.length - 1], marked))];
  const x = (value) => EDGE.left + ((Math.log(value) - first) / (last - first)) * (WIDE - EDGE.left - EDGE.right);
  const y = (share) => EDGE.top + (1 - share) * (HIGH - EDGE.top - EDGE.bottom);
  const here = between(marked, xs, ys);
  const shown = Math.round(100 * here);
  const made = part("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": `${curve.text} At epsilon ${marked} it is about ${shown} of 100.` });
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    made.append(part("line", { class: "grid-line", x1: EDGE.left, x2: WIDE - EDGE.right, y1: y(share), y2: y(share) }));
    made.append(part("text", { x: EDGE.left - 8, y: y(share) + 4, "text-anchor": "end" }, `${100 * share} %`));
  }
  for (const value of xs.filter((_, place) => place % 2 === 1 || xs.length < 6)) made.append(part("text", { x: x(value), y: HIGH - 24, "text-anchor": "middle" }, String(value)));
  made.append(part("text", { x: (WIDE + EDGE.left) / 2, y: HIGH - 6, "text-anchor": "middle" }, `epsilon per ${curve.unit}`));
  const points = xs.map((value, place) => `${x(value)},${y(ys[place])}`);
  made.append(part("polygon", { class: "below", points: `${x(xs[0])},${y(0)} ${points.join(" ")} ${x(xs[xs.length - 1])},${y(0)}` }));
  made.append(part("polyline", { class: "line", points: points.join(" ") }));
  xs.forEach((value, place) => made.append(part("circle", { class: "dot", cx: x(value), cy: y(ys[place]), r: 2.5 })));
  made.append(part("line", { class: "mark", x1: x(marked), x2: x(marked), y1: y(1), y2: y(0) }));
  made.append(part("circle", { class: "here", cx: x(marked), cy: y(here), r: 6 }));
  const leftwards = x(marked) > WIDE / 2;
  made.append(part("text", { class: "told", x: x(marked) + (leftwards ? -12 : 12), y: y(here) + (here > 0.8 ? 26 : -24), "text-anchor": leftwards ? "end" : "start" }, `${shown} of 100`));
  return made;
}
