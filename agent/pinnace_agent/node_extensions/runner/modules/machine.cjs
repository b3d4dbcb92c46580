/** What belongs to the machine and the program: the clipboard, PowerShell, places of files, and tools that are wrapped. */

"use strict";

const { spawn } = require("node:child_process");
const path = require("node:path");
const { createBashToolDefinition, getPackageDir } = require("./coding-agent.cjs");

const COPIED_MS = 5000;

/** The commands that may take a text into the clipboard of this desktop; none over a connection to another machine. */
function copiers({ platform, env }) {
  if (platform === "darwin") return [["pbcopy"]];
  if (platform === "win32") return [["clip"]];
  return [
    ...(env.TERMUX_VERSION ? [["termux-clipboard-set"]] : []),
    ...(env.WAYLAND_DISPLAY ? [["wl-copy"]] : []),
    ...(env.DISPLAY ? [["xclip", "-selection", "clipboard"], ["xsel", "--clipboard", "--input"]] : []),
  ];
}

/** Put a text into the clipboard of the machine that the agent runs on. Rejects if no program of the desktop takes it. */
async function copyToClipboard(text) {
  for (const [command, ...words] of copiers(process)) {
    if (await isTaken(command, words, text)) return;
  }
  throw new Error("copyToClipboard: no program of this machine takes a text into a clipboard (pbcopy, wl-copy, xclip or xsel)");
}

function isTaken(command, words, text) {
  const { promise, resolve } = Promise.withResolvers();
  const child = spawn(command, words, { stdio: ["pipe", "ignore", "ignore"], timeout: COPIED_MS });
  child.on("error", () => resolve(false));
  child.on("exit", (code) => resolve(code === 0)); // not its end: it stays behind with what it has copied
  child.stdin.on("error", () => {});
  child.stdin.end(text);
  return promise;
}

// --- PowerShell ------------------------------------------------------------------------------------

/** There is none: this program does not run on Windows. */
function getPowerShellConfig() {
  throw new Error("The powershell tool is only available on Windows.");
}

const createLocalPowerShellOperations = () => ({ exec: async () => getPowerShellConfig() });

/** The tool `powershell`, for operations of the extension that reach a machine with Windows. */
function createPowerShellToolDefinition(cwd, options = {}) {
  const { operations = createLocalPowerShellOperations(), ...rest } = options;
  return {
    ...createBashToolDefinition(cwd, { ...rest, operations }), name: "powershell", label: "powershell",
    description: "Run a command in PowerShell, in the working folder. Returns what it writes, the end of it if that is long.",
    promptSnippet: "Run PowerShell commands", promptGuidelines: [],
  };
}

// --- the program -----------------------------------------------------------------------------------

const inPackage = (...names) => () => path.join(getPackageDir(), ...names);
const getReadmePath = inPackage("README.md");
const getDocsPath = inPackage("docs");
const getExamplesPath = inPackage("examples");

/** A tool that an extension has registered, as an agent of pi-agent-core takes it. */
function wrapRegisteredTool({ definition }, runner) {
  const { name, label, description, parameters, outputSchema, constrainedSampling, prepareArguments, executionMode } = definition;
  return {
    name, label, description, parameters, outputSchema, constrainedSampling, prepareArguments, executionMode,
    execute: (id, params, signal, onUpdate, ctx) =>
      definition.execute(id, params, signal, onUpdate, ctx ?? runner.createToolContext(id, signal)),
  };
}

const wrapRegisteredTools = (tools, runner) => tools.map((each) => wrapRegisteredTool(each, runner));

module.exports = {
  copyToClipboard, getPowerShellConfig, createLocalPowerShellOperations, createPowerShellToolDefinition,
  createPowerShellTool: createPowerShellToolDefinition, getReadmePath, getDocsPath, getExamplesPath, wrapRegisteredTool,
  wrapRegisteredTools,
};
