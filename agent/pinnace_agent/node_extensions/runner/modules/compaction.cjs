/**
 * Compaction of pi, in functions: how large messages are, where a branch is cut, and the summaries of what is left out.
 *
 * Sizes and places are computed here, since they are asked for each of many entries. The wording of the requests and of
 * the files in a summary is the agent's; the requests go to the agent's providers, with the keys that it has, unless a
 * `streamFn` is given.
 */

"use strict";

const { completeSimple, retryAssistantCall } = require("./ai.cjs");
const { editedMessages, editsOf, ofBranchSummary, ofCompaction, ofCustom, sessionEntryToContextMessages } = require("./session-context.cjs");
const { now } = require("../wire.cjs");

// --- sizes -----------------------------------------------------------------------------------------

const CHARS_PER_TOKEN = 4;
const IMAGE_CHARS = 4800;

const charsIn = (content) => typeof content === "string" ? content.length : content.reduce(
  (sum, block) => sum + (block.type === "text" && block.text ? block.text.length : block.type === "image" ? IMAGE_CHARS : 0), 0);

function blockChars(block) {
  switch (block.type) {
    case "text": return block.text.length;
    case "thinking": return block.thinking.length;
    case "toolCall": return block.name.length + JSON.stringify(block.arguments).length;
    default: return 0;
  }
}

function messageChars(message) {
  switch (message.role) {
    case "system": {
      const sections = Object.values(message.sections ?? {}).reduce((sum, each) => sum + (each?.length ?? 0), 0);
      return charsIn(message.content) + sections + (message.toolsAdded ? JSON.stringify(message.toolsAdded).length : 0);
    }
    case "user":
    case "custom":
    case "toolResult": return charsIn(message.content);
    case "assistant": return message.content.reduce((sum, block) => sum + blockChars(block), 0);
    case "bashExecution": return message.command.length + message.output.length;
    case "branchSummary":
    case "compactionSummary": return message.summary.length;
    default: return 0;
  }
}

/** The tokens of a message by its size. */
const estimateTokens = (message) => Math.ceil(messageChars(message) / CHARS_PER_TOKEN);
const sumOfEstimates = (messages) => messages.reduce((sum, each) => sum + estimateTokens(each), 0);

/** The tokens of the context that an answer was counted with. */
const calculateContextTokens = (usage) => usage.totalTokens || usage.input + usage.output + usage.cacheRead + usage.cacheWrite;

const usageOf = ({ role, usage, stopReason }) =>
  role === "assistant" && usage && stopReason !== "aborted" && stopReason !== "error" && calculateContextTokens(usage) > 0 ? usage : undefined;

/** What the provider has counted for the last answer among entries; that of an answer that failed does not count. */
function getLastAssistantUsage(entries) {
  const found = entries.findLast((each) => each.type === "message" && usageOf(each.message));
  return found === undefined ? undefined : usageOf(found.message);
}

const shouldCompact = (contextTokens, contextWindow, settings) =>
  settings.enabled ? contextTokens > contextWindow - settings.reserveTokens : false;

// --- where a branch is cut -------------------------------------------------------------------------

const BEGINS_TURN = new Set(["user", "bashExecution", "custom", "branchSummary", "compactionSummary"]);

const hasMessage = (entry, is) => entry.type !== "compaction" && sessionEntryToContextMessages(entry).some(is);
const beginsTurn = (entry) => hasMessage(entry, (each) => BEGINS_TURN.has(each.role));
const canBeFirst = (entry) => hasMessage(entry, (each) => BEGINS_TURN.has(each.role) || each.role === "assistant");

/** The place of the entry that begins the turn of another one; -1: there is none from `startIndex` on. */
function findTurnStartIndex(entries, entryIndex, startIndex) {
  for (let place = entryIndex; place >= startIndex; place--) if (beginsTurn(entries[place])) return place;
  return -1;
}

/** Where to cut entries so that the newest ones, of about `keepRecentTokens`, are kept; results stay behind their calls. */
function findCutPoint(entries, startIndex, endIndex, keepRecentTokens) {
  const places = [];
  for (let place = startIndex; place < endIndex; place++) if (canBeFirst(entries[place])) places.push(place);
  if (places.length === 0) return { firstKeptEntryIndex: startIndex, turnStartIndex: -1, isSplitTurn: false };
  let cut = places[0];
  let kept = 0;
  for (let place = endIndex - 1; place >= startIndex; place--) {
    const tokens = sumOfEstimates(sessionEntryToContextMessages(entries[place]));
    kept += tokens;
    if (tokens === 0 || kept < keepRecentTokens) continue;
    cut = places.find((each) => each >= place) ?? places.at(-1);
    break;
  }
  // What a model does not read, such as a label, stays with what follows it.
  while (cut > startIndex && entries[cut - 1].type !== "compaction" && sessionEntryToContextMessages(entries[cut - 1]).length === 0) cut--;
  const isWhole = beginsTurn(entries[cut]);
  const turnStartIndex = isWhole ? -1 : findTurnStartIndex(entries, cut, startIndex);
  return { firstKeptEntryIndex: cut, turnStartIndex, isSplitTurn: turnStartIndex !== -1 };
}

