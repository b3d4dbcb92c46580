/** Texts and keys of a terminal: texts are measured, cut and searched, keys are recognised. */

"use strict";

const SEQUENCE = /\x1b(?:\[[0-9;?]*[ -/]*[@-~]|[\]_P^X][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])/g;
const WIDE = /\p{Emoji_Presentation}|[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|[\u{20000}-\u{3fffd}]/u;
const NONE = /^[\p{Mn}\p{Me}\p{Cf}\p{Cc}]*$/u;

const widthOf = (grapheme) => (NONE.test(grapheme) ? 0 : WIDE.test(grapheme) || grapheme.includes("\ufe0f") ? 2 : 1);

let segmenter;

/** The graphemes of a text. What divides them is made for the first one: it takes some milliseconds. */
function graphemes(text) {
  segmenter ??= new Intl.Segmenter(undefined, { granularity: "grapheme" });
  return segmenter.segment(text);
}

/** The columns that a text takes in a terminal; escape sequences take none, a tab three. */
function visibleWidth(text) {
  let width = 0;
  for (const { segment } of graphemes(text.replace(SEQUENCE, "").replaceAll("\t", "   "))) width += widthOf(segment);
  return width;
}

function truncateToWidth(text, maxWidth, ellipsis = "...", pad = false) {
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
    for (const { segment } of graphemes(text.slice(at, found.index))) yield segment;
    yield found[0];
    at = found.index + found[0].length;
  }
  for (const { segment } of graphemes(text.slice(at))) yield segment;
}

