/**
 * Items of the conversation that extensions draw: `renderCall`, `renderResult`, and the renderers of messages and entries.
 *
 * The client sends what it shows of an item; the component that a renderer returns is kept for the next time, as pi does.
 */

"use strict";

const keys = require("./keys.cjs");
const { atRetirement } = require("./retiring.cjs");
const { theme } = require("./theme.cjs");
const { post } = require("./wire.cjs");

const MOST_KEPT = 500;
const MOST_LINES = 600; // more than a surface has, so that the agent can count what it leaves out
const LONGEST_LINE = 8000;
const rows = new Map(); // by extension and call: what its renderers keep
atRetirement(() => rows.clear());

const keyText = (id) => keys.keyText(id);
const keyHint = (id, description) => theme.fg("dim", keyText(id)) + theme.fg("muted", ` ${description}`);

function rowOf(extension, id) {
  const key = `${extension.number}:${id}`;
  const row = rows.get(key) ?? { state: {} };
  rows.delete(key);
  rows.set(key, row); // as the newest one
  if (rows.size > MOST_KEPT) rows.delete(rows.keys().next().value);
  return row;
}

/** The lines of an item for a width; null: the renderer leaves it to the client. Throws what the renderer throws. */
function rendered(extension, item, columns, who, renderers) {
  const component = componentOf(extension, item, who, renderers);
  if (component === undefined || component === null) return null;
  if (typeof component.render !== "function") throw new Error("the renderer must return a component, which has render(width)");
  const lines = component.render(columns);
  const left = lines.length - MOST_LINES;
  const shown = Array.from(lines.slice(0, MOST_LINES), (line) => String(line).slice(0, LONGEST_LINE));
  return left > 0 ? [...shown, ...Array(left).fill("")] : shown;
}

/** Markdown as the extension changes it, as lines; null: it leaves it. Throws what the transformer throws. */
function transformed(extension, item, columns) {
  const { transformer, types } = extension.markdownTransformer ?? {};
  if (!types?.has(item.name)) return null;
  const made = transformer(item.content ?? "", {
    messageType: item.name, isStreaming: item.isPartial === true, availableWidth: columns,
    messageId: item.id || undefined, timestamp: item.timestamp,
  });
  if (typeof made !== "string") throw new Error("the transformer must return a string");
  return made.split("\n");
}

function componentOf(extension, item, who, renderers) {
  const expanded = item.expanded === true;
  const hints = { keyText, keyHint };
  switch (item.kind) {
    case "message": {
      const { name: customType, content = "", details, timestamp } = item;
      const message = { role: "custom", customType, content, details, display: true, timestamp };
      return extension.messageRenderers.get(customType)?.(message, { expanded, outputPad: 1, ...hints }, theme);
    }
    case "entry": {
      const { name: customType, id, data, timestamp } = item;
      const entry = { type: "custom", id, parentId: null, timestamp, customType, data };
      // Without a component pi shows nothing of an entry, and so does the client.
      return extension.entryRenderers.get(customType)?.(entry, { expanded, ...hints }, theme);
    }
  }
  const row = rowOf(extension, item.id);
  const context = {
    args: item.arguments ?? {}, toolCallId: item.id, state: row.state, cwd: process.cwd(), lastComponent: row[item.kind],
    invalidate: () => post(who, "render.again", item.id),
    executionStarted: item.isStarted === true, argsComplete: true, isPartial: item.isPartial === true, expanded,
    showImages: false, isError: item.isError === true, durationMs: item.durationMs,
    outputPad: renderers?.renderShell === "self" ? 1 : 0, ...hints,
  };
  row[item.kind] = undefined; // one that throws begins anew
  const result = { content: item.content ?? [], details: item.details };
  const made = item.kind === "call"
    ? renderers?.renderCall?.(context.args, theme, context)
    : renderers?.renderResult?.(result, { expanded, isPartial: context.isPartial }, theme, context);
  row[item.kind] = made;
  return made;
}

module.exports = { rendered, transformed };
