/** The session files of a folder, as `SessionManager.list` of pi shows them: the newest first; what is no session is left out. */

"use strict";

const fs = require("node:fs");
const path = require("node:path");

const textOf = (content) =>
  typeof content === "string" ? content : (content ?? []).flatMap((each) => (each.type === "text" ? [each.text] : [])).join(" ");

/** What a file is about; undefined: it is no session, or can't be read. */
function infoOf(file) {
  let header;
  let name;
  let messages = 0;
  let first = "";
  let active = 0;
  const texts = [];
  try {
    for (const line of fs.readFileSync(file, "utf8").split("\n")) {
      let entry;
      try {
        entry = JSON.parse(line);
      } catch {
        continue; // half a line, or none
      }
      if (header === undefined) {
        if (entry?.type !== "session") return undefined;
        header = entry;
      } else if (entry.type === "session_info") {
        name = entry.name?.trim() || undefined;
      } else if (entry.type === "message") {
        messages += 1;
        const { role, content, timestamp } = entry.message ?? {};
        if (role !== "user" && role !== "assistant") continue;
        active = Math.max(active, typeof timestamp === "number" ? timestamp : Date.parse(entry.timestamp) || 0);
        const text = textOf(content);
        if (text) texts.push(text);
        if (!first && role === "user") first = text;
      }
    }
  } catch {
    return undefined;
  }
  if (header === undefined) return undefined;
  const created = new Date(header.timestamp);
  return {
    path: file, id: header.id, cwd: header.cwd ?? "", name, parentSessionPath: header.parentSession, created,
    modified: active ? new Date(active) : created, messageCount: messages, firstMessage: first || "(no messages)",
    allMessagesText: texts.join(" "),
  };
}

function filesIn(folder) {
  try {
    return fs.readdirSync(folder, { withFileTypes: true });
  } catch {
    return [];
  }
}

/** The sessions of folders; of a working folder alone, if one is given. `onProgress` gets how many were read, of how many. */
function listed(folders, cwd, onProgress, signal) {
  const files = folders.flatMap((folder) =>
    filesIn(folder).flatMap((each) => (each.isFile() && each.name.endsWith(".jsonl") ? [path.join(folder, each.name)] : [])));
  const found = [];
  files.forEach((file, place) => {
    signal?.throwIfAborted();
    const info = infoOf(file);
    if (info !== undefined && (cwd === undefined || path.resolve(info.cwd) === path.resolve(cwd))) found.push(info);
    onProgress?.(place + 1, files.length);
  });
  return found.sort((one, other) => other.modified - one.modified);
}

/** The folders of all working folders. */
const foldersIn = (root) => filesIn(root).flatMap((each) => (each.isDirectory() ? [path.join(root, each.name)] : []));

module.exports = { listed, foldersIn };
