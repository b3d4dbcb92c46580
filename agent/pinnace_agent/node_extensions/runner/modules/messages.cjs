/**
 * Components that draw the messages of a conversation, for extensions that show one of their own.
 *
 * They draw plainly, in the 16 colours that each terminal has. Markdown passes the transformers that are given, in order; one
 * that throws is left out. What a renderer of an extension throws is drawn without it.
 */

"use strict";

const { getMarkdownTheme, keyHint, keyText } = require("./coding-agent.cjs");
const { truncateToVisualLines } = require("./differences.cjs");
const { tui } = require("./pi-tui.cjs");
const { keybindings } = require("../keys.cjs");
const { theme } = require("../theme.cjs");

const PREVIEW_LINES = 20; // of the output of a command
const RESULT_LINES = 10; // of a tool that draws nothing itself

const isText = (block) => block.type === "text";
const textIn = (content) => typeof content === "string" ? content : (content ?? []).filter(isText).map((each) => each.text).join("\n");
const label = (name) => theme.fg("accent", theme.bold(`[${name}]`));
const line = (text, padding = 0) => new tui.Text(text, padding, 0);
const expands = () => theme.fg("dim", keyText("app.tools.expand"));

/** Markdown that transformers may change, for the width that there is. */
class Transformed {
  constructor(text, { messageType, padding = 0, marginY = 0, head = "", isStreaming = false }, [styles, transformers, messageId, timestamp], style) {
    Object.assign(this, { text, messageType, padding, marginY, head, isStreaming, transformers, messageId, timestamp, style });
    this.styles = styles ?? getMarkdownTheme();
  }
  invalidate() { this.drawn = undefined; }
  render(width) {
    if (this.drawn?.width !== width) this.drawn = { width, lines: this.component(width).render(width) };
    return this.drawn.lines;
  }
  component(width) {
    const { messageType, isStreaming, messageId, timestamp } = this;
    const availableWidth = Math.max(1, width - 2 * this.padding);
    let { text } = this;
    for (const transform of this.transformers ?? []) {
      try {
        const made = transform(text, { messageType, isStreaming, availableWidth, messageId, timestamp });
        if (typeof made === "string") text = made;
      } catch {
        // The text as it was.
      }
    }
    return new tui.Markdown(this.head + text, this.padding, this.marginY, this.styles, this.style);
  }
}

/** A component whose parts are made anew when what it shows has changed: at its next `render`. */
class Drawn extends tui.Container {
  isStale = true;
  expanded = false;
  outputPad = 1;
  invalidate() {
    super.invalidate();
    this.isStale = true;
  }
  change(fields) {
    Object.assign(this, fields);
    this.isStale = true;
  }
  setExpanded(expanded) { this.change({ expanded }); }
  setOutputPad(outputPad) { this.change({ outputPad }); }
  render(width) {
    if (this.isStale) {
      this.isStale = false;
      this.clear();
      for (const part of this.parts()) this.addChild(part);
    }
    return super.render(width);
  }
}

/** Parts in a box. */
function boxed(parts, padding) {
  const box = new tui.Box(padding, 1);
  for (const part of parts) box.addChild(part);
  return box;
}

class UserMessageComponent extends Drawn {
  constructor(text, styles, outputPad = 1, ...more) {
    super();
    this.change({ text, outputPad, more: [styles, ...more] });
  }
  parts() { return [new Transformed(this.text, { messageType: "user", padding: this.outputPad, marginY: 1 }, this.more)]; }
}

class AssistantMessageComponent extends Drawn {
  isStreaming = false;
  constructor(message, hideThinkingBlock = false, styles, hiddenThinkingLabel = "Thinking...", outputPad = 1, ...more) {
    super();
    this.change({ message, hideThinkingBlock, hiddenThinkingLabel, outputPad, more: [styles, ...more] });
  }
  setHideThinkingBlock(hideThinkingBlock) { this.change({ hideThinkingBlock }); }
  setHiddenThinkingLabel(hiddenThinkingLabel) { this.change({ hiddenThinkingLabel }); }
  updateContent(message, isStreaming = this.isStreaming) { this.change({ message, isStreaming }); }
  parts() {
    const { message } = this;
    if (!message) return [];
    const shown = runsOf(message.content).flatMap(([type, text]) => this.block(type, text));
    const failure = failureOf(message);
    if (failure) shown.push(line(theme.fg("error", failure), this.outputPad));
    return shown.flatMap((part) => [new tui.Spacer(1), part]);
  }
  block(type, text) {
    const { outputPad: padding, isStreaming } = this;
    if (type === "text") return [new Transformed(text, { messageType: "assistant", padding, isStreaming }, this.more)];
    if (!this.hideThinkingBlock) {
      const style = { color: (each) => theme.fg("muted", each), italic: true };
      return [new Transformed(text, { messageType: "assistant-thinking", padding, isStreaming }, this.more, style)];
    }
    return this.hiddenThinkingLabel.trim() ? [line(theme.italic(theme.fg("muted", this.hiddenThinkingLabel)), padding)] : [];
  }
}

