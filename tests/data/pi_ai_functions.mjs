// Makes pi-ai-functions-of-pi-1.5.2.json: what functions of pi-ai return for generated values.
//
//     node tests/data/pi_ai_functions.mjs FOLDER > tests/data/pi-ai-functions-of-pi-1.5.2.json
//
// FOLDER is the package @earendil-works/pi-ai 1.5.2 with its dependencies, as npm installs it.

const [, , folder] = process.argv;
const original = {
  ...(await import(`${folder}/dist/compat.js`)),
  ...(await import(`${folder}/dist/utils/sanitize-unicode.js`)),
};

let seed = 7;
function below(limit) {
  seed = (seed * 1103515245 + 12345) % 2 ** 31;
  return Math.floor(seed / 2 ** 16) % limit;
}
const one = (values) => values[below(values.length)];
const many = (most, make) => Array.from({ length: below(most) }, make);

const cases = [];
function add(name, ...values) {
  let outcome;
  try {
    outcome = { value: original[name](...structuredClone(values)) };
  } catch (error) {
    outcome = { error: error.message };
  }
  cases.push({ name, values, ...outcome });
}

const PIECES = ['"', "\\", "\n", "a", "u", "{", "}", "[", "]", ":", ",", "1", "\t", "\\u00", "\\u0041", "é", "\u0001", "/", "b", " "];
const TEXTS = ['{"a": "b\nc"}', '{"a": "\\q"}', '{"a": 1', "[1]", "null", '"x"', ""];
for (const text of [...TEXTS, ...Array.from({ length: 50 }, () => many(16, () => one(PIECES)).join(""))]) {
  add("repairJson", text);
  add("parseToolCallArguments", text);
}
for (const text of [...TEXTS, '{"a": "b', '{"a": [1, {"b": tr', '{"a": {"b": "c"}, "d', '{"a": 1.5, "b": nul', '{"x": "y\\']) {
  add("parseStreamingJson", text);
}
for (const text of ["a\ud800b", "\udc00", "😀", "x\ud83d"]) add("sanitizeSurrogates", text);

const LEVELS = ["off", "minimal", "low", "medium", "high", "xhigh", "max"];
for (let each = 0; each < 40; each++) {
  const thinkingLevelMap = Object.fromEntries(LEVELS.filter(() => below(2)).map((level) => [level, one([null, "x"])]));
  const more = below(3) ? { thinkingLevelMap } : {};
  const model = { reasoning: below(4) > 0, ...more, type: one(["chat", "image"]), id: one(["a", "b"]), provider: "p", api: "z" };
  add("getSupportedThinkingLevels", model);
  add("clampThinkingLevel", model, one([...LEVELS, "none"]));
  add("modelsAreEqual", model, { ...model, id: one(["a", "b"]) });
  add("hasApi", model, one(["z", "y"]));
}
for (const options of [{}, { cacheRetention: "long" }, { cacheRetention: "none" }, { env: { PI_CACHE_RETENTION: "long" } }]) {
  add("getPromptCacheTtlMs", { promptCache: { short: 300, long: 3600 } }, options);
}
for (const attempt of [0, 1, 2, 5, 60]) {
  add("retryDelayMs", { baseDelayMs: 2000 }, attempt);
  add("retryDelayMs", { baseDelayMs: 2000, maxAgentDelayMs: 100 }, attempt);
}
const tiers = [{ input: 6, output: 22.5, cacheRead: 0.6, cacheWrite: 7.5, inputTokensAbove: 1000 }, { inputTokensAbove: 5000 }];
const cost = { input: 3, output: 15, cacheRead: 0.3, cacheWrite: 3.75 };
const none = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
for (const input of [0, 900, 1000, 2000]) {
  for (const cacheWrite1h of [undefined, 3]) {
    const usage = { input, output: 200, cacheRead: 50, cacheWrite: 7, cacheWrite1h };
    add("calculateCost", { cost }, { ...usage, cost: none });
    add("calculateCost", { cost: { ...cost, tiers } }, { ...usage, cost: none });
  }
}

const tool = () => ({ name: one(["a", "b", "c"]), description: one(["d", "e"]), parameters: { type: "object" } });
const distinct = (tools) => [...new Map(tools.map((each) => [each.name, each])).values()];
const maybe = (value) => (below(2) ? value() : {});
function message() {
  if (!below(3)) return { role: "user", content: "u" };
  return {
    role: "system", timestamp: below(9), content: one(["", "x", [{ type: "text", text: "t" }, { type: "image" }]]),
    ...maybe(() => ({ sections: { [one(["s", "t"])]: one([null, "v", "w"]) } })),
    ...maybe(() => ({ toolsAdded: [tool()] })), ...maybe(() => ({ toolsRemoved: [{ name: one(["a", "b"]) }] })),
  };
}
const OF_MESSAGES = [
  "getInitialSystemMessage", "withoutInitialSystemMessage", "getCurrentTools", "getDeclaredTools", "getCurrentSystemMessage",
  "getCurrentSystemPrompt",
];
for (let each = 0; each < 25; each++) {
  const messages = many(5, message);
  for (const name of OF_MESSAGES) add(name, messages);
  add("collapseSystemMessages", { messages });
  add("normalizeContext", { systemPrompt: one(["", "p"]), tools: one([[], [tool()]]), messages: messages.slice(0, 1) });
  add("getToolStateChanges", distinct([tool(), tool()]), distinct([tool()]));
  const [system] = messages.filter(({ role }) => role === "system");
  if (system) for (const name of ["getSystemMessageText", "renderSystemMessageUpdate"]) add(name, system);
}
const TOOLS = ["a", "b", "c"].flatMap((name) => [1, 2].map((version) => ({ name, description: `${name}${version}`, parameters: {} })));
for (let each = 0; each < 60; each++) {
  const changed = () => ({ ...one([{}, { toolsAdded: many(3, () => one(TOOLS)) }]), ...(below(4) === 0 ? { toolsRemoved: [{ name: one(["a", "b"]) }] } : {}) });
  const messages = many(7, () => one([{ role: "system", content: "", ...changed(), timestamp: 0 }, { role: "user", content: "u" }]));
  add("hasToolRedefinitions", messages);
  add("hasNonAdditiveToolChanges", messages);
  for (const support of ["none", "additions", "changes"]) add("resolveTranscriptTools", messages, support);
}
const identity = () => one([null, {}, { userAgent: one(["short", "detailed"]) }, { attribution: null }, { attribution: { name: "x" }, version: "1" }]);
for (let each = 0; each < 20; each++) add("mergeClientIdentity", identity(), identity(), identity());
process.stdout.write(`[\n${cases.map((each) => JSON.stringify(each)).join(",\n")}\n]\n`);
process.exit(0);
