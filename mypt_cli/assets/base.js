"use strict";
const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);
const hidden = /HIDDEN_CHARACTERS/gu;
// Everything of the data enters the document here, as text.
const make = (name, className, text) => {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
};
const button = (className, act) => {
  const element = make("button", className);
  element.type = "button";
  element.addEventListener("click", act);
  return element;
};
const number = (n) => n.toLocaleString("en");
const counted = (n, noun) => `${number(n)} ${noun}${n === 1 ? "" : "s"}`;
const percent = (part, whole) => (whole ? `${Math.round((100 * part) / whole)}\u00a0%` : "0\u00a0%");
const escaped = (char) => {
  const code = char.codePointAt(0);
  const short = { "\n": "\\n", "\r": "\\r", "\t": "\\t" }[char];
  if (short) return short;
  if (code < 0x100) return `\\x${code.toString(16).padStart(2, "0")}`;
  return code < 0x10000 ? `\\u${code.toString(16).padStart(4, "0")}` : `\\U${code.toString(16).padStart(8, "0")}`;
};
const visible = (text) => text.replace(hidden, escaped);
const inContent = (text) => text.replace(hidden, (char) => (char === "\n" || char === "\t" ? char : escaped(char)));
const inTag = (text) => text.replaceAll("\n", "\u21b5");
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
const firstLine = (f) => [`${f.severity}[${f.code}]`, ` ${f.name}: ${visible(f.message)}`];
const noteLine = ([label, note]) => `${label}: ${visible(note)}`;
const finding = (f) => {
  const box = make("div", `finding ${f.severity}`);
  const [code, message] = firstLine(f);
  const first = make("p");
  first.append(make("b", "", code), message);
  box.append(first, ...f.notes.map((note) => make("small", note[0] === "fix" ? "fix" : "", noteLine(note))));
  return box;
};
