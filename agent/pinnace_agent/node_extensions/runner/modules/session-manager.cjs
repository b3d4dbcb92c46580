/**
 * `SessionManager` of pi: the entries of one session, in a file of pi's format or in memory.
 *
 * For sessions of extensions, which another agent works on: entries are kept here until it is started, and are read from its
 * file from then on. The user's own session is `ctx.sessionManager`.
 */

"use strict";

const { randomBytes } = require("node:crypto");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { buildContextEntries, buildSessionContext, buildSessionProjection, unusedId } = require("./session-context.cjs");
const { foldersIn, listed } = require("./session-list.cjs");
const { now } = require("../wire.cjs");

const folderOf = (cwd, folder) => folder ?? now(undefined, "session_folder", cwd);
/** Whether a folder may have sessions of other working folders. */
const isOther = (cwd, folder) => folder !== undefined && path.resolve(folder) !== now(undefined, "session_folder", cwd);

const VERSION = 3;
const folders = new Set();
const MOST_CHARS = 70; // of 107 that the address of a socket has

process.on("exit", () => folders.forEach(removeFolder));

/** Make a folder that only the user can read, for as long as an agent needs it; its name is short enough for sockets in it. */
function makeFolder() {
  const usual = os.tmpdir();
  const folder = fs.mkdtempSync(path.join(usual.length > MOST_CHARS ? "/tmp" : usual, "pinnace-session-"));
  folders.add(folder);
  return folder;
}

function removeFolder(folder) {
  folders.delete(folder);
  fs.rmSync(folder, { recursive: true, force: true });
}

