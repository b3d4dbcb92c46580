/** Lists to choose from: models, levels, themes, sessions, entries, logins. All are one list, with a search where there may be many. */

"use strict";

const { getSelectListTheme, keyHint } = require("./coding-agent.cjs");
const { Dialog } = require("./dialogs.cjs");
const { tui } = require("./pi-tui.cjs");
const { keybindings } = require("../keys.cjs");
const { theme } = require("../theme.cjs");
const { now } = require("../wire.cjs");

const MOST_SHOWN = 10;
const LONGEST_LABEL = 200;
const MOST_INDENTED = 20;

const short = (text) => text.replace(/\s+/g, " ").trim().slice(0, LONGEST_LABEL);

/**
 * A list of items `{ value, label, description }`. `onSelect` gets the value of the one that is chosen.
 *
 * With `searches`, what is typed filters the list, by letters in order.
 */
class Chooser extends Dialog {
  constructor(title, items, onSelect, onCancel, { description, selected, searches = false, query = "", count = MOST_SHOWN, onChange } = {}) {
    super(title, { description }, undefined, keyHint("tui.select.confirm", "select"), keyHint("tui.select.cancel", "cancel"));
    Object.assign(this, { items, onSelect, onCancel, count, onChange });
    if (searches) {
      this.field = new tui.Input();
      this.field.setValue(query);
    }
    this.fill(selected);
  }
  setItems(items, selected) {
    this.items = items;
    this.fill(selected);
  }
  /** Make the list anew, with the item of a value marked if it is in it. */
  fill(selected = this.list?.getSelectedItem()?.value) {
    const query = this.field?.getValue() ?? "";
    const items = query ? tui.fuzzyFilter(this.items, query, (each) => `${each.label} ${each.description ?? ""}`) : this.items;
    this.list = new tui.SelectList(items, this.count, getSelectListTheme());
    this.list.setSelectedIndex(Math.max(0, items.findIndex((each) => each.value === selected)));
    this.list.onSelect = (item) => this.onSelect(item.value);
    this.list.onCancel = () => this.onCancel();
    this.list.onSelectionChange = (item) => item && this.onChange?.(item.value);
    this.body.clear();
    if (this.field) this.body.addChild(this.field);
    this.body.addChild(this.list);
  }
  getSelectList() { return this.list; }
  getSearchInput() { return this.field; }
  handleInput(data) {
    const isOfList = ["up", "down", "pageUp", "pageDown", "confirm", "cancel"].some((each) => keybindings().matches(data, `tui.select.${each}`));
    if (isOfList || !this.field) return this.list.handleInput(data);
    const former = this.field.getValue();
    this.field.handleInput(data);
    if (this.field.getValue() !== former) this.fill();
  }
}

class ThinkingSelectorComponent extends Chooser {
  constructor(currentLevel, levels, onSelect, onCancel, _onSelectAsDefault, defaultLevel) {
    const items = levels.map((value) => ({ value, label: value, description: value === defaultLevel ? "(default)" : undefined }));
    super("Thinking level", items, onSelect, onCancel, { selected: currentLevel, searches: true, count: levels.length });
  }
}

class ShowImagesSelectorComponent extends Chooser {
  constructor(currentValue, onSelect, onCancel) {
    const items = [["yes", "Yes", "Show images where the terminal can"], ["no", "No", "Show text in their place"]].map(([value, label, description]) => ({ value, label, description }));
    super("Show images", items, (value) => onSelect(value === "yes"), onCancel, { selected: currentValue ? "yes" : "no" });
  }
}

/** The themes of the client, which are known while one is there that has them. */
class ThemeSelectorComponent extends Chooser {
  constructor(currentTheme, onSelect, onCancel, onPreview) {
    const found = now(undefined, "ui.themes") ?? [];
    const names = found.includes(currentTheme) ? found : [currentTheme, ...found];
    const items = names.map((value) => ({ value, label: value, description: value === currentTheme ? "(current)" : undefined }));
    super("Theme", items, onSelect, onCancel, { selected: currentTheme, onChange: onPreview });
  }
}

/** The models that can be used; those in scope alone, if there are any. */
class ModelSelectorComponent extends Chooser {
  constructor(screen, currentModel, models, scopedModels, onSelect, onCancel, query, _onSelectAsDefault, defaultModel) {
    const named = (model) => `${model.provider}/${model.id}`;
    const isDefault = (model) => defaultModel !== undefined && named(model) === named(defaultModel);
    const all = new Map();
    const itemsOf = (found) => found.map((model) => {
      all.set(named(model), model);
      return { value: named(model), label: model.id, description: `[${model.provider}]${isDefault(model) ? " (default)" : ""}` };
    });
    const options = { selected: currentModel && named(currentModel), searches: true, query };
    super("Model", [], (name) => onSelect(all.get(name)), onCancel, options);
    const scoped = (scopedModels ?? []).map((each) => each.model);
    const found = scoped.length > 0 ? scoped : models.getAvailable();
    const show = (each) => this.setItems(itemsOf(each), options.selected);
    if (Array.isArray(found)) show(found);
    else {
      void found.then((each) => {
        show(each);
        screen?.requestRender?.();
      });
    }
  }
}

