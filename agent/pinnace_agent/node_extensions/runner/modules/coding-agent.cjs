/** `@earendil-works/pi-coding-agent`: the names that extensions use without a terminal. What the agent knows is asked there. */

"use strict";

const { spawn } = require("node:child_process");
const fs = require("node:fs");
const path = require("node:path");
const { later, missing } = require("./missing.cjs");
const { tui } = require("./pi-tui.cjs");
const { keybindings, keyText } = require("../keys.cjs");
const { Theme, theme } = require("../theme.cjs");
const { extensionOf } = require("../registry.cjs");
const { CALL, ask, now, send } = require("../wire.cjs");

const VERSION = process.argv[7];
const CONFIG_DIR_NAME = ".pi";
const DEFAULT_MAX_LINES = 2000;
const DEFAULT_MAX_BYTES = 50 * 1024;
const CURRENT_SESSION_VERSION = 3;
const DEFAULT_COMPACTION_SETTINGS = { enabled: true, reserveTokens: 16384, keepRecentTokens: 20000 };

/** The folder of the user's settings, as the agent finds it. */
const getAgentDir = () => now(undefined, "agent_dir");

/** What auth.json holds for a provider, as it is written there; undefined without the file or the provider. */
function readStoredCredential(provider, file = path.join(getAgentDir(), "auth.json")) {
  try {
    return JSON.parse(fs.readFileSync(file, "utf8").replace(/^\uFEFF/, ""))[provider];
  } catch {
    return undefined;
  }
}

/** The folder of the program: of pi, if it is installed, else ours. */
const getPackageDir = () => process.argv[6] || path.resolve(__dirname, "../..");

const defineTool = (tool) => tool;
const isToolCallEventType = (name, event) => event.toolName === name;
const isResult = (name) => (event) => event.toolName === name;
const isBashToolResult = isResult("bash");
const isPowerShellToolResult = isResult("powershell");
const isReadToolResult = isResult("read");
const isEditToolResult = isResult("edit");
const isWriteToolResult = isResult("write");
const isGrepToolResult = isResult("grep");
const isFindToolResult = isResult("find");
const isLsToolResult = isResult("ls");

// --- texts -----------------------------------------------------------------------------------------

const truncateHead = (text, options = {}) => now(undefined, "truncate", "head", text, options);
const truncateTail = (text, options = {}) => now(undefined, "truncate", "tail", text, options);

function truncateLine(line, maxChars = 500) {
  if (line.length <= maxChars) return { text: line, wasTruncated: false };
  return { text: `${line.slice(0, maxChars)}... [truncated]`, wasTruncated: true };
}

function formatSize(bytes) {
  if (bytes < 1024) return `${bytes}B`;
  if (bytes < 1024 * 1024) return `${(bytes / 1024).toFixed(1)}KB`;
  return `${(bytes / (1024 * 1024)).toFixed(1)}MB`;
}

const serializeConversation = (messages) => now(undefined, "serialize_conversation", messages);

/** Messages as models read them: those of extensions are the user's, summaries too. */
function convertToLlm(messages) {
  const user = (content, timestamp) => ({
    role: "user", content: typeof content === "string" ? [{ type: "text", text: content }] : content, timestamp,
  });
  return messages.flatMap((message) => {
    switch (message.role) {
      case "user":
      case "assistant":
      case "toolResult":
        return [message];
      case "custom":
        return [user(message.content, message.timestamp)];
      case "branchSummary":
      case "compactionSummary":
        return [user(message.summary, message.timestamp)];
      case "bashExecution":
        return message.excludeFromContext ? [] : [user(`Ran \`${message.command}\`\n\`\`\`\n${message.output}\n\`\`\``, message.timestamp)];
      default:
        return [];
    }
  });
}

const BLOCK = /^---[ \t]*\r?\n([\s\S]*?)\r?\n---[ \t]*(?:\r?\n|$)/;

function parseFrontmatter(text) {
  const found = BLOCK.exec(text);
  if (!found) return { frontmatter: {}, body: text };
  return { frontmatter: now(undefined, "parse_yaml", found[1]) ?? {}, body: text.slice(found[0].length).trim() };
}

