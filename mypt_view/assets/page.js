const MANY = 20000; // tokens of an episode beyond which a run is one element, not one for every token
const ROW = 76; // pixels, the height of an entry of the list
const rows = data.rows;
const single = rows.length < 2;
let shown = -1; // the overview
let found = rows.map((_, i) => i);
let here = null;

const place = (row) => visible(row.label.startsWith(data.source) ? row.label.slice(data.source.length) : row.label);

// Parts: the script stands before them, so that a long page need not be there as a whole to be seen.
const whole = new Promise((go) => {
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", go);
  else go();
});
const unpacked = async (n) => {
  await whole;
  const bytes = Uint8Array.from(atob(byId(`part-${n}`).textContent), (char) => char.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
};
const parts = new Map(); // the last few
const part = (n) => {
  if (!parts.has(n)) parts.set(n, unpacked(n));
  if (parts.size > 8) parts.delete(parts.keys().next().value);
  return parts.get(n);
};
const episodeOf = async (index) => {
  const n = data.starts.findLastIndex((start) => start <= index);
  return (await part(n))[index - data.starts[n]];
};

const run = (chunk, fine, into) => {
  const { text, breaks = [], marks = [] } = chunk;
  const cuts = [];
  if (chunk.ids && fine) {
    let at = 0;
    chunk.ids.forEach((id, i) => {
      const loss = chunk.losses ? chunk.losses[i] : i < chunk.ids.length - (chunk.trailing || 0) ? chunk.loss : 0;
      cuts.push([at, at + chunk.lengths[i], id, loss]);
      at += chunk.lengths[i];
    });
  } else cuts.push([0, text.length, null, chunk.loss]);
  if (chunk.tag) {
    const tag = make("span", `tag${chunk.loss ? " learnt" : ""}${marks.length ? " meant" : ""}`);
    tag.dir = "ltr"; // and by this no part of what the text around it is written in
    into.append(tag);
    into = tag;
  }
  let turn = 0; // breaks that are made
  const turned = (element) => {
    const indent = make("span", "indent");
    indent.style.width = `${2 * breaks[turn++][1]}ch`;
    element.append(make("br"), indent);
  };
  const put = (element, first, last) => {
    const piece = (a, b) => fill(element, chunk.tag ? inTag(text.slice(a, b)) : text.slice(a, b));
    while (turn < breaks.length && breaks[turn][0] < last) {
      const at = Math.max(first, breaks[turn][0]);
      piece(first, at);
      turned(element);
      first = at;
    }
    return piece(first, last);
  };
  for (const [a, b, id, loss] of cuts) {
    const names = [];
    if (chunk.ids) names.push("token", loss ? "trained" : "masked");
    if (chunk.inline) names.push(chunk.inline === "key" ? "key" : "inline");
    if (turn < breaks.length && breaks[turn][0] === a) turned(into);
    const mark = marks.find(([first, last]) => first < b && a < last);
    const element = make("span", names.join(" "));
    const [from, to] = mark ? [Math.max(a, mark[0]), Math.min(b, mark[1])] : [b, b];
    put(element, a, from);
    if (mark) element.append(put(make("span", `marked ${mark[2]}`), from, to));
    put(element, to, b);
    if (chunk.ids) element.token = { id, text: text.slice(a, b), loss, inside: chunk.inside, ids: chunk.ids };
    into.append(element);
  }
};

const bubble = (block, fine) => {
  const box = make("article", `bubble ${block.look}`);
  if (block.model) box.classList.add("writes");
  if (!block.visible) box.classList.add("quiet");
  box.append(make("h3", "", visible(block.title)));
  const content = make("div", "content");
  content.dir = block.look === "meta" || block.chunks.some((chunk) => chunk.breaks) ? "ltr" : "auto";
  for (const chunk of block.chunks) run(chunk, fine, content);
  box.append(content, ...block.findings.map(finding));
  return box;
};

const address = (hash, push) => {
  try { history[push ? "pushState" : "replaceState"](null, "", hash); } catch { /* not everywhere a page may name its place */ }
};
const entitle = (label) => { document.title = `${visible(label)} \u2013 mypt-view`; };

const overview = (push) => {
  shown = -1;
  hideTip();
  document.body.classList.add("overview");
  byId("all").setAttribute("aria-pressed", "true");
  byId("head").replaceChildren();
  byId("chat").replaceChildren();
  entitle(data.name);
  address("#", push);
  refresh();
  highlight();
};

const show = async (index, { focus = false, push = shown < 0, hit = 0 } = {}) => {
  shown = index;
  hideTip();
  const row = rows[index];
  const fine = !(row.tokens > MANY);
  document.body.classList.remove("overview");
  byId("all").setAttribute("aria-pressed", "false");
  byId("main").setAttribute("aria-busy", "true");
  entitle(data.name + place(row));
  address(`#${index + 1}`, push);
  refresh();
  const words = [data.dialect + (row.phase === null ? "" : `, phase ${row.phase}`)];
  if (row.tokens !== null) words.push(`${counted(row.tokens, "token")}, ${number(row.trained)} trained (${percent(row.trained, row.tokens)})`);
  if (row.turns !== null) words.push(counted(row.turns, "turn"));
  const head = byId("head");
  const label = make("h2");
  label.append(visible(data.source), make("span", "place", place(row)));
  const outline = make("p", "", words.join(" \u00b7 "));
  const counts = Object.entries(row.counts);
  if (!counts.length) outline.append(" \u00b7 no findings");
  for (const [severity, n] of counts) outline.append(" ", make("span", `badge ${severity}`, counted(n, severity)));
  let episode;
  try {
    episode = await episodeOf(index);
  } catch (error) {
    if (shown === index) byId("head").replaceChildren(label, make("p", "lacks", `This browser cannot unpack the episode: ${error.message}`));
    return;
  }
  if (shown !== index) return; // another one was asked for meanwhile
  head.replaceChildren(label, outline);
  if (episode.lacks) head.append(make("p", "lacks", `No token ids: ${visible(episode.lacks)}`));
  if (!fine) head.append(make("p", "", "A long episode: its runs of text are not cut into tokens here."));
  const meta = episode.blocks.filter((block) => block.look === "meta");
  head.append(...meta.map((block) => bubble(block, fine)), ...episode.findings.map(finding));
  byId("chat").replaceChildren(...episode.blocks.filter((block) => block.look !== "meta").map((block) => bubble(block, fine)));
  byId("main").removeAttribute("aria-busy");
  highlight();
  if (hit !== null) point(hit < 0 ? ranges.length + hit : hit);
  if (focus) {
    window.scrollTo(0, 0);
    byId("main").focus({ preventScroll: true });
  }
};

const beside = (step) => (step > 0 ? found.find((i) => i > shown) : found.findLast((i) => i < shown));
const go = (step, options = { focus: true }) => {
  const to = beside(step);
  if (to !== undefined && !single) show(to, options);
};
// The list, the filters and the numbers follow what is shown and found.
const refresh = () => {
  byId("previous").disabled = beside(-1) === undefined;
  byId("next").disabled = beside(1) === undefined;
  byId("position").textContent = shown < 0 ? "" : `${number(shown + 1)} of ${number(rows.length)}`;
  const all = counted(rows.length, "episode");
  const some = found.length === rows.length ? all : `${number(found.length)} of ${all}`;
  byId("count").textContent = hits ? `${counted(found.reduce((sum, i) => sum + hits[i], 0), "hit")} in ${some}` : some;
  if (shown < 0) summarise();
  else follow();
  list();
};

const hideTip = () => {
  byId("tip").hidden = true;
  if (here) here.classList.remove("here");
};
const tip = (element) => {
  hideTip();
  here = element;
  element.classList.add("here");
  const { id, ids, text, loss, inside } = element.token;
  const rows = [
    [Array.isArray(id) ? "ids" : id === null ? "tokens" : "id", id === null ? String(ids.flat().length) : String(id).replaceAll(",", ", ")],
    ["text", JSON.stringify(visible(text.slice(0, 300))).replaceAll("\\\\", "\\")],
    ["loss", loss ? "1, trained" : "0, masked"],
    ["tag", inside || "none"],
  ];
  const list = make("dl");
  for (const [name, value] of rows) list.append(make("dt", "", name), make("dd", "", value));
  const box = byId("tip");
  box.replaceChildren(list);
  box.hidden = false;
  const at = element.getClientRects()[0] || element.getBoundingClientRect();
  const below = at.bottom + 6 + box.offsetHeight < window.innerHeight;
  box.style.left = `${Math.max(6, Math.min(at.left, window.innerWidth - box.offsetWidth - 6))}px`;
  box.style.top = `${below ? at.bottom + 6 : Math.max(6, at.top - box.offsetHeight - 6)}px`;
};
const move = (by) => {
  const tokens = [...document.querySelectorAll("#chat .token")].filter((e) => e.getClientRects().length);
  const at = here ? tokens.indexOf(here) + by : by > 0 ? 0 : tokens.length - 1;
  const next = tokens[Math.max(0, Math.min(at, tokens.length - 1))];
  if (!next) return;
  next.scrollIntoView({ block: "nearest" });
  tip(next);
};