/** The sessions of the folder; with Tab those of all folders. */
class SessionSelectorComponent extends Chooser {
  isOfAll = false;
  constructor(loadCurrent, loadAll, onSelect, onCancel, _onExit, requestRender, _options, currentFile) {
    super("Sessions", [], onSelect, onCancel, { description: "Tab: of this folder, of all folders", selected: currentFile, searches: true });
    Object.assign(this, { loaders: [loadCurrent, loadAll], requestRender, currentFile });
    void this.load();
  }
  async load() {
    const load = this.loaders[this.isOfAll ? 1 : 0];
    const sessions = await load();
    if (load !== this.loaders[this.isOfAll ? 1 : 0]) return; // the user has chosen the others meanwhile
    const items = sessions.map((each) => ({
      value: each.path, label: short(each.name ?? each.firstMessage),
      description: `${each.messageCount} messages${this.isOfAll ? ` ${each.cwd}` : ""}${each.path === this.currentFile ? " (current)" : ""}`,
    }));
    this.setItems(items, this.currentFile);
    this.requestRender?.();
  }
  getSessionList() { return this.list; }
  handleInput(data) {
    if (!keybindings().matches(data, "tui.input.tab")) return super.handleInput(data);
    this.isOfAll = !this.isOfAll;
    void this.load();
  }
}

/** The user's messages, of which one is to be forked from; the last one is marked. */
class UserMessageSelectorComponent extends Chooser {
  constructor(messages, onSelect, onCancel, initialSelectedId) {
    const items = messages.map(({ id, text }, place) => ({ value: id, label: short(text), description: `${place + 1}/${messages.length}` }));
    const selected = messages.some((each) => each.id === initialSelectedId) ? initialSelectedId : messages.at(-1)?.id;
    super("Fork from message", items, onSelect, onCancel, { selected });
    if (messages.length === 0) setImmediate(onCancel);
  }
  getMessageList() { return this.list; }
}

/** What a line of the tree shows of an entry; undefined: it is not shown. */
function ofEntry(entry) {
  switch (entry.type) {
    case "message": {
      const { role, content, command } = entry.message;
      if (role === "toolResult") return undefined;
      const blocks = typeof content === "string" ? [{ type: "text", text: content }] : (content ?? []);
      const text = blocks.map((each) => each.text ?? (each.type === "toolCall" ? `[${each.name}]` : "")).join(" ");
      return `${role === "bashExecution" ? "bash" : role}: ${command ?? text}`;
    }
    case "custom_message": return `${entry.customType}: ${typeof entry.content === "string" ? entry.content : ""}`;
    case "branch_summary": return `branch summary: ${entry.summary}`;
    case "compaction": return `compaction: ${entry.summary}`;
    default: return undefined;
  }
}

/** The entries of the branch that ends with an entry. */
function activeIn(tree, leafId) {
  const parents = new Map();
  const stack = [...tree];
  while (stack.length > 0) {
    const { entry, children } = stack.pop();
    parents.set(entry.id, entry.parentId);
    stack.push(...children);
  }
  const found = new Set();
  for (let id = leafId; id && !found.has(id); id = parents.get(id)) found.add(id);
  return found;
}

/** The tree of a session, in lines that are indented where branches part. Enter moves to an entry. */
class TreeSelectorComponent extends Chooser {
  constructor(tree, currentLeafId, terminalHeight, onSelect, onCancel, _onLabelChange, initialSelectedId) {
    const active = activeIn(tree, currentLeafId);
    const items = [];
    const shown = new Map(); // of each entry, the nearest one to the root that has a line
    // The active branch comes first where branches part, as in pi.
    const children = (nodes, depth, nearest) =>
      nodes.toSorted((one, other) => active.has(other.entry.id) - active.has(one.entry.id)).reverse().map((node) => ({ node, depth, nearest }));
    const stack = children(tree, 0);
    while (stack.length > 0) { // not by recursion: a branch may have thousands of entries
      const { node, depth, nearest } = stack.pop();
      const text = ofEntry(node.entry);
      const mark = node.label ? `[${node.label}] ` : "";
      const end = node.entry.id === currentLeafId ? " ← active" : "";
      if (text !== undefined) items.push({ value: node.entry.id, label: "  ".repeat(Math.min(depth, MOST_INDENTED)) + mark + short(text) + end });
      shown.set(node.entry.id, text === undefined ? nearest : node.entry.id);
      stack.push(...children(node.children, depth + (node.children.length > 1 ? 1 : 0), shown.get(node.entry.id)));
    }
    const selected = shown.get(initialSelectedId ?? currentLeafId);
    super("Session tree", items, onSelect, onCancel, { selected, searches: true, count: Math.max(5, Math.floor(terminalHeight / 2)) });
  }
  getTreeList() { return this.list; }
}

class OAuthSelectorComponent extends Chooser {
  constructor(mode, providers, onSelect, onCancel, query) {
    const items = providers.map(({ id, name, authType }, place) => ({
      value: place, label: name ?? id, description: authType === "oauth" ? "subscription" : "API key",
    }));
    const select = (place) => onSelect(providers[place].id, providers[place].authType);
    super(mode === "login" ? "Log in" : "Log out", items, select, onCancel, { searches: true, query, count: 8 });
  }
}

module.exports = {
  ThinkingSelectorComponent, ShowImagesSelectorComponent, ThemeSelectorComponent, ModelSelectorComponent, SessionSelectorComponent,
  UserMessageSelectorComponent, TreeSelectorComponent, OAuthSelectorComponent,
};