function wrapTextWithAnsi(text, width) {
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

const CURSOR_MARKER = "\x1b_pi:c\x07";
const NAMED = ["escape", "enter", "tab", "space", "backspace", "delete", "home", "end", "pageUp", "pageDown", "up", "down", "left", "right", "insert"];
const modified = (modifier) => (key) => `${modifier}+${key}`;
const Key = {
  ...Object.fromEntries(NAMED.map((each) => [each, each])), esc: "escape", return: "enter",
  ...Object.fromEntries(["ctrl", "shift", "alt"].map((each) => [each, modified(each)])),
  ctrlShift: modified("ctrl+shift"), ctrlAlt: modified("ctrl+alt"), shiftAlt: modified("shift+alt"), ctrlShiftAlt: modified("ctrl+shift+alt"),
};
const BYTES = {
  escape: "\x1b", enter: "\r", tab: "\t", space: " ", backspace: "\x7f", delete: "\x1b[3~", insert: "\x1b[2~",
  home: "\x1b[H", end: "\x1b[F", pageup: "\x1b[5~", pagedown: "\x1b[6~",
  up: "\x1b[A", down: "\x1b[B", right: "\x1b[C", left: "\x1b[D",
  ...Object.fromEntries(["\x1bOP", "\x1bOQ", "\x1bOR", "\x1bOS"].map((each, place) => [`f${place + 1}`, each])),
  ...Object.fromEntries([15, 17, 18, 19, 20, 21, 23, 24].map((each, place) => [`f${place + 5}`, `\x1b[${each}~`])),
};
const NAMES = new Map(Object.entries(BYTES).map(([name, bytes]) => [bytes, name]));
const SPECIAL = { esc: "escape", return: "enter" };
const CODES = { 13: "enter", 9: "tab", 27: "escape", 32: "space", 127: "backspace" };
const BITS = [["shift", 1], ["alt", 2], ["ctrl", 4]];

const withModifiers = (bits, name) => [...BITS.filter(([, bit]) => bits & bit).map(([each]) => each), name].join("+");

/** The name of what a terminal sent, such as `ctrl+c`; undefined: it is no key. The client sends these forms alone. */
function parseKey(data) {
  const whole = NAMES.get(data);
  if (whole !== undefined) return whole;
  if (data === "\x1b[Z") return "shift+tab";
  const changed = /^\x1b\[(?:1;(\d+)([A-HP-S])|(\d+);(\d+)([~u]))$/.exec(data);
  if (changed) {
    const bits = Number(changed[1] ?? changed[4]) - 1;
    const code = Number(changed[3]);
    const name = changed[2] ? (NAMES.get(`\x1b[${changed[2]}`) ?? NAMES.get(`\x1bO${changed[2]}`))
      : changed[5] === "~" ? NAMES.get(`\x1b[${code}~`) : (CODES[code] ?? String.fromCodePoint(code));
    return name === undefined ? undefined : withModifiers(bits, name);
  }
  if (data.length === 2 && data[0] === "\x1b") {
    const rest = parseKey(data[1]);
    return rest === undefined ? undefined : `alt+${rest}`;
  }
  if (data.length === 1 && data < " ") return `ctrl+${String.fromCharCode(data.charCodeAt(0) + 96)}`;
  return [...graphemes(data)].length === 1 && data >= " " ? data : undefined;
}

const normal = (key) => {
  const parts = key.toLowerCase().split(/\+(?!$)/);
  const name = parts.pop();
  return [...parts.sort(), SPECIAL[name] ?? name].join("+");
};

/** Whether what a terminal sent is a key. */
function matchesKey(data, key) {
  const found = parseKey(data);
  if (found === undefined) return false;
  const isShifted = found.length === 1 && found !== found.toLowerCase();
  return normal(isShifted ? `shift+${found}` : found) === normal(key) || found === key;
}

const LOCKS = 64 | 128;
const KEYPAD = { first: 57399, signs: "0123456789./*-+\0=," };

/** The character that a terminal with kitty's protocol sends as a number, with Shift at most; undefined: it is something else. */
function decodeKittyPrintable(data) {
  const [, code, shifted, modifiers] = /^\x1b\[(\d+)(?::(\d*))?(?::\d*)?(?:;(\d+)(?::\d+)?)?u$/.exec(data) ?? [];
  if (code === undefined) return undefined;
  const bits = Number(modifiers ?? 1) - 1;
  const sent = Number((bits & 1 && shifted) || code);
  const found = KEYPAD.signs.charCodeAt(sent - KEYPAD.first) || sent;
  const isPrivate = found >= 0xe000 && found <= 0xf8ff; // keys without a character
  return (bits & ~LOCKS & ~1) !== 0 || !(found >= 32) || found === 127 || isPrivate || found > 0x10ffff ? undefined : String.fromCodePoint(found);
}

/** Where a list is after a page up or down; undefined: the key is neither. */
function getSelectPageIndex(bindings, data, selectedIndex, itemCount, pageSize) {
  const step = bindings.matches(data, "tui.select.pageUp") ? -pageSize : bindings.matches(data, "tui.select.pageDown") ? pageSize : undefined;
  return step === undefined ? undefined : Math.max(0, Math.min(itemCount - 1, selectedIndex + step));
}

/** A text without what changes how a terminal draws. */
const stripTerminalSequences = (text) => text.replace(SEQUENCE, "");

const isKeyRelease = () => false;
const isKeyRepeat = () => false;
const isKittyProtocolActive = () => false;
const isFocusable = (component) => component !== null && component !== undefined && "focused" in component;

/** A text as an input shows it: with a cursor in reverse. */
function renderFakeCursor(text) {
  return `\x1b[7m${text || " "}\x1b[27m`;
}

/** Whether the letters of a query are in a text, in order; `score` is smaller the closer together they are. */
function fuzzyMatch(query, text) {
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

function fuzzyFilter(items, query, textOf) {
  if (!query.trim()) return items;
  return items
    .map((item) => ({ item, ...fuzzyMatch(query.trim(), textOf(item)) }))
    .filter((each) => each.matches)
    .sort((a, b) => a.score - b.score)
    .map((each) => each.item);
}

module.exports = {
  SEQUENCE, graphemes, visibleWidth, truncateToWidth, wrapTextWithAnsi, CURSOR_MARKER, Key, parseKey, matchesKey, isKeyRelease,
  isKeyRepeat, decodeKittyPrintable, getSelectPageIndex, stripTerminalSequences, isKittyProtocolActive, isFocusable,
  renderFakeCursor, fuzzyMatch, fuzzyFilter,
};
