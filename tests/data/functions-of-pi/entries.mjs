/** Random entries of a session, of every kind, by a seed; some are odd, as those that other programs have written. */

/** A generator of numbers from 0 to 1. */
export const rand = (seed) => () => {
  seed = (seed + 0x6d2b79f5) | 0;
  let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
};

const SYSTEM = { role: "system", content: "s" };

export function generated(seed) {
  const next = rand(seed);
  const pick = (values) => values[Math.floor(next() * values.length)];
  const text = () => "wort ".repeat(Math.floor(next() * 40));
  const content = () => pick([text(), [], null, [{ type: "text", text: text() }], [{ type: "image", data: "", mimeType: "image/png" }]]);
  const usage = () => pick([
    undefined, { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0 },
    { input: 5, output: 1, cacheRead: 2, cacheWrite: 3, totalTokens: pick([0, 11, 400]) },
  ]);
  const call = () => ({
    type: "toolCall", id: "c", name: pick(["read", "write", "edit", "bash"]),
    arguments: pick([{}, { path: "a" }, { path: "b" }, { path: 5 }]),
  });
  const block = () => pick([{ type: "text", text: text() }, { type: "thinking", thinking: text() }, call()]);
  const stopReason = () => pick(["stop", "error", "aborted", "toolUse"]);
  const assistant = () => ({ role: "assistant", content: [block(), block()], usage: usage(), stopReason: stopReason(), provider: "p", model: pick(["m", "n"]) });
  const message = () => pick([
    assistant, assistant,
    () => ({ role: "user", content: content() ?? "", timestamp: 1 }),
    () => ({ role: "toolResult", toolCallId: "c", toolName: "read", content: [{ type: "text", text: text() }], isError: false }),
    () => ({ role: "bashExecution", command: "ls", output: text(), exitCode: 0, cancelled: false, truncated: false }),
    () => ({ role: "system", content: text(), sections: { a: text(), b: null }, toolsAdded: pick([undefined, [{ name: "x" }]]) }),
    () => ({ role: "branchSummary", summary: text(), fromId: "1", timestamp: 2 }),
    () => ({ role: "custom", customType: "x", content: content() ?? [], display: true }),
  ])();
  const entries = [];
  const id = () => (entries.length ? pick(entries).id : null);
  const ofMessage = () => ({ type: "message", message: message() });
  const compaction = () => ({
    type: "compaction", summary: text(), firstKeptEntryId: pick([id(), "none"]), tokensBefore: 9, systemMessage: pick([undefined, SYSTEM]),
  });
  for (let place = 0; place < 25; place++) {
    const entry = pick([
      ofMessage, ofMessage, ofMessage, ofMessage,
      () => ({ type: "custom", customType: "x", data: {} }),
      () => ({ type: "label", targetId: id(), label: "l" }),
      () => ({ type: "custom_message", customType: "x", content: content() ?? [], display: false, details: { a: 1 } }),
      () => ({ type: "model_change", provider: "q", modelId: pick(["o", "r"]) }),
      () => ({ type: "thinking_level_change", thinkingLevel: pick(["low", "high"]) }),
      () => ({ type: "context_edit", targetId: id(), replacement: pick([null, { content: "new" }, { content: [{ type: "text", text: "newer" }] }]) }),
      () => ({
        type: "branch_summary", summary: pick(["", text()]), fromId: id(), fromHook: pick([true, undefined]),
        details: pick([undefined, { readFiles: ["r"], modifiedFiles: ["m"] }]),
      }),
      ...(next() < 0.3 ? [compaction] : []),
    ])();
    const parentId = next() < 0.85 ? (entries.at(-1)?.id ?? null) : id();
    entries.push({ ...entry, id: `${place}`, parentId, timestamp: new Date(1e12 + place).toISOString() });
  }
  return entries;
}
