// The list holds the entries that can be seen; margins stand for the others.
const entry = (i, n) => {
  const row = rows[i];
  const item = make("li");
  item.setAttribute("aria-posinset", n + 1);
  item.setAttribute("aria-setsize", found.length);
  const open = button("", () => {
    show(i, { focus: true });
    if (window.innerWidth < 720) byId("drawer").open = false;
  });
  open.episode = i;
  if (i === shown) open.setAttribute("aria-current", "true");
  const where = make("span", "where", visible(row.label.replace(/^.*[\\/]/, "")));
  if (hits) where.append(" ", make("span", "badge hits", counted(hits[i], "hit")));
  for (const [severity, count] of Object.entries(row.counts)) where.append(" ", make("span", `badge ${severity}`, counted(count, severity)));
  const headline = make("span", "headline", visible(row.headline));
  headline.dir = "auto";
  open.append(where, headline);
  item.append(open);
  return item;
};
const list = () => {
  const box = byId("list");
  const first = Math.max(0, Math.floor(box.scrollTop / ROW) - 4);
  const last = Math.min(found.length, Math.ceil((box.scrollTop + box.clientHeight) / ROW) + 4);
  const focused = box.contains(document.activeElement) ? document.activeElement.episode : null;
  const entries = found.slice(first, last).map((i, n) => entry(i, first + n));
  if (entries.length) {
    entries[0].style.marginTop = `${first * ROW}px`;
    entries[entries.length - 1].style.marginBottom = `${(found.length - last) * ROW}px`;
  }
  box.replaceChildren(...entries);
  if (focused !== null) [...box.querySelectorAll("button")].find((b) => b.episode === focused)?.focus({ preventScroll: true });
};
const follow = () => {
  const [box, top] = [byId("list"), found.indexOf(shown) * ROW];
  if (top < 0) return;
  if (top < box.scrollTop) box.scrollTop = top;
  else if (top + ROW > box.scrollTop + box.clientHeight) box.scrollTop = top + ROW - box.clientHeight;
};

const flip = (id, className) => {
  const on = document.body.classList.toggle(className);
  byId(id).setAttribute("aria-pressed", String(on));
  hideTip();
};
const help = () => (byId("keys").open ? byId("keys").close() : byId("keys").showModal());
const toOverview = () => {
  if (!single && shown >= 0) overview(true);
};
const keys = {
  j: () => go(1), ArrowRight: () => go(1), k: () => go(-1), ArrowLeft: () => go(-1), o: toOverview,
  m: () => flip("loss", "loss"), t: () => flip("tags", "tags"), h: () => move(-1), l: () => move(1), "?": help,
  "/": () => byId("search").select(), Escape: clear,
};
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target === byId("search")) {
    if (event.key === "Enter") nextHit(event.shiftKey ? -1 : 1);
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
byId("all").addEventListener("click", toOverview);
byId("list").addEventListener("scroll", list);
byId("drawer").addEventListener("toggle", () => {
  list();
  if (shown >= 0) follow();
});
byId("previous").addEventListener("click", () => go(-1));
byId("next").addEventListener("click", () => go(1));
byId("loss").addEventListener("click", () => flip("loss", "loss"));
byId("tags").addEventListener("click", () => flip("tags", "tags"));
byId("help").addEventListener("click", help);

const jump = () => {
  const wanted = Number(/^#([0-9]+)$/.exec(location.hash)?.[1]);
  if (wanted >= 1 || single) show(Math.min(rows.length, wanted || 1) - 1, { push: false });
  else overview(false);
};
window.addEventListener("hashchange", jump);

document.body.classList.add("loss");
byId("name").textContent = visible(data.name);
byId("dialect").textContent = data.dialect;
if (single) document.body.classList.add("single");
byId("drawer").open = window.innerWidth >= 720;
byId("facets").append(...facets.map(card));
totals();
jump();