// --- branches that are left ------------------------------------------------------------------------

/** The entries that a move from one leaf to another leaves, the oldest first, and where both branches part. */
function collectEntriesForBranchSummary(session, oldLeafId, targetId) {
  if (!oldLeafId) return { entries: [], commonAncestorId: null };
  const left = session.getBranch(oldLeafId);
  const ids = new Set(left.map((each) => each.id));
  const commonAncestorId = session.getBranch(targetId).findLast((each) => ids.has(each.id))?.id ?? null;
  return { entries: left.slice(left.findIndex((each) => each.id === commonAncestorId) + 1), commonAncestorId };
}

function messageToSummarize(entry, edit) {
  switch (entry.type) {
    case "message": // results are left out: their calls say what they are about
      if (entry.message.role === "toolResult") return undefined;
      return edit === undefined ? entry.message : editedMessages(entry, edit)[0];
    case "custom_message": return edit === undefined ? ofCustom(entry) : editedMessages(entry, edit)[0];
    case "branch_summary": return ofBranchSummary(entry);
    case "compaction": return ofCompaction(entry);
    default: return undefined;
  }
}

const KINDS = { read: "read", write: "written", edit: "edited" };

function addFiles(files, message) {
  for (const block of message.role === "assistant" && Array.isArray(message.content) ? message.content : []) {
    const path = block?.type === "toolCall" ? block.arguments?.path : undefined;
    if (typeof path === "string" && path && Object.hasOwn(KINDS, block.name)) files[KINDS[block.name]].add(path);
  }
}

/** The newest messages of entries that a budget holds (0: all), and the files that they have read and changed. */
function prepareBranchEntries(entries, tokenBudget = 0) {
  const fileOps = { read: new Set(), written: new Set(), edited: new Set() };
  for (const { type, fromHook, details } of entries) {
    if (type !== "branch_summary" || fromHook || !details) continue;
    for (const file of Array.isArray(details.readFiles) ? details.readFiles : []) fileOps.read.add(file);
    for (const file of Array.isArray(details.modifiedFiles) ? details.modifiedFiles : []) fileOps.edited.add(file);
  }
  const edits = editsOf(entries);
  const messages = [];
  let totalTokens = 0;
  for (const entry of entries.toReversed()) {
    const message = messageToSummarize(entry, edits.get(entry.id));
    if (message === undefined) continue;
    addFiles(fileOps, message);
    const tokens = estimateTokens(message);
    const isTooLong = tokenBudget > 0 && totalTokens + tokens > tokenBudget;
    // A summary has the most in it, so it may be the last one that goes beyond the budget.
    const isSummary = entry.type === "compaction" || entry.type === "branch_summary";
    if (isTooLong && !(isSummary && totalTokens < tokenBudget * 0.9)) break;
    messages.unshift(message);
    totalTokens += tokens;
    if (isTooLong) break;
  }
  return { messages, fileOps, totalTokens };
}

// --- summaries -------------------------------------------------------------------------------------

const PREFIX_OF_BRANCH = "The user explored a different conversation branch before returning here.\nSummary of that exploration:\n\n";

/** Have a model write a summary of messages. Throws if it fails, stops at its limit or calls a tool. */
async function written(what, messages, model, wording, options) {
  const { signal, thinkingLevel, streamFn, retry, callbacks, ...request } = options;
  const { systemPrompt, text } = now(undefined, "summary_request", { part: "history", ...wording }, messages);
  const context = { systemPrompt, messages: [{ role: "user", content: [{ type: "text", text }], timestamp: Date.now() }] };
  const reasoning = model.reasoning && thinkingLevel && thinkingLevel !== "off" ? { reasoning: thinkingLevel } : {};
  const asked = { ...request, ...reasoning, signal, cacheRetention: "none" };
  const produce = async () => streamFn ? (await streamFn(model, context, asked)).result() : completeSimple(model, context, asked);
  const answer = await retryAssistantCall(produce, retry, signal, callbacks);
  if (answer.stopReason === "error") throw new Error(`${what} failed: ${answer.errorMessage || "Unknown error"}`);
  if (answer.stopReason === "length") throw new Error(`${what} failed: the summary is incomplete, since the model has reached its limit of tokens`);
  if (answer.content.some((each) => each.type === "toolCall")) throw new Error(`${what} failed: the model has called a tool`);
  return {
    text: answer.content.flatMap((each) => (each.type === "text" ? [each.text] : [])).join("\n"), usage: answer.usage,
    isAborted: answer.stopReason === "aborted",
  };
}

