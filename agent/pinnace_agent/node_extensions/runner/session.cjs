/**
 * `ctx.sessionManager`: the session, read without waiting.
 *
 * Entries are kept here and brought up to date at each read: the agent sends those that are new. Without a session of
 * its own it never writes.
 */

"use strict";

const { atRetirement } = require("./retiring.cjs");
const { now } = require("./wire.cjs");

const sessions = new Map();
atRetirement(() => sessions.clear());

class Replica {
  constructor() {
    this.entries = [];
    this.byId = new Map();
    this.leafId = null;
  }

  /** Bring it up to date, and return it. */
  static of(who) {
    const fresh = now(who, "session.entries", lastId(who.context), sessions.get(lastId(who.context))?.entries.length ?? 0);
    last.set(who.context, fresh.id);
    let replica = sessions.get(fresh.id);
    if (replica === undefined || fresh.from === 0) {
      replica = new Replica();
      sessions.set(fresh.id, replica);
    }
    for (const entry of fresh.entries) {
      replica.entries.push(entry);
      replica.byId.set(entry.id, entry);
    }
    replica.leafId = fresh.leafId ?? null;
    return replica;
  }

  branch(fromId) {
    const path = [];
    const begin = fromId ?? this.leafId;
    if (fromId !== undefined && fromId !== null && !this.byId.has(fromId)) throw new Error(`Entry ${fromId} not found`);
    for (let entry = this.byId.get(begin); entry !== undefined; entry = this.byId.get(entry.parentId)) path.push(entry);
    return path.reverse();
  }
}

// The session that a context has read last.
const last = new Map();
const lastId = (context) => last.get(context) ?? null;

/** What entries come to; loaded with its first use. */
const functions = () => require("./modules/session-context.cjs");

function sessionOf(who) {
  const read = (name, ...values) => now(who, `session.${name}`, ...values);
  return {
    getCwd: () => read("cwd"),
    getSessionDir: () => read("dir") ?? "",
    getSessionId: () => read("id"),
    getSessionFile: () => read("file"),
    getSessionName: () => read("name"),
    getHeader: () => read("header") ?? null,
    getLeafId: () => read("leafId") ?? null,
    getLeafEntry() {
      const replica = Replica.of(who);
      return replica.byId.get(replica.leafId);
    },
    getEntry: (id) => Replica.of(who).byId.get(id),
    getLabel: (id) => read("label", id),
    getBranch: (fromId) => Replica.of(who).branch(fromId),
    getEntries: () => [...Replica.of(who).entries],
    getTree: () => read("tree"),
    getChildren(parentId) {
      return Replica.of(who).entries.filter((entry) => entry.parentId === parentId);
    },
    buildSessionContext: () => read("context"),
    buildContextEntries: () => functions().buildContextEntries(Replica.of(who).branch()),
    buildSessionProjection: () => functions().buildSessionProjection(Replica.of(who).branch()),
    isPersisted: () => read("file") !== undefined,
    usesDefaultSessionDir: () => false,
  };
}

module.exports = { sessionOf };
