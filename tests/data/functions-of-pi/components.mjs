/**
 * Components that draw messages, dialogs and lists. How they look is each program's own: what is compared is which of the given
 * texts they show, in which order, and what keys do.
 */

const ESCAPES = /\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|_[^\x07\x1b]*(?:\x07|\x1b\\))/g;
const WIDTH = 60;
const KEYS = { up: "\x1b[A", down: "\x1b[B", enter: "\r", escape: "\x1b", backspace: "\x7f" };

/** Which of some texts a component shows, in the order in which they are in its lines; none is wider than there is room. */
function shows(component, ...texts) {
  const lines = component.render(WIDTH).map((line) => line.replace(ESCAPES, ""));
  const all = lines.join("\n");
  const found = texts.filter((text) => all.includes(text)).sort((one, other) => all.indexOf(one) - all.indexOf(other));
  return [...found, ...lines.filter((line) => line.length > WIDTH)];
}

const pressed = (component, ...keys) => keys.forEach((key) => component.handleInput(KEYS[key] ?? key));

/** What a component of some keys calls back, with the texts that are shown at the end. */
function used(make, keys, ...texts) {
  const calls = [];
  const callback = (name) => (...values) => void calls.push([name, ...values]);
  const component = make(callback);
  pressed(component, ...keys);
  const end = shows(component, ...texts);
  component.dispose?.();
  return [calls, end];
}

const ui = { requestRender() {}, terminal: { rows: 40, columns: WIDTH }, setFocus() {} };
const usage = { input: 1, output: 1, cacheRead: 0, cacheWrite: 0, totalTokens: 2, cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 } };
const text = (each) => ({ type: "text", text: each });
const thinking = (each) => ({ type: "thinking", thinking: each });
const answer = (content, more = {}) => ({ role: "assistant", content, stopReason: "stop", usage, ...more });
const toolCall = { type: "toolCall", id: "c", name: "read", arguments: { path: "p" } };
const numbered = (count) => Array.from({ length: count }, (_, place) => `row ${String(place).padStart(2, "0")}.`);

