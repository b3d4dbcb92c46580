/** Components that draw plainly, with the methods that those of pi have. Where pi is installed, its own are used. */

"use strict";

const { matchesKey, truncateToWidth, visibleWidth, wrapTextWithAnsi } = require("./texts.cjs");

const as_is = (text) => text;

/** Fill a line to a width, in a style. */
const filled = (line, width, style = as_is) => style(line + " ".repeat(Math.max(0, width - visibleWidth(line))));

/** The base of all. */
class Component {
  invalidate() {}
  handleInput() {}
  render() { return []; }
  dispose() {}
}

class Container extends Component {
  children = [];
  addChild(child) { this.children.push(child); }
  removeChild(child) { this.children = this.children.filter((each) => each !== child); }
  clear() { this.children = []; }
  invalidate() { for (const each of this.children) each.invalidate?.(); }
  render(width) { return this.children.flatMap((each) => each.render(width)); }
}

class Text extends Component {
  constructor(text = "", paddingX = 1, paddingY = 1, background = undefined) {
    super();
    Object.assign(this, { text, paddingX, paddingY, background });
  }
  setText(text) { this.text = text; }
  getText() { return this.text; }
  setCustomBgFn(background) { this.background = background; }
  render(width) {
    if (!this.text.trim()) return [];
    const margin = " ".repeat(this.paddingX);
    const lines = wrapTextWithAnsi(this.text.replaceAll("\t", "   "), Math.max(1, width - 2 * this.paddingX));
    const empty = Array(this.paddingY).fill("");
    return [...empty, ...lines.map((line) => margin + line), ...empty].map((line) => filled(line, width, this.background));
  }
}

/** Markdown as it is written: only pi's own package draws it as it is meant. */
class Markdown extends Text {
  constructor(text = "", paddingX = 0, paddingY = 0) { super(text, paddingX, paddingY); }
}

class TruncatedText extends Text {
  constructor(text = "", paddingX = 0, paddingY = 0) { super(text, paddingX, paddingY); }
  render(width) {
    const line = " ".repeat(this.paddingX) + truncateToWidth(this.text.split("\n")[0], Math.max(1, width - 2 * this.paddingX));
    const empty = Array(this.paddingY).fill("");
    return [...empty, line, ...empty].map((each) => filled(each, width));
  }
}

class Spacer extends Component {
  constructor(lines = 1) {
    super();
    this.lines = lines;
  }
  setLines(lines) { this.lines = lines; }
  render() { return Array(this.lines).fill(""); }
}

class Box extends Container {
  constructor(paddingX = 1, paddingY = 1, background = undefined) {
    super();
    Object.assign(this, { paddingX, paddingY, background });
  }
  setBgFn(background) { this.background = background; }
  setPaddingX(padding) { this.paddingX = padding; }
  render(width) {
    if (this.children.length === 0) return [];
    const margin = " ".repeat(this.paddingX);
    const empty = Array(this.paddingY).fill("");
    const lines = super.render(Math.max(1, width - 2 * this.paddingX)).map((line) => margin + line);
    return [...empty, ...lines, ...empty].map((line) => filled(line, width, this.background));
  }
}

/** A list of which some rows are shown, with one that is marked. */
class Rows extends Component {
  selected = 0;
  constructor(count) {
    super();
    this.count = Math.max(1, count ?? 8);
  }
  move(step, length) {
    if (length > 0) this.selected = (this.selected + step + length) % length;
  }
  shown(rows) {
    const begin = Math.max(0, Math.min(this.selected - Math.floor(this.count / 2), rows.length - this.count));
    return rows.slice(begin, begin + this.count);
  }
}

