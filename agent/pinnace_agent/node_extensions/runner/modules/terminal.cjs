/** What components of extensions ask of the terminal: its keys, what it can show, and parts of its lines. */

"use strict";

const path = require("node:path");
const { SEQUENCE, graphemes, matchesKey, visibleWidth } = require("./texts.cjs");

// --- keys ------------------------------------------------------------------------------------------

/** The keys of components, unless the user has chosen others. */
const KEYS = {
  "tui.select.up": "up", "tui.select.down": "down", "tui.select.pageUp": "pageUp", "tui.select.pageDown": "pageDown",
  "tui.select.confirm": "enter", "tui.select.cancel": ["escape", "ctrl+c"], "tui.input.submit": "enter",
  "tui.input.tab": "tab", "tui.input.newLine": ["shift+enter", "ctrl+j"],
  "tui.editor.deleteCharBackward": "backspace", "tui.editor.deleteCharForward": ["delete", "ctrl+d"],
  "tui.editor.cursorLeft": ["left", "ctrl+b"], "tui.editor.cursorRight": ["right", "ctrl+f"],
  "tui.editor.cursorUp": "up", "tui.editor.cursorDown": "down",
  "tui.editor.cursorLineStart": ["home", "ctrl+a"], "tui.editor.cursorLineEnd": ["end", "ctrl+e"],
  "tui.editor.deleteToLineStart": "ctrl+u", "tui.editor.deleteToLineEnd": "ctrl+k",
};
const TUI_KEYBINDINGS = Object.fromEntries(Object.entries(KEYS).map(([id, defaultKeys]) => [id, { defaultKeys }]));

let given; // what an extension has set in the place of the user's

const getKeybindings = () => given ?? require("../keys.cjs").keybindings();
function setKeybindings(keybindings) {
  given = keybindings;
}

const normal = (keys) => [keys ?? []].flat();

/** The keys of actions: those that the user has chosen, else those of the definitions. */
class KeybindingsManager {
  constructor(definitions, userBindings = {}) {
    this.definitions = definitions;
    this.setUserBindings(userBindings);
  }
  setUserBindings(userBindings) { this.userBindings = userBindings; }
  getUserBindings() { return { ...this.userBindings }; }
  getKeys(id) { return [...new Set(normal(this.userBindings[id] ?? this.definitions[id]?.defaultKeys))]; }
  matches(data, id) { return this.getKeys(id).some((key) => matchesKey(data, key)); }
  getDefinition(id) { return this.definitions[id]; }
  getResolvedBindings() {
    const keysOf = (id) => (this.getKeys(id).length === 1 ? this.getKeys(id)[0] : this.getKeys(id));
    return Object.fromEntries(Object.keys(this.definitions).map((id) => [id, keysOf(id)]));
  }
  /** Keys that the user has given to several actions. */
  getConflicts() {
    const claims = new Map();
    for (const [id, keys] of Object.entries(this.userBindings)) {
      if (!(id in this.definitions)) continue;
      for (const key of new Set(normal(keys))) claims.set(key, [...(claims.get(key) ?? []), id]);
    }
    return [...claims].filter(([, ids]) => ids.length > 1).map(([key, keybindings]) => ({ key, keybindings }));
  }
}

// --- what it can show ------------------------------------------------------------------------------

// The client draws text; it decides about colours and addresses itself.
const capabilities = { images: null, trueColor: false, hyperlinks: false };
let chosen = {};

const getCapabilities = () => ({ ...capabilities, ...chosen });
function setCapabilities(changed) {
  chosen = changed;
}
const getCellDimensions = () => ({ widthPx: 9, heightPx: 18 });

/** A text with an address, for terminals that have them. */
const hyperlink = (text, url) => `\x1b]8;;${url}\x1b\\${text}\x1b]8;;\x1b\\`;

// --- pictures --------------------------------------------------------------------------------------

