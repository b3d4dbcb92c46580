// Summaries whose answers are scripted, and one that the agent's provider writes: what they come to, and what was asked.

import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";
import { compact, generateBranchSummary, generateSummary } from "@earendil-works/pi-coding-agent";

const cost = { input: 0, output: 1, cacheRead: 0, cacheWrite: 0, total: 1 };
const usage = { input: 1, output: 2, cacheRead: 0, cacheWrite: 0, totalTokens: 3, cost };
const answer = (text: string, more = {}) => ({ role: "assistant", content: [{ type: "text", text }], stopReason: "stop", usage, ...more });
const user = (text: string) => ({ role: "user", content: [{ type: "text", text }], timestamp: 1 });
const call = (name: string, path: string) => ({
  role: "assistant", content: [{ type: "toolCall", id: "c", name, arguments: { path } }], stopReason: "toolUse", timestamp: 1,
});
const ENTRIES = [{ type: "message", id: "1", parentId: null, timestamp: "2026-01-01T00:00:00Z", message: user("left") }];
const PREPARED = {
  firstKeptEntryId: "k", messagesToSummarize: [user("begin"), call("read", "r"), call("write", "w")],
  turnPrefixMessages: [user("turn")], isSplitTurn: true, tokensBefore: 7, previousSummary: "before",
  fileOps: { read: new Set(["r", "w"]), written: new Set(["w"]), edited: new Set() },
};

export default (api: ExtensionAPI) => api.registerCommand("go", { async handler(_text, ctx) {
  const asked: unknown[] = [];
  const answering = (...answers: unknown[]) => async (_model, context, options) => {
    asked.push([context.systemPrompt.length > 0, context.messages[0].content[0].text, options.reasoning ?? null, options.apiKey ?? null]);
    return { result: async () => answers.shift() };
  };
  const model = { ...ctx.model, reasoning: true };
  const compacted = (stream, prepared = PREPARED) =>
    compact(prepared, model, "key", {}, "focus", undefined, "low", stream).catch((error) => error.message);
  const branch = (stream, more = {}) => generateBranchSummary(ENTRIES, { model, streamFn: stream, ...more });
  const found = {
    both: await compacted(answering(answer("history"), answer("prefix"))),
    failed: await compacted(answering(answer("", { stopReason: "error", errorMessage: "down" }))),
    full: await compacted(answering(answer("half", { stopReason: "length" }))),
    called: await compacted(answering(call("read", "r"))),
    unprepared: await compacted(answering(), { ...PREPARED, firstKeptEntryId: "" }),
    branch: await branch(answering(answer("was left"))),
    replaced: await branch(answering(answer("own")), { customInstructions: "only this", replaceInstructions: true }),
    aborted: await branch(answering(answer("", { stopReason: "aborted" }))),
    broken: await branch(answering(answer("", { stopReason: "error" }))),
    empty: await generateBranchSummary([], { model }),
    text: await generateSummary([user("through the agent")], ctx.model, 1, "not used"),
  };
  ctx.ui.notify(JSON.stringify([found, asked]));
} });
