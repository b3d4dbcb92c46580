/**
 * The program of the Node process. The agent reads from its first message whether this node can run extensions.
 *
 * Arguments: the descriptors from which it reads calls, to which it writes messages, from which it reads immediate answers; a
 * folder for what was compiled; the folder of an installation of pi; the release of pi whose names extensions find; `draws`, if
 * a client draws what extensions show. It requires the other modules, since importing fifteen takes a third of the start.
 */

const fs = require("node:fs");
const { registerHooks, stripTypeScriptTypes } = require("node:module");

const isUsable = typeof registerHooks === "function" && typeof stripTypeScriptTypes === "function";
fs.writeSync(Number(process.argv[3]), `${JSON.stringify({ type: "ready", version: process.version, isUsable })}\n`);
if (isUsable) require("./serving.mjs");
