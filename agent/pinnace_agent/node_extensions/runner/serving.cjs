/**
 * Loads extensions of pi, and calls what they have registered when the agent asks.
 *
 * Decides nothing about chains, gates or results: the agent does, as for its own extensions.
 */

"use strict";

const process = require("node:process");
const { loadExtension } = require("./loading.cjs");
const { CALLABLE, extensionOf, forgetExtensions } = require("./registry.cjs");
const { retire } = require("./retiring.cjs");
const { CALL, answered, endWhenAnswered, errorOf, listen, send } = require("./wire.cjs");

const running = new Map();

async function run(message, work) {
  const controller = new AbortController();
  const { n, extension, context, inRun } = message;
  const call = { n, extension, context, controller, inRun: inRun === true };
  running.set(n, call);
  try {
    const value = await CALL.run(call, work, message, call);
    send({ type: "result", n, value: value ?? null });
  } catch (error) {
    send({ type: "result", n, error: errorOf(error) });
  } finally {
    running.delete(n);
  }
}

listen((message) => {
  switch (message.type) {
    case "load":
      void run(message, loadExtension);
      break;
    case "call":
      void run(message, (each, call) => CALLABLE[each.kind](extensionOf(each.extension), each, call));
      break;
    case "cancel":
      running.get(message.n)?.controller.abort();
      break;
    case "answer":
      answered(message);
      break;
    case "emit":
      require("./bus.cjs").emitted(message.channel, message.data);
      break;
    case "surface":
      require("./surfaces.cjs").surfaceChanged(message);
      break;
    case "check":
      send({ type: "result", n: message.n, value: null });
      break;
    case "retire":
      retire();
      break;
    case "forget":
      forgetExtensions(message.extensions);
      require("./context.cjs").forgetContexts(message.extensions);
      break;
    case "ping":
      send({ type: "pong", n: message.n });
      break;
    case "shutdown":
      endWhenAnswered();
  }
});

// An error that no call waits for is the extension's, and ends nothing else.
function stray(error) {
  send({ type: "stray", extension: CALL.getStore()?.extension ?? null, error: errorOf(error) });
}
process.on("uncaughtException", stray);
process.on("unhandledRejection", stray);
// Ctrl-C in a terminal reaches the whole group of processes; the agent decides when this one ends.
process.on("SIGINT", () => {});
