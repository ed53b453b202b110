const facts = data.facts && data.facts.records ? data.facts : null;
const SEVERITIES = ["error", "warning", "info"];
const guess = facts && !facts.exact ? "\u2248\u00a0" : "";
const short = (n) => {
  for (const [unit, size] of [["G", 1e9], ["M", 1e6], ["k", 1e4]]) if (n >= size) return `${(n / (unit === "k" ? 1e3 : size)).toPrecision(3)}\u00a0${unit}`;
  return number(Math.round(n));
};
const rate = (part, whole) => {
  const share = whole ? (100 * part) / whole : 0;
  return share && share < 0.1 ? "<\u00a00.1\u00a0%" : `${share < 10 ? share.toFixed(1) : Math.round(share)}\u00a0%`;
};

// What is chosen: severities, rules, files, and a text. An empty set chooses all.
const chosen = { severity: new Set(), code: new Set(), file: new Set() };
const facets = [];
let query = "";
const passes = (f, but) => Object.entries(chosen).every(([key, set]) => key === but || !set.size || set.has(f[key]));
const words = (f) => [f.code, f.name, f.message, f.file, f.at, f.pointer, ...f.source, ...f.notes.map(([, text]) => text)].join(" ").toLowerCase();
const choose = (key, value) => {
  if (!chosen[key].delete(value)) chosen[key].add(value);
  refresh();
};

const card = (title, note, ...content) => {
  const section = make("section", "card");
  section.append(make("h2", "", title));
  if (note) section.append(make("p", "", note));
  section.append(...content);
  return section;
};
// A list of bars; `key` is what a click filters by.
const bars = (rows, key) => {
  const box = make("div", "lines");
  const most = Math.max(1, ...rows.map((row) => row.count));
  for (const row of rows) {
    const line = key ? button("line", () => choose(key, row.value)) : make("div", "line still");
    const bar = make("span", `fill ${row.look || ""}`);
    bar.style.width = row.count ? `max(2px, ${(100 * row.count) / most}%)` : "0";
    const name = make("span", "name", visible(row.label));
    name.dir = "auto";
    if (row.note) name.append(" ", make("small", "", row.note));
    line.append(bar, name, make("span", "number", row.number));
    line.title = row.title || "";
    if (key) facets.push([line, key, row.value]);
    box.append(line);
  }
  return box;
};
const draw = (name, attributes) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
};
const range = ([low, high]) => (low === high ? number(low) : `${number(low)}\u2013${number(high)}`);
const histogram = (title, of, noun) => {
  const median = of.quantiles["50%"];
  const note = `median ${number(median)} \u00b7 95\u00a0% up to ${number(of.quantiles["95%"])} \u00b7 most ${number(of.most)}`;
  const most = Math.max(...of.bins.map(([, , n]) => n));
  const svg = draw("svg", { viewBox: `0 0 ${of.bins.length * 10} 100`, preserveAspectRatio: "none", role: "img", "aria-label": `${title}: ${note}` });
  of.bins.forEach(([low, high, n], i) => {
    const height = n ? Math.max(1.5, (96 * n) / most) : 0;
    const wide = of.bins.length > 1 ? [i * 10 + 0.6, 8.8] : [3, 4];
    const rect = draw("rect", { x: wide[0], y: 100 - height, width: wide[1], height, class: low <= median && median <= high ? "median" : "" });
    const label = draw("title", {});
    label.textContent = `${range([low, high])} ${noun}: ${counted(n, "record")}`;
    rect.append(label);
    svg.append(rect);
  });
  const each = of.bins.length <= 6;
  const axis = make("p", each ? "axis each" : "axis");
  axis.append(...(each ? of.bins.map(range) : [of.bins[0][0], of.bins[of.bins.length >> 1][0], of.bins.at(-1)[1]].map(number)).map((text) => make("span", "", text)));
  return card(title, note, svg, axis);
};
const tile = (name, value, title = "") => {
  const box = make("div");
  box.title = title;
  box.append(make("dt", "", name), make("dd", "", value));
  return box;
};

const top_ = byId("top");
const passed = data.status === 0;
const verdict = data.verdict[0].toUpperCase() + data.verdict.slice(1);
byId("verdict").textContent = verdict;
byId("verdict").classList.add(passed ? "passed" : "error");
top_.classList.toggle("passed", passed);
top_.append(make("h2", "", verdict), make("p", "", visible(data.line)), ...data.above.map((text) => make("p", "rate", visible(text))));
if (data.in_baseline) top_.append(make("p", "", `${counted(data.in_baseline, "finding")} known from the baseline`));
const tiles = make("dl", "tiles");
const clean = data.units - data.faulty;
tiles.append(tile(`${data.unit_name}s`, short(data.units), number(data.units)), tile("clean", data.units ? rate(clean, data.units) : "\u2013", number(clean)));
for (const severity of SEVERITIES) if (data.severities[severity]) tiles.append(tile(`${severity}s`, short(data.severities[severity]), number(data.severities[severity])));
if (facts) {
  tiles.append(tile("tokens", guess + short(facts.tokens), facts.exact ? number(facts.tokens) : "estimated by bytes, or from a sample"));
  if (facts.share !== null) tiles.append(tile("trained", rate(facts.share, 1), "of the tokens that a vocabulary counted"));
  tiles.append(tile("repeated", number(facts.repeated), "records that are equal, byte for byte, to one before them"));
}
top_.append(tiles);

