// Facets: what the overview says of all episodes, and what it filters by. `of` holds the keys of each episode; null is none.
const facet = (title, of, label, more = {}) => {
  const count = new Map();
  for (const key of of.flat()) count.set(key, (count.get(key) || 0) + 1);
  const keys = more.keys || [...count.keys()].sort((a, b) => (a === null) - (b === null) || (more.ordered ? a - b : count.get(b) - count.get(a)));
  return { title, of, keys, label: (key) => (key === null ? more.none || "none" : label(key)), chosen: new Set(), cells: new Map(), ...more };
};
const orNone = (keys) => (keys.length ? keys : [null]);
const step = (span) => {
  for (let power = 1; ; power *= 10) for (const n of [1, 2, 5]) if (span < 20 * n * power) return n * power;
};
const histogram = (title, values, unit) => {
  const sorted = values.filter((v) => v !== null).sort((a, b) => a - b);
  if (!sorted.length) return { keys: [] }; // such as tokens, where records have no format
  const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
  const [least, most] = [at(0), at(1)];
  const wide = step(at(0.98) - least);
  const high = most - least < 20 * wide ? most : at(0.98); // what is higher still is in the last bin
  const bin = (v) => wide * Math.floor(Math.min(v, high) / wide);
  const keys = [];
  for (let low = bin(least); low <= bin(high); low += wide) keys.push(low);
  const label = (low) => {
    const top = low === keys[keys.length - 1] ? Math.max(most, low) : low + wide - 1;
    return (low === top ? number(low) : `${number(low)}\u2013${number(top)}`) + unit;
  };
  const of = values.map((v) => [v === null ? null : bin(v)]);
  const note = `median ${number(at(0.5))}${unit} \u00b7 95 % up to ${number(at(0.95))}${unit} \u00b7 most ${number(most)}${unit}`;
  return facet(title, of, label, { keys: values.includes(null) ? [...keys, null] : keys, note, columns: true, none: "no ids", wide });
};
const share = (row) => (row.tokens ? Math.floor((100 * row.trained) / row.tokens) : null);
const facets = [
  histogram("Tokens", rows.map((row) => row.tokens), ""),
  histogram("Trained share", rows.map(share), "\u00a0%"),
  histogram("Turns", rows.map((row) => row.turns), ""),
  facet("Findings", rows.map((row) => orNone(row.rules)), (code) => `${code} ${data.rules[code][0]}`, { look: (code) => data.rules[code][1], none: "no findings" }),
  facet("Phase", rows.map((row) => [row.phase]), (phase) => `${phase} ${data.phases[phase - 1]}`, { ordered: true, note: "the first that an episode fits" }),
  facet("Tools called", rows.map((row) => orNone(row.tools)), visible),
  facet("Language", rows.map((row) => [row.language]), visible),
].filter((f) => f.keys.some((key) => key !== null));
const passes = (i, but) => (!hits || hits[i] > 0) && facets.every((f) => f === but || !f.chosen.size || f.of[i].some((key) => f.chosen.has(key)));
const filter = () => {
  found = rows.map((_, i) => i).filter((i) => passes(i));
  byId("list").scrollTop = 0;
  byId("chosen").replaceChildren(...facets.flatMap((f) => [...f.chosen].map((key) => {
    const chip = button("chip", () => choose(f, key));
    chip.append(`${f.title}: ${f.label(key)} `, make("span", "", "\u00d7"));
    return chip;
  })));
  if (shown >= 0 && found.length && !found.includes(shown)) {
    show(found[0]);
    return;
  }
  refresh();
  highlight();
  point(0);
};
const choose = (f, key) => {
  if (!f.chosen.delete(key)) f.chosen.add(key);
  filter();
};
const card = (f) => {
  const section = make("section", "card");
  const box = make("div", f.columns ? "bins" : "lines");
  for (const key of f.keys) {
    const cell = button(f.columns ? "bin" : "line", () => choose(f, key));
    const fill = make("span", `fill ${key !== null && f.look ? f.look(key) : ""}`);
    const count = make("span", "number");
    const name = make("span", "name", f.label(key));
    name.dir = "auto";
    if (f.columns) cell.append(fill);
    else cell.append(fill, name, count);
    f.cells.set(key, { cell, fill, count });
    box.append(cell);
  }
  section.append(make("h2", "", f.title));
  if (f.note) section.append(make("p", "", f.note));
  section.append(box);
  if (f.columns) {
    const axis = make("p", "axis");
    const known = f.keys.filter((key) => key !== null);
    const middle = known[known.length >> 1];
    axis.append(...[known[0], ...(known.length > 4 ? [middle] : []), ...(known.length > 1 ? [known[known.length - 1]] : [])].map((key) => make("span", "", f.label(key))));
    section.append(axis);
  }
  return section;
};
const summarise = () => {
  let [tokens, trained, turns] = [0, 0, 0];
  const counts = new Map();
  for (const row of found.map((i) => rows[i])) {
    tokens += row.tokens || 0;
    trained += row.trained;
    turns += row.turns;
    for (const [severity, n] of Object.entries(row.counts)) counts.set(severity, (counts.get(severity) || 0) + n);
  }
  const some = found.length === rows.length ? counted(rows.length, "episode") : `${number(found.length)} of ${counted(rows.length, "episode")}`;
  const sums = byId("sums");
  const facts = rows.some((row) => row.tokens !== null) ? [`${counted(tokens, "token")}, ${number(trained)} trained (${percent(trained, tokens)})`] : ["no token ids"];
  if (rows.some((row) => row.turns !== null)) facts.push(counted(turns, "turn"));
  sums.replaceChildren(make("b", "", some), ...facts.map((fact) => ` \u00b7 ${fact}`));
  if (!counts.size) sums.append(" \u00b7 no findings");
  for (const severity of ["error", "warning", "info"]) if (counts.has(severity)) sums.append(" ", make("span", `badge ${severity}`, counted(counts.get(severity), severity)));
  for (const f of facets) {
    const of = new Map(f.keys.map((key) => [key, 0]));
    for (let i = 0; i < rows.length; i++) if (passes(i, f)) for (const key of f.of[i]) of.set(key, of.get(key) + 1);
    const most = Math.max(1, ...of.values());
    for (const [key, { cell, fill, count }] of f.cells) {
      const n = of.get(key);
      const text = `${f.label(key)}: ${counted(n, "episode")}`;
      fill.style[f.columns ? "height" : "width"] = n ? `max(2px, ${(100 * n) / most}%)` : "0";
      count.textContent = number(n);
      cell.title = text;
      if (f.columns) cell.setAttribute("aria-label", text);
      cell.setAttribute("aria-pressed", String(f.chosen.has(key)));
      cell.disabled = !n && !f.chosen.has(key);
    }
  }
};