class SelectList extends Rows {
  constructor(items, maxVisible, styles = {}) {
    super(maxVisible);
    Object.assign(this, { items, styles, shownItems: items });
  }
  setFilter(filter) {
    this.shownItems = this.items.filter((each) => each.value.toLowerCase().startsWith(filter.toLowerCase()));
    this.selected = 0;
  }
  setSelectedIndex(index) { this.selected = Math.max(0, Math.min(index, this.shownItems.length - 1)); }
  getSelectedItem() { return this.shownItems[this.selected] ?? null; }
  render(width) {
    const { selectedText = as_is, description = as_is, noMatch = as_is } = this.styles;
    if (this.shownItems.length === 0) return [noMatch("  No matching commands")];
    return this.shown(this.shownItems.map((item, place) => {
      const isMarked = place === this.selected;
      const label = item.label || item.value;
      const more = item.description ? `  ${item.description.split("\n")[0]}` : "";
      const line = truncateToWidth(`${isMarked ? "→ " : "  "}${label}${more}`, width, "");
      return isMarked ? selectedText(line) : line.slice(0, label.length + 2) + description(line.slice(label.length + 2));
    }));
  }
  handleInput(data) {
    const former = this.selected;
    if (matchesKey(data, "up")) this.move(-1, this.shownItems.length);
    else if (matchesKey(data, "down")) this.move(1, this.shownItems.length);
    else if (matchesKey(data, "enter")) this.getSelectedItem() && this.onSelect?.(this.getSelectedItem());
    else if (matchesKey(data, "escape") || matchesKey(data, "ctrl+c")) this.onCancel?.();
    if (this.selected !== former) this.onSelectionChange?.(this.getSelectedItem());
  }
}

class SettingsList extends Rows {
  constructor(items, maxVisible, styles, onChange, onCancel) {
    super(maxVisible);
    Object.assign(this, { items, styles: styles ?? {}, onChange, onCancel });
  }
  updateValue(id, value) {
    const item = this.items.find((each) => each.id === id);
    if (item) item.currentValue = value;
  }
  render(width) {
    const { label = as_is, value = as_is, cursor = "→ ", hint = as_is, description = as_is } = this.styles;
    const rows = this.items.map((item, place) => {
      const isMarked = place === this.selected;
      const line = `${isMarked ? cursor : "  "}${label(item.label, isMarked)}  ${value(item.currentValue, isMarked)}`;
      return truncateToWidth(line, width, "");
    });
    const about = this.items[this.selected]?.description;
    return [...this.shown(rows), ...(about ? ["", description(`  ${about}`)] : []), "", hint("  Enter/Space to change · Esc to cancel")];
  }
  handleInput(data) {
    const item = this.items[this.selected];
    if (matchesKey(data, "up")) this.move(-1, this.items.length);
    else if (matchesKey(data, "down")) this.move(1, this.items.length);
    else if (matchesKey(data, "escape") || matchesKey(data, "ctrl+c")) this.onCancel?.();
    else if ((matchesKey(data, "enter") || data === " ") && item?.values?.length) {
      item.currentValue = item.values[(item.values.indexOf(item.currentValue) + 1) % item.values.length];
      this.onChange?.(item.id, item.currentValue);
    }
  }
}

const FRAMES = [..."⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"];

class Loader extends Component {
  constructor(screen, spinnerStyle = as_is, textStyle = as_is, message = "Loading...") {
    super();
    Object.assign(this, { screen, spinnerStyle, textStyle, message, frame: 0 });
    this.start();
  }
  setMessage(message) { this.message = message; }
  start() {
    this.timer ??= setInterval(() => {
      this.frame += 1;
      this.screen?.requestRender?.();
    }, 80);
    this.timer.unref?.();
  }
  stop() {
    clearInterval(this.timer);
    this.timer = undefined;
  }
  dispose() { this.stop(); }
  render(width) {
    const spinner = this.spinnerStyle(FRAMES[this.frame % FRAMES.length]);
    return ["", truncateToWidth(` ${spinner} ${this.textStyle(this.message)}`, width, "")];
  }
}

class CancellableLoader extends Loader {
  own = new AbortController();
  get signal() { return this.own.signal; }
  get aborted() { return this.own.signal.aborted; }
  handleInput(data) {
    if (!matchesKey(data, "escape") && !matchesKey(data, "ctrl+c")) return;
    this.own.abort();
    this.onAbort?.();
  }
}

/** A picture: only its place is drawn. */
class Image extends Component {
  render() { return ["[image]"]; }
}

module.exports = {
  Component, Container, Text, Markdown, TruncatedText, Spacer, Box, SelectList, SettingsList, Loader,
  CancellableLoader, Image,
};
