/** Messages of the role `system` in a transcript: they carry the system prompt, its sections and the tools, and change them. */

"use strict";

/** The text of a content; other blocks are left out. */
function contentText(content, separator = "\n") {
  if (typeof content === "string") return content;
  return content.flatMap((block) => (block.type === "text" ? [block.text] : [])).join(separator);
}

const joined = (texts) => texts.filter((each) => each).join("\n\n");
const isSystem = (message) => message.role === "system";

/** The prompt that a system message comes to: its text, then its sections. */
const getSystemMessageText = ({ content, sections }) => joined([contentText(content), ...Object.values(sections ?? {})]);

/** A later system message as a text of its own. */
function renderSystemMessageUpdate({ content, sections }) {
  const changes = Object.entries(sections ?? {}).map(([name, text]) =>
    text === null ? `Removed system prompt section "${name}".` : `Updated system prompt section "${name}":\n\n${text}`,
  );
  return joined([contentText(content), ...changes]);
}

/** The first message of a prompt and tools; undefined: there are none. */
function createInitialSystemMessage(systemPrompt, tools) {
  if (!systemPrompt && !tools?.length) return undefined;
  return { role: "system", content: systemPrompt ?? "", ...(tools?.length ? { toolsAdded: tools } : {}), timestamp: 0 };
}

/** A context whose prompt and tools are a message. */
function normalizeContext({ systemPrompt, tools, messages }) {
  const first = createInitialSystemMessage(systemPrompt, tools);
  return { messages: first ? [first, ...messages] : messages };
}

const getInitialSystemMessage = ([first]) => (first && isSystem(first) ? first : undefined);
const withoutInitialSystemMessage = (messages) => (getInitialSystemMessage(messages) ? messages.slice(1) : messages);

/** The tools behind the last message, or, of `all`, each that was there, as it was defined last. */
function toolsOf(messages, all) {
  const tools = new Map();
  for (const { toolsRemoved = [], toolsAdded = [] } of messages.filter(isSystem)) {
    if (!all) for (const { name } of toolsRemoved) tools.delete(name);
    for (const tool of toolsAdded) tools.set(tool.name, tool);
  }
  return [...tools.values()];
}
const getCurrentTools = (messages) => toolsOf(messages, false);
const getDeclaredTools = (messages) => toolsOf(messages, true);

/** All system messages in one; undefined: there is none. */
function getCurrentSystemMessage(messages) {
  const all = messages.filter(isSystem);
  if (all.length === 0) return undefined;
  const sections = new Map();
  for (const [name, text] of all.flatMap((each) => Object.entries(each.sections ?? {}))) {
    if (text === null) sections.delete(name);
    else sections.set(name, text);
  }
  const tools = getCurrentTools(all);
  return {
    role: "system", content: joined(all.map((each) => contentText(each.content))),
    ...(sections.size > 0 ? { sections: Object.fromEntries(sections) } : {}),
    ...(tools.length > 0 ? { toolsAdded: tools } : {}), timestamp: all[0].timestamp,
  };
}

function getCurrentSystemPrompt(messages) {
  const message = getCurrentSystemMessage(messages);
  return message ? getSystemMessageText(message) : "";
}

/** A context with one system message, at its begin. */
function collapseSystemMessages({ messages }) {
  const first = getCurrentSystemMessage(messages);
  const others = messages.filter((each) => !isSystem(each));
  return { messages: first ? [first, ...others] : others };
}
const resolveTranscript = (context, keeps) => (keeps ? context : collapseSystemMessages(context));

/** What a model reads of a tool. */
function toToolDeclaration({ name, description, parameters, constrainedSampling }) {
  const declared = { name, description, parameters: JSON.parse(JSON.stringify(parameters)) };
  return constrainedSampling === undefined ? declared : { ...declared, constrainedSampling };
}
const declarationsEqual = (one, other) => JSON.stringify(toToolDeclaration(one)) === JSON.stringify(toToolDeclaration(other));

/** What is added and removed between two sets of tools; one that has changed is both. */
function getToolStateChanges(before, after) {
  const lacks = (tools) => (tool) => !tools.some((each) => each.name === tool.name && declarationsEqual(each, tool));
  return {
    toolsAdded: after.filter(lacks(before)).map(toToolDeclaration),
    toolsRemoved: before.filter(lacks(after)).map(({ name }) => ({ name })),
  };
}

/** Whether a name is declared anew with another definition. */
function hasToolRedefinitions(messages) {
  const known = new Map();
  return messages.filter(isSystem).flatMap(({ toolsAdded = [] }) => toolsAdded).some((tool) => {
    const former = known.get(tool.name);
    known.set(tool.name, tool);
    return former !== undefined && !declarationsEqual(former, tool);
  });
}

/** How many of the first system messages end with one that removes a tool or declares a name anew; 0: none does. */
function beforeAdditions(messages) {
  const known = new Set();
  let count = 0;
  for (const [at, { toolsRemoved = [], toolsAdded = [] }] of messages.entries()) {
    const isAnew = toolsAdded.filter(({ name }) => known.size === known.add(name).size).length > 0;
    if (isAnew || toolsRemoved.length > 0) count = at + 1;
  }
  return count;
}
const hasNonAdditiveToolChanges = (messages) => beforeAdditions(messages.filter(isSystem)) > 0;

/** The tools beside the messages of a request, and how many of its system messages they stand for. */
function resolveTranscriptTools(messages, support) {
  const all = messages.filter(isSystem);
  let folded = all.length;
  if (support === "changes") folded = 0;
  else if (support !== "none") folded = Math.max(getInitialSystemMessage(messages) ? 1 : 0, beforeAdditions(all));
  return { requestTools: getCurrentTools(all.slice(0, folded)), foldedSystemMessages: folded };
}

module.exports = {
  hasToolRedefinitions, hasNonAdditiveToolChanges, resolveTranscriptTools, contentText, getSystemMessageText, renderSystemMessageUpdate, createInitialSystemMessage, normalizeContext,
  getInitialSystemMessage, withoutInitialSystemMessage, getCurrentTools, getDeclaredTools, getCurrentSystemMessage,
  getCurrentSystemPrompt, collapseSystemMessages, resolveTranscript, toToolDeclaration, declarationsEqual, getToolStateChanges,
};
