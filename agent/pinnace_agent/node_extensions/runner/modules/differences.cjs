/** What changed in a text, and texts cut to the lines of a screen. The agent compares lines; words are compared here. */

"use strict";

const { tui } = require("./pi-tui.cjs");
const { theme } = require("../theme.cjs");
const { now } = require("../wire.cjs");

const CONTEXT_LINES = 4;

/** The changed lines with their numbers and some around them, and the first that changed; empty: the texts are equal. */
function generateDiffString(oldContent, newContent, contextLines = CONTEXT_LINES) {
  const found = now(undefined, "text_diff", oldContent, newContent, "", contextLines);
  return { diff: found?.diff ?? "", firstChangedLine: found?.firstChangedLine };
}

/** The change of a file as a unified patch. */
const generateUnifiedPatch = (path, oldContent, newContent, contextLines = CONTEXT_LINES) =>
  now(undefined, "text_diff", oldContent, newContent, path, contextLines)?.patch ?? `--- ${path}\n+++ ${path}\n`;

// --- drawing a change ------------------------------------------------------------------------------

const LINE = /^([+-\s])(\s*\d*)\s(.*)$/;
const COLORS = { "-": "toolDiffRemoved", "+": "toolDiffAdded", " ": "toolDiffContext" };
const MOST_WORDS = 400; // of a line: to compare more takes too long for what it shows

const parts = (line) => {
  const found = LINE.exec(line);
  return found === null ? undefined : { sign: found[1], number: found[2], text: found[3].replaceAll("\t", "   ") };
};
const drawn = ({ sign, number }, text) => theme.fg(COLORS[sign] ?? COLORS[" "], `${sign in COLORS ? sign : " "}${number} ${text}`);

/** A change as `generateDiffString` returns it, in colours; in a line that took another's place, its words are marked. */
function renderDiff(diffText) {
  const lines = diffText.split("\n");
  const shown = [];
  for (let at = 0; at < lines.length; ) {
    const line = parts(lines[at]);
    if (line === undefined || (line.sign !== "-")) {
      shown.push(line === undefined ? theme.fg(COLORS[" "], lines[at]) : drawn(line, line.text));
      at += 1;
      continue;
    }
    const run = (sign) => {
      const found = [];
      for (let each = parts(lines[at] ?? ""); each?.sign === sign; each = parts(lines[at] ?? "")) {
        found.push(each);
        at += 1;
      }
      return found;
    };
    const [removed, added] = [run("-"), run("+")];
    const isOne = removed.length === 1 && added.length === 1;
    const texts = isOne ? marked(removed[0].text, added[0].text) : [...removed, ...added].map((each) => each.text);
    shown.push(...[...removed, ...added].map((each, place) => drawn(each, texts[place])));
  }
  return shown.join("\n");
}

/** Two lines with the words in reverse that are in one alone; blanks at their beginning are left as they are. */
function marked(former, present) {
  const [one, other] = [former, present].map((text) => text.match(/\w+|\s+|[^\w\s]/gu) ?? []);
  if (one.length > MOST_WORDS || other.length > MOST_WORDS) return [former, present];
  const kept = longestCommon(one, other);
  return [draw(one, kept.map(([place]) => place)), draw(other, kept.map(([, place]) => place))];
}

function draw(words, keptPlaces) {
  const kept = new Set(keptPlaces);
  let line = "";
  let changed = "";
  const end = () => {
    const blank = line === "" || /^\s*$/.test(line) ? /^\s*/.exec(changed)[0] : "";
    line += blank + (changed.length > blank.length ? theme.inverse(changed.slice(blank.length)) : "");
    changed = "";
  };
  words.forEach((word, place) => {
    if (!kept.has(place)) changed += word;
    else {
      end();
      line += word;
    }
  });
  end();
  return line;
}

/** The places in both lists of as many equal words as there are in the same order. */
function longestCommon(one, other) {
  const lengths = Array.from({ length: one.length + 1 }, () => new Uint16Array(other.length + 1));
  for (let a = one.length - 1; a >= 0; a--) {
    for (let b = other.length - 1; b >= 0; b--) {
      lengths[a][b] = one[a] === other[b] ? lengths[a + 1][b + 1] + 1 : Math.max(lengths[a + 1][b], lengths[a][b + 1]);
    }
  }
  const found = [];
  for (let a = 0, b = 0; a < one.length && b < other.length; ) {
    if (one[a] === other[b]) found.push([a++, b++]);
    else if (lengths[a + 1][b] >= lengths[a][b + 1]) a += 1;
    else b += 1;
  }
  return found;
}

// --- texts on a screen -----------------------------------------------------------------------------

/** As many lines of a text as wrapped to a width, its last ones or (`keep` is `start`) its first ones. */
function truncateToVisualLines(text, maxVisualLines, width, paddingX = 0, keep = "end") {
  const lines = text ? new tui.Text(text, paddingX, 0).render(width) : [];
  if (lines.length <= maxVisualLines) return { visualLines: lines, skippedCount: 0 };
  const visualLines = keep === "start" ? lines.slice(0, maxVisualLines) : lines.slice(-maxVisualLines);
  return { visualLines, skippedCount: lines.length - maxVisualLines };
}

const lineNumber = (value) => {
  const number = typeof value === "string" && value.trim() !== "" ? Number(value) : value;
  return Number.isFinite(number) ? number : undefined;
};

/** The lines that a call of `read` asks for, such as `:3-7`; empty: all of them, or what is no number. */
function formatReadLineRange(offset, limit) {
  if (offset == null && limit == null) return "";
  const start = offset == null ? 1 : lineNumber(offset);
  const count = limit == null ? 0 : lineNumber(limit);
  if (start === undefined || count === undefined) return "";
  const end = limit == null ? 0 : start + count - 1;
  return `:${start}${end ? `-${end}` : ""}`;
}

module.exports = { generateDiffString, generateUnifiedPatch, renderDiff, truncateToVisualLines, formatReadLineRange };
