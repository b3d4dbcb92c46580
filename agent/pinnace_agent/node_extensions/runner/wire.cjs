/**
 * The wire to the agent: JSON lines over inherited descriptors, and which call the running code belongs to.
 *
 * What the agent sends is read in the event loop. What this process sends is written at once and in order, so that
 * nothing is lost when it ends. `ask` waits for an answer as a promise; `now` blocks until the agent has answered, so
 * that a member that is read without waiting shows the present. Has no access to extensions.
 */

"use strict";

const { AsyncLocalStorage } = require("node:async_hooks");
const fs = require("node:fs");
const net = require("node:net");
const process = require("node:process");

const [inFd, outFd, nowFd] = process.argv.slice(2, 5).map(Number);

/** The call that the running code belongs to: `{ n, extension, context, controller, inRun }`; undefined: none. */
const CALL = new AsyncLocalStorage();

/** An error that the agent answered. */
class AgentError extends Error {
  constructor(error) {
    super(error.message);
    this.name = error.name ?? "Error";
  }
}

const asked = new Map();
let numbers = 0;

/** Values that JSON has no word for keep their meaning as far as it goes: errors, sets, maps, bytes, big numbers. */
function plain(_key, value) {
  if (typeof value === "bigint") return Number(value);
  if (value instanceof Error) return { name: value.name, message: value.message, stack: value.stack };
  if (value instanceof Set) return [...value];
  if (value instanceof Map) return Object.fromEntries(value);
  return value;
}

/** Write messages; blocks while the agent does not read. */
function send(...messages) {
  const data = Buffer.from(messages.map((each) => `${JSON.stringify(each, plain)}\n`).join(""));
  for (let at = 0; at < data.length; ) {
    try {
      at += fs.writeSync(outFd, data, at);
    } catch (error) {
      if (error.code === "EPIPE") process.exit(0); // the agent has ended
      if (error.code !== "EAGAIN") throw error;
    }
  }
}

/** What a request carries: who asks, and in which call. */
function origin(who) {
  const call = CALL.getStore();
  const extension = who?.extension ?? call?.extension ?? null;
  return { extension, context: who?.context ?? call?.context ?? null, call: call?.n ?? null };
}

/** Ask the agent to do something that shows nothing here; a failure is reported by the agent. */
function post(who, name, ...values) {
  send({ type: "post", name, ...origin(who), values });
}

/** Ask the agent and block until it has answered. Throws what it answers. */
function now(who, name, ...values) {
  send({ type: "now", name, ...origin(who), values });
  const head = readNow(4);
  const answer = JSON.parse(readNow(head.readUInt32BE(0)).toString("utf8"));
  if (answer.error) throw new AgentError(answer.error);
  return answer.value ?? undefined;
}

function readNow(length) {
  const data = Buffer.allocUnsafe(length);
  for (let at = 0; at < length; ) {
    const count = fs.readSync(nowFd, data, at, length - at, null);
    if (count === 0) process.exit(0); // the agent has ended
    at += count;
  }
  return data;
}

/** Ask the agent and wait; `signal` gives the request up, which the agent is told. Rejects with what it answers. */
function ask(who, name, values, signal) {
  if (signal?.aborted) return Promise.reject(signal.reason);
  const q = ++numbers;
  const { promise, resolve, reject } = Promise.withResolvers();
  asked.set(q, { resolve, reject });
  send({ type: "ask", q, name, ...origin(who), values });
  if (signal) {
    const drop = () => send({ type: "drop", q });
    signal.addEventListener("abort", drop, { once: true });
    promise.finally(() => signal.removeEventListener("abort", drop)).catch(() => {});
  }
  return promise;
}

const reported = new WeakSet();

/** Report what something has done wrong that no call waits for, the first time; `who` of it is its extension. */
function reportOnce(something, event, error) {
  if (reported.has(something)) return;
  reported.add(something);
  send({ type: "stray", event, extension: something.who.extension, error: errorOf(error) });
}

let changes; // of the session, which the running code has asked for

/**
 * Ask for a change of the session when the running code comes to a pause: as in pi, nothing that it reads until then shows the
 * change, nor is it refused because of it.
 */
function askForChange(who, name, values) {
  const q = ++numbers;
  const { promise, resolve, reject } = Promise.withResolvers();
  asked.set(q, { resolve, reject });
  if (changes === undefined) {
    changes = [];
    queueMicrotask(() => {
      const messages = changes;
      changes = undefined;
      send(...messages);
    });
  }
  changes.push({ type: "ask", q, name, ...origin(who), values });
  return promise;
}

/** Take the answer of an `ask`. */
function answered({ q, value, error }) {
  const waiting = asked.get(q);
  asked.delete(q);
  if (error) waiting?.reject(new AgentError(error));
  else waiting?.resolve(value ?? undefined);
  if (isEnding) endWhenAnswered();
}

let isEnding = false;

/** End this process when everything that it has asked is answered, and the code that waits for the answers has gone on. */
function endWhenAnswered() {
  isEnding = true;
  setImmediate(() => asked.size === 0 && process.exit(0));
}

/** Hand each line of a stream to `take`, as JSON. */
function eachLine(stream, take) {
  let pieces = [];
  stream.on("data", (chunk) => {
    let begin = 0;
    for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, begin)) {
      pieces.push(chunk.subarray(begin, end));
      const line = pieces.length === 1 ? pieces[0] : Buffer.concat(pieces);
      pieces = [];
      begin = end + 1;
      take(JSON.parse(line.toString("utf8")));
    }
    if (begin < chunk.length) pieces.push(chunk.subarray(begin));
  });
}

/** Read messages of the agent until it ends; then this process does. */
function listen(take) {
  const socket = new net.Socket({ fd: inFd, readable: true, writable: false });
  eachLine(socket, take);
  socket.on("close", () => process.exit(0));
  socket.on("error", () => process.exit(0));
}

/** An error as the agent reads it. */
function errorOf(error) {
  if (error instanceof Error) return { name: error.name, message: error.message, stack: error.stack ?? null };
  return { name: "Error", message: typeof error === "string" ? error : JSON.stringify(error) ?? String(error), stack: null };
}

module.exports = {
  CALL, AgentError, send, post, now, ask, reportOnce, askForChange, answered, endWhenAnswered, eachLine, listen, errorOf,
};
