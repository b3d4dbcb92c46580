/** Texts that keys change, with the methods that those of pi have: a line, and the editor of messages. Cursors move by graphemes. */

"use strict";

const { SelectList } = require("./components.cjs");
const { graphemes, matchesKey, truncateToWidth, visibleWidth, wrapTextWithAnsi } = require("./texts.cjs");

const as_is = (text) => text;
const PASTE = /^\x1b\[200~([\s\S]*?)(?:\x1b\[201~)?$/;
const MOST_HISTORY = 100;
const FEWEST_LINES = 5;

/** A text that keys change, with a cursor. */
class Field {
  focused = false;
  value = "";
  cursor = 0;
  invalidate() {}
  dispose() {}
  getText() { return this.value; }
  getValue() { return this.value; }
  setText(text) { this.change(text, text.length); }
  setValue(text) { this.setText(text); }
  insert(text) { this.splice(this.cursor, this.cursor, text); }
  /** Put a text in the place of a part, with the cursor behind it. */
  splice(begin, end, text = "") {
    this.change(this.value.slice(0, begin) + text + this.value.slice(end), begin + text.length);
  }
  change(value, cursor) {
    const isOther = value !== this.value;
    [this.value, this.cursor] = [value, cursor];
    if (isOther) this.onChange?.(value);
  }
  /** Where the grapheme before the cursor begins, and where the one at it ends. */
  before() { return this.cursor === 0 ? 0 : graphemes(this.value).containing(this.cursor - 1).index; }
  after() {
    const found = graphemes(this.value).containing(this.cursor);
    return found === undefined ? this.cursor : found.index + found.segment.length;
  }
  lineStart() { return this.value.lastIndexOf("\n", this.cursor - 1) + 1; }
  lineEnd() {
    const end = this.value.indexOf("\n", this.cursor);
    return end === -1 ? this.value.length : end;
  }
  /** Where the word before the cursor begins. */
  wordStart() { return this.cursor - /(?:[^\s]+\s*|\s+)$/.exec(this.value.slice(0, this.cursor))?.[0].length || 0; }
  wordEnd() { return this.cursor + (/^\s*[^\s]*/.exec(this.value.slice(this.cursor))?.[0].length ?? 0); }
  handleInput(data) {
    const is = (...keys) => keys.some((key) => matchesKey(data, key));
    const pasted = PASTE.exec(data);
    if (pasted) this.insert(pasted[1].replaceAll(/\r\n?/g, "\n"));
    else if (is("enter")) this.submit();
    else if (is("escape")) this.onEscape?.();
    else if (is("backspace", "shift+backspace")) this.splice(this.before(), this.cursor);
    else if (is("delete", "ctrl+d")) this.splice(this.cursor, this.after());
    else if (is("left", "ctrl+b")) this.cursor = this.before();
    else if (is("right", "ctrl+f")) this.cursor = this.after();
    else if (is("ctrl+left", "alt+left", "alt+b")) this.cursor = this.wordStart();
    else if (is("ctrl+right", "alt+right", "alt+f")) this.cursor = this.wordEnd();
    else if (is("home", "ctrl+a")) this.cursor = this.lineStart();
    else if (is("end", "ctrl+e")) this.cursor = this.lineEnd();
    else if (is("ctrl+w", "alt+backspace")) this.splice(this.wordStart(), this.cursor);
    else if (is("ctrl+u")) this.splice(this.cursor === this.lineStart() ? this.before() : this.lineStart(), this.cursor);
    else if (is("ctrl+k")) this.splice(this.cursor, this.cursor === this.lineEnd() ? this.after() : this.lineEnd());
    else if (data >= " " && !data.startsWith("\x1b") && data !== "\x7f") this.insert(data);
  }
  submit() { this.onSubmit?.(this.value); }
  withCursor() {
    if (!this.focused) return this.value;
    const end = this.after();
    const at = this.value.slice(this.cursor, end);
    const isEnd = at === "" || at === "\n";
    return `${this.value.slice(0, this.cursor)}\x1b[7m${isEnd ? " " : at}\x1b[27m${this.value.slice(isEnd ? this.cursor : end)}`;
  }
}

class Input extends Field {
  render(width) { return [truncateToWidth(`> ${this.withCursor()}`, width, "")]; }
}

class Editor extends Field {
  history = [];
  place = undefined; // in the history; undefined: a new text
  draft = "";
  list = undefined; // of completions
  asking = undefined;
  constructor(screen, styles, options = {}) {
    super();
    Object.assign(this, { tui: screen, styles, borderColor: styles?.borderColor ?? as_is, disableSubmit: false });
    Object.assign(this, { paddingX: options?.paddingX ?? 0, autocompleteMaxVisible: options?.autocompleteMaxVisible ?? 5 });
  }
  setText(text) {
    this.place = undefined;
    this.closeList();
    super.setText(text.replaceAll(/\r\n?/g, "\n").replaceAll("\t", "    "));
  }
  submit() {
    if (this.disableSubmit) return;
    const text = this.value.trim();
    this.setText("");
    this.onSubmit?.(text);
  }
  handleInput(data) {
    if (this.list !== undefined && this.useList(data)) return;
    const former = this.value;
    if (matchesKey(data, "shift+enter") || matchesKey(data, "ctrl+j") || matchesKey(data, "alt+enter")) this.insert("\n");
    else if (matchesKey(data, "tab")) return void this.complete(true);
    else if (matchesKey(data, "up")) this.move(-1);
    else if (matchesKey(data, "down")) this.move(1);
    else super.handleInput(data);
    if (this.value === former) return this.closeList();
    if (!matchesKey(data, "up") && !matchesKey(data, "down")) {
      this.place = undefined;
      this.complete(false);
    }
  }
  /** Go to the line above or below; from the first and the last one through the history. */
  move(step) {
    const start = this.lineStart();
    const column = [...graphemes(this.value.slice(start, this.cursor))].length;
    const isEdge = step < 0 ? start === 0 : this.lineEnd() === this.value.length;
    if (isEdge && this.browse(step)) return;
    if (isEdge) this.cursor = step < 0 ? 0 : this.value.length;
    else {
      this.cursor = step < 0 ? start - 1 : this.lineEnd() + 1;
      const line = this.value.slice(this.lineStart(), this.lineEnd());
      this.cursor = this.lineStart() + [...graphemes(line)].slice(0, column).reduce((sum, each) => sum + each.segment.length, 0);
    }
  }
  browse(step) {
    if (this.place === undefined && (step > 0 || (this.value !== "" && this.cursor !== 0))) return false;
    const place = (this.place ?? this.history.length) + step;
    if (place < 0) return true;
    if (this.place === undefined) this.draft = this.value;
    this.place = place < this.history.length ? place : undefined;
    const text = this.place === undefined ? this.draft : this.history[place];
    this.change(text, step < 0 ? 0 : text.length);
    return true;
  }
  addToHistory(text) {
    const kept = text.trim();
    if (kept && this.history.at(-1) !== kept) this.history = [...this.history, kept].slice(-MOST_HISTORY);
  }
  setAutocompleteProvider(provider) { this.provider = provider; }
  setAutocompleteMaxVisible(count) { this.autocompleteMaxVisible = count; }
  getAutocompleteMaxVisible() { return this.autocompleteMaxVisible; }
  setPaddingX(padding) { this.paddingX = padding; }
  getPaddingX() { return this.paddingX; }
  isShowingAutocomplete() { return this.list !== undefined; }
  getExpandedText() { return this.value; }
  getLines() { return this.value.split("\n"); }
  getCursor() {
    const before = this.value.slice(0, this.cursor).split("\n");
    return { line: before.length - 1, col: before.at(-1).length };
  }
  insertTextAtCursor(text) { this.insert(text.replaceAll(/\r\n?/g, "\n")); }

  // --- completions -------------------------------------------------------------------------------------------------

  closeList() {
    this.asking?.abort();
    this.asking = this.list = undefined;
  }
  /** Ask for what completes the text, and show it if the text is still the same; `force`: the user has asked for it. */
  async complete(force) {
    this.closeList();
    const { line, col } = this.getCursor();
    const written = this.getLines()[line].slice(0, col);
    const signs = ["/", "@", ...(this.provider?.triggerCharacters ?? [])];
    if (!this.provider || !(force || signs.some((each) => written.includes(each)))) return;
    const asking = (this.asking = new AbortController());
    const [value, cursor] = [this.value, this.cursor];
    let found;
    try {
      found = await this.provider.getSuggestions(this.getLines(), line, col, { signal: asking.signal, force });
    } catch (error) {
      if (!asking.signal.aborted) throw error;
    }
    if (this.asking !== asking || this.value !== value || this.cursor !== cursor || !found?.items.length) return;
    this.list = new SelectList(found.items, this.autocompleteMaxVisible, this.styles?.selectList);
    this.prefix = found.prefix;
    this.tui?.requestRender?.();
  }
  /** Use a key for the completions; returns whether it was for them. */
  useList(data) {
    if (matchesKey(data, "escape")) this.closeList();
    else if (matchesKey(data, "up") || matchesKey(data, "down")) this.list.handleInput(data);
    else if (matchesKey(data, "tab") || matchesKey(data, "enter")) {
      const [item, { line, col }] = [this.list.getSelectedItem(), this.getCursor()];
      const isWhole = item?.value === this.prefix;
      this.closeList();
      if (item && !isWhole) {
        const { lines, cursorLine, cursorCol } = this.provider.applyCompletion(this.getLines(), line, col, item, this.prefix);
        this.change(lines.join("\n"), lines.slice(0, cursorLine).reduce((sum, each) => sum + each.length + 1, cursorCol));
      }
      // A command that was chosen by Enter is sent, as in pi.
      return !(matchesKey(data, "enter") && (isWhole || this.prefix.startsWith("/")));
    } else return false;
    return true;
  }

  renderTopBorder(width) { return this.borderColor("─".repeat(width)); }
  renderBottomBorder(width) { return this.borderColor("─".repeat(width)); }
  render(width) {
    const margin = " ".repeat(Math.min(this.paddingX, Math.max(0, Math.floor((width - 1) / 2))));
    const lines = wrapTextWithAnsi(this.withCursor(), Math.max(1, width - 2 * margin.length));
    const most = Math.max(FEWEST_LINES, Math.floor((this.tui?.terminal?.rows ?? 0) * 0.3));
    const at = Math.max(0, lines.findIndex((each) => each.includes("\x1b[7m")));
    const first = Math.max(0, Math.min(at - most + 1, lines.length - most));
    const shown = lines.slice(first, first + most).map((line) => {
      const whole = margin + line;
      return whole + " ".repeat(Math.max(0, width - visibleWidth(whole)));
    });
    const size = Math.max(1, width);
    return [this.renderTopBorder(size, first), ...shown, this.renderBottomBorder(size, lines.length - first - shown.length), ...(this.list?.render(width) ?? [])];
  }
}

module.exports = { Input, Editor };
