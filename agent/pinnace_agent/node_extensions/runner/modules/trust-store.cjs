/** `ProjectTrustStore` of pi, to be read: decisions are the user's, by `pinnace trust`. */

"use strict";

const path = require("node:path");
const { now } = require("../wire.cjs");

const refused = () => {
  throw new Error("ProjectTrustStore can't be changed in pinnace: the user decides, by `pinnace trust`");
};

class ProjectTrustStore {
  constructor(agentDir) {
    this.agentDir = path.resolve(agentDir);
  }
  /** The decision for a folder or the nearest one above it: `{ path, decision }`, null: there is none. */
  getEntry(cwd) { return now(undefined, "trust_entry", this.agentDir, path.resolve(cwd)) ?? null; }
  get(cwd) { return this.getEntry(cwd)?.decision ?? null; }
  set() { refused(); }
  setMany() { refused(); }
}

module.exports = { ProjectTrustStore };
