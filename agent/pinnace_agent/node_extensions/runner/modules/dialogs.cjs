/** Dialogs as components: a choice, a line, a text, and a login. What the user does comes to their callbacks. */

"use strict";

const { DynamicBorder, getEditorTheme, keyHint, rawKeyHint } = require("./coding-agent.cjs");
const { tui } = require("./pi-tui.cjs");
const { keybindings } = require("../keys.cjs");
const { theme } = require("../theme.cjs");

const MOST_SHOWN = 10;

const line = (text) => new tui.Text(text, 1, 0);
const matches = (data, ...ids) => ids.some((id) => keybindings().matches(data, id));
const isConfirm = (data) => matches(data, "tui.select.confirm") || data === "\n";

/** What a dialog is framed by: its title with the seconds that are left, a description, the keys. */
class Dialog extends tui.Container {
  constructor(title, { description, timeout, tui: screen } = {}, onTimeout, ...hints) {
    super();
    keybindings(); // before a component reads them
    this.title = title;
    this.heading = line(this.titled(title));
    this.body = new tui.Container();
    this.addChild(new DynamicBorder());
    for (const part of [this.heading, ...(description ? [line(description)] : []), this.body, ...(hints.length ? [line(hints.join("  "))] : [])]) {
      this.addChild(new tui.Spacer(1));
      this.addChild(part);
    }
    this.addChild(new tui.Spacer(1));
    this.addChild(new DynamicBorder());
    if (timeout > 0 && screen) this.count(Math.ceil(timeout / 1000), screen, onTimeout);
  }
  titled(text) { return theme.fg("accent", theme.bold(text)); }
  count(seconds, screen, onTimeout) {
    const show = () => this.heading.setText(this.titled(`${this.title} (${seconds}s)`));
    show();
    this.timer = setInterval(() => {
      seconds -= 1;
      show();
      screen.requestRender?.();
      if (seconds > 0) return;
      this.dispose();
      onTimeout();
    }, 1000);
    this.timer.unref?.();
  }
  dispose() { clearInterval(this.timer); }
  /** Whether it has the cursor: so has the field in it. */
  get focused() { return this.field?.focused ?? false; }
  set focused(isFocused) { if (this.field) this.field.focused = isFocused; }
}

class ExtensionSelectorComponent extends Dialog {
  selected = 0;
  constructor(title, options, onSelect, onCancel, more = {}) {
    super(title, more ?? {}, onCancel, rawKeyHint("↑↓", "navigate"), keyHint("tui.select.confirm", "select"), keyHint("tui.select.cancel", "cancel"));
    Object.assign(this, { options, onSelect, onCancel, onToggleToolsExpanded: more?.onToggleToolsExpanded });
    this.show(0);
  }
  show(selected) {
    const { options } = this;
    this.selected = Math.max(0, Math.min(selected, options.length - 1));
    const first = Math.max(0, Math.min(this.selected - Math.floor(MOST_SHOWN / 2), options.length - MOST_SHOWN));
    this.body.clear();
    options.slice(first, first + MOST_SHOWN).forEach((option, place) =>
      this.body.addChild(line(first + place === this.selected ? theme.fg("accent", `→ ${option}`) : `  ${option}`)));
    if (options.length > MOST_SHOWN) this.body.addChild(line(theme.fg("muted", `(${this.selected + 1}/${options.length})`)));
  }
  handleInput(data) {
    if (matches(data, "app.tools.expand")) this.onToggleToolsExpanded?.();
    else if (matches(data, "tui.select.up") || data === "k") this.show(this.selected - 1);
    else if (matches(data, "tui.select.down") || data === "j") this.show(this.selected + 1);
    else if (isConfirm(data)) this.options[this.selected] && this.onSelect(this.options[this.selected]);
    else if (matches(data, "tui.select.cancel")) this.onCancel();
  }
}