/** The texts and thoughts of an answer, with thoughts that follow one another as one. */
function runsOf(content) {
  const runs = [];
  for (const block of content) {
    const text = (block.type === "text" ? block.text : block.type === "thinking" ? block.thinking : "").trim();
    const last = runs.at(-1);
    if (last?.[0] === "thinking" && block.type === "thinking") last[1] = [last[1], text].filter(Boolean).join("\n\n");
    else runs.push([block.type, text]);
  }
  return runs.filter(([, text]) => text);
}

function failureOf({ stopReason, errorMessage, content }) {
  if (stopReason === "length") return "Response was truncated before completion.";
  if (content.some((block) => block.type === "toolCall")) return undefined; // the call shows it
  if (stopReason === "aborted") return errorMessage && errorMessage !== "Request was aborted" ? errorMessage : "Operation aborted";
  return stopReason === "error" ? `Error: ${errorMessage || "Unknown error"}` : undefined;
}

class CustomMessageComponent extends Drawn {
  constructor(message, renderer, styles, outputPad = 1, ...more) {
    super();
    this.change({ message, renderer, outputPad, more: [styles, ...more] });
  }
  parts() {
    const { message, expanded, outputPad } = this;
    let own;
    try {
      own = this.renderer?.(message, { expanded, outputPad, keyText, keyHint }, theme);
    } catch {
      // Drawn without it.
    }
    const text = new Transformed(textIn(message.content), { messageType: "custom" }, this.more);
    return [new tui.Spacer(1), own ?? boxed([line(label(message.customType)), new tui.Spacer(1), text], outputPad)];
  }
}

/** A message that shows one line until it is expanded. */
class Folded extends Drawn {
  constructor(outputPad = 1) {
    super();
    this.outputPad = outputPad;
  }
  parts() { return [boxed(this.expanded ? this.whole() : this.short(), this.outputPad)]; }
}

/** A summary, with what it is of. */
class Summary extends Folded {
  constructor(name, head, message, styles, outputPad, ...more) {
    super(outputPad);
    this.change({ name, head, message, more: [styles, ...more] });
  }
  short() { return [line(label(this.name)), new tui.Spacer(1), line(`${this.head[0]} (${expands()} to expand)`)]; }
  whole() {
    const text = new Transformed(this.message.summary, { messageType: "summary", head: `**${this.head[1]}**\n\n` }, this.more);
    return [line(label(this.name)), new tui.Spacer(1), text];
  }
}

class BranchSummaryMessageComponent extends Summary {
  constructor(message, ...more) { super("branch", ["Branch summary", "Branch Summary"], message, ...more); }
}

class CompactionSummaryMessageComponent extends Summary {
  constructor(message, ...more) {
    const head = `Compacted from ${message.tokensBefore.toLocaleString()} tokens`;
    super("compaction", [head, head], message, ...more);
  }
}

class SkillInvocationMessageComponent extends Folded {
  constructor(skill, styles, outputPad, ...more) {
    super(outputPad);
    this.change({ skill, more: [styles, ...more] });
  }
  short() { return [line(`${label("skill")} ${this.skill.name} (${expands()} to expand)`)]; }
  whole() {
    const text = new Transformed(this.skill.content, { messageType: "custom", head: `**${this.skill.name}**\n\n` }, this.more);
    return [line(label("skill")), text];
  }
}

