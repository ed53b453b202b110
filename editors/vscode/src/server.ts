// How the language server is started: apart from the editor, so that the tests start it likewise.

import { existsSync } from "node:fs";
import { join } from "node:path";

export interface Settings {
  /** The linter and its first arguments; empty to look for it. */
  command: string[];
  /** Options of the linter. */
  arguments: string[];
}

export interface ServerCommand {
  command: string;
  args: string[];
}

/** Return the command that serves the folder of a workspace: that of the settings, else
 * `mypt-lint` in the folder's virtual environment, else in `PATH`. */
export function serverCommand(settings: Settings, folder?: string): ServerCommand {
  const [command, ...first] = settings.command;
  const args = [...first, "server", ...settings.arguments];
  if (command) {
    return { command, args };
  }
  const script = process.platform === "win32" ? ["Scripts", "mypt-lint.exe"] : ["bin", "mypt-lint"];
  const local = folder && join(folder, ".venv", ...script);
  return { command: local && existsSync(local) ? local : "mypt-lint", args };
}