class ExtensionInputComponent extends Dialog {
  constructor(title, _placeholder, onSubmit, onCancel, more = {}) {
    super(title, more ?? {}, onCancel, keyHint("tui.select.confirm", "submit"), keyHint("tui.select.cancel", "cancel"));
    Object.assign(this, { onSubmit, onCancel, field: new tui.Input() });
    if (more?.initialValue) this.field.setValue(more.initialValue);
    this.body.addChild(this.field);
  }
  handleInput(data) {
    if (isConfirm(data)) this.onSubmit(this.field.getValue());
    else if (matches(data, "tui.select.cancel")) this.onCancel();
    else this.field.handleInput(data);
  }
}

/** A text of several lines. No other editor is opened: the screen belongs to the client. */
class ExtensionEditorComponent extends Dialog {
  constructor(screen, _keybindings, title, prefill, onSubmit, onCancel, options = {}) {
    const { description, ...ofEditor } = options ?? {};
    super(title, { description }, onCancel, keyHint("tui.select.confirm", "submit"), keyHint("tui.input.newLine", "newline"), keyHint("tui.select.cancel", "cancel"));
    Object.assign(this, { onCancel, field: new tui.Editor(screen, getEditorTheme(), ofEditor) });
    if (prefill) this.field.setText(prefill);
    this.field.onSubmit = (text) => onSubmit(text);
    this.body.addChild(this.field);
  }
  handleInput(data) {
    if (matches(data, "tui.select.cancel")) this.onCancel();
    else this.field.handleInput(data);
  }
}

/** A login: what its steps show, and what they ask for. It is over with `onComplete`, or when the user gives it up. */
class LoginDialogComponent extends Dialog {
  own = new AbortController();
  constructor(screen, providerId, onComplete, name = providerId, title = `Login to ${name}`) {
    super(title);
    Object.assign(this, { screen, onComplete, field: new tui.Input() });
  }
  get signal() { return this.own.signal; }
  say(...texts) {
    for (const text of texts) this.body.addChild(line(text));
    this.screen?.requestRender?.();
  }
  step(...texts) {
    this.body.clear();
    this.say(...texts);
  }
  showAuth(url, instructions) { this.step(theme.fg("accent", url), ...(instructions ? [theme.fg("warning", instructions)] : [])); }
  showDeviceCode({ verificationUri, userCode }) { this.step(theme.fg("accent", verificationUri), theme.fg("warning", `Enter code: ${userCode}`)); }
  showDetails(lines) { this.say(...lines); }
  showInfo(message, links = [], showCloseHint = true) {
    const words = links.map((each) => theme.fg("accent", each.url ?? String(each)));
    this.step(message, ...words, ...(showCloseHint ? [keyHint("tui.select.cancel", "to close")] : []));
  }
  showWaiting(message) { this.say(theme.fg("dim", message), `(${keyHint("tui.select.cancel", "to cancel")})`); }
  showProgress(message) { this.say(theme.fg("dim", message)); }
  showManualInput(prompt) { return this.asks(prompt); }
  showPrompt(message, placeholder) { return this.asks(placeholder ? `${message} ${theme.fg("dim", `e.g., ${placeholder}`)}` : message); }
  asks(text) {
    this.say(text);
    this.body.addChild(this.field);
    this.field.setValue("");
    this.asked = Promise.withResolvers();
    return this.asked.promise;
  }
  answer(settle) {
    const { asked } = this;
    this.asked = undefined;
    this.body.removeChild(this.field);
    if (asked) settle(asked);
  }
  handleInput(data) {
    if (matches(data, "tui.select.cancel")) {
      this.own.abort();
      this.answer((asked) => asked.reject(new Error("Login cancelled")));
      this.onComplete(false, "Login cancelled");
    } else if (this.asked && isConfirm(data)) {
      const value = this.field.getValue();
      this.say(theme.fg("dim", `> ${value}`));
      this.answer((asked) => asked.resolve(value));
    } else if (this.asked) this.field.handleInput(data);
  }
}

module.exports = { Dialog, ExtensionSelectorComponent, ExtensionInputComponent, ExtensionEditorComponent, LoginDialogComponent };
