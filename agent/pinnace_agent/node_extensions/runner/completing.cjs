/**
 * What completes the text of an editor: commands, arguments of those of this process, and files, as pi's provider does; and over
 * it the providers of extensions, each over the one before. One that fails or takes too long is left out of that answer, and
 * reported once. A client that has an editor of its own also has pi's provider of its own: it gets what extensions add.
 */

"use strict";

const { loaded } = require("./registry.cjs");
const { atRetirement } = require("./retiring.cjs");
const { ask, now, post, reportOnce } = require("./wire.cjs");

const MOST = 20;
const MOST_OFFERED = 100;
const TRIGGERS = ["@", "#"]; // those of pi's editor

const wrappers = []; // what extensions have added, the first one innermost
const watchers = new Set();
const own = new WeakMap(); // what pi's provider has answered, with its items
atRetirement(() => {
  wrappers.length = 0;
  watchers.clear();
});
let limitMs = 1000; // of all providers together; the agent sends it

/** Complete texts by what a factory makes of the providers before it, from now on. */
function addProvider(who, factory) {
  if (typeof factory !== "function") throw new Error("addAutocompleteProvider: the factory is not a function");
  wrappers.push({ who, factory, made: undefined });
  if (wrappers.length === 1) post(who, "ui.completes");
  for (const each of watchers) each();
}

/** Give an editor the provider over all others, also when one is added; returns what ends that. */
function provide(who, editor) {
  const give = () => editor.setAutocompleteProvider(chained(who));
  give();
  watchers.add(give);
  return () => watchers.delete(give);
}

/** The provider over all others. */
function chained(who) {
  let current = provider(wrappers[0]?.who ?? who);
  const triggers = [];
  for (const each of wrappers) {
    current = each.made ??= guarded(each, current, wrappers.indexOf(each));
    triggers.push(...(current.triggerCharacters ?? []));
  }
  return { ...current, triggerCharacters: [...new Set(triggers)] };
}

function guarded(wrapper, current, place) {
  const report = (error) => reportOnce(wrapper, "completion", error);
  const guard = (name) => (...values) => {
    try {
      return made[name] ? made[name](...values) : current[name]?.(...values);
    } catch (error) {
      report(error);
      return current[name]?.(...values);
    }
  };
  let made;
  try {
    made = wrapper.factory(current);
    if (typeof made?.getSuggestions !== "function") {
      throw new Error("addAutocompleteProvider: the factory must return a provider, which has getSuggestions");
    }
  } catch (error) {
    report(error);
    return current;
  }
  return {
    triggerCharacters: made.triggerCharacters,
    async getSuggestions(lines, line, column, options) {
      // Those beneath have less time, so that the one that is slow is found.
      const ms = (limitMs * (place + 1)) / wrappers.length;
      let timer;
      const late = new Promise((_, reject) => {
        timer = setTimeout(() => reject(new Error(`the completions of the text took longer than ${ms / 1000} s`)), ms);
      });
      try {
        return await Promise.race([made.getSuggestions(lines, line, column, options), late]);
      } catch (error) {
        if (options?.signal?.aborted) return null; // something else is being written
        report(error);
        return await current.getSuggestions(lines, line, column, options);
      } finally {
        clearTimeout(timer);
      }
    },
    applyCompletion: guard("applyCompletion"),
    shouldTriggerFileCompletion: guard("shouldTriggerFileCompletion"),
  };
}

/** What extensions offer for the text of the client's own editor: what of it the items take the place of, and those; null: nothing. */
async function completeText({ before, after, force, limit }, { controller }) {
  limitMs = limit;
  const made = chained();
  const lines = (before + after).split("\n");
  const line = before.split("\n").length - 1;
  const column = before.length - before.lastIndexOf("\n") - 1;
  const written = lines[line].slice(0, column);
  if (force ? made.shouldTriggerFileCompletion(lines, line, column) === false : !isTrigger(written, line, made.triggerCharacters)) {
    return null;
  }
  const found = await made.getSuggestions(lines, line, column, { signal: controller.signal, force });
  if (!found?.items?.length || isOwn(found)) return null;
  const shown = found.items.slice(0, MOST_OFFERED).map((each) => ({
    value: inserted(made, lines, line, column, each, found.prefix),
    label: each.label ?? each.value, description: each.description ?? null,
  }));
  return [found.prefix, shown];
}

/** Whether pi's editor would ask for completions while this is written. */
function isTrigger(written, line, triggers) {
  const signs = [...TRIGGERS, ...triggers];
  return (line === 0 && written.trimStart().startsWith("/")) || signs.includes(/(?:^|\s)(\S)\S*$/.exec(written)?.[1]);
}

function isOwn(found) {
  const items = own.get(found);
  return items?.length === found.items.length && items.every((each, place) => each === found.items[place]);
}

/** What takes the place of the prefix: what the provider inserts there, if it changes nothing else. */
function inserted(made, lines, line, column, item, prefix) {
  const changed = made.applyCompletion([...lines], line, column, item, prefix).lines;
  const [start, rest] = [lines[line].slice(0, column - prefix.length), lines[line].slice(column)];
  const row = changed[line] ?? "";
  const isThere = changed.length === lines.length && row.startsWith(start) && row.slice(start.length).endsWith(rest);
  return isThere ? row.slice(start.length, row.length - rest.length) : item.value;
}

/** The provider without those of extensions; texts are asked for when they are completed. */
function provider(who) {
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

function suggested(prefix, items) {
  if (!items?.length) return null;
  const found = { items: items.slice(0, MOST), prefix };
  own.set(found, [...found.items]);
  return found;
}

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

module.exports = { addProvider, provide, completeText };
