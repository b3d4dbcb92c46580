/**
 * `@earendil-works/pi-tui`: texts are measured and cut; components can be made and draw nothing, since no terminal is here.
 */

const SEQUENCE = /\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])/g;
const graphemes = new Intl.Segmenter(undefined, { granularity: "grapheme" });
const WIDE = /\p{Emoji_Presentation}|[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|[\u{20000}-\u{3fffd}]/u;
const NONE = /^[\p{Mn}\p{Me}\p{Cf}\p{Cc}]*$/u;

const widthOf = (grapheme) => (NONE.test(grapheme) ? 0 : WIDE.test(grapheme) || grapheme.includes("\ufe0f") ? 2 : 1);

/** The columns that a text takes in a terminal; escape sequences take none, a tab three. */
export function visibleWidth(text) {
  let width = 0;
  for (const { segment } of graphemes.segment(text.replace(SEQUENCE, "").replaceAll("\t", "   "))) width += widthOf(segment);
  return width;
}

export function truncateToWidth(text, maxWidth, ellipsis = "...", pad = false) {
  const width = visibleWidth(text);
  if (width <= maxWidth) return pad ? text + " ".repeat(maxWidth - width) : text;
  const room = Math.max(0, maxWidth - visibleWidth(ellipsis));
  let made = "";
  let used = 0;
  for (const piece of pieces(text)) {
    if (piece.startsWith("\x1b")) {
      made += piece;
      continue;
    }
    const more = widthOf(piece);
    if (used + more > room) break;
    made += piece;
    used += more;
  }
  const end = made.includes("\x1b") ? "\x1b[0m" : "";
  const shown = made + end + (visibleWidth(ellipsis) <= maxWidth ? ellipsis : "");
  return pad ? shown + " ".repeat(Math.max(0, maxWidth - visibleWidth(shown))) : shown;
}

function* pieces(text) {
  let at = 0;
  for (const found of text.matchAll(SEQUENCE)) {
    for (const { segment } of graphemes.segment(text.slice(at, found.index))) yield segment;
    yield found[0];
    at = found.index + found[0].length;
  }
  for (const { segment } of graphemes.segment(text.slice(at))) yield segment;
}

export function wrapTextWithAnsi(text, width) {
  const lines = [];
  for (const whole of text.split("\n")) {
    let line = "";
    for (const word of whole.split(/(?<= )/)) {
      if (visibleWidth(line + word.trimEnd()) > width && line !== "") {
        lines.push(line.trimEnd());
        line = "";
      }
      line += word;
      while (visibleWidth(line.trimEnd()) > width) {
        const head = truncateToWidth(line, width, "").replace(/\x1b\[0m$/, "");
        lines.push(head);
        line = line.slice(head.length);
      }
    }
    lines.push(line.trimEnd());
  }
  return lines;
}

/** A component that can be made, filled and extended, and draws nothing. */
export class Component {
  constructor(...values) {
    this.values = values;
    this.children = [];
  }
  addChild(child) { this.children.push(child); }
  removeChild(child) { this.children = this.children.filter((each) => each !== child); }
  clear() { this.children = []; }
  setText(text) { this.text = text; }
  getText() { return this.text ?? ""; }
  setValue(value) { this.value = value; }
  getValue() { return this.value ?? ""; }
  invalidate() {}
  handleInput() {}
  render() { return []; }
  dispose() {}
}
export class Text extends Component {}
export class TruncatedText extends Component {}
export class Container extends Component {}
export class Spacer extends Component {}
export class Box extends Component {}
export class Markdown extends Component {}
export class Input extends Component {}
export class SelectList extends Component {}
export class SettingsList extends Component {}
export class Editor extends Component {}
export class Loader extends Component {}
export class CancellableLoader extends Component {}
export class Image extends Component {}

export const CURSOR_MARKER = "\x1b_pi:c\x07";
const NAMED = ["escape", "enter", "tab", "space", "backspace", "delete", "home", "end", "pageUp", "pageDown", "up", "down", "left", "right", "insert"];
const modified = (modifier) => (key) => `${modifier}+${key}`;
export const Key = {
  ...Object.fromEntries(NAMED.map((each) => [each, each])), esc: "escape", return: "enter",
  ...Object.fromEntries(["ctrl", "shift", "alt"].map((each) => [each, modified(each)])),
  ctrlShift: modified("ctrl+shift"), ctrlAlt: modified("ctrl+alt"), shiftAlt: modified("shift+alt"), ctrlShiftAlt: modified("ctrl+shift+alt"),
};
const BYTES = { escape: "\x1b", enter: "\r", tab: "\t", space: " ", backspace: "\x7f", up: "\x1b[A", down: "\x1b[B", right: "\x1b[C", left: "\x1b[D" };

/** Whether what a terminal sent is a key; no terminal is here, so it knows the plain forms alone. */
export function matchesKey(data, key) {
  if (key in BYTES) return data === BYTES[key];
  const control = /^ctrl\+([a-z])$/.exec(key);
  return control ? data === String.fromCharCode(control[1].charCodeAt(0) - 96) : data === key;
}

/** Whether the letters of a query are in a text, in order; `score` is smaller the closer together they are. */
export function fuzzyMatch(query, text) {
  let at = 0;
  let score = 0;
  for (const letter of query.toLowerCase()) {
    const found = text.toLowerCase().indexOf(letter, at);
    if (found === -1) return { matches: false, score: 0 };
    score += found - at;
    at = found + 1;
  }
  return { matches: true, score };
}

export function fuzzyFilter(items, query, textOf) {
  if (!query.trim()) return items;
  return items
    .map((item) => ({ item, ...fuzzyMatch(query.trim(), textOf(item)) }))
    .filter((each) => each.matches)
    .sort((a, b) => a.score - b.score)
    .map((each) => each.item);
}
