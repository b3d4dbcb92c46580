/** `ctx.ui`: dialogs and displays of the client. What needs pi's own terminal answers as pi does in its RPC mode. */

"use strict";

const fs = require("node:fs");
const path = require("node:path");
const { Theme, theme } = require("./theme.cjs");
const { ask, now, post } = require("./wire.cjs");

// What few extensions use is loaded with its first use, here and below.
const stay = (...values) => require("./surfaces.cjs").stay(...values);

const seconds = (options) => (typeof options?.timeout === "number" ? options.timeout / 1000 : null);

/** Ask; given up by the signal, the answer is that of a cancelled dialog, as in pi. */
async function dialog(who, name, values, options, cancelled) {
  const signal = options?.signal;
  try {
    return (await ask(who, name, [...values, seconds(options)], signal)) ?? cancelled;
  } catch (error) {
    if (signal?.aborted) return cancelled;
    throw error;
  }
}

/** The branch of git that is checked out in a folder or above it, or the beginning of a commit; null: there is none. */
function branchOf(folder) {
  for (let place = folder; ; place = path.dirname(place)) {
    try {
      let head = path.join(place, ".git");
      if (fs.statSync(head).isFile()) head = path.resolve(place, fs.readFileSync(head, "utf8").replace(/^gitdir:/, "").trim());
      const content = fs.readFileSync(path.join(head, "HEAD"), "utf8").trim();
      return content.startsWith("ref:") ? content.replace("ref: refs/heads/", "") : content.slice(0, 8);
    } catch {
      if (place === path.dirname(place)) return null;
    }
  }
}

const BRANCH_MS = 1000;

/** What a footer may show that no other member tells. */
function footerOf(who, surface) {
  const listeners = new Set();
  const read = () => branchOf(now(who, "ctx.cwd"));
  let branch = read();
  const watch = setInterval(() => {
    const former = branch;
    branch = read();
    if (branch !== former) for (const each of listeners) each();
  }, BRANCH_MS);
  watch.unref();
  surface.onForget = () => clearInterval(watch);
  return {
    getGitBranch: () => branch,
    getExtensionStatuses: () => new Map(Object.entries(now(who, "ui.statuses"))),
    getAvailableProviderCount: () => new Set((now(who, "models.available") ?? []).map((each) => each.provider)).size,
    onBranchChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

function userInterfaceOf(who) {
  return {
    select: (title, choices, options) => dialog(who, "ui.select", [title, choices], options, undefined),
    confirm: (title, message, options) => dialog(who, "ui.confirm", [title, message ?? ""], options, false),
    input: (title, placeholder, options) => dialog(who, "ui.input", [title, placeholder ?? null], options, undefined),
    editor: (title, prefill) => dialog(who, "ui.editor", [title, prefill ?? null], undefined, undefined),
    notify: (message, kind) => post(who, "ui.notify", String(message), kind ?? null),
    setStatus: (key, text) => post(who, "ui.setStatus", key, text ?? null),
    setWidget(key, content, options) {
      const placement = options?.placement ?? "aboveEditor";
      for (const each of ["aboveEditor", "belowEditor"]) stay(who, each, key, undefined);
      if (typeof content === "function") stay(who, placement, key, content);
      else post(who, "ui.setWidget", key, content ?? null, options?.placement ?? null);
    },
    setTitle: (title) => post(who, "ui.setTitle", title),
    setEditorText: (text) => post(who, "ui.setEditorText", text),
    pasteToEditor: (text) => post(who, "ui.pasteToEditor", text),
    getEditorText: () => now(who, "ui.getEditorText"),
    custom: (factory, options) => require("./surfaces.cjs").custom(who, factory, options),
    onTerminalInput: (listener) => require("./terminal-input.cjs").listenToInput(who, listener),
    setWorkingMessage: (message) => post(who, "ui.setWorkingMessage", message ?? null),
    setWorkingVisible: (visible) => post(who, "ui.setWorkingVisible", Boolean(visible)),
    setWorkingIndicator(options) {
      const { frames, intervalMs } = options ?? {};
      // pi takes an interval that is no time for none.
      post(who, "ui.setWorkingIndicator", { frames: frames ?? null, intervalMs: intervalMs > 0 ? intervalMs : null });
    },
    setHiddenThinkingLabel: (label) => post(who, "ui.setHiddenThinkingLabel", label ?? null),
    setFooter: (factory) => stay(who, "footer", undefined, factory, (surface) => footerOf(who, surface)),
    setHeader: (factory) => stay(who, "header", undefined, factory),
    addAutocompleteProvider: (factory) => require("./completing.cjs").addProvider(who, factory),
    setEditorComponent: (factory) => require("./editors.cjs").setEditor(who, factory),
    getEditorComponent: () => require("./editors.cjs").editorFactory(),
    get theme() { return theme; },
    // The client has their files; colours are those of every terminal, in each theme.
    getAllThemes: () => now(who, "ui.themes").map((name) => ({ name, path: undefined })),
    getTheme: (name) => (now(who, "ui.themes").includes(name) ? Object.assign(new Theme(), { name }) : undefined),
    setTheme(chosen) {
      const { success, error } = now(who, "ui.setTheme", typeof chosen === "string" ? chosen : chosen?.name);
      return success ? { success } : { success, error };
    },
    getToolsExpanded: () => now(who, "ui.toolsExpanded"),
    setToolsExpanded: (expanded) => post(who, "ui.setToolsExpanded", Boolean(expanded)),
  };
}

module.exports = { userInterfaceOf };