/** An id like those of pi: the time, then chance. */
function newId() {
  const bytes = randomBytes(16);
  bytes.writeUIntBE(Date.now(), 0, 6);
  bytes[6] = (bytes[6] & 0x0f) | 0x70;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

class SessionManager {
  #entries = [];
  #byId = new Map();
  #leafId = null;
  #file = null;
  #size = -1; // of the file when it was read last; -1: nothing was written
  #isPersisted;
  #folder;

  constructor(cwd, folder, { id, parentSession } = {}, file = null) {
    this.#isPersisted = folder !== null;
    this.#folder = folder;
    const header = { type: "session", version: VERSION, id: id ?? newId(), timestamp: new Date().toISOString(), cwd };
    this.header = parentSession === undefined ? header : { ...header, parentSession };
    if (file !== null) this.#file = file;
    else if (folder !== null) {
      this.#file = path.join(folder, `${header.timestamp.replace(/[:.]/g, "-")}_${header.id}.jsonl`);
    }
  }

  /** A session that no file keeps. */
  static inMemory(cwd = process.cwd(), options = {}, entries = []) {
    const made = new SessionManager(cwd, null, options);
    made.#take(entries);
    return made;
  }

  /** A new session; its file is written when an agent begins to work on it. */
  static create(cwd, folder, options = {}) {
    return new SessionManager(cwd, folderOf(cwd, folder), options);
  }

  /** The session of a file. Throws if it can't be read, is no session, or works in another folder than `cwd`: its agent would, too. */
  static open(file, folder, cwd) {
    const made = new SessionManager(cwd, folder ?? path.dirname(file), {}, path.resolve(file));
    made.header = null;
    made.#size = 0;
    made.#read();
    if (made.header === null) throw new Error(`${file} is no session`);
    if (cwd !== undefined) made.moveTo(cwd);
    return made;
  }

  /** The newest session of a working folder, or a new one. */
  static continueRecent(cwd, folder) {
    const [newest] = listed([folderOf(cwd, folder)], cwd); // folders may share the name of their sessions' folder
    return newest === undefined ? SessionManager.create(cwd, folder) : SessionManager.open(newest.path, folder, cwd);
  }

  /** A new session in a working folder, with all that the session of a file holds. */
  static forkFrom(file, cwd, folder, options = {}) {
    const made = SessionManager.create(path.resolve(cwd), folder, { ...options, parentSession: path.resolve(file) });
    made.#take(SessionManager.open(file).getEntries());
    return made;
  }

  static findById(cwd, id, folder) {
    return listed([folderOf(cwd, folder)], isOther(cwd, folder) ? cwd : undefined).find((each) => each.id === id)?.path;
  }

  static async list(cwd, folder, onProgress, signal) {
    return listed([folderOf(cwd, folder)], isOther(cwd, folder) ? cwd : undefined, onProgress, signal);
  }

  /** The sessions of all working folders, or of one folder that has those of several. */
  static async listAll(...values) {
    const folder = typeof values[0] === "string" ? values.shift() : undefined;
    const onProgress = typeof values[0] === "function" ? values.shift() : undefined;
    const folders = folder === undefined ? foldersIn(path.join(now(undefined, "agent_dir"), "sessions")) : [folder];
    return listed(folders, undefined, onProgress, values.at(-1));
  }

  // --- for the agent that works on it ----------------------------------------------------------------

  /** Have a session that was not written yet belong to another folder. */
  moveTo(cwd) {
    if (this.#size < 0) this.header = { ...this.header, cwd: path.resolve(cwd) };
    else if (path.resolve(cwd) !== this.header.cwd) throw new Error(`cwd: the session of ${this.#file} works in ${this.header.cwd}`);
  }

  /** Write the file that an agent is to work on, if it is not there, and return its path. */
  written() {
    if (this.#size >= 0) return this.#file;
    if (this.#file === null) this.#file = path.join(makeFolder(), "session.jsonl");
    fs.mkdirSync(path.dirname(this.#file), { recursive: true, mode: 0o700 });
    const lines = [this.header, ...this.#entries].map((each) => `${JSON.stringify(each)}\n`).join("");
    fs.writeFileSync(this.#file, lines, { flag: "wx", mode: 0o600 });
    this.#size = Buffer.byteLength(lines);
    return this.#file;
  }

  /** Remove what `written` has made for a session that no file keeps; its entries stay. */
  release() {
    if (this.#isPersisted || this.#file === null) return;
    this.#read();
    removeFolder(path.dirname(this.#file));
    this.#file = null;
    this.#size = -1;
  }

  /** Take what the file has more; a line that is not whole yet comes later, and one that is no JSON is left out. */
  #read() {
    if (this.#size < 0) return;
    const data = fs.readFileSync(this.#file);
    if (data.length <= this.#size) return;
    const end = data.lastIndexOf(10) + 1;
    const lines = data.subarray(this.#size, end).toString("utf8").split("\n");
    this.#size = Math.max(end, this.#size);
    const records = lines.flatMap((line) => {
      try {
        return [JSON.parse(line)];
      } catch {
        return [];
      }
    });
    if (this.header === null) {
      this.header = records.shift();
      if (this.header?.type !== "session") throw new Error(`${this.#file} is no session`);
    }
    this.#take(records);
  }

  #take(entries) {
    for (const entry of entries) {
      if (typeof entry?.id !== "string" || entry.type === "session") continue;
      this.#entries.push(entry);
      this.#byId.set(entry.id, entry);
      this.#leafId = entry.id;
    }
  }

  // --- reading ---------------------------------------------------------------------------------------

  isPersisted() { return this.#isPersisted; }
  usesDefaultSessionDir() { return this.#folder === now(undefined, "session_folder", this.header.cwd); }
  getCwd() { return this.header.cwd; }
  getSessionDir() { return this.#folder ?? ""; }
  getSessionId() { return this.header.id; }
  getSessionFile() { return this.#isPersisted ? this.#file : undefined; }
  getHeader() { return this.header; }
  getLeafId() { return (this.#read(), this.#leafId); }
  getLeafEntry() { return this.getEntry(this.getLeafId()); }
  getEntry(id) { return (this.#read(), this.#byId.get(id)); }
  getEntries() { return (this.#read(), [...this.#entries]); }
  getEntryCount() { return (this.#read(), this.#entries.length); }
  getChildren(id) { return this.getEntries().filter((entry) => entry.parentId === id); }

  #last(type, is = () => true) { return this.getEntries().findLast((entry) => entry.type === type && is(entry)); }
  getSessionName() { return this.#last("session_info")?.name || undefined; }
  getLabel(id) { return this.#last("label", (entry) => entry.targetId === id)?.label || undefined; }

  getBranch(fromId) {
    const found = [];
    for (let entry = this.getEntry(fromId ?? this.getLeafId()); entry !== undefined; entry = this.#byId.get(entry.parentId)) {
      found.push(entry);
    }
    return found.reverse();
  }

  getTree() {
    const nodes = new Map(this.getEntries().map((entry) => [entry.id, { entry, children: [], label: this.getLabel(entry.id) }]));
    const roots = [];
    for (const node of nodes.values()) (nodes.get(node.entry.parentId)?.children ?? roots).push(node);
    return roots;
  }

  buildContextEntries() { return buildContextEntries(this.getBranch(), this.getLeafId()); }
  buildSessionProjection() { return buildSessionProjection(this.getBranch(), this.getLeafId()); }
  buildSessionContext() { return buildSessionContext(this.getBranch(), this.getLeafId()); }

  // --- writing, before an agent works on it ------------------------------------------------------------

  #append(type, fields) {
    if (this.#size >= 0) throw new Error("an agent works on this session, or it has a file: it can't be appended to here");
    const entry = { type, id: unusedId((id) => this.#byId.has(id)), parentId: this.#leafId, timestamp: new Date().toISOString(), ...fields };
    this.#take([entry]);
    return entry.id;
  }

  appendMessage(message) { return this.#append("message", { message }); }
  appendThinkingLevelChange(thinkingLevel) { return this.#append("thinking_level_change", { thinkingLevel }); }
  appendModelChange(provider, modelId) { return this.#append("model_change", { provider, modelId }); }
  appendCustomEntry(customType, data) { return this.#append("custom", { customType, data }); }
  appendSessionInfo(name) { return this.#append("session_info", { name }); }
  appendLabelChange(targetId, label) { return this.#append("label", { targetId, label }); }
  appendCustomMessageEntry(customType, content, display, details) {
    return this.#append("custom_message", { customType, content, display, details });
  }

  branch(id) {
    if (this.#size >= 0) throw new Error("an agent works on this session, or it has a file: its leaf can't be moved here");
    if (!this.#byId.has(id)) throw new Error(`Entry ${id} not found`);
    this.#leafId = id;
  }
  resetLeaf() {
    if (this.#size >= 0) throw new Error("an agent works on this session, or it has a file: its leaf can't be moved here");
    this.#leafId = null;
  }
}

module.exports = { SessionManager, makeFolder, removeFolder };