const size = (widthPx, heightPx) => ({ widthPx, heightPx });
const READERS = {
  "image/png": (data) => (data.readUInt32BE(0) === 0x89504e47 ? size(data.readUInt32BE(16), data.readUInt32BE(20)) : null),
  "image/gif": (data) => (/^GIF8[79]a/.test(data.toString("latin1", 0, 6)) ? size(data.readUInt16LE(6), data.readUInt16LE(8)) : null),
  "image/jpeg"(data) {
    if (data.readUInt16BE(0) !== 0xffd8) return null;
    for (let at = 2; ; at += 2 + data.readUInt16BE(at + 2)) {
      while (at < data.length && data[at] !== 0xff) at++;
      if (at >= data.length - 9) return null;
      if (data[at + 1] >= 0xc0 && data[at + 1] <= 0xc2) return size(data.readUInt16BE(at + 7), data.readUInt16BE(at + 5));
      if (data.readUInt16BE(at + 2) < 2) return null;
    }
  },
  "image/webp"(data) {
    if (data.length < 30 || data.toString("latin1", 0, 4) !== "RIFF" || data.toString("latin1", 8, 12) !== "WEBP") return null;
    switch (data.toString("latin1", 12, 16)) {
      case "VP8 ":
        return size(data.readUInt16LE(26) & 0x3fff, data.readUInt16LE(28) & 0x3fff);
      case "VP8L":
        return size((data.readUInt32LE(21) & 0x3fff) + 1, ((data.readUInt32LE(21) >>> 14) & 0x3fff) + 1);
      case "VP8X":
        return size(data.readUIntLE(24, 3) + 1, data.readUIntLE(27, 3) + 1);
    }
    return null;
  },
};

/** The size of a picture in pixels; null: it can't be read. */
function getImageDimensions(data, mimeType) {
  const bytes = Buffer.from(data, "base64");
  try {
    return READERS[mimeType]?.(bytes) ?? null;
  } catch {
    return null; // it ends too early
  }
}
const reader = (mimeType) => (data) => getImageDimensions(data, mimeType);

/** A line in the place of a picture. */
function imageFallback(mimeType, dimensions, filename) {
  const name = filename ? [path.basename(filename)] : [];
  const shown = dimensions ? [`${dimensions.widthPx}x${dimensions.heightPx}`] : [];
  return `[Image: ${[...name, `[${mimeType}]`, ...shown].join(" ")}]`;
}

// --- lines -----------------------------------------------------------------------------------------

const replaceControlCharacters = (text) => text.replace(/[\u0000-\u001f\u007f-\u009f]+/g, " ");

/** Some columns of a line, with the colours that are in force there. `strict`: nothing is wider than the last one. */
function sliceByColumn(line, from, length, strict = false) {
  const to = from + length;
  let [result, pending, column] = ["", "", 0];
  if (length <= 0) return result;
  for (const piece of line.split(new RegExp(`(${SEQUENCE.source})`))) {
    if (piece.startsWith("\x1b")) {
      if (column < from && !piece.startsWith("\x1b_")) pending += piece;
      else if (column >= from && column < to) [result, pending] = [result + pending + piece, ""];
      continue;
    }
    for (const { segment } of graphemes(piece)) {
      const width = visibleWidth(segment);
      if (column >= from && column < to && (!strict || column + width <= to)) [result, pending] = [result + pending + segment, ""];
      column += width;
    }
    if (column >= to) break;
  }
  return result;
}

module.exports = {
  getKeybindings, setKeybindings, KeybindingsManager, getCapabilities, detectCapabilities: getCapabilities,
  setCapabilities, setCapabilityOverrides: setCapabilities, resetCapabilitiesCache() {}, getCellDimensions, setCellDimensions() {},
  hyperlink, getImageDimensions, getPngDimensions: reader("image/png"), getJpegDimensions: reader("image/jpeg"),
  getGifDimensions: reader("image/gif"), getWebpDimensions: reader("image/webp"), imageFallback,
  replaceControlCharacters, sliceByColumn, isViewportTUI: () => false, TUI_KEYBINDINGS,
};
