/**
 * An extension that the agent of a session loads which an extension has made with tools of its own (`customTools`): it registers
 * them, and passes their calls to the process that has their functions, over a socket in a folder of the user's.
 */

"use strict";

const net = require("node:net");
const { eachLine } = require("./wire.cjs");

/** The variable that names the socket. */
const SOCKET = "PINNACE_SESSION_TOOLS";

const write = (stream, message) => stream.write(`${JSON.stringify(message)}\n`);

module.exports = async function (pi) {
  const socket = net.connect(process.env[SOCKET]);
  const calls = new Map();
  const lost = () => {
    for (const { reject } of calls.values()) reject(new Error("the extension that has this tool has ended"));
    calls.clear();
  };
  socket.on("error", lost);
  socket.on("close", lost);
  let number = 0;
  const tools = await new Promise((resolve, reject) => {
    socket.on("error", reject);
    eachLine(socket, (message) => {
      if (message.tools) return resolve(message.tools);
      const call = calls.get(message.call);
      if (call === undefined) return;
      if ("update" in message) return call.onUpdate?.(message.update);
      calls.delete(message.call);
      if ("error" in message) call.reject(new Error(message.error));
      else call.resolve(message.result);
    });
  });
  for (const tool of tools) {
    pi.registerTool({
      ...tool,
      execute(id, params, signal, onUpdate) {
        const call = ++number;
        const { promise, resolve, reject } = Promise.withResolvers();
        if (socket.destroyed) return Promise.reject(new Error("the extension that has this tool has ended"));
        calls.set(call, { resolve, reject, onUpdate });
        signal?.addEventListener("abort", () => write(socket, { abort: call }), { once: true });
        write(socket, { call, name: tool.name, id, params });
        return promise;
      },
    });
  }
};

Object.assign(module.exports, { SOCKET, write });
