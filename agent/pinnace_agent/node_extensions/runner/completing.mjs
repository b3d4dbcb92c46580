/** What completes the text of an editor of extensions: commands, arguments of those of this process, and files, as pi's provider does. */

import { loaded } from "./registry.mjs";
import { ask, now } from "./wire.mjs";

const MOST = 20;

/** The provider of an editor; texts are asked for when they are completed. */
export function provider(who) {
  return {
    async getSuggestions(lines, line, column, { signal } = {}) {
      const written = (lines[line] ?? "").slice(0, column);
      const name = line === 0 ? /^\/(\S*)$/.exec(written)?.[1] : undefined;
      if (name !== undefined) return suggested(`/${name}`, await commandsLike(who, name));
      const found = line === 0 ? /^\/(\S+) (.*)$/.exec(written) : undefined;
      const file = /(?:^|\s)@(\S*)$/.exec(written)?.[1];
      if (file !== undefined) return suggested(`@${file}`, await filesLike(who, file, signal));
      return found ? suggested(found[2], await argumentsOf(found[1], found[2])) : null;
    },
    applyCompletion(lines, cursorLine, cursorCol, item, prefix) {
      const line = lines[cursorLine] ?? "";
      const before = line.slice(0, cursorCol - prefix.length);
      const isCommand = prefix.startsWith("/") && before.trim() === "" && !prefix.slice(1).includes("/");
      const end = isCommand || (prefix.startsWith("@") && !item.value.endsWith("/")) ? " " : "";
      const made = before + (isCommand ? `/${item.value}` : item.value) + end;
      const changed = [...lines];
      changed[cursorLine] = made + line.slice(cursorCol);
      return { lines: changed, cursorLine, cursorCol: made.length };
    },
    shouldTriggerFileCompletion: () => true,
  };
}

const suggested = (prefix, items) => (items?.length ? { items: items.slice(0, MOST), prefix } : null);

async function commandsLike(who, name) {
  const wanted = name.toLowerCase();
  const all = now(who, "get_commands");
  const begins = (each) => each.name.toLowerCase().startsWith(wanted);
  const found = [...all.filter(begins), ...all.filter((each) => !begins(each) && each.name.toLowerCase().includes(wanted))];
  return found.map((each) => ({ value: each.name, label: each.name, description: each.description ?? undefined }));
}

async function filesLike(who, prefix, signal) {
  try {
    return await ask(who, "ui.files", [prefix], signal);
  } catch (error) {
    if (signal?.aborted) return null; // something else is being written
    throw error;
  }
}

async function argumentsOf(name, prefix) {
  for (const extension of loaded()) {
    const complete = extension.commands.get(name)?.getArgumentCompletions;
    if (complete) return await complete(prefix);
  }
  return null;
}
