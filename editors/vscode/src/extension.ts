// Starts `mypt-lint server` for JSONL. Findings, fixes and pages of rules are the server's.

import { commands, type ExtensionContext, window, workspace } from "vscode";
import { LanguageClient } from "vscode-languageclient/node";
import { serverCommand } from "./server";

let client: LanguageClient | undefined;

async function start(): Promise<void> {
  const folder = workspace.workspaceFolders?.[0];
  const settings = workspace.getConfiguration("mypt-lint", folder);
  const server = serverCommand(
    { command: settings.get("command", []), arguments: settings.get("arguments", []) },
    folder?.uri.fsPath,
  );
  client = new LanguageClient(
    "mypt-lint",
    { ...server, options: { cwd: folder?.uri.fsPath } },
    { documentSelector: [{ scheme: "file", language: "jsonl" }] },
  );
  try {
    await client.start();
  } catch (error) {
    client = undefined;
    window.showErrorMessage(
      `${server.command} did not start: ${error}. Install it with: pip install "mypt-tags[lsp]", ` +
        `or name it in the setting mypt-lint.command.`,
    );
  }
}

export async function activate(context: ExtensionContext): Promise<void> {
  const restart = async (): Promise<void> => {
    await deactivate();
    await start();
  };
  context.subscriptions.push(
    commands.registerCommand("mypt-lint.restart", restart),
    workspace.onDidChangeConfiguration(async (event) => {
      if (event.affectsConfiguration("mypt-lint")) {
        await restart();
      }
    }),
  );
  await start();
}

export async function deactivate(): Promise<void> {
  await client?.stop();
  client = undefined;
}