const stripFrontmatter = (text) => parseFrontmatter(text).body;

const LANGUAGES = { ts: "typescript", tsx: "typescript", js: "javascript", mjs: "javascript", py: "python", rs: "rust", sh: "bash", md: "markdown", yml: "yaml", rb: "ruby" };
function getLanguageFromPath(file) {
  const suffix = path.extname(file).slice(1).toLowerCase();
  return suffix ? (LANGUAGES[suffix] ?? suffix) : undefined;
}

const highlightCode = (code) => code.split("\n");

// --- files -----------------------------------------------------------------------------------------

const queues = new Map();

/** Run a change of a file alone, in the order of the calls: the agent's own tools wait for it, and it for them. */
async function withFileMutationQueue(file, work) {
  const key = path.resolve(file);
  const mine = (queues.get(key) ?? Promise.resolve()).then(() => changed(file, work));
  const settled = mine.catch(() => {});
  queues.set(key, settled);
  try {
    return await mine;
  } finally {
    if (queues.get(key) === settled) queues.delete(key);
  }
}

async function changed(file, work) {
  const extension = extensionOf(CALL.getStore()?.extension);
  let outcome;
  const number = extension.keep(async () => {
    outcome = await work().then((value) => ({ value }), (error) => ({ error }));
  });
  try {
    await ask(undefined, "change_file", [file, number]);
  } finally {
    extension.kept.delete(number);
  }
  if ("error" in outcome) throw outcome.error;
  return outcome.value;
}

// --- the built-in tools ----------------------------------------------------------------------------

/** The agent's own tool as a definition, for extensions that wrap it; of the options, `bash` takes what runs commands. */
function builtin(name, supported = []) {
  return (cwd, options = {}) => {
    const given = Object.keys(options ?? {}).filter((each) => options[each] !== undefined);
    const unsupported = given.filter((each) => !supported.includes(each));
    return {
      ...now(undefined, "builtin_tool", name),
      async execute(id, params, signal) {
        if (unsupported.length > 0) {
          throw new Error(`${name}: the options ${unsupported.join(", ")} of its definition are not available in pinnace`);
        }
        const extension = extensionOf(CALL.getStore()?.extension);
        const kept = Object.fromEntries(given.map((each) => [each, extension.keep(options[each])]));
        try {
          return await ask(undefined, "run_builtin_tool", [name, cwd ?? null, params, kept], signal);
        } finally {
          for (const number of Object.values(kept)) extension.kept.delete(number);
        }
      },
    };
  };
}

/** Runs commands on this machine, for operations that delegate to it. */
function createLocalBashOperations() {
  return {
    exec: (command, cwd, { onData, signal, timeout, env } = {}) =>
      new Promise((resolve, reject) => {
        const limit = timeout ? timeout * 1000 : undefined;
        const child = spawn("bash", ["-c", command], { cwd, env, signal, timeout: limit, stdio: ["ignore", "pipe", "pipe"] });
        child.stdout.on("data", (data) => onData?.(data));
        child.stderr.on("data", (data) => onData?.(data));
        child.on("error", (error) => reject(signal?.aborted ? new Error("aborted") : error));
        child.on("close", (exitCode) => resolve({ exitCode }));
      }),
  };
}

const createReadToolDefinition = builtin("read");
const createWriteToolDefinition = builtin("write");
const createEditToolDefinition = builtin("edit");
const createBashToolDefinition = builtin("bash", ["operations", "spawnHook"]);
const createGrepToolDefinition = builtin("grep");
const createFindToolDefinition = builtin("find");
const createLsToolDefinition = builtin("ls");

/** Sets of tools, with the options of each by its name. */
const made = (makers) => (cwd, options) => makers.map(([name, make]) => make(cwd, options?.[name]));
const [READ, WRITE, EDIT, BASH, GREP, FIND, LS] = [
  ["read", createReadToolDefinition], ["write", createWriteToolDefinition], ["edit", createEditToolDefinition],
  ["bash", createBashToolDefinition], ["grep", createGrepToolDefinition], ["find", createFindToolDefinition],
  ["ls", createLsToolDefinition],
];
const createCodingTools = made([READ, BASH, EDIT, WRITE]);
const createReadOnlyTools = made([READ, GREP, FIND, LS]);