const bar = (trained, tokens, most) => {
  const draw = (name, attributes) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  const svg = draw("svg", { viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" });
  const scale = (n) => (most ? (100 * n) / most : 0);
  svg.append(draw("rect", { class: "bar-trained", x: 0, y: 1, width: scale(trained), height: 6 }));
  svg.append(draw("rect", { class: "bar-masked", x: scale(trained), y: 1, width: scale(tokens - trained), height: 6 }));
  return svg;
};
const table = (title, note, columns, lines) => {
  const section = make("section");
  const element = make("table");
  const head = element.createTHead().insertRow();
  for (const name of columns) {
    const cell = make("th", "", name);
    cell.scope = "col";
    head.append(cell);
  }
  const body = element.createTBody();
  const most = Math.max(...lines.map((line) => line.tokens), 0);
  for (const row of lines) {
    const line = body.insertRow();
    const name = make("th", "", visible(row.name));
    name.scope = "row";
    line.append(name, ...[row.count, row.tokens, row.trained].map((n) => make("td", "", n.toLocaleString("en"))));
    const plot = body.insertRow();
    plot.className = "plot";
    const cell = make("td", "plot");
    cell.colSpan = 4;
    cell.append(bar(row.trained, row.tokens, most));
    plot.append(cell);
  }
  const legend = make("p", "legend");
  legend.append(make("span", "is-trained", "trained"), make("span", "", "masked"));
  section.append(make("h2", "", title), make("p", "", note), legend, element);
  return section;
};
const totals = () => {
  if (!data.tags.length) return; // without a format, no tag is known
  const of = counted(rows.length, "episode");
  const tags = data.tags.map((t) => ({ name: t.tag, count: t.times, tokens: t.tokens, trained: t.trained }));
  byId("totals").append(table("Tokens by tag", `${of}; tokens of the innermost block, its tags included`, ["Tag", "Count", "Tokens", "Trained"], tags));
};