const cards = byId("facets");
if (data.rules.length) cards.append(card("Rules", `findings, and share of ${data.unit_name}s; choose to filter`, bars(data.rules.map(([code, name, look, count, units]) => (
  { value: code, label: `${code} ${name}`, count, look, number: `${number(count)} \u00b7 ${rate(units, data.units)}`, title: `${code} ${name}: ${counted(count, "finding")} in ${counted(units, data.unit_name)}` })), "code")));
if (data.files.length) cards.append(card("Files", `what they hold, and findings${data.more ? `; ${number(data.more)} more files` : ""}`, bars(data.files.map(([name, about, units, faulty, count]) => (
  { value: name, label: name, note: about, count, look: count ? "warning" : "", number: count ? `${number(count)} in ${number(faulty)} of ${number(units)}` : `${number(units)} clean` })), "file")));
if (facts && facts.lengths) cards.append(histogram(`Tokens of a record${guess ? ", estimated" : ""}`, facts.lengths, "tokens"));
if (facts && facts.turns) cards.append(histogram("Turns of a record", facts.turns, "turns"));
if (facts && facts.roles.length) cards.append(card("Roles", "messages, and characters in them", bars(facts.roles.map(([role, count, characters]) => ({ label: role, count: characters, number: `${number(count)} \u00b7 ${short(characters)}` })))));
if (data.unchecked.length) {
  const list = make("ul", "unlocks");
  for (const [what, option] of data.unchecked) {
    const item = make("li", "", what);
    item.append(make("code", "", option));
    list.append(item);
  }
  cards.append(card("Not checked", "and the option that checks it", list));
}

const shown = data.findings.map((f) => {
  const box = finding({ ...f, notes: [] });
  const place = make("div", "place", visible(`${f.file}:${f.at}${f.pointer ? `  ${f.pointer}` : ""}`));
  box.append(place);
  if (f.source.some(Boolean)) {
    const source = make("div", "source", visible(f.source[0]));
    source.append(make("mark", "", visible(f.source[1])), visible(f.source[2]));
    box.append(source);
  }
  box.append(...f.notes.map(([label, text]) => make("small", label === "fix" ? "fix" : "", `${label}: ${inContent(text)}`)));
  return { f, box, words: words(f) };
});
const total = Object.values(data.severities).reduce((sum, n) => sum + n, 0);
const refresh = () => {
  const left = shown.filter(({ f, words }) => passes(f) && words.includes(query));
  const list = byId("findings");
  list.replaceChildren(...left.map(({ box }) => box));
  if (!left.length) list.append(make("p", "none", total ? "No example matches the filters." : "No findings."));
  byId("count").textContent = total ? `${number(left.length)} shown of ${counted(shown.length, "example")}; ${counted(total, "finding")} in all` : "";
  for (const [line, key, value] of facets) line.setAttribute("aria-pressed", String(chosen[key].has(value)));
  for (const each of byId("severities").children) each.setAttribute("aria-pressed", String(!chosen.severity.size || chosen.severity.has(each.dataset.severity)));
  byId("chosen").replaceChildren(...Object.entries(chosen).flatMap(([key, set]) => [...set].map((value) => {
    const chip = button("chip", () => choose(key, value));
    chip.append(`${key === "code" ? "rule" : key}: ${visible(value)} `, make("span", "", "\u00d7"));
    return chip;
  })));
};
for (const severity of SEVERITIES) if (data.severities[severity]) {
  const each = button("", () => choose("severity", severity));
  each.dataset.severity = severity;
  each.append(make("span", `badge ${severity}`, counted(data.severities[severity], severity)));
  byId("severities").append(each);
}
byId("search").addEventListener("input", (event) => {
  query = event.target.value.trim().toLowerCase();
  refresh();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== byId("search")) {
    event.preventDefault();
    byId("search").focus();
  }
});
const sample = facts && facts.sample ? ` Roles, turns and tokens are estimated from ${number(facts.sample)} of ${number(facts.records)} records.` : "";
byId("foot").textContent = `mypt-lint ${data.version}.${sample}`;
document.title = `${verdict} \u2013 mypt-lint`;
refresh();
