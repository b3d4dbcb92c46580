/**
 * The program of the Node process. The agent reads from its first message whether this node can run extensions.
 *
 * Arguments: the descriptors from which it reads calls, to which it writes messages, from which it reads immediate answers; a
 * folder for what was compiled; the folder of an installation of pi; the release of pi whose names extensions find; `draws`, if
 * a client draws what extensions show. The modules are CommonJS, since importing fifteen would take a third of the start.
 */

"use strict";

const fs = require("node:fs");
const nodeModule = require("node:module");
const path = require("node:path");

const isUsable = "registerHooks" in nodeModule && "stripTypeScriptTypes" in nodeModule;
fs.writeSync(Number(process.argv[3]), `${JSON.stringify({ type: "ready", version: process.version, isUsable })}\n`);
if (isUsable) {
  // Node keeps what it has compiled, of these modules and of extensions, so that a second start is fast.
  if (process.argv[5]) nodeModule.enableCompileCache(path.join(process.argv[5], "compiled"));
  require("./serving.cjs");
}
