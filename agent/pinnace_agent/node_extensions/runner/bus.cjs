/** `pi.events`: the bus between the extensions of this process, joined with the agent's for those in Python. */

"use strict";

const { atRetirement } = require("./retiring.cjs");
const { errorOf, post, send, CALL } = require("./wire.cjs");

const channels = new Map();
atRetirement(() => channels.clear());

/** Deliver data here, by reference and at once, as pi does. A failure of a listener is reported and ends nothing. */
function emitted(channel, data) {
  for (const { handler, extension } of [...(channels.get(channel) ?? [])]) {
    const failed = (error) => send({ type: "stray", extension, error: errorOf(error) });
    CALL.run({ ...CALL.getStore(), extension }, () => {
      try {
        Promise.resolve(handler(data)).catch(failed);
      } catch (error) {
        failed(error);
      }
    });
  }
}

/** The bus as one extension has it. */
function busOf(extension) {
  const who = { extension: extension.number };
  return {
    emit(channel, data) {
      emitted(channel, data);
      let isData = true;
      try {
        JSON.stringify(data);
      } catch {
        isData = false; // only extensions of this process can read it
      }
      if (isData && typeof data !== "function") post(who, "emit", channel, data ?? null);
    },
    on(channel, handler) {
      const listener = { handler, extension: extension.number };
      const known = channels.get(channel);
      if (known) known.push(listener);
      else {
        channels.set(channel, [listener]);
        post(who, "listen", channel);
      }
      return () => {
        const listeners = channels.get(channel) ?? [];
        const at = listeners.indexOf(listener);
        if (at !== -1) listeners.splice(at, 1);
      };
    },
  };
}

module.exports = { emitted, busOf };