// --- settings --------------------------------------------------------------------------------------

const AS_WRITTEN = [
  "defaultModel", "defaultProvider", "defaultThinkingLevel", "defaultTools", "enabledModels", "npmCommand", "sessionDir",
  "shellCommandPrefix", "shellPath", "theme",
];

/** The settings of the agent, those of the project where it is trusted; they are read and not changed. */
class Settings {
  constructor(read, scoped) {
    this.getSettings = read;
    this.getGlobalSettings = () => scoped("user");
    this.getProjectSettings = () => scoped("project");
    for (const name of AS_WRITTEN) this[`get${name[0].toUpperCase()}${name.slice(1)}`] = () => read()[name];
    return new Proxy(this, {
      get(target, member) {
        if (member in target || typeof member === "symbol" || member === "then") return target[member];
        throw new Error(`${String(member)} of SettingsManager is not available in pinnace; see docs/typescript-extensions.md`);
      },
    });
  }
  static create() { return new Settings(() => now(undefined, "settings"), (scope) => now(undefined, "scoped_settings", scope)); }
  static inMemory(settings = {}) {
    const read = () => structuredClone(settings);
    return new Settings(read, (scope) => (scope === "user" ? read() : {}));
  }
}
// An installation of pi goes before what is ours of these; the modules of ours are loaded with their first use.
const own = (name, load) => missing("@earendil-works/pi-coding-agent", name, load);
const SettingsManager = own("SettingsManager", () => Settings);
const SessionManager = own("SessionManager", () => require("./session-manager.cjs").SessionManager);
const createAgentSession = own("createAgentSession", () => require("./agent-session.cjs").createAgentSession);
const AgentSession = own("AgentSession", () => require("./agent-session.cjs").AgentSession);
const DefaultResourceLoader = own("DefaultResourceLoader", () => require("./resource-loader.cjs").DefaultResourceLoader);
const createExtensionRuntime = own("createExtensionRuntime", () => require("./resource-loader.cjs").createExtensionRuntime);
const ModelRegistry = own("ModelRegistry", () => require("../models.cjs").ModelRegistry);
const ModelRuntime = own("ModelRuntime", () => require("../models.cjs").ModelRuntime);
const AuthStorage = own("AuthStorage", () => require("../models.cjs").AuthStorage);
const RpcClient = own("RpcClient", () => require("./rpc-client.cjs").RpcClient);

// --- the bus and the terminal ----------------------------------------------------------------------

function createEventBus() {
  const channels = new Map();
  return {
    emit(channel, data) {
      for (const handler of [...(channels.get(channel) ?? [])]) {
        try {
          handler(data);
        } catch (error) {
          send({ type: "stray", extension: CALL.getStore()?.extension ?? null, error: { name: "Error", message: String(error), stack: null } });
        }
      }
    },
    on(channel, handler) {
      const listeners = channels.get(channel) ?? channels.set(channel, new Set()).get(channel);
      listeners.add(handler);
      return () => listeners.delete(handler);
    },
    clear: () => channels.clear(),
  };
}

const initTheme = () => theme;
const colored = (color) => (text) => theme.fg(color, text);
const getMarkdownTheme = () => ({
  heading: colored("mdHeading"), link: colored("mdLink"), linkUrl: colored("mdLinkUrl"), code: colored("mdCode"),
  codeBlock: colored("mdCodeBlock"), codeBlockBorder: colored("mdCodeBlockBorder"), quote: colored("mdQuote"),
  quoteBorder: colored("mdQuoteBorder"), hr: colored("mdHr"), listBullet: colored("mdListBullet"),
  bold: (text) => theme.bold(text), italic: (text) => theme.italic(text), underline: (text) => theme.underline(text),
  strikethrough: (text) => theme.strikethrough(text), highlightCode,
});
const getSelectListTheme = () => ({
  selectedPrefix: colored("accent"), selectedText: colored("accent"), description: colored("muted"),
  scrollInfo: colored("muted"), noMatch: colored("muted"),
});
const getEditorTheme = () => ({ borderColor: colored("borderMuted"), selectList: getSelectListTheme() });
const getSettingsListTheme = () => ({
  label: (text, selected) => (selected ? theme.fg("accent", text) : text),
  value: (text, selected) => theme.fg(selected ? "accent" : "muted", text),
  description: colored("dim"), cursor: theme.fg("accent", "→ "), hint: colored("dim"),
});

