/** The packages of the user's installation of pi, for what we lack: read where they lie, and no part of the agent. */

"use strict";

const fs = require("node:fs");
const { createRequire } = require("node:module");
const path = require("node:path");

const root = process.argv[6] || null;
const OWN = "pi-coding-agent";

/** The module that a specifier means in the installation of pi; undefined: there is none, or it can't be loaded. */
function installed(specifier) {
  if (root === null) return undefined;
  const [, name, ...rest] = specifier.split("/");
  const beside = path.dirname(root);
  const folders = name === OWN ? [root] : [path.join(root, "node_modules", path.basename(beside), name), path.join(beside, name)];
  for (const folder of folders) {
    try {
      const entry = entryOf(folder, rest.join("/"));
      if (entry !== undefined) return createRequire(path.join(folder, "package.json"))(path.join(folder, entry));
    } catch {
      // The next folder.
    }
  }
  return undefined;
}

/** The file of a package for imports, by its package.json. */
function entryOf(folder, subpath) {
  const { exports, main } = JSON.parse(fs.readFileSync(path.join(folder, "package.json"), "utf8"));
  let found = exports;
  if (found === undefined) return subpath === "" ? main : subpath;
  const isMap = typeof found === "object" && Object.keys(found).some((key) => key.startsWith("."));
  if (isMap) found = found[subpath === "" ? "." : `./${subpath}`];
  else if (subpath !== "") return undefined;
  while (found !== null && typeof found === "object") found = found.import ?? found.default;
  return found ?? undefined;
}

module.exports = { installed };
