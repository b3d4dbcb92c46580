/** Listeners to the input of the client's terminal: one chain of all extensions, as in pi. One that fails leaves the input as it is. */

"use strict";

const { atRetirement } = require("./retiring.cjs");
const { post, reportOnce } = require("./wire.cjs");

const listeners = new Set();
atRetirement(() => listeners.clear());

/** Call a listener with each key and paste; returns what removes it. */
function listenToInput(who, listener) {
  if (typeof listener !== "function") throw new Error("onTerminalInput: the handler is not a function");
  const added = { who, listener };
  listeners.add(added);
  post(who, "ui.keys", true);
  return () => {
    if (listeners.delete(added) && listeners.size === 0) post(who, "ui.keys", false);
  };
}

/** What the listeners leave of an input. */
function heard(data) {
  for (const each of [...listeners]) {
    if (data === "") break;
    try {
      const result = each.listener(data);
      if (result?.consume) return { consume: true };
      if (result?.data !== undefined) data = String(result.data);
    } catch (error) {
      reportOnce(each, "terminal_input", error);
    }
  }
  return { data };
}

module.exports = { listenToInput, heard };
