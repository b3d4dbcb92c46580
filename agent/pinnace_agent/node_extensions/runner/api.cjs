/** `pi`: what an extension receives to register with and to act through. The agent checks and decides; its errors are thrown here. */

"use strict";

const { ask, now } = require("./wire.cjs");

const nothing = () => {};

function apiOf(extension) {
  const who = { extension: extension.number };
  const call = (name, ...values) => now(who, name, ...values);
  let events;
  return {
    on(event, handler) {
      if (typeof handler !== "function") throw new Error(`pi.on("${event}"): the handler is not a function`);
      const number = ++extension.numbers;
      extension.handlers.set(number, handler);
      call("on", event, number);
      return () => {
        extension.handlers.delete(number);
        call("off", number);
      };
    },
    registerTool(tool) {
      if (typeof tool?.parameters !== "object" || tool.parameters === null || Array.isArray(tool.parameters)) {
        throw new Error(`Tool "${tool?.name}" registered by extension "${extension.path}" must define an object parameter schema.`);
      }
      if (typeof tool.execute !== "function") throw new Error(`Tool "${tool.name}" must define execute()`);
      extension.tools.set(tool.name, tool);
      call("register_tool", {
        name: tool.name, label: tool.label ?? null, description: tool.description, parameters: tool.parameters,
        promptSnippet: tool.promptSnippet ?? null, promptGuidelines: tool.promptGuidelines ?? [],
        sequential: tool.executionMode === "sequential", defaultActive: tool.defaultActive !== false,
        annotations: tool.annotations ?? {}, prepares: typeof tool.prepareArguments === "function",
        renders: [...(tool.renderCall ? ["call"] : []), ...(tool.renderResult ? ["result"] : [])],
        framesItself: tool.renderShell === "self",
      });
    },
    registerCommand(name, options) {
      if (typeof name !== "string" || name.length === 0) {
        throw new Error(`Command registered by extension "${extension.path}" must have a non-empty string name. Use pi.registerCommand("name", { description, handler }).`);
      }
      if (typeof options?.handler !== "function") {
        throw new Error(`Command "/${name}" registered by extension "${extension.path}" must define handler().`);
      }
      extension.commands.set(name, options);
      call("register_command", name, options.description ?? null, typeof options.getArgumentCompletions === "function");
    },
    registerFlag(name, options) {
      if (options.default !== undefined && typeof options.default !== options.type) {
        throw new Error(`Invalid default for flag "${name}": expected ${options.type}, got ${typeof options.default}`);
      }
      call("register_flag", name, options.type, options.default ?? null, options.description ?? null);
    },
    getFlag: (name) => call("get_flag", name),
    registerShortcut(shortcut, options) {
      extension.shortcuts.set(shortcut, options);
      call("register_shortcut", shortcut, options?.description ?? null);
    },
    registerMessageRenderer(customType, renderer) {
      extension.messageRenderers.set(customType, renderer);
      call("register_renderer", "message", customType);
    },
    registerEntryRenderer(customType, renderer) {
      extension.entryRenderers.set(customType, renderer);
      call("register_renderer", "entry", customType);
    },
    registerMarkdownTransformer(transformer, options) {
      if (typeof transformer !== "function") throw new Error("pi.registerMarkdownTransformer: the transformer is not a function");
      const types = new Set(options?.messageTypes ?? ["user", "assistant", "assistant-thinking"]);
      call("register_renderer", "markdown", [...types].join(" "));
      extension.markdownTransformer = { transformer, types };
    },
    registerToolRenderer(resolver) {
      if (typeof resolver !== "function") throw new Error("pi.registerToolRenderer: the resolver is not a function");
      extension.toolResolvers.push(resolver);
      call("register_renderer", "tool", "*");
    },
    sendMessage: (message, options) => void call("send_message", message, options ?? {}),
    sendUserMessage: (content, options) => void call("send_user_message", content, options ?? {}),
    appendEntry: (customType, data) => void call("append_entry", customType, data ?? null),
    setSessionName: (name) => void call("set_session_name", name),
    getSessionName: () => call("get_session_name"),
    setLabel: (entryId, label) => void call("set_label", entryId, label ?? null),
    async exec(command, args, options) {
      const { cwd, timeout, signal } = options ?? {};
      try {
        return await ask(who, "exec", [command, args ?? [], cwd ?? null, timeout ?? null], signal);
      } catch (error) {
        if (signal?.aborted) return { stdout: "", stderr: "", code: 0, killed: true };
        throw error;
      }
    },
    getActiveTools: () => call("get_active_tools"),
    getAllTools: () => call("get_all_tools"),
    setActiveTools: (names) => void call("set_active_tools", names),
    getCommands: () => call("get_commands"),
    getSettings: () => call("get_settings"),
    setModel: (model) => ask(who, "set_model", [model]),
    getThinkingLevel: () => call("get_thinking_level"),
    setThinkingLevel: (level) => void call("set_thinking_level", level),
    registerProvider(name, config) {
      if (typeof name !== "string") {
        const made = require("./providers.cjs").configOf(name); // a provider object of pi-ai
        call("register_provider", name.id, kept(extension, made));
        return;
      }
      if (!config) throw new Error("Provider config is required when registering by name");
      call("register_provider", name, kept(extension, config));
    },
    unregisterProvider: (name) => void call("unregister_provider", name),
    registerMcpServer: (name, config) => void call("register_mcp_server", name, config),
    unregisterMcpServer: (name) => void call("unregister_mcp_server", name),
    getMcpServers: () => call("get_mcp_servers"),
    registerVirtualModel() {
      throw new Error("virtual models are not available in pinnace; register a provider instead");
    },
    unregisterVirtualModel: nothing,
    get events() { return (events ??= require("./bus.cjs").busOf(extension)); },
  };
}

/** A provider's configuration with its functions as numbers. */
function kept(extension, config) {
  const { streamSimple, refreshModels, oauth, images: _images, classifiers: _classifiers, ...rest } = config;
  if (streamSimple) rest.streamSimple = extension.keep(streamSimple);
  if (refreshModels) rest.refreshModels = extension.keep((context) => refreshModels.call(config, require("./providers.cjs").refreshContext(context, oauth)));
  if (oauth) rest.oauth = { number: extension.keep(oauth), name: oauth.name ?? null };
  return rest;
}

module.exports = { apiOf };
