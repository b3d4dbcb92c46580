/** `ctx.ui`: dialogs and displays of the client. What needs pi's own terminal answers as pi does in its RPC mode. */

import { theme } from "./theme.mjs";
import { ask, post } from "./wire.mjs";

const seconds = (options) => (typeof options?.timeout === "number" ? options.timeout / 1000 : null);
const nothing = () => {};

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

export function userInterfaceOf(who) {
  return {
    select: (title, choices, options) => dialog(who, "ui.select", [title, choices], options, undefined),
    confirm: (title, message, options) => dialog(who, "ui.confirm", [title, message ?? ""], options, false),
    input: (title, placeholder, options) => dialog(who, "ui.input", [title, placeholder ?? null], options, undefined),
    editor: (title, prefill) => dialog(who, "ui.editor", [title, prefill ?? null], undefined, undefined),
    notify: (message, kind) => post(who, "ui.notify", String(message), kind ?? null),
    setStatus: (key, text) => post(who, "ui.setStatus", key, text ?? null),
    setWidget(key, content, options) {
      if (typeof content === "function") return; // a component needs a terminal
      post(who, "ui.setWidget", key, content ?? null, options?.placement ?? null);
    },
    setTitle: (title) => post(who, "ui.setTitle", title),
    setEditorText: (text) => post(who, "ui.setEditorText", text),
    pasteToEditor: (text) => post(who, "ui.setEditorText", text),
    getEditorText: () => "",
    custom: async () => undefined,
    onTerminalInput: () => nothing,
    setWorkingMessage: nothing,
    setWorkingVisible: nothing,
    setWorkingIndicator: nothing,
    setHiddenThinkingLabel: nothing,
    setFooter: nothing,
    setHeader: nothing,
    addAutocompleteProvider: nothing,
    setEditorComponent: nothing,
    getEditorComponent: () => undefined,
    get theme() { return theme; },
    getAllThemes: () => [],
    getTheme: () => undefined,
    setTheme: () => ({ success: false, error: "Theme switching not supported in RPC mode" }),
    getToolsExpanded: () => false,
    setToolsExpanded: nothing,
  };
}
