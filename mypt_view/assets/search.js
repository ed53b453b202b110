// The search counts in what is shown: an episode's texts are those of its boxes, folded alike.
const fold = (text) => {
  const lower = text.toLowerCase();
  // Letters whose lower case is longer stay as they are, so that offsets are those of the text.
  return lower.length === text.length ? lower : Array.from(text, (c) => (c.toLowerCase().length === c.length ? c.toLowerCase() : c)).join("");
};
const BOXES = "#head .place, .finding > p, .finding > small, .bubble:not(.quiet) > h3, .bubble:not(.quiet) > .content";
const wordsOf = (episode, row) => {
  const ofFindings = (list) => list.flatMap((f) => [firstLine(f).join(""), ...f.notes.map(noteLine)]);
  const ofChunk = (c) => (!c.tag ? inContent(c.text) : c.marks ? inContent(inTag(c.text)) : "");
  const ofBlock = (b) => [...(b.visible ? [visible(b.title), b.chunks.map(ofChunk).join("")] : []), ...ofFindings(b.findings)];
  return [place(row), ...ofFindings(episode.findings), ...episode.blocks.flatMap(ofBlock)].map(fold).join("\n");
};
const haystack = [];
let reading = null;
const read = async () => {
  for (let n = 0; n < data.starts.length; n++) for (const episode of await unpacked(n)) haystack.push(wordsOf(episode, rows[haystack.length]));
};
let hits = null; // of the search, for each episode
let asked = 0;
const search = async () => {
  const wanted = fold(byId("search").value);
  const turn = ++asked;
  if (wanted) {
    byId("count").textContent = "searching\u2026";
    await (reading ??= read());
    if (turn !== asked) return;
  }
  hits = wanted ? haystack.map((text) => text.split(wanted).length - 1) : null;
  filter();
};
const clear = () => {
  hideTip();
  byId("search").value = "";
  search();
};
let ranges = [];
let at = -1; // the hit that Enter has led to
const highlight = () => {
  ranges = [];
  at = -1;
  const wanted = fold(byId("search").value);
  for (const box of wanted ? document.querySelectorAll(BOXES) : []) {
    const walker = document.createTreeWalker(box, NodeFilter.SHOW_ALL, (node) =>
      node.nodeType === Node.TEXT_NODE ? NodeFilter.FILTER_ACCEPT : node.matches(".tag:not(.meant)") ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_SKIP);
    const nodes = [];
    let all = "";
    while (walker.nextNode()) {
      nodes.push([all.length, walker.currentNode]);
      all += walker.currentNode.data;
    }
    const text = fold(all);
    const spot = (offset, end) => {
      let [low, high] = [0, nodes.length];
      while (low + 1 < high) {
        const middle = (low + high) >> 1;
        if (end ? nodes[middle][0] < offset : nodes[middle][0] <= offset) low = middle;
        else high = middle;
      }
      return [nodes[low][1], offset - nodes[low][0]];
    };
    for (let i = text.indexOf(wanted); i >= 0 && ranges.length < 1000; i = text.indexOf(wanted, i + wanted.length)) {
      const range = document.createRange();
      range.setStart(...spot(i, false));
      range.setEnd(...spot(i + wanted.length, true));
      ranges.push(range);
    }
  }
  paint("found", ranges);
  paint("here", []);
};
const paint = (name, held) => {
  if (window.CSS && CSS.highlights) CSS.highlights.set(name, new Highlight(...held));
};
const point = (n) => {
  if (!ranges[n]) return;
  at = n;
  paint("here", [ranges[at]]);
  ranges[at].startContainer.parentElement.scrollIntoView({ block: "nearest" });
  byId("position").textContent = `${number(shown + 1)} of ${number(rows.length)} \u00b7 hit ${at + 1} of ${hits ? number(hits[shown]) : ranges.length}`;
};
const nextHit = (step) => {
  if (shown >= 0 && ranges[at + step]) return point(at + step);
  const to = beside(step) ?? found.at(step > 0 ? 0 : -1);
  if (to !== undefined) show(to, { hit: step > 0 ? 0 : -1 });
};