const keyDisplayText = (id) => keyText(id).replaceAll(/(^|[+/])([a-z])/g, (_all, sign, letter) => sign + letter.toUpperCase());
const keyHint = (id, description) => rawKeyHint(keyText(id), description);
const rawKeyHint = (key, description) => theme.fg("dim", key) + theme.fg("muted", ` ${description}`);

/** A line as wide as what it is in. */
class DynamicBorder {
  constructor(color = colored("border")) {
    this.color = color;
  }
  invalidate() {}
  render(width) { return [this.color("─".repeat(Math.max(1, width)))]; }
}

/** Shows that something is waited for, and lets the user give it up: `signal` then aborts. */
class BorderedLoader extends tui.Container {
  constructor(screen, _theme, message, options) {
    super();
    keybindings(); // before a component reads them
    const isCancellable = options?.cancellable ?? true;
    const Loader = isCancellable ? tui.CancellableLoader : tui.Loader;
    this.own = new AbortController();
    this.loader = new Loader(screen, colored("accent"), colored("muted"), message);
    this.addChild(new DynamicBorder());
    this.addChild(this.loader);
    if (isCancellable) {
      this.addChild(new tui.Spacer(1));
      this.addChild(new tui.Text(keyHint("tui.select.cancel", "cancel"), 1, 0));
    }
    this.addChild(new tui.Spacer(1));
    this.addChild(new DynamicBorder());
  }
  get signal() { return this.loader.signal ?? this.own.signal; }
  set onAbort(callback) { this.loader.onAbort = callback; }
  handleInput(data) { this.loader.handleInput?.(data); }
  dispose() {
    if (this.loader.dispose) this.loader.dispose();
    else this.loader.stop?.();
  }
}

/** The editor of messages, which leaves to the client what keys mean beside writing; extensions extend it. */
class CustomEditor extends tui.Editor {
  actionHandlers = new Map();
  constructor(screen, styles, bindings, options) {
    super(screen, styles, options);
    this.keybindings = bindings ?? keybindings();
  }
  onAction(action, handler) { this.actionHandlers.set(action, handler); }
  setWorkingStatusIndicator() {}
  handleInput(data) {
    const is = (id) => this.keybindings.matches(data, id);
    if (this.onExtensionShortcut?.(data)) return;
    const isShowing = this.isShowingAutocomplete();
    if (isShowing && (is("tui.select.pageUp") || is("tui.select.pageDown"))) return super.handleInput(data);
    if (is("app.clipboard.pasteImage")) return this.onPasteImage?.();
    if (is("app.interrupt")) {
      const handler = isShowing ? undefined : (this.onEscape ?? this.actionHandlers.get("app.interrupt"));
      return handler ? handler() : super.handleInput(data);
    }
    if (is("app.exit") && this.getText() === "") return (this.onCtrlD ?? this.actionHandlers.get("app.exit"))?.();
    if (is("tui.editor.historyPrevious") || is("tui.editor.historyNext")) return super.handleInput(data);
    for (const [action, handler] of this.actionHandlers) {
      if (action !== "app.interrupt" && action !== "app.exit" && is(action)) return handler();
    }
    super.handleInput(data);
  }
}

const getShellConfig = () => ({ shell: fs.existsSync("/bin/bash") ? "/bin/bash" : "sh", args: ["-c"] });

