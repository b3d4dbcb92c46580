/** Calls of tools in a loop of this process: each is prepared, run and finished, and has one result, whatever the tool does. */

"use strict";

const { performance } = require("node:perf_hooks");

const { validateToolArguments } = require("./ai-texts.cjs");

const ABORTED = "Operation aborted";

const failed = (text) => ({ content: [{ type: "text", text }], details: {} });
const wordsOf = (error) => (error instanceof Error ? error.message : String(error));
const refused = (toolCall, text) => ({ toolCall, result: failed(text), isError: true });

/** The tool of a call and its arguments, or as `outcome` what the call comes to without being run. */
async function prepared(toolCall, { tools, hooks, assistantMessage, context, signal }) {
  const tool = tools.find((each) => each.name === toolCall.name);
  if (!tool) return { outcome: refused(toolCall, `Tool ${toolCall.name} not found`) };
  try {
    const raw = tool.prepareArguments ? { ...toolCall, arguments: tool.prepareArguments(toolCall.arguments) } : toolCall;
    const args = validateToolArguments(tool, raw);
    const decision = await hooks.beforeToolCall?.({ assistantMessage, toolCall, args, context }, signal);
    if (signal?.aborted) return { outcome: refused(toolCall, ABORTED) };
    if (!decision?.block) return { tool, args };
    const outcome = refused(toolCall, decision.reason || "Tool execution was blocked");
    if (decision.terminate === true) outcome.result.terminate = true;
    return { outcome };
  } catch (error) {
    return { outcome: refused(toolCall, wordsOf(error)) };
  }
}

/** What a tool returns, with the milliseconds that it took. Updates count until then, and have been handled. */
async function executed({ tool, args }, toolCall, signal, onUpdate) {
  const begun = performance.now();
  const updates = [];
  let isRunning = true;
  const report = (partial) => {
    if (isRunning) updates.push(Promise.resolve(onUpdate?.(partial)));
  };
  let outcome;
  try {
    const result = await tool.execute(toolCall.id, args, signal, report);
    outcome = { toolCall, result, isError: result.isError === true };
  } catch (error) {
    outcome = refused(toolCall, wordsOf(error));
  }
  isRunning = false;
  const durationMs = Math.round(performance.now() - begun);
  await Promise.all(updates);
  return { ...outcome, durationMs };
}

/** What a hook makes of the outcome of a call. A structured content that a new content leaves out would not fit to it. */
async function finished(outcome, args, { hooks, assistantMessage, context, signal }) {
  const { toolCall, result, isError } = outcome;
  try {
    const changes = await hooks.afterToolCall?.({ assistantMessage, toolCall, args, result, isError, context }, signal);
    if (!changes) return outcome;
    const { structuredContent, ...rest } = result;
    const structured = changes.structuredContent ?? (changes.content ? undefined : structuredContent);
    const changed = {
      ...rest, content: changes.content ?? result.content, details: changes.details ?? result.details,
      usage: changes.usage ?? result.usage, terminate: changes.terminate ?? result.terminate,
      ...(structured === undefined ? {} : { structuredContent: structured }),
    };
    return { ...outcome, result: changed, isError: changes.isError ?? isError };
  } catch (error) {
    return { ...outcome, ...refused(toolCall, wordsOf(error)) };
  }
}

/** A call, as a model's: never rejected. `around` has tools, hooks, message, context and signal. */
async function performed(toolCall, around, onUpdate) {
  const ready = await prepared(toolCall, around);
  return ready.outcome ?? run(ready, toolCall, around, onUpdate);
}

const run = async (ready, toolCall, around, onUpdate) =>
  finished(await executed(ready, toolCall, around.signal, onUpdate), ready.args, around);

function runToolCall(toolCall, { tools, assistantMessage, context, signal, onUpdate, ...hooks }) {
  return performed(toolCall, { tools, hooks, assistantMessage, context, signal }, onUpdate);
}

const resultMessage = ({ toolCall, result, isError, durationMs }) => ({
  role: "toolResult", toolCallId: toolCall.id, toolName: toolCall.name, content: result.content ?? [], details: result.details,
  usage: result.usage, isError, ...(durationMs === undefined ? {} : { durationMs }), timestamp: Date.now(),
});

/** The calls of one answer, with their events. */
class Batch {
  #around;
  #emit;

  constructor(around, emit) {
    this.#around = around;
    this.#emit = emit;
  }

  /** Performs them; returns their messages, and whether all results ask to end the run. */
  async perform(calls, isSequential) {
    const tools = this.#around.tools;
    const inOrder = isSequential || calls.some(({ name }) => tools.find((each) => each.name === name)?.executionMode === "sequential");
    return inOrder ? this.#oneByOne(calls) : this.#beside(calls);
  }

  /** Refuses them: an answer that the limit of its length has cut may have cut their arguments. */
  async refuse(calls) {
    const messages = [];
    for (const call of calls) {
      await this.#begin(call);
      const reason = "the response hit the output token limit, so its arguments may be truncated";
      const text = `Tool call "${call.name}" was not executed: ${reason}. Re-issue the tool call with complete arguments.`;
      messages.push(await this.#message(await this.#ended(refused(call, text))));
    }
    return { messages, terminate: false };
  }

  async #oneByOne(calls) {
    const outcomes = [];
    const messages = [];
    for (const call of calls) {
      await this.#begin(call);
      const outcome = await this.#ended(await performed(call, this.#around, this.#updates(call)));
      messages.push(await this.#message(outcome));
      outcomes.push(outcome);
      if (this.#around.signal?.aborted) break;
    }
    return { messages, terminate: allTerminate(outcomes) };
  }

  /** Prepared one after another, so that questions do not overlap; run together; their messages in the order of the answer. */
  async #beside(calls) {
    const { signal } = this.#around;
    const begun = [];
    for (const call of calls) {
      await this.#begin(call);
      const ready = await prepared(call, this.#around);
      if (ready.outcome) begun.push(await this.#ended(ready.outcome));
      else begun.push(() => this.#runEnded(ready, call));
      if (signal?.aborted) break;
    }
    const outcomes = await Promise.all(begun.map((each) => (typeof each === "function" ? each() : each)));
    const messages = [];
    for (const outcome of outcomes) messages.push(await this.#message(outcome));
    return { messages, terminate: allTerminate(outcomes) };
  }

  async #runEnded(ready, call) {
    const { signal } = this.#around;
    return this.#ended(signal?.aborted ? refused(call, ABORTED) : await run(ready, call, this.#around, this.#updates(call)));
  }

  #begin({ id, name, arguments: args }) {
    return this.#emit({ type: "tool_execution_start", toolCallId: id, toolName: name, args });
  }

  #updates({ id, name, arguments: args }) {
    return (partialResult) => this.#emit({ type: "tool_execution_update", toolCallId: id, toolName: name, args, partialResult });
  }

  async #ended(outcome) {
    const { toolCall, result, isError, durationMs } = outcome;
    const time = durationMs === undefined ? {} : { durationMs };
    await this.#emit({ type: "tool_execution_end", toolCallId: toolCall.id, toolName: toolCall.name, result, isError, ...time });
    return outcome;
  }

  async #message(outcome) {
    const message = resultMessage(outcome);
    await this.#emit({ type: "message_start", message });
    await this.#emit({ type: "message_end", message });
    return message;
  }
}

const allTerminate = (outcomes) => outcomes.length > 0 && outcomes.every(({ result }) => result.terminate === true);

module.exports = { Batch, runToolCall };