/** A call of a tool and its result, drawn by the tool's own renderers, if it has them. */
class ToolExecutionComponent extends Drawn {
  state = {};
  last = {};
  constructor(toolName, toolCallId, args, options = {}, definition, ui, cwd) {
    super();
    const { showImages = true, imageWidthCells, outputPad = 1 } = options;
    this.change({ toolName, toolCallId, args, definition, ui, cwd, showImages, imageWidthCells, outputPad });
    this.change({ isPartial: true, isStarted: false, isComplete: false });
  }
  show(fields) {
    this.change(fields);
    this.ui?.requestRender?.();
  }
  updateArgs(args) { this.show({ args }); }
  markExecutionStarted() { this.show({ isStarted: true }); }
  setArgsComplete() { this.show({ isComplete: true }); }
  updateResult(result, isPartial = false) { this.show({ result, isPartial }); }
  setShowImages(showImages) { this.change({ showImages }); }
  setImageWidthCells(imageWidthCells) { this.change({ imageWidthCells }); }
  parts() {
    const { result } = this;
    const images = this.showImages && result ? result.content.filter((each) => each.type === "image" && each.data) : [];
    const drawn = images.map((each) => new tui.Image(each.data, each.mimeType, { fallbackColor: (text) => theme.fg("muted", text) }, { maxWidthCells: this.imageWidthCells }));
    const shown = [this.own("renderCall") ?? line(this.title()), ...(result ? [this.own("renderResult") ?? this.output()] : [])].filter(Boolean);
    const isBare = this.definition?.renderShell === "self";
    return [...(isBare ? shown : [new tui.Spacer(1), boxed(shown, this.outputPad)]), ...drawn.flatMap((each) => [new tui.Spacer(1), each])];
  }
  /** What a renderer of the tool returns, undefined: it has none, or it has thrown. */
  own(member) {
    const render = this.definition?.[member];
    if (render === undefined) return undefined;
    const { args, toolCallId, state, cwd, isPartial, expanded, showImages, outputPad, result } = this;
    const context = {
      args, toolCallId, state, cwd, isPartial, expanded, showImages, outputPad, keyText, keyHint, lastComponent: this.last[member],
      executionStarted: this.isStarted, argsComplete: this.isComplete, isError: result?.isError ?? false,
      durationMs: isPartial ? undefined : result?.durationMs, invalidate: () => this.show({}),
    };
    this.last[member] = undefined;
    try {
      const made = member === "renderCall"
        ? render(args, theme, context)
        : render({ content: result.content, details: result.details }, { expanded, isPartial }, theme, context);
      return (this.last[member] = made);
    } catch {
      return undefined;
    }
  }
  title() {
    const words = Object.entries(this.args ?? {}).map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`);
    const text = words.join(" ");
    const shown = this.expanded ? text : text.split("\n")[0];
    return theme.bold(this.toolName) + (shown ? ` ${theme.fg("muted", shown)}` : "");
  }
  output() {
    const text = textIn(this.result.content);
    if (!text) return undefined;
    const lines = text.split("\n");
    const shown = this.expanded ? lines : lines.slice(0, RESULT_LINES);
    const color = this.result.isError ? "error" : "muted";
    const more = lines.length > shown.length ? `\n... (${lines.length - shown.length} more lines, ${keyHint("app.tools.expand", "to expand")})` : "";
    return line(shown.map((each) => theme.fg(color, each)).join("\n") + more);
  }
}

/** A command of the user, with its output while it runs. */
class BashExecutionComponent extends Drawn {
  lines = [];
  status = "running";
  constructor(command, ui, excludeFromContext = false, outputPad = 1) {
    super();
    keybindings(); // before a component reads them
    this.change({ command, outputPad, color: excludeFromContext ? "dim" : "success" });
    const colored = (color) => (text) => theme.fg(color, text);
    this.loader = new tui.Loader(ui, colored(this.color), colored("muted"), `Running... (${keyText("tui.select.cancel")} to cancel)`);
  }
  getCommand() { return this.command; }
  getOutput() { return this.lines.join("\n"); }
  appendOutput(chunk) {
    const [first, ...rest] = chunk.replace(/\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)/g, "").replace(/\r\n?/g, "\n").split("\n");
    const last = this.lines.pop() ?? "";
    this.change({ lines: [...this.lines, last + first, ...rest] });
  }
  setComplete(exitCode, cancelled, truncation, fullOutputPath) {
    this.loader.stop();
    this.change({ status: cancelled ? "cancelled" : exitCode ? "error" : "complete", exitCode, isCut: truncation?.truncated, fullOutputPath });
  }
  dispose() { this.loader.stop(); }
  parts() {
    const { outputPad: padding, color, status } = this;
    const border = { invalidate() {}, render: (width) => [theme.fg(color, "─".repeat(Math.max(1, width)))] };
    const shown = this.getOutput() ? this.output(padding) : [];
    const state = status === "running" ? [this.loader] : this.ending().map((each) => line(each, padding));
    return [new tui.Spacer(1), border, line(theme.fg(color, theme.bold(`$ ${this.command}`)), padding), ...shown, ...state, border];
  }
  output(padding) {
    const lines = this.lines.map((each) => theme.fg("muted", each));
    if (this.expanded) return [line(`\n${lines.join("\n")}`, padding)];
    const text = `\n${lines.slice(-PREVIEW_LINES).join("\n")}`;
    return [{ invalidate() {}, render: (width) => truncateToVisualLines(text, PREVIEW_LINES, width, padding).visualLines }];
  }
  ending() {
    const hidden = this.lines.length - PREVIEW_LINES;
    const parts = [];
    if (hidden > 0 && this.expanded) parts.push(`(${keyHint("app.tools.expand", "to collapse")})`);
    else if (hidden > 0) parts.push(`${theme.fg("muted", `... ${hidden} more lines`)} (${keyHint("app.tools.expand", "to expand")})`);
    if (this.status === "cancelled") parts.push(theme.fg("warning", "(cancelled)"));
    if (this.status === "error") parts.push(theme.fg("error", `(exit ${this.exitCode})`));
    if (this.isCut && this.fullOutputPath) parts.push(theme.fg("warning", `Output truncated. Full output: ${this.fullOutputPath}`));
    return parts;
  }
}

module.exports = {
  UserMessageComponent, AssistantMessageComponent, CustomMessageComponent, BranchSummaryMessageComponent,
  CompactionSummaryMessageComponent, SkillInvocationMessageComponent, ToolExecutionComponent, BashExecutionComponent,
};