module.exports = {
  VERSION, CONFIG_DIR_NAME, DEFAULT_MAX_LINES, DEFAULT_MAX_BYTES, getAgentDir, getPackageDir, defineTool,
  isToolCallEventType, isBashToolResult, isPowerShellToolResult, isReadToolResult, isEditToolResult, isWriteToolResult,
  isGrepToolResult, isFindToolResult, isLsToolResult, truncateHead, truncateTail, truncateLine, formatSize,
  serializeConversation, convertToLlm, parseFrontmatter, stripFrontmatter, getLanguageFromPath, highlightCode,
  withFileMutationQueue, createLocalBashOperations, createReadToolDefinition, createWriteToolDefinition,
  createEditToolDefinition, createBashToolDefinition, createGrepToolDefinition, createFindToolDefinition,
  createLsToolDefinition, createCodingTools, createReadOnlyTools, createAgentSession, AgentSession,
  SessionManager, SettingsManager, DefaultResourceLoader, createExtensionRuntime,
  createEventBus, initTheme, getMarkdownTheme, getSelectListTheme, getEditorTheme, getSettingsListTheme,
  keyDisplayText, keyHint, rawKeyHint, DynamicBorder, BorderedLoader, CustomEditor, getShellConfig, Theme,
  createReadTool: createReadToolDefinition, createWriteTool: createWriteToolDefinition,
  createEditTool: createEditToolDefinition, createBashTool: createBashToolDefinition,
  createGrepTool: createGrepToolDefinition, createFindTool: createFindToolDefinition,
  createLsTool: createLsToolDefinition, keyText, readStoredCredential, CURRENT_SESSION_VERSION,
  DEFAULT_COMPACTION_SETTINGS, ModelRegistry, ModelRuntime, AuthStorage, RpcClient,
};

/** Functions and classes of ours by the module that is loaded with the first use of one. */
const LATER = {
  "./session-context.cjs": [
    "parseSessionEntries", "migrateSessionEntries", "getLatestCompactionEntry", "sessionEntryToContextMessages",
    "buildContextEntries", "buildSessionProjection", "buildSessionContext",
  ],
  "./compaction.cjs": [
    "estimateTokens", "calculateContextTokens", "getLastAssistantUsage", "shouldCompact", "findTurnStartIndex", "findCutPoint",
    "collectEntriesForBranchSummary", "prepareBranchEntries", "generateSummaryWithUsage", "generateSummary", "compact",
    "generateBranchSummary",
  ],
  "./skills.cjs": [
    "parseSkillBlock", "createSyntheticSourceInfo", "loadSkills", "loadSkillsFromDir", "formatSkillsForPrompt",
    "loadProjectContextFiles", "hasTrustRequiringProjectResources",
  ],
  "./differences.cjs": ["generateDiffString", "generateUnifiedPatch", "renderDiff", "truncateToVisualLines", "formatReadLineRange"],
  "./pictures.cjs": ["detectSupportedImageMimeTypeFromFile", "convertToPng", "resizeImage", "formatDimensionNote"],
  "./machine.cjs": [
    "copyToClipboard", "getPowerShellConfig", "createLocalPowerShellOperations", "createPowerShellTool",
    "createPowerShellToolDefinition", "getReadmePath", "getDocsPath", "getExamplesPath", "wrapRegisteredTool", "wrapRegisteredTools",
  ],
  "./trust-store.cjs": ["ProjectTrustStore"],
  "./model-choice.cjs": ["resolveCliModel", "resolveModelScopeWithDiagnostics"],
  "./messages.cjs": [
    "UserMessageComponent", "AssistantMessageComponent", "CustomMessageComponent", "BranchSummaryMessageComponent",
    "CompactionSummaryMessageComponent", "SkillInvocationMessageComponent", "ToolExecutionComponent", "BashExecutionComponent",
  ],
  "./dialogs.cjs": ["ExtensionSelectorComponent", "ExtensionInputComponent", "ExtensionEditorComponent", "LoginDialogComponent"],
  "./selectors.cjs": [
    "ThinkingSelectorComponent", "ShowImagesSelectorComponent", "ThemeSelectorComponent", "ModelSelectorComponent",
    "SessionSelectorComponent", "UserMessageSelectorComponent", "TreeSelectorComponent", "OAuthSelectorComponent",
  ],
};
for (const [file, names] of Object.entries(LATER)) {
  for (const name of names) module.exports[name] = later(name, () => require(file)[name]);
}
