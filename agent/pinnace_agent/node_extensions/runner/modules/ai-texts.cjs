/** Texts of models: their JSON, the arguments of their calls, and what a failure means. The agent judges, as for its own requests. */

"use strict";

const crypto = require("node:crypto");
const process = require("node:process");
const timers = require("node:timers/promises");
const { now } = require("../wire.cjs");

// --- JSON ------------------------------------------------------------------------------------------

const STRING = /"(?:[^"\\]|\\[\s\S])*(?:"|\\?$)/g;
const IN_STRING = /\\(?:u[0-9a-fA-F]{4}|["\\/bfnrt])|\\|[\u0000-\u001f]/g;
const SHORT = { "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** Escape, within strings, what JSON does not allow there. */
function repairJson(json) {
  const escaped = (found) => {
    if (found.length > 1) return found;
    return found === "\\" ? "\\\\" : (SHORT[found] ?? `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`);
  };
  return json.replace(STRING, (string) => string.replace(IN_STRING, escaped));
}

function parseJsonWithRepair(json) {
  try {
    return JSON.parse(json);
  } catch (error) {
    const repaired = repairJson(json);
    if (repaired === json) throw error;
    return JSON.parse(repaired);
  }
}

/** The object that a text begins, as far as it goes; the begin of a word is taken for the word. */
function parseStreamingJson(json) {
  if (!json?.trim()) return {};
  try {
    return parseJsonWithRepair(json);
  } catch {
    const [begun] = /[a-z]+$/.exec(json.replace(STRING, '"')) ?? [""];
    const word = begun && ["true", "false", "null"].find((each) => each.startsWith(begun));
    return now(undefined, "partial_json", word ? json + word.slice(begun.length) : json);
  }
}

/** The arguments of a call that has ended; those that are no object have an error that says so. */
function parseToolCallArguments(json) {
  if (!json?.trim()) return { arguments: {} };
  try {
    const parsed = parseJsonWithRepair(json);
    if (typeof parsed === "object" && parsed !== null && !Array.isArray(parsed)) return { arguments: parsed };
    throw new Error("Tool arguments must be a JSON object");
  } catch (error) {
    return { arguments: {}, argumentsError: `${error.message}\n\nReceived arguments:\n${json}` };
  }
}

/** The arguments of a call as its tool takes them. Throws with each field that its schema does not allow. */
const validateToolArguments = (tool, call) => now(undefined, "valid_arguments", tool.name, tool.parameters, call);

function validateToolCall(tools, call) {
  const tool = tools.find((each) => each.name === call.name);
  if (!tool) throw new Error(`Tool "${call.name}" not found`);
  return validateToolArguments(tool, call);
}

/** A text without halves of surrogate pairs. */
const sanitizeSurrogates = (text) => text.replace(/[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/g, "");

// --- failures --------------------------------------------------------------------------------------

const isContextOverflow = (message, contextWindow) =>
  ["overflow", "silent_overflow", "length_overflow"].includes(now(undefined, "failure", message, contextWindow ?? null));
const isRetryableAssistantError = (message) =>
  message.stopReason === "error" && Boolean(message.errorMessage) && now(undefined, "failure", message, null) === "transient";
const isRecoverableLength = (message, wanted) => message.stopReason === "length" && wanted > 0 && message.usage.output < wanted;

const DEFAULT_MAX_AGENT_RETRY_DELAY_MS = 60_000;
const retryDelayMs = ({ baseDelayMs, maxAgentDelayMs }, attempt) =>
  Math.min(baseDelayMs * 2 ** Math.max(0, attempt - 1), maxAgentDelayMs ?? DEFAULT_MAX_AGENT_RETRY_DELAY_MS);

/** Call what produces an answer until it is no failure that may pass, as often as the policy allows. */
async function retryAssistantCall(produce, policy, signal, callbacks) {
  const most = policy?.enabled ? policy.maxRetries : 0;
  for (let attempt = 0; ; ) {
    const answer = await produce();
    const { stopReason, errorMessage } = answer;
    const isLast = stopReason !== "error" || attempt >= most || !isRetryableAssistantError(answer);
    if (isLast) {
      const isDone = stopReason !== "error" && stopReason !== "aborted";
      if (attempt > 0) await callbacks?.onRetryFinished?.(isDone, attempt, ...(stopReason === "error" ? [errorMessage] : []));
      return answer;
    }
    attempt += 1;
    const delay = retryDelayMs(policy, attempt);
    await callbacks?.onRetryScheduled?.(attempt, most, delay, errorMessage);
    try {
      await timers.setTimeout(delay, undefined, { signal });
    } catch {
      await callbacks?.onRetryFinished?.(false, attempt, errorMessage);
      const { errorMessage: _failure, ...rest } = answer;
      return { ...rest, stopReason: "aborted" };
    }
    await callbacks?.onRetryAttemptStart?.();
  }
}

const formatThrownValue = (value) => (value instanceof Error ? value.message || value.name : String(value));

function extractDiagnosticError(error) {
  if (!(error instanceof Error)) return { name: "ThrownValue", message: formatThrownValue(error) };
  const { name, message, stack, code } = error;
  return { name: name || undefined, message: message || name, stack, code: ["string", "number"].includes(typeof code) ? code : undefined };
}

const createAssistantMessageDiagnostic = (type, error, details) => ({
  type, timestamp: Date.now(), error: extractDiagnosticError(error), details,
});

function appendAssistantMessageDiagnostic(message, diagnostic) {
  message.diagnostics = [...(message.diagnostics ?? []), diagnostic];
}

// --- names -----------------------------------------------------------------------------------------

let last = { ms: -1, count: 0 };

/** An id that is greater than those before it: version 7 of a UUID, with a count where the time is the same. */
function uuidv7(timestampMs) {
  const given = timestampMs ?? Math.max(Date.now(), last.ms);
  if (!Number.isInteger(given) || given < 0 || given >= 2 ** 48) {
    throw new RangeError(`a timestamp of a UUID must be an integer between 0 and ${2 ** 48 - 1}`);
  }
  last = { ms: timestampMs === undefined ? given : last.ms, count: (last.count + 1) % 2 ** 30 };
  const bytes = crypto.randomBytes(16);
  bytes.writeUIntBE(given, 0, 6);
  bytes.writeUInt16BE(0x7000 | (last.count >>> 18), 6);
  bytes.writeUInt16BE(0x8000 | ((last.count >>> 4) & 0x3fff), 8);
  bytes[10] = ((last.count & 0xf) << 4) | (bytes[10] & 0xf);
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

const PI_AI_VERSION = process.argv[7];
const PI_ATTRIBUTION = { name: "pi", url: "https://pi.dev", categories: ["cli-agent"] };
const getClientVersion = (identity) => identity?.version ?? PI_AI_VERSION;

/** Who asks a model, of several who say it: of each field the last. */
function mergeClientIdentity(...identities) {
  const given = identities.filter(Boolean);
  if (given.length === 0) return undefined;
  const entries = given.flatMap((each) => ["userAgent", "attribution", "version"].map((name) => [name, each[name]]));
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined));
}

module.exports = {
  mergeClientIdentity,
  repairJson, parseJsonWithRepair, parseStreamingJson, parseToolCallArguments, validateToolArguments, validateToolCall,
  sanitizeSurrogates, isContextOverflow, isRetryableAssistantError, isRecoverableLength, DEFAULT_MAX_AGENT_RETRY_DELAY_MS,
  retryDelayMs, retryAssistantCall, formatThrownValue, extractDiagnosticError, createAssistantMessageDiagnostic, appendAssistantMessageDiagnostic,
  uuidv7, PI_AI_VERSION, PI_ATTRIBUTION, getClientVersion,
};
