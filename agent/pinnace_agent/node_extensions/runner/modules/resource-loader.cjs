/**
 * `DefaultResourceLoader` of pi: what an agent that an extension starts finds of extensions, skills and prompts.
 *
 * The agent finds them itself, by the words of its command line (`wordsOf`). A loader says which are left out, and its texts.
 */

"use strict";

const fs = require("node:fs");
const path = require("node:path");
const { loaded } = require("../registry.cjs");

/** What `getExtensions` has as `runtime`; nothing of it is used. */
const createExtensionRuntime = () => ({});

class DefaultResourceLoader {
  constructor(options = {}) {
    if (options.extensionFactories?.length > 0) {
      throw new Error("extensionFactories of DefaultResourceLoader is not available in pinnace: give paths of extensions");
    }
    this.options = options;
  }

  async reload() {}
  extendResources() {}

  /** The extensions of this process, as an agent in the same folder finds them, and those that are added. */
  getExtensions() {
    const { noExtensions, additionalExtensionPaths = [], extensionsOverride } = this.options;
    const found = noExtensions ? [] : [...loaded()].map((each) => ({
      path: each.path, resolvedPath: each.path, tools: each.tools, commands: each.commands, handlers: new Map(), flags: new Map(),
    }));
    for (const each of additionalExtensionPaths) {
      const added = path.resolve(this.options.cwd ?? process.cwd(), each);
      if (!found.some((other) => other.path === added)) found.push({ path: added, resolvedPath: added, tools: new Map(), commands: new Map() });
    }
    const base = { extensions: found, errors: [], runtime: createExtensionRuntime() };
    return extensionsOverride?.(base) ?? base;
  }

  getSkills() { return { skills: [], diagnostics: [] }; }
  getPrompts() { return { prompts: [], diagnostics: [] }; }
  getThemes() { return { themes: [], diagnostics: [] }; }
  getAgentsFiles() { return { agentsFiles: [] }; }

  getSystemPrompt() {
    const { systemPrompt, systemPromptOverride } = this.options;
    return systemPromptOverride ? systemPromptOverride(systemPrompt) : systemPrompt;
  }
  getAppendSystemPrompt() {
    const { appendSystemPrompt, appendSystemPromptOverride } = this.options;
    const own = appendSystemPrompt === undefined ? [] : [appendSystemPrompt].flat();
    return appendSystemPromptOverride ? appendSystemPromptOverride(own) : own;
  }
}

/** The words of a command line that give an agent what a loader has; texts are kept by `textFile`. */
function wordsOf(loader, textFile) {
  if (loader === undefined) return [];
  const words = [];
  const named = (flag, files) => files.flatMap((file) => [flag, file]);
  const paths = () => loader.getExtensions().extensions.map((each) => each.resolvedPath ?? each.path).filter((each) => fs.existsSync(each));
  if (loader instanceof DefaultResourceLoader) {
    const { noExtensions, extensionsOverride, additionalExtensionPaths = [], noSkills, noPromptTemplates, noContextFiles } = loader.options;
    if (noExtensions || extensionsOverride) words.push("--no-extensions", ...named("-e", paths()));
    else words.push(...named("-e", additionalExtensionPaths.map((each) => path.resolve(loader.options.cwd ?? process.cwd(), each))));
    if (noSkills) words.push("--no-skills");
    if (noPromptTemplates) words.push("--no-prompt-templates");
    if (noContextFiles) words.push("--no-context-files");
  } else {
    words.push("--no-extensions", ...named("-e", paths()), "--no-skills", "--no-prompt-templates");
    words.push(...named("--skill", (loader.getSkills?.().skills ?? []).map((each) => each.filePath)));
    words.push(...named("--prompt-template", (loader.getPrompts?.().prompts ?? []).map((each) => each.filePath)));
    if (!(loader.getAgentsFiles?.().agentsFiles ?? []).length) words.push("--no-context-files");
  }
  const prompt = loader.getSystemPrompt?.();
  if (typeof prompt === "string") words.push("--system-prompt", textFile(prompt));
  for (const each of loader.getAppendSystemPrompt?.() ?? []) words.push("--append-system-prompt", textFile(each));
  return words;
}

module.exports = { DefaultResourceLoader, createExtensionRuntime, wordsOf };
