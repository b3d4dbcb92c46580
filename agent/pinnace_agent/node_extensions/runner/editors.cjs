/**
 * Editors of extensions, in the place of the client's own.
 *
 * The client numbers the keys, pastes and texts that it sends, and keeps each until it is answered, since it takes them
 * itself if an editor fails. So each is answered, with the text of the editor; what the user sends, and what keys mean
 * beside writing, goes to the client, which does it.
 */

"use strict";

const { atRetirement } = require("./retiring.cjs");
const { stay } = require("./surfaces.cjs");
const { post } = require("./wire.cjs");

/** What a client does for keys of its own editor, by the names of `keybindings.json`. */
const LEFT_TO_NOBODY = ["app.clear", "app.exit", "app.suspend"];

let current; // the factory that was given last
atRetirement(() => (current = undefined));

/** The factory of the editor, whichever extension has set it; undefined: the client's own is shown. */
const editorFactory = () => current;

/** Draw the editor of messages by a component from now on; undefined restores that of the client. */
function setEditor(who, factory) {
  current = typeof factory === "function" ? factory : undefined;
  stay(who, "input", undefined, current && ((_tui, _theme, surface) => made(who, surface, factory)), (surface) => surface);
}

function made(who, surface, factory) {
  const { getEditorTheme } = require("./modules/coding-agent.cjs");
  const { keybindings } = require("./keys.cjs");
  const bindings = keybindings();
  const component = factory(surface.tui, getEditorTheme(), bindings);
  for (const each of ["render", "getText", "setText", "handleInput"]) {
    if (typeof component?.[each] !== "function") throw new Error(`setEditorComponent: the factory must return an editor, which has ${each}`);
  }
  surface.editor = new Wired(who, surface, component, bindings);
  return component;
}

/** An editor, with what it asks of the client. */
class Wired {
  constructor(who, surface, component, bindings) {
    Object.assign(this, { who, surface, component, bindings });
    this.by = undefined; // the client whose input was taken last
    this.number = 0;
    this.asked = [];
    this.isTaking = false;
    component.onSubmit = (text) => this.submit(text);
    component.onChange = () => this.isTaking || this.answer();
    if (component.actionHandlers instanceof Map) this.wire(component);
    if (component.setAutocompleteProvider) surface.onForget = require("./completing.cjs").provide(who, component);
  }

  wire(component) {
    const act = (action) => () => this.ask({ action });
    const actions = Object.keys(require("./keys.cjs").ACTIONS).filter((each) => !component.actionHandlers.has(each));
    for (const each of actions) component.actionHandlers.set(each, act(each));
    component.actionHandlers.set("app.clear", () => {
      component.setText("");
      this.ask({ action: "app.clear" });
    });
    component.actionHandlers.set("app.message.followUp", () => {
      const text = component.getExpandedText?.() ?? component.getText();
      component.setText("");
      this.submit(text, { followUp: true });
    });
    component.onEscape ??= act("app.interrupt");
    component.onCtrlD ??= act("app.exit");
    component.onPasteImage ??= act("app.clipboard.pasteImage");
  }

  /** Take a key, a paste, or the text that the editor is to hold. */
  take({ data, text, by, number }) {
    [this.by, this.number] = [by, number];
    this.isTaking = true;
    try {
      if (text !== undefined) this.component.setText(text);
      else this.press(data);
    } finally {
      this.isTaking = false;
    }
    this.surface.request();
    this.answer();
  }

  press(data) {
    // An editor that is not made for pi would hold the user: what leaves is the client's.
    const isLeaving = (id) => this.bindings.matches(data, id) && (id !== "app.exit" || this.component.getText() === "");
    if (!(this.component.actionHandlers instanceof Map) && LEFT_TO_NOBODY.some(isLeaving)) this.asked.push({ declined: true });
    else this.surface.press(data);
  }

  submit(text, more) {
    if (!text.trim()) return;
    this.component.addToHistory?.(text);
    this.ask({ submitted: text, ...more });
  }

  ask(asked) {
    this.asked.push(asked);
    if (!this.isTaking) this.answer();
  }

  answer() {
    if (this.by === undefined || this.surface.isOver) return;
    const text = this.component.getExpandedText?.() ?? this.component.getText();
    const asked = this.asked.length ? this.asked : [{}];
    this.asked = [];
    for (const each of asked) post(this.who, "surface.input", this.surface.number, this.by, this.number, String(text), each);
  }
}

module.exports = { editorFactory, setEditor };
