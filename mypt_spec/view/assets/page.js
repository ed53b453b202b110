"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const hidden = /HIDDEN_CHARACTERS/gu;
  const MANY = 20000; // tokens of an episode beyond which a run is one element, not one for every token
  const byId = (id) => document.getElementById(id);
  const episodes = data.episodes;
  let shown = -1;
  let found = episodes.map((_, i) => i);
  let here = null;

  // Everything of the data enters the document here, as text.
  const make = (name, className, text) => {
    const element = document.createElement(name);
    if (className) element.className = className;
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const counted = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
  const percent = (part, whole) => (whole ? `${Math.round((100 * part) / whole)} %` : "0 %");
  const escaped = (char) => {
    const code = char.codePointAt(0);
    const short = { "\n": "\\n", "\r": "\\r", "\t": "\\t" }[char];
    if (short) return short;
    if (code < 0x100) return `\\x${code.toString(16).padStart(2, "0")}`;
    return code < 0x10000 ? `\\u${code.toString(16).padStart(4, "0")}` : `\\U${code.toString(16).padStart(8, "0")}`;
  };
  const visible = (text) => text.replace(hidden, escaped);
  const fill = (element, text) => {
    let at = 0;
    for (const match of text.matchAll(hidden)) {
      if (match[0] === "\n" || match[0] === "\t") continue;
      element.append(text.slice(at, match.index), make("span", "hid", escaped(match[0])));
      at = match.index + match[0].length;
    }
    element.append(text.slice(at));
    return element;
  };

  const finding = (f) => {
    const box = make("div", `finding ${f.severity}`);
    box.append(make("b", "", `${f.severity}[${f.code}]`), ` ${f.name}: `, visible(f.message));
    const notes = [["expected", (f.expected || []).join(" or ")], ["help", f.help || ""], ["at", f.pointer || ""]];
    for (const [label, note] of notes) if (note) box.append(make("small", "", `${label}: ${visible(note)}`));
    return box;
  };

  const run = (chunk, fine, into) => {
    const text = chunk.text;
    const cuts = [];
    if (chunk.ids && fine) {
      let at = 0;
      chunk.ids.forEach((id, i) => {
        cuts.push([at, at + chunk.lengths[i], id]);
        at += chunk.lengths[i];
      });
    } else cuts.push([0, text.length, null]);
    if (chunk.tag) {
      const tag = make("span", `tag${chunk.loss ? " learnt" : ""}${(chunk.marks || []).length ? " meant" : ""}`);
      into.append(tag);
      into = tag;
    }
    for (const [a, b, id] of cuts) {
      const names = [];
      if (chunk.ids) names.push("token", chunk.loss ? "trained" : "masked");
      if (chunk.inline) names.push(chunk.inline === "key" ? "key" : "inline");
      const mark = (chunk.marks || []).find(([first, last]) => first < b && a < last);
      const element = make("span", names.join(" "));
      const [from, to] = mark ? [Math.max(a, mark[0]), Math.min(b, mark[1])] : [b, b];
      const part = (first, last) => (chunk.tag ? text.slice(first, last).replaceAll("\n", "\u21b5") : text.slice(first, last));
      fill(element, part(a, from));
      if (mark) element.append(fill(make("span", `marked ${mark[2]}`), part(from, to)));
      fill(element, part(to, b));
      if (chunk.ids) element.token = { id, text: text.slice(a, b), loss: chunk.loss, inside: chunk.inside, ids: chunk.ids };
      into.append(element);
    }
  };

  const bubble = (block, fine) => {
    const box = make("article", `bubble ${block.look}`);
    if (block.model) box.classList.add("writes");
    if (!block.visible) box.classList.add("quiet");
    box.append(make("h3", "", visible(block.title)));
    const content = make("div", "content");
    for (const chunk of block.chunks) run(chunk, fine, content);
    box.append(content, ...block.findings.map(finding));
    return box;
  };

  const show = (index, focus) => {
    if (index < 0 || index >= episodes.length) return;
    shown = index;
    here = null;
    hideTip();
    const episode = episodes[index];
    const head = byId("head");
    const words = [data.dialect + (episode.phase === null ? "" : `, phase ${episode.phase}`)];
    if (episode.tokens !== null) words.push(`${counted(episode.tokens, "token")}, ${episode.trained.toLocaleString("en")} trained (${percent(episode.trained, episode.tokens)})`);
    if (episode.turns || episode.tokens !== null) words.push(counted(episode.turns, "turn"));
    head.replaceChildren(make("h2", "", visible(episode.label)), make("p", "", words.join(" · ")));
    const counts = Object.entries(episode.counts);
    if (!counts.length) head.lastChild.append(" · no findings");
    for (const [severity, n] of counts) head.lastChild.append(" ", make("span", `badge ${severity}`, counted(n, severity)));
    if (episode.lacks) head.append(make("p", "lacks", `No token ids: ${visible(episode.lacks)}`));
    if (episode.tokens > MANY) head.append(make("p", "", "A long episode: its runs of text are not cut into tokens here."));
    head.append(...episode.findings.map(finding));
    byId("chat").replaceChildren(...episode.blocks.map((block) => bubble(block, !(episode.tokens > MANY))));
    for (const button of document.querySelectorAll("#list [aria-current]")) button.removeAttribute("aria-current");
    const current = byId("list").children[index].firstChild;
    current.setAttribute("aria-current", "true");
    if (byId("drawer").open) current.scrollIntoView({ block: "nearest" });
    turning();
    highlight();
    if (focus) {
      window.scrollTo(0, 0);
      byId("main").focus({ preventScroll: true });
    }
    try { history.replaceState(null, "", `#${index + 1}`); } catch { /* not everywhere a page may name its place */ }
  };

  const beside = (step) => {
    const rest = step > 0 ? found.filter((i) => i > shown) : found.filter((i) => i < shown);
    return step > 0 ? rest[0] : rest[rest.length - 1];
  };
  const turning = () => {
    byId("previous").disabled = beside(-1) === undefined;
    byId("next").disabled = beside(1) === undefined;
    byId("position").textContent = `${shown + 1} of ${episodes.length}`;
    byId("count").textContent = found.length === episodes.length ? counted(episodes.length, "episode") : `${found.length} of ${counted(episodes.length, "episode")}`;
  };
  const go = (step, focus = true) => {
    const to = beside(step);
    if (to !== undefined) show(to, focus);
  };

  const words = new Map();
  const haystack = (i) => {
    if (!words.has(i)) {
      const e = episodes[i];
      const findings = [...e.findings, ...e.blocks.flatMap((b) => b.findings)].map((f) => `${f.code} ${f.name} ${f.message}`);
      words.set(i, [e.label, ...findings, ...e.blocks.map((b) => `${b.kind}\n${b.chunks.map((c) => c.text).join("")}`)].join("\n").toLowerCase());
    }
    return words.get(i);
  };
  const search = () => {
    const wanted = byId("search").value.toLowerCase();
    found = episodes.map((_, i) => i).filter((i) => !wanted || haystack(i).includes(wanted));
    [...byId("list").children].forEach((item, i) => { item.hidden = Boolean(wanted) && !haystack(i).includes(wanted); });
    if (found.length && !found.includes(shown)) show(found[0]);
    else { turning(); highlight(); }
  };
  const clear = () => {
    hideTip();
    byId("search").value = "";
    search();
  };
  const highlight = () => {
    if (!window.CSS || !CSS.highlights) return;
    CSS.highlights.delete("found");
    const wanted = byId("search").value.toLowerCase();
    if (!wanted) return;
    const ranges = [];
    for (const box of document.querySelectorAll("#chat .content, #chat .finding, #head .finding")) {
      const walker = document.createTreeWalker(box, NodeFilter.SHOW_TEXT);
      const nodes = [];
      let all = "";
      while (walker.nextNode()) {
        nodes.push([all.length, walker.currentNode]);
        all += walker.currentNode.data;
      }
      const lower = all.toLowerCase();
      if (lower.length !== all.length) continue; // letters whose lower case is longer: offsets would be wrong
      const place = (offset, end) => {
        let low = 0;
        while (low + 1 < nodes.length && (end ? nodes[low + 1][0] < offset : nodes[low + 1][0] <= offset)) low++;
        return [nodes[low][1], offset - nodes[low][0]];
      };
      for (let at = lower.indexOf(wanted); at >= 0 && ranges.length < 1000; at = lower.indexOf(wanted, at + wanted.length)) {
        const range = document.createRange();
        range.setStart(...place(at, false));
        range.setEnd(...place(at + wanted.length, true));
        ranges.push(range);
      }
    }
    CSS.highlights.set("found", new Highlight(...ranges));
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
  const step = (by) => {
    const tokens = [...document.querySelectorAll("#chat .token")].filter((e) => e.getClientRects().length);
    const at = here ? tokens.indexOf(here) + by : by > 0 ? 0 : tokens.length - 1;
    const next = tokens[Math.max(0, Math.min(at, tokens.length - 1))];
    if (!next) return;
    next.scrollIntoView({ block: "nearest" });
    tip(next);
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
  const table = (title, note, columns, rows) => {
    const section = make("section");
    const element = make("table");
    const head = element.createTHead().insertRow();
    for (const name of columns) {
      const cell = make("th", "", name);
      cell.scope = "col";
      head.append(cell);
    }
    const body = element.createTBody();
    const most = Math.max(...rows.map((row) => row.tokens), 0);
    for (const row of rows) {
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
    const of = counted(episodes.length, "episode");
    const tags = data.tags.map((t) => ({ name: t.tag, count: t.times, tokens: t.tokens, trained: t.trained }));
    byId("totals").append(table("Tokens by tag", `${of}; tokens of the innermost block, its tags included`, ["Tag", "Count", "Tokens", "Trained"], tags));
    if (!data.phases.length) return;
    const phases = data.phases.map((p) => ({ name: `${p.phase} ${p.title}`, count: p.episodes, tokens: p.tokens, trained: p.trained }));
    byId("totals").append(table("Tokens by phase", "the first phase that an episode fits", ["Phase", "Episodes", "Tokens", "Trained"], phases));
  };

  const list = () => {
    episodes.forEach((episode, i) => {
      const item = make("li");
      const button = make("button");
      button.type = "button";
      const where = make("span", "where", visible(episode.label.replace(/^.*[\\/]/, "")));
      for (const [severity, n] of Object.entries(episode.counts)) where.append(" ", make("span", `badge ${severity}`, counted(n, severity)));
      button.append(where, make("span", "headline", visible(episode.headline)));
      button.addEventListener("click", () => {
        show(i, true);
        if (window.innerWidth < 720) byId("drawer").open = false;
      });
      item.append(button);
      byId("list").append(item);
    });
  };

  const flip = (id, className) => {
    const on = document.body.classList.toggle(className);
    byId(id).setAttribute("aria-pressed", String(on));
    hideTip();
  };
  const help = () => (byId("keys").open ? byId("keys").close() : byId("keys").showModal());
  const keys = {
    j: () => go(1), ArrowRight: () => go(1), k: () => go(-1), ArrowLeft: () => go(-1),
    m: () => flip("loss", "loss"), t: () => flip("tags", "tags"), h: () => step(-1), l: () => step(1), "?": help,
    "/": () => byId("search").select(), Escape: clear,
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target === byId("search")) {
      if (event.key === "Enter") go(1, false);
      if (event.key === "Escape") {
        clear();
        byId("search").blur();
      }
      return;
    }
    if (byId("keys").open && event.key !== "?") return;
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    if (event.key === "/") byId("search").focus();
    act();
  });
  const pointed = (event) => {
    const element = event.target.closest ? event.target.closest(".token") : null;
    if (element) tip(element);
    else if (event.type === "click" || event.relatedTarget !== byId("tip")) hideTip();
  };
  byId("chat").addEventListener("mouseover", pointed);
  byId("chat").addEventListener("mouseleave", hideTip);
  document.addEventListener("click", pointed);
  window.addEventListener("resize", hideTip);
  byId("search").addEventListener("input", search);
  byId("previous").addEventListener("click", () => go(-1));
  byId("next").addEventListener("click", () => go(1));
  byId("loss").addEventListener("click", () => flip("loss", "loss"));
  byId("tags").addEventListener("click", () => flip("tags", "tags"));
  byId("help").addEventListener("click", help);

  document.body.classList.add("loss");
  byId("dialect").textContent = data.dialect;
  if (episodes.length < 2) document.querySelector(".columns").classList.add("single");
  byId("drawer").open = window.innerWidth >= 720;
  list();
  totals();
  show(Math.min(episodes.length, Math.max(1, Number(location.hash.slice(1)) || 1)) - 1);
})();