export const cases = {
  userMessages: (pi) => {
    pi.initTheme();
    const component = new pi.UserMessageComponent("said by the user");
    component.setOutputPad(0);
    return [shows(component, "said by the user"), shows(new pi.UserMessageComponent("seen", undefined, 1, [(each) => `${each} twice`]), "seen twice")];
  },

  answers: (pi) => {
    const parts = ["first", "thought one", "thought two", "second", "Label", "Thinking..."];
    const content = [text(" first "), thinking("thought one"), thinking(""), thinking("thought two"), text("second"), text(" ")];
    const hidden = new pi.AssistantMessageComponent(answer(content), true);
    const updated = new pi.AssistantMessageComponent();
    const before = shows(updated, ...parts);
    updated.updateContent(answer([text("first")]), true);
    const during = shows(updated, ...parts);
    updated.updateContent(answer([text("second")]));
    const labels = hidden.render(WIDTH).filter((line) => line.includes("Thinking...")).length;
    const shown = [shows(new pi.AssistantMessageComponent(answer(content)), ...parts), shows(hidden, ...parts), labels];
    hidden.setHiddenThinkingLabel("Label");
    const labelled = shows(hidden, ...parts);
    hidden.setHideThinkingBlock(false);
    return [before, during, shows(updated, ...parts), shown, labelled, shows(hidden, ...parts)];
  },

  failures: (pi) => [
    { stopReason: "length" }, { stopReason: "aborted" }, { stopReason: "aborted", errorMessage: "own words" },
    { stopReason: "error" }, { stopReason: "error", errorMessage: "down" }, {},
  ].flatMap((more) => [[text("part")], [toolCall]].map((content) => shows(
    new pi.AssistantMessageComponent(answer(content, more)), "part", "truncated", "Operation aborted", "own words", "Unknown error", "Error: down"))),

  transformers: (pi) => {
    const contexts = [];
    const transformers = [
      (markdown, context) => { contexts.push(context); return markdown.replace("a", "b"); },
      () => { throw new Error("not this one"); }, () => 5, (markdown) => `${markdown}!`,
    ];
    const component = new pi.AssistantMessageComponent(answer([text("a"), thinking("x a")]), false, undefined, "", 1, transformers, "id", "then");
    return [shows(component, "b!", "x b!"), contexts];
  },

  customMessages: (pi) => {
    const message = { role: "custom", customType: "note", content: "written", display: true };
    const seen = [];
    const renderer = (each, options) => {
      seen.push([each === message, options.expanded, options.outputPad, typeof options.keyText, typeof options.keyHint]);
      return { render: () => [`own ${options.expanded}`], invalidate() {} };
    };
    const parts = ["[note]", "written", "own false", "own true"];
    const own = new pi.CustomMessageComponent(message, renderer);
    const folded = shows(own, ...parts);
    own.setExpanded(true);
    const failing = new pi.CustomMessageComponent({ ...message, content: [text("written"), { type: "image" }] }, () => { throw new Error("no"); });
    return [folded, shows(own, ...parts), seen[0], shows(new pi.CustomMessageComponent(message), ...parts), shows(failing, ...parts), shows(new pi.CustomMessageComponent(message, () => undefined), ...parts)];
  },

  folded: (pi) => {
    const made = [
      [new pi.BranchSummaryMessageComponent({ role: "branchSummary", summary: "of a branch" }), "[branch]", "of a branch", "to expand", "Branch Summary"],
      [new pi.CompactionSummaryMessageComponent({ role: "compactionSummary", summary: "of it all", tokensBefore: 12345 }), "[compaction]", "of it all", "12,345 tokens"],
      [new pi.SkillInvocationMessageComponent({ name: "sail", location: "/s", content: "set it" }), "[skill]", "sail", "set it", "to expand"],
    ];
    return made.map(([component, ...texts]) => {
      const folded = shows(component, ...texts);
      component.setExpanded(true);
      component.setOutputPad(0);
      const expanded = shows(component, ...texts);
      component.setExpanded(false);
      component.invalidate();
      return [folded, expanded, shows(component, ...texts)];
    });
  },

  toolCalls: (pi) => {
    const parts = ["mine", "path", "value", "done now", "row 00.", "row 09.", "row 29.", "more lines", "call 1", "call 2", "partly", "result", "last"];
    const plain = () => new pi.ToolExecutionComponent("mine", "c", { path: "value" }, {}, undefined, ui, "/");
    const waiting = plain();
    const done = plain();
    done.updateResult({ content: [text("done now")], isError: false });
    const seen = [];
    const definition = {
      name: "mine", label: "l", description: "", parameters: { type: "object" }, execute() {},
      renderCall(args, theme, context) {
        context.state.calls = (context.state.calls ?? 0) + 1;
        seen.push(["call", args, typeof theme.fg, Object.keys(context).sort(), context.toolCallId, context.cwd, context.executionStarted, context.argsComplete]);
        return { render: () => [`call ${args.number}`], invalidate() {} };
      },
      renderResult(result, options, _theme, context) {
        seen.push(["result", result, options, context.isError, context.durationMs, context.lastComponent !== undefined]);
        return { render: () => [options.isPartial ? "partly" : "result"], invalidate() {} };
      },
    };
    const own = new pi.ToolExecutionComponent("mine", "c", { number: 1 }, {}, definition, ui, "/w");
    const steps = [shows(own, ...parts)];
    own.updateArgs({ number: 2 });
    own.setArgsComplete();
    own.markExecutionStarted();
    steps.push(shows(own, ...parts));
    own.updateResult({ content: [text("x")], details: { d: 1 }, isError: false }, true);
    steps.push(shows(own, ...parts));
    own.updateResult({ content: [text("y")], isError: true, durationMs: 7 });
    own.setExpanded(true);
    steps.push(shows(own, ...parts));
    const throwing = new pi.ToolExecutionComponent("mine", "c", {}, {}, { ...definition, renderCall() { throw new Error("no"); }, renderResult() { throw new Error("no"); } }, ui, "/w");
    throwing.updateResult({ content: [text(numbered(30).join("\n"))], isError: false });
    const folded = shows(throwing, ...parts);
    throwing.setExpanded(true);
    const last = (name) => seen.findLast(([each]) => each === name);
    return [shows(waiting, ...parts), shows(done, ...parts), steps, last("call"), last("result"), folded, shows(throwing, ...parts)];
  },

  commands: (pi) => {
    const parts = ["$ make", "Running", "row 00.", "row 09.", "row 10.", "row 29.", "more lines", "to expand", "to collapse", "(cancelled)", "(exit 3)", "Full output: /f"];
    const run = (output, ...end) => {
      const component = new pi.BashExecutionComponent("make", ui);
      const before = shows(component, ...parts);
      for (const each of output) component.appendOutput(each);
      const during = shows(component, ...parts);
      component.setComplete(...end);
      const after = shows(component, ...parts);
      component.setExpanded(true);
      return [before, during, after, shows(component, ...parts), component.getCommand(), component.getOutput()];
    };
    return [
      run(["row 00.\nro", "w 09.\r\n", "\x1b[31mlast\x1b[0m"], 0, false), run([], 3, false), run([], undefined, true),
      run([numbered(30).join("\n")], 0, false, { truncated: true }, "/f"), run([], 0, false, { truncated: true }),
    ];
  },

  selectors: (pi) => {
    const make = (options) => (on) => new pi.ExtensionSelectorComponent("Which?", options, on("select"), on("cancel"), { description: "about it" });
    const rows = numbered(25);
    return [
      used(make(["one", "two"]), [], "Which?", "about it", "→ one", "→ two", "two"), used(make(["one", "two"]), ["down", "enter"], "→ two"),
      used(make(["one", "two"]), ["up", "j", "j", "j", "k", "enter", "escape"], "→ one"), used(make([]), ["down", "enter", "up", "enter", "escape"]),
      used(make(rows), Array(12).fill("down"), ...rows, "(13/25)"), used(make(rows), ["x", "\n"], ...rows.slice(0, 3)),
    ];
  },

  inputs: (pi) => {
    const make = (more) => (on) => new pi.ExtensionInputComponent("Name?", "hint", on("submit"), on("cancel"), more);
    const focused = new pi.ExtensionInputComponent("Name?", "", () => {}, () => {});
    focused.focused = true;
    return [
      used(make(), ["a", "b", "enter"], "Name?", "ab"), used(make({ initialValue: "given", description: "why" }), ["\n", "escape"], "given", "why"),
      used(make(), ["enter"]), focused.focused,
    ];
  },

  editors: (pi) => {
    const bindings = { matches: () => false };
    const make = (on) => new pi.ExtensionEditorComponent(ui, bindings, "Text?", "before", on("submit"), on("cancel"), { description: "why" });
    return [used(make, [], "Text?", "before", "why"), used(make, ["!", "enter"], "before!"), used(make, ["escape"])];
  },

  levels: (pi) => {
    const make = (on) => new pi.ThinkingSelectorComponent("low", ["off", "low", "high"], on("select"), on("cancel"));
    return [used(make, [], "off", "low", "high"), used(make, ["enter"]), used(make, ["down", "enter"]), used(make, ["o", "f", "f", "enter"], "off", "high"), used(make, ["escape"])];
  },

  images: (pi) => {
    const make = (shown) => (on) => new pi.ShowImagesSelectorComponent(shown, on("select"), on("cancel"));
    const list = (component) => ({ handleInput: (key) => component.getSelectList().handleInput(key), render: (width) => component.render(width) });
    const listed = (shown) => (on) => list(make(shown)(on));
    return [used(listed(true), ["enter"], "Yes", "No"), used(listed(false), ["enter"]), used(listed(true), ["down", "enter"]), used(listed(true), ["escape"])];
  },

  userMessageLists: async (pi) => {
    const messages = ["first\nline", "second", "third"].map((each, place) => ({ id: `${place}`, text: each }));
    const make = (all, initial) => (on) => {
      const component = new pi.UserMessageSelectorComponent(all, on("select"), on("cancel"), initial);
      return { handleInput: (key) => component.getMessageList().handleInput(key), render: (width) => component.render(width) };
    };
    const empty = await new Promise((resolve) => new pi.UserMessageSelectorComponent([], () => {}, () => resolve("cancelled")));
    return [
      used(make(messages), [], "first line", "second", "third"), used(make(messages), ["enter"]), used(make(messages), ["up", "enter"]),
      used(make(messages), ["down", "enter"]), used(make(messages, "1"), ["enter", "escape"]), empty,
    ];
  },

  logins: (pi) => {
    const providers = [{ id: "a", name: "Alpha", authType: "oauth" }, { id: "b", name: "Beta", authType: "api_key" }, { id: "a", name: "Alpha", authType: "api_key" }];
    const make = (on) => new pi.OAuthSelectorComponent("login", providers, on("select"), on("cancel"));
    return [used(make, [], "Alpha", "Beta"), used(make, ["enter"]), used(make, ["down", "down", "enter"]), used(make, ["b", "e", "t", "enter"], "Alpha", "Beta"), used(make, ["escape"])];
  },

  loginDialogs: async (pi) => {
    const calls = [];
    const dialog = new pi.LoginDialogComponent(ui, "p", (...values) => calls.push(values), "Provider");
    const parts = ["Login to Provider", "https://a.example/", "Enter code: AB", "Paste it", "e.g., key", "> typed", "wait"];
    const steps = [shows(dialog, ...parts)];
    dialog.showDeviceCode({ verificationUri: "https://a.example/", userCode: "AB", openBrowserOnConfirm: false, copyCodeOnConfirm: false });
    steps.push(shows(dialog, ...parts));
    const prompt = dialog.showPrompt("Paste it", "key");
    steps.push(shows(dialog, ...parts));
    pressed(dialog, ..."typed", "enter");
    const value = await prompt;
    dialog.showProgress("wait");
    steps.push(shows(dialog, ...parts));
    const again = dialog.showPrompt("Paste it").catch((error) => error.message);
    pressed(dialog, "escape");
    return [steps, value, await again, dialog.signal.aborted, calls];
  },

  trees: (pi) => {
    const entry = (id, parentId, role, content) => ({ type: "message", id, parentId, timestamp: "2026-01-01T00:00:00Z", message: { role, content } });
    const node = (each, ...children) => ({ entry: each, children, label: each.id === "2" ? "mark" : undefined });
    const tree = [node(entry("1", null, "user", "question"), node(entry("2", "1", "assistant", [text("reply")]), node(entry("3", "2", "user", "left side")), node(entry("4", "2", "user", "right side"))))];
    const make = (leaf, initial) => (on) => new pi.TreeSelectorComponent(tree, leaf, 40, on("select"), on("cancel"), undefined, initial);
    return [
      used(make("4"), [], "question", "reply", "mark", "left side", "right side"), used(make("4"), ["enter"]),
      used(make("4", "1"), ["enter"]), used(make("3"), ["up", "enter"]), used(make("3"), ["escape"]),
    ];
  },

  sessions: async (pi) => {
    const info = (name) => ({ path: `/s/${name}`, id: name, cwd: "/w", created: new Date(0), modified: new Date(0), messageCount: 2, firstMessage: `about ${name}`, allMessagesText: name });
    const calls = [];
    const loaded = Promise.withResolvers();
    const component = new pi.SessionSelectorComponent(async () => [info("one"), info("two")], async () => [], (each) => calls.push(each), () => calls.push("cancel"), () => {}, () => loaded.resolve(), {}, undefined);
    await loaded.promise;
    await new Promise(setImmediate);
    const shown = shows(component, "about one", "about two");
    const list = component.getSessionList();
    list.handleInput(KEYS.down);
    list.handleInput(KEYS.enter);
    return [shown.toSorted(), calls];
  },

  models: async (pi) => {
    const model = (id) => ({ id, name: id, provider: "p", api: "a", input: ["text"], reasoning: false, contextWindow: 1, maxTokens: 1, cost: {} });
    const all = [model("alpha"), model("beta")];
    const models = { getAvailable: async () => all, getAvailableSnapshot: () => all, getError: () => undefined, refresh: async () => {}, getModel: (_provider, id) => all.find((each) => each.id === id), find: (_provider, id) => all.find((each) => each.id === id) };
    const calls = [];
    const make = (scoped) => new pi.ModelSelectorComponent(ui, all[1], models, scoped, (each) => calls.push(each.id), () => calls.push("cancel"));
    const [whole, scoped] = [make([]), make([{ model: all[0] }])];
    await new Promise((resolve) => setTimeout(resolve, 20));
    pressed(whole, "a", "l", "p", "h", "enter");
    pressed(scoped, "enter", "escape");
    return [shows(whole, "alpha", "beta"), shows(scoped, "alpha", "beta"), calls];
  },
};