async function generateSummaryWithUsage(
  currentMessages, model, _reserveTokens, apiKey, headers, signal, instructions, previousSummary, thinkingLevel, streamFn, env, retry,
  callbacks, sessionId,
) {
  const options = { apiKey, headers, env, signal, thinkingLevel, streamFn, retry, callbacks, sessionId };
  const { text, usage } = await written("Summarization", currentMessages, model, { previousSummary, instructions }, options);
  return { text, usage };
}

const generateSummary = async (...values) => (await generateSummaryWithUsage(...values)).text;

/** Have the summaries of a prepared compaction written, and return what its entry has. */
async function compact(
  preparation, model, apiKey, headers, instructions, signal, thinkingLevel, streamFn, env, retry, callbacks, sessionId,
) {
  const { firstKeptEntryId, messagesToSummarize, turnPrefixMessages, isSplitTurn, tokensBefore, previousSummary, fileOps } = preparation;
  if (!firstKeptEntryId) throw new Error("preparation.firstKeptEntryId must be the id of an entry");
  const options = { apiKey, headers, env, signal, thinkingLevel, streamFn, retry, callbacks, sessionId };
  const hasPrefix = isSplitTurn && turnPrefixMessages.length > 0;
  let history = { text: previousSummary };
  if (!hasPrefix || messagesToSummarize.length > 0) {
    history = await written("Summarization", messagesToSummarize, model, { previousSummary, instructions }, options);
  }
  let { text, usage } = history;
  if (hasPrefix) {
    const prefix = await written("Turn prefix summarization", turnPrefixMessages, model, { part: "turn_prefix", instructions }, options);
    text = now(undefined, "with_turn_prefix", text ?? null, prefix.text);
    usage = usage ? sumOf(usage, prefix.usage) : prefix.usage;
  }
  const { summary, details } = withFiles(text, fileOps);
  return { summary, firstKeptEntryId, tokensBefore, usage, details };
}

/** Have a summary of a branch that is left written: `{ summary, usage, readFiles, modifiedFiles }`, `{ aborted }` or `{ error }`. */
async function generateBranchSummary(entries, options) {
  const { model, customInstructions: instructions, replaceInstructions, reserveTokens = 16384, ...rest } = options;
  const { messages, fileOps } = prepareBranchEntries(entries, (model.contextWindow || 128000) - reserveTokens);
  if (messages.length === 0) return { summary: "No content to summarize" };
  const wording = { instructions, replaces: replaceInstructions === true && Boolean(instructions) };
  let found;
  try {
    found = await written("Branch summarization", messages, model, wording, rest);
  } catch (error) {
    return { error: error.message };
  }
  if (found.isAborted) return { aborted: true };
  const { summary, details } = withFiles(PREFIX_OF_BRANCH + found.text, fileOps);
  return { summary, usage: found.usage, ...details };
}

/** A summary with the files that were read and changed, and both lists. */
const withFiles = (summary, { read, written: made, edited }) => now(undefined, "with_files", summary, [...read], [...made, ...edited]);

/** What two requests have used together. */
function sumOf(one, other) {
  const sum = (a, b, names) => Object.fromEntries(names.map((name) => [name, (a[name] ?? 0) + (b[name] ?? 0)]));
  const some = ["cacheWrite1h", "reasoning"].filter((name) => one[name] !== undefined || other[name] !== undefined);
  return {
    ...sum(one, other, ["input", "output", "cacheRead", "cacheWrite", ...some, "totalTokens"]),
    cost: sum(one.cost, other.cost, ["input", "output", "cacheRead", "cacheWrite", "total"]),
  };
}

module.exports = {
  estimateTokens, calculateContextTokens, getLastAssistantUsage, shouldCompact, findTurnStartIndex,
  findCutPoint, collectEntriesForBranchSummary, prepareBranchEntries, generateSummaryWithUsage, generateSummary, compact,
  generateBranchSummary,
};
