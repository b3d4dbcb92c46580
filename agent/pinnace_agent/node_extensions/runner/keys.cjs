/** The keys of actions, as `keybindings.json` of the user changes them: for components, and for hints that name keys. */

"use strict";

const fs = require("node:fs");
const path = require("node:path");
const { now } = require("./wire.cjs");
const { real, tui } = require("./modules/pi-tui.cjs");

/** The actions of the client, with the keys that they have unless the user has chosen others. */
const ACTIONS = {
  "app.interrupt": "escape", "app.clear": "ctrl+c", "app.exit": "ctrl+d", "app.suspend": "ctrl+z",
  "app.thinking.cycle": "shift+tab", "app.thinking.toggle": "ctrl+t", "app.model.cycleForward": "ctrl+p",
  "app.model.select": "ctrl+l", "app.tools.expand": "ctrl+o", "app.editor.external": "ctrl+g",
  "app.message.copy": "ctrl+x", "app.message.followUp": ["alt+enter", "ctrl+q"], "app.message.dequeue": "alt+up",
  "app.clipboard.pasteImage": "ctrl+v", "app.session.new": [], "app.session.tree": [], "app.session.fork": [],
  "app.session.resume": [],
};
const definitionsOf = (keys) => Object.fromEntries(Object.entries(keys).map(([id, defaultKeys]) => [id, { defaultKeys }]));

let made;

/** The keys; read once, with the first component or hint. */
function keybindings() {
  if (made === undefined) {
    const definitions = { ...tui.TUI_KEYBINDINGS, ...definitionsOf(ACTIONS) };
    made = new tui.KeybindingsManager(definitions, ofUser());
    real?.setKeybindings?.(made);
  }
  return made;
}

function ofUser() {
  try {
    const found = JSON.parse(fs.readFileSync(path.join(now(undefined, "agent_dir"), "keybindings.json"), "utf8"));
    const isKeys = (value) => typeof value === "string" || (Array.isArray(value) && value.every((each) => typeof each === "string"));
    return Object.fromEntries(Object.entries(found).filter(([, value]) => isKeys(value)));
  } catch {
    return {}; // the terminal client reports what is wrong with the file
  }
}

/** The keys of an action in words, such as `ctrl+c/escape`. */
const keyText = (id) => keybindings().getKeys(id).join("/") || id;

module.exports = { ACTIONS, keybindings, keyText };
