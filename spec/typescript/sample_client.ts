// A whole client in one file: start an agent, ask it something, show what happens, leave when nothing more will.
//
//   node sample_client.ts "What is in this folder?" -- pinnace --mode rpc        (node 22.18 or newer)
//
// The types are generated from the specification (`protocol.ts`); this file is written by hand, and a test compiles it
// with `tsc --strict`. Forget a case of the switch below, or misspell a field, and it no longer compiles.

import { spawn } from "node:child_process";
import type { ChildProcessWithoutNullStreams } from "node:child_process";

import type { AssistantMessageEvent, Command, ExtensionUiRequest, Failure, Output, Response, ResponseOf } from "./protocol";

type Named = Extract<Command["type"], keyof ResponseOf>;
type Fields<Name extends Named> = Omit<Extract<Command, { type: Name }>, "type" | "id">;

class Refused extends Error {
  readonly failure: Failure;

  constructor(failure: Failure) {
    super(`${failure.command}: ${failure.error}`);
    this.failure = failure;
  }
}

class Agent {
  private readonly process: ChildProcessWithoutNullStreams;
  private readonly onRecord: (record: Exclude<Output, Response>) => void;
  private readonly waiting = new Map<string, (response: Response) => void>();
  private rest = "";
  private last = 0;

  constructor(process: ChildProcessWithoutNullStreams, onRecord: (record: Exclude<Output, Response>) => void) {
    this.process = process;
    this.onRecord = onRecord;
    process.stdout.setEncoding("utf8");
    process.stdout.on("data", (text: string) => this.read(text));
  }

  /** Send a command; its answer's type follows from its name. */
  async ask<Name extends Named>(type: Name, fields: Fields<Name>): Promise<ResponseOf[Name]> {
    const id = `c${++this.last}`;
    const answer = new Promise<Response>((resolve) => this.waiting.set(id, resolve));
    this.send({ ...fields, type, id } as unknown as Command);
    const response = await answer;
    if (!response.success) throw new Refused(response);
    return response as ResponseOf[Name];
  }

  send(command: Command): void {
    this.process.stdin.write(`${JSON.stringify(command)}\n`);
  }

  close(): void {
    this.process.stdin.end();
  }

  // Records are split at LF alone: a line reader would also split at U+2028 inside a text.
  private read(text: string): void {
    const lines = (this.rest + text).split("\n");
    this.rest = lines.pop() ?? "";
    for (const line of lines) this.take(JSON.parse(line) as Output);
  }

  private take(record: Output): void {
    if (record.type !== "response") {
      this.onRecord(record);
      return;
    }
    const id = typeof record.id === "string" ? record.id : "";
    this.waiting.get(id)?.(record);
    this.waiting.delete(id);
  }
}

/** The compiler shows that no case is forgotten; at run time a newer agent may write what was not known then. */
function unknown(_record: never): void {}

function stepText(step: AssistantMessageEvent): string {
  switch (step.type) {
    case "text_delta":
      return step.delta;
    case "toolcall_end":
      return `\n[${step.toolCall.name} ${JSON.stringify(step.toolCall.arguments)}]\n`;
    case "text_start":
    case "text_end":
    case "thinking_start":
    case "thinking_delta":
    case "thinking_end":
    case "toolcall_start":
    case "toolcall_delta":
      return "";
    default:
      unknown(step);
      return "";
  }
}

/** Answer a dialog with its default: nobody is there to be asked. */
function answerTo(request: ExtensionUiRequest): Command | undefined {
  switch (request.method) {
    case "select":
    case "input":
    case "editor":
      return { type: "extension_ui_response", id: request.id, cancelled: true };
    case "confirm":
      return { type: "extension_ui_response", id: request.id, confirmed: false };
    case "notify":
      process.stderr.write(`${request.message}\n`);
      return undefined;
    case "setStatus":
    case "setWidget":
    case "setTitle":
    case "set_editor_text":
      return undefined;
    default:
      unknown(request);
      return { type: "extension_ui_response", id: (request as { id: string }).id, cancelled: true };
  }
}

function show(record: Exclude<Output, Response>, agent: Agent): void {
  switch (record.type) {
    case "message_update":
      process.stdout.write(stepText(record.assistantMessageEvent));
      break;
    case "tool_execution_end":
      process.stdout.write(record.isError ? "[failed]\n" : "[done]\n");
      break;
    case "auto_retry_start":
      process.stderr.write(`${record.errorMessage}; trying again in ${record.delayMs} ms\n`);
      break;
    case "compaction_end":
      process.stderr.write(record.result ? `kept ${record.result.estimatedTokensAfter} tokens\n` : "not compacted\n");
      break;
    case "extension_ui_request": {
      const answer = answerTo(record);
      if (answer) agent.send(answer);
      break;
    }
    case "extension_error":
      process.stderr.write(`${record.extensionPath}: ${record.error}\n`);
      break;
    case "agent_settled":
      process.stdout.write(record.aborted ? "\n[aborted]\n" : "\n");
      agent.close();
      break;
    case "agent_start":
    case "agent_end":
    case "turn_start":
    case "turn_end":
    case "message_start":
    case "message_end":
    case "tool_execution_start":
    case "tool_execution_update":
    case "queue_update":
    case "compaction_start":
    case "auto_retry_end":
    case "bash_execution_update":
    case "client_request":
    case "extension_ui_resolved":
    case "mcp_status":
    case "subagent_event":
    case "ui_surface_open":
    case "ui_surface_draw":
    case "ui_input":
    case "ui_surface_close":
    case "ui_theme":
    case "ui_display":
    case "ui_tools_expanded":
    case "warning":
    case "login_start":
    case "login_end":
    case "thinking_level_changed":
    case "session_info_changed":
    case "session_changed":
    case "entry_appended":
      break;
    default:
      unknown(record);
  }
}

async function main(words: string[]): Promise<void> {
  const split = words.indexOf("--");
  const [question = "Hello"] = words.slice(0, split < 0 ? undefined : split);
  const [program = "pinnace", ...rest] = split < 0 ? ["pinnace", "--mode", "rpc"] : words.slice(split + 1);
  const child = spawn(program, rest, { stdio: "pipe" });
  child.stderr.pipe(process.stderr);
  const agent: Agent = new Agent(child, (record) => show(record, agent));
  try {
    const { data: state } = await agent.ask("get_state", {});
    process.stderr.write(`${state.model ? state.model.id : "no model"}, ${state.messageCount} messages\n`);
    const { data: accepted } = await agent.ask("prompt", { message: question });
    // An extension has handled it, or the session knows it: no agent_settled follows.
    if (accepted?.disposition === "handled" || accepted?.disposition === "duplicate") agent.close();
  } catch (error) {
    agent.close(); // a refused prompt: the agent would wait for the next command
    throw error;
  }
}

main(process.argv.slice(2)).catch((error: unknown) => {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
});
