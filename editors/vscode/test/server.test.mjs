// The server as the extension starts it, over a pipe, with the messages that an editor sends.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { pathToFileURL } from "node:url";

const require = createRequire(import.meta.url);
const { serverCommand } = require("../dist/server.js");
const rpc = require("vscode-jsonrpc/node");

const folder = mkdtempSync(join(tmpdir(), "mypt-lint-"));
after(() => rmSync(folder, { recursive: true }));

const QUESTION = '{"role": "user", "content": "Hi"}';
const FIXABLE = `{"messages": [{"role": "system", "content": "S"}, ${QUESTION}, {"role": "assistant", "content": "Yo"}]}`;
const BROKEN = `{"system": "S", "messages": [${QUESTION}, {"role": "assistant", "content": "</myPT_user>"}]}`;
const TEXT = `${FIXABLE}\n${BROKEN}\n`;

/** Return the line with the edits of a code action made, the last one first. */
function edited(line, edits) {
  const ordered = edits.toSorted((a, b) => b.range.start.character - a.range.start.character);
  return ordered.reduce(
    (text, { range, newText }) =>
      text.slice(0, range.start.character) + newText + text.slice(range.end.character),
    line,
  );
}

test("the linter of the settings, of the folder, of PATH", () => {
  const options = ["--dialect", "qwen3"];
  assert.deepEqual(serverCommand({ command: ["uvx", "mypt-lint"], arguments: options }, folder), {
    command: "uvx",
    args: ["mypt-lint", "server", ...options],
  });
  assert.equal(serverCommand({ command: [], arguments: [] }, folder).command, "mypt-lint");
  assert.equal(serverCommand({ command: [], arguments: [] }).command, "mypt-lint");
  const scripts = process.platform === "win32" ? "Scripts" : "bin";
  const script = scripts === "bin" ? "mypt-lint" : "mypt-lint.exe";
  mkdirSync(join(folder, ".venv", scripts), { recursive: true });
  writeFileSync(join(folder, ".venv", scripts, script), "");
  assert.equal(
    serverCommand({ command: [], arguments: [] }, folder).command,
    join(folder, ".venv", scripts, script),
  );
});

test("findings and a fix of a broken line", { timeout: 60_000 }, async (t) => {
  const file = join(folder, "broken.jsonl");
  writeFileSync(file, TEXT);
  const uri = pathToFileURL(file).href;
  const { command, args } = serverCommand({ command: [], arguments: [] });
  const server = spawn(command, args, { cwd: folder, stdio: ["pipe", "pipe", "inherit"] });
  const connection = rpc.createMessageConnection(
    new rpc.StreamMessageReader(server.stdout),
    new rpc.StreamMessageWriter(server.stdin),
  );
  t.after(() => {
    server.kill("SIGKILL");
    connection.dispose();
  });
  const published = new Promise((resolve) => {
    connection.onNotification("textDocument/publishDiagnostics", (message) => {
      if (message.uri === uri) {
        resolve(message.diagnostics);
      }
    });
  });
  connection.listen();
  await connection.sendRequest("initialize", {
    processId: process.pid,
    rootUri: pathToFileURL(folder).href,
    capabilities: {},
  });
  connection.sendNotification("initialized", {});
  connection.sendNotification("textDocument/didOpen", {
    textDocument: { uri, languageId: "jsonl", version: 1, text: TEXT },
  });
  const [system, tag, ...others] = await published;
  assert.deepEqual([system.range.start.line, tag.range.start.line, others], [0, 1, []]);
  assert.equal(tag.code, "MYP301");
  assert.equal(BROKEN.slice(tag.range.start.character, tag.range.end.character), "</myPT_user>");
  const actions = await connection.sendRequest("textDocument/codeAction", {
    textDocument: { uri },
    range: system.range,
    context: { diagnostics: [system] },
  });
  assert.equal(JSON.parse(edited(FIXABLE, actions[0].edit.changes[uri])).system, "S");
  await connection.sendRequest("shutdown");
  connection.sendNotification("exit");
  assert.equal(await new Promise((resolve) => server.on("exit", resolve)), 0);
});
