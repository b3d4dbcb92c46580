/**
 * The program of the Node process. The agent reads from its first message whether this node can run extensions.
 *
 * Arguments: the descriptors from which it reads calls, to which it writes messages, from which it reads immediate answers; a
 * folder for what was compiled; the folder of an installation of pi; the release of pi whose names extensions find.
 */

import module from "node:module";
import { send } from "./wire.mjs";

const isUsable = typeof module.registerHooks === "function" && typeof module.stripTypeScriptTypes === "function";
send({ type: "ready", version: process.version, isUsable });
if (isUsable) await import("./serving.mjs");
