/**
 * Entries of a session file, and what a model reads of a branch: the functions of pi that take entries and return them.
 *
 * They keep the identity of entries and messages, which extensions compare, so they are not asked of the agent. A branch
 * that was compacted begins with its last compaction; edits replace the content of what they name, or take it out.
 */

"use strict";

const { randomBytes } = require("node:crypto");

const PRESENT_VERSION = 3;

// --- files -----------------------------------------------------------------------------------------

/** The records of a file; lines that are no JSON are left out. */
function parseSessionEntries(content) {
  return content.trim().split("\n").flatMap((line) => {
    if (!line.trim()) return [];
    try {
      return [JSON.parse(line)];
    } catch {
      return [];
    }
  });
}

/** An id that no entry has yet. */
function unusedId(isUsed) {
  for (;;) {
    const id = randomBytes(4).toString("hex");
    if (!isUsed(id)) return id;
  }
}

/** Bring the records of a file of an older version to the present one, in place. */
function migrateSessionEntries(entries) {
  const version = entries.find((each) => each.type === "session")?.version ?? 1;
  if (version < 2) addTree(entries);
  if (version >= PRESENT_VERSION) return;
  for (const entry of entries) {
    if (entry.type === "session") entry.version = PRESENT_VERSION;
    else if (entry.type === "message" && entry.message?.role === "hookMessage") entry.message.role = "custom";
  }
}

/** Entries of version 1 are a list, and name the first one that a compaction has kept by its place. */
function addTree(entries) {
  const ids = new Set();
  let parentId = null;
  for (const entry of entries) {
    if (entry.type === "session") continue;
    entry.id = unusedId((id) => ids.has(id));
    ids.add(entry.id);
    entry.parentId = parentId;
    parentId = entry.id;
    if (entry.type !== "compaction" || typeof entry.firstKeptEntryIndex !== "number") continue;
    const kept = entries[entry.firstKeptEntryIndex];
    if (kept && kept.type !== "session") entry.firstKeptEntryId = kept.id;
    delete entry.firstKeptEntryIndex;
  }
}

const getLatestCompactionEntry = (entries) => entries.findLast((each) => each.type === "compaction") ?? null;

// --- messages --------------------------------------------------------------------------------------

const time = (timestamp) => new Date(timestamp).getTime();
const ofBranchSummary = ({ summary, fromId, timestamp }) => ({ role: "branchSummary", summary, fromId, timestamp: time(timestamp) });
const ofCompaction = ({ summary, tokensBefore, timestamp }) => ({ role: "compactionSummary", summary, tokensBefore, timestamp: time(timestamp) });
const ofCustom = ({ customType, content, display, details, timestamp }) => ({
  role: "custom", customType, content, display, details, timestamp: time(timestamp),
});

const EMPTY = { system: "", user: [], assistant: [], toolResult: [] };

/** What one entry adds to what a model reads. Messages are those of the entry, with a content where it has none. */
function sessionEntryToContextMessages(entry) {
  switch (entry.type) {
    case "message": {
      const { message } = entry;
      const isEmpty = message.content == null && Object.hasOwn(EMPTY, message.role);
      return [isEmpty ? { ...message, content: structuredClone(EMPTY[message.role]) } : message];
    }
    case "custom_message":
      return [ofCustom({ ...entry, content: entry.content ?? [] })];
    case "branch_summary":
      return entry.summary ? [ofBranchSummary(entry)] : [];
    case "compaction":
      return [...(entry.systemMessage ? [entry.systemMessage] : []), ofCompaction(entry)];
    default:
      return [];
  }
}

const EDITABLE = new Set(["user", "assistant", "toolResult", "custom"]);
const LISTED = new Set(["assistant", "toolResult"]); // their content is a list

/** The same as an edit has left it; `undefined` is no edit. */
function editedMessages(entry, edit) {
  const messages = sessionEntryToContextMessages(entry);
  if (edit === undefined) return messages;
  if (edit.replacement === null) return [];
  const { content } = edit.replacement;
  const listed = typeof content === "string" ? [{ type: "text", text: content }] : content;
  return messages.map((message) =>
    EDITABLE.has(message.role) ? { ...message, content: LISTED.has(message.role) ? listed : content } : message);
}

/** The last edit of each entry that has one, by the id of the entry. */
const editsOf = (entries) => new Map(entries.filter((each) => each.type === "context_edit").map((each) => [each.targetId, each]));

// --- branches --------------------------------------------------------------------------------------

/** The branch that ends with an entry; without an id, or with one that is unknown, with the last entry; null: none. */
function branchOf(entries, leafId, byId = new Map(entries.map((each) => [each.id, each]))) {
  if (leafId === null) return [];
  const branch = [];
  let entry = (leafId ? byId.get(leafId) : undefined) ?? entries.at(-1);
  while (entry) {
    branch.push(entry);
    entry = entry.parentId ? byId.get(entry.parentId) : undefined;
  }
  return branch.reverse();
}

const isSystem = (entry) => entry.type === "message" && entry.message.role === "system";

/** What is left of a branch: its last compaction, what that has kept, and what follows. */
function keptOf(branch) {
  const last = getLatestCompactionEntry(branch);
  if (last === null) return branch;
  const place = branch.findIndex((each) => each.id === last.id);
  const first = branch.findIndex((each) => each.id === last.firstKeptEntryId);
  const kept = first === -1 ? [] : branch.slice(first, Math.max(first, place)).filter((each) => !isSystem(each));
  return [last, ...kept, ...branch.slice(place + 1)];
}

const buildContextEntries = (entries, leafId, byId) => keptOf(branchOf(entries, leafId, byId));

/** What a model reads of a branch, with the entry that each message comes from, and what was chosen last on it. */
function buildSessionProjection(entries, leafId, byId) {
  const branch = branchOf(entries, leafId, byId);
  const kept = keptOf(branch);
  const edits = editsOf(kept);
  const projected = kept.map((sourceEntry, place) => ({
    sourceEntry,
    // Another compaction among those that were kept is of no account any more.
    messages: sourceEntry.type === "compaction" && place > 0 ? [] : editedMessages(sourceEntry, edits.get(sourceEntry.id)),
  }));
  const level = branch.findLast((each) => each.type === "thinking_level_change");
  const chosen = branch.findLast((each) => each.type === "model_change" || (each.type === "message" && each.message.role === "assistant"));
  const model = chosen === undefined ? null : {
    provider: (chosen.message ?? chosen).provider, modelId: chosen.type === "message" ? chosen.message.model : chosen.modelId,
  };
  return {
    entries: projected, messages: projected.flatMap((each) => each.messages), thinkingLevel: level === undefined ? "off" : level.thinkingLevel,
    model,
  };
}

function buildSessionContext(entries, leafId, byId) {
  const { messages, thinkingLevel, model } = buildSessionProjection(entries, leafId, byId);
  return { messages, thinkingLevel, model };
}

module.exports = {
  parseSessionEntries, migrateSessionEntries, getLatestCompactionEntry, sessionEntryToContextMessages,
  buildContextEntries, buildSessionProjection, buildSessionContext, editedMessages, editsOf, ofCustom, ofBranchSummary,
  ofCompaction, unusedId,
};
