"""The extension that is built in: it connects the servers of a session and registers what they offer.

Decides what models, users and clients see of servers. Servers are connected in the background; the first request to a
model waits for them as long as the user wants, and no response ever does. Everything ends with the session's instance.
"""

import os
import time
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import trio

from pinnace_agent.config.server_entries import ServerEntry
from pinnace_agent.core.nursery import open_flat_nursery
from pinnace_agent.core.user_warnings import Notice, Warnings
from pinnace_agent.core.visible_text import visible_line
from pinnace_agent.extensions.api.api import ExtensionAPI
from pinnace_agent.extensions.api.contexts import CommandContext, Context, ToolContext
from pinnace_agent.extensions.events.events import ContextWithSystem, SessionShutdown, SessionStart
from pinnace_agent.extensions.events.results import ToolResult
from pinnace_agent.extensions.loading.loading import Inline
from pinnace_agent.extensions.registration.registrations import ToolDefinition
from pinnace_agent.mcp import launching, resources
from pinnace_agent.mcp.configuration import ConfiguredServers, McpSettings, configured, user_file, with_registered
from pinnace_agent.mcp.content import save_output, shown_result
from pinnace_agent.mcp.definitions import OfferedTool, first_line, tool_names
from pinnace_agent.mcp.elicitation import Asking, Elicitation
from pinnace_agent.mcp.late import PATH
from pinnace_agent.mcp.oauth.commands import SignIns, sign_in_hint
from pinnace_agent.mcp.opening import is_installed, load_library, missing, open_link
from pinnace_agent.mcp.ports import (
    CallTimedOut,
    LinkLost,
    NeedsAuth,
    NotConnected,
    ServerError,
    ServerHooks,
    ServerLink,
)
from pinnace_agent.mcp.prompts import WrongArguments, message_of, prompts_of, read_arguments
from pinnace_agent.mcp.reporting import StateReports, paced
from pinnace_agent.mcp.resources import Resources, failure_text
from pinnace_agent.mcp.server import Server
from pinnace_agent.mcp.tasks import outcome
from pinnace_agent.redaction.redactor import REDACTOR
from pinnace_agent.tools.base import ToolError
from pinnace_agent.tools.validation import schema_problem

if TYPE_CHECKING:  # loaded with a sandbox
    from pinnace_agent.core.ports.confinement import SandboxReport


_NOTICE_S: Final = 10.0
_END_S: Final = 1.0
_QUICK_END_S: Final = 0.5
_MOST_LINE: Final = 250
_MOST_DROPPED: Final = 10
_MOST_SAID: Final = 100
_MOST_SECTION: Final = 4096
_PROMPT_S: Final = 30.0
_LOOK_S: Final = 0.05
"""How often a command looks whether the user has aborted it."""
_MOST_LOG_BYTES: Final = 5 * 1024 * 1024
_MOST_LINES_PER_S: Final = 100
_MOST_LOG_CHARS: Final = 4_000


class McpProcessFacts(NamedTuple):
    """What the process knows."""

    own: Mapping[str, str]
    """The environment of the agent."""
    of_tools: Callable[[], Mapping[str, str]]
    """Returns that of its tools."""
    release: str
    client: str | None = None
    """The servers that the client hands over (`CLIENT_SERVERS`)."""
    settings: McpSettings = McpSettings()
    named_tools: Sequence[str] = ()
    """The tools that the command line names."""
    provider_token: Callable[[str], Awaitable[str | None]] | None = None
    """Returns the key of a provider of models."""
    sandbox: "SandboxReport | None" = None
    """That of all programs; None: there is none."""
    refused: "dict[str, OfferedTool] | None" = None
    """The tools that a provider of models has refused since the process began, by their names for models."""
    warnings: Warnings | None = None
    """What the user has to know about the process; None: the servers have warnings of their own."""

    def unknown_tools(self, known: Container[str]) -> list[str]:
        """Return a line for each tool of a server that the command line names, and that no server has."""
        return [
            f"no server has the tool {word}, which the command line names"
            for word in self.named_tools
            if word.startswith("mcp__") and word not in known and not any(sign in word for sign in "*?[")
        ]


def mcp_extension(given: McpProcessFacts) -> Inline:
    """Return the extension."""
    return Inline(PATH, partial(_load, given), is_replaceable=True)


def _load(given: McpProcessFacts, pi: ExtensionAPI) -> None:
    servers = Servers(given, pi)

    async def begun(ctx: Context, _event: SessionStart) -> None:
        await servers.begin(ctx)

    pi.on("session_start", begun)


class Servers:
    """The servers of one session instance."""

    def __init__(self, given: McpProcessFacts, pi: ExtensionAPI) -> None:
        """Register what is there before any server is: the command, and what happens when the session begins."""
        self._given = given
        self._pi = pi
        self._servers: list[Server] = []
        self._own = self._configured = ConfiguredServers()
        """What was configured when the session began; with the servers of extensions, as they are now."""
        self._raw: Mapping[str, Mapping[str, object]] = {}
        """By name, how extensions have configured theirs."""
        self._registered: dict[str, dict[str, str]] = {}
        """By server, the names of its tools by what it calls them."""
        self._definitions: dict[str, OfferedTool] = {}
        """By name for models, what is registered."""
        self._refused = {} if given.refused is None else given.refused
        self._prompts: dict[str, Sequence[str]] = {}
        self._listing: dict[Server, bool] = {}
        """The servers whose prompts are being listed, and whether they have changed since."""
        """By server, the names of its prompts."""
        self._section = ""
        self._has_waited = False
        self._end_s = _END_S
        self._log = ServerLog(user_file(given.own).with_name("mcp.log"))
        self._resources = Resources(lambda: self._servers)
        self._reports = StateReports(lambda: self._servers, self._tool_count, pi.publish_mcp_servers)
        self._scopes: dict[str, trio.CancelScope] = {}
        """By name, what ends a server."""
        self._loading = trio.Lock()
        self._is_running = False
        self._has_reported = False
        self._is_ended = False
        """The session has ended: nothing may be asked of its context any more."""
        self._warnings = Warnings() if given.warnings is None else given.warnings
        self._notify_later: Callable[[Server], None] = _ignore
        """Reports a server that has failed, once all have been tried."""
        self._notified: set[str] = set()
        """The servers that have failed since they were connected."""
        self._said_of_unusable: set[str] = set()
        """Warnings after the report of all servers: a server may change its lists for ever."""
        self._left_out: dict[str, int] = {}
        """By name, how many tools are not offered since there are too many."""
        self._sign_ins = SignIns(lambda: self._servers, self._environment, given.settings.startup_wait_s)
        pi.on("session_shutdown", self._end)
        pi.on("agent_start", self._renew_section)
        pi.on("agent_start", self._sign_ins.renew)
        pi.on("context_with_system", self._before_request)
        pi.on("mcp_servers_change", self._registered_changed)
        about = "Show MCP servers; `/mcp login|logout|reconnect [NAME]` signs in, signs out, connects anew"
        pi.register_command("mcp", self._command, description=about)

    # The life of the session.

    async def begin(self, ctx: Context) -> None:
        """Have the servers of the session, and connect them in the background."""
        self._warnings.forget("mcp")
        self._own = configured(self._given.own, ctx.cwd, is_trusted=ctx.is_project_trusted(), client=self._given.client)
        self._own.errors += self._given.settings.problems
        registered = self._pi.get_mcp_servers()
        self._configured = with_registered(self._own, registered)
        self._raw = {each["name"]: each["config"] for each in registered}
        self._servers = [self._server(ctx, entry) for entry in self._configured.servers.values()]
        self._reports.publish()
        if self._servers or self._configured.errors:
            self._start(ctx)

    def _server(self, ctx: Context, entry: ServerEntry) -> Server:
        return Server(entry, partial(self._open, ctx), partial(self._changed, ctx))

    def _end(self, ctx: Context, event: SessionShutdown) -> None:
        if self._is_running and not (self._has_reported or ctx.has_ui):
            self._report_problems(ctx, is_over=True)
        self._is_ended = True
        self._end_s = _QUICK_END_S if event.reason == "quit" else _END_S

    def _start(self, ctx: Context) -> None:
        """Connect all servers, and keep what they publish current."""
        self._is_running = True
        self._pi.background.start_soon(self._reports.run)
        self._pi.background.start_soon(self._notify, ctx)
        for server in self._servers:
            self._connect(server)

    def _connect(self, server: Server) -> None:
        if server.entry.is_enabled:
            self._scopes[server.name] = trio.CancelScope()
            self._pi.background.start_soon(self._serve, server, self._scopes[server.name])

    async def _serve(self, server: Server, scope: trio.CancelScope) -> None:
        with scope:
            if not is_installed():
                server.fail(missing())
                return
            async with self._loading:
                await trio.to_thread.run_sync(load_library)
            if not self._is_ended:
                await server.serve()

    async def _registered_changed(self, ctx: Context, _event: object) -> None:
        """Connect servers that extensions have registered since, and end those that they have removed."""
        registered = self._pi.get_mcp_servers()
        raw = {each["name"]: each["config"] for each in registered}
        found = with_registered(self._own, registered)
        former = {server.name: server for server in self._servers}
        kept: list[Server] = []
        added: list[Server] = []
        for name, entry in found.servers.items():
            server = former.get(name)
            if server is not None and (entry.scope != "extension" or raw[name] == self._raw.get(name)):
                del former[name]
            else:
                added.append(server := self._server(ctx, entry))
            kept.append(server)
        self._configured, self._servers, self._raw = found, kept, raw
        for server in former.values():
            self._forget(server)
        if not self._is_running:
            self._start(ctx)
            return
        for server in added:
            self._connect(server)
        self._reports.changed()

    def _forget(self, server: Server) -> None:
        """End a server that the session has no more."""
        if (scope := self._scopes.pop(server.name, None)) is not None:
            scope.cancel()
        server.end()
        for name in self._registered.pop(server.name, {}).values():
            del self._definitions[name]
            self._pi.unregister_tool(name)
        for name in self._prompts.pop(server.name, ()):
            self._pi.unregister_command(name)

    async def _notify(self, ctx: Context) -> None:
        """Say once what is wrong, when every server has been tried."""
        with trio.move_on_after(_NOTICE_S):
            for server in self._servers:
                await server.settled.wait()
        if self._is_ended:
            return
        lines = self._report_problems(ctx)
        if lines:
            text = "\n".join(f"  {line}" for line in lines)
            ctx.ui.notify(f'MCP servers with problems:\n{text}\nRun "pinnace mcp test NAME" for details.', "warning")
        self._notify_later = partial(self._notify_of, ctx)

    def _report_problems(self, ctx: Context, *, is_over: bool = False) -> list[str]:
        """Warn of what is wrong now, once; return the lines. `is_over`: no server is connected any more."""
        self._has_reported = True
        lines: list[tuple[str, str | None]] = [(line, None) for line in self._configured.errors]
        for server in self._servers:
            match server.state:
                case "failed":
                    lines.append((f"{server.name}: {first_line(server.error or '', _MOST_LINE)}", server.name))
                case "needs-auth":
                    lines.append((f"{server.name}: {sign_in_hint(server.entry)}", server.name))
                case "starting" | "connecting" if is_over:
                    lines.append((f"{server.name}: was not connected before the end", server.name))
                case _:
                    pass
            lines += [(line, None) for line in self._unusable(server)]
        lines += [(line, None) for line in self._given.unknown_tools(self._definitions)]
        for line, source in lines:
            self._warn(ctx, f"MCP server {line}" if source else f"MCP: {line}", source)
        return [line for line, _ in lines]

    def _notify_of(self, ctx: Context, server: Server) -> None:
        """Say that a server has failed after all have been tried."""
        hint = sign_in_hint(server.entry) if server.state == "needs-auth" else ""
        text = f"MCP server {server.name}: {hint or first_line(server.error or 'failed', _MOST_LINE)}"
        self._warn(ctx, text, server.name)
        ctx.ui.notify(text, "warning")

    def _unusable(self, server: Server) -> list[str]:
        """Say what a server lists and nothing can use."""
        lines = [f"{server.name}: {line}" for line in _left_out_lines(server)]
        if left_out := self._left_out.get(server.name):
            most = self._given.settings.max_tools
            lines.insert(0, f"{server.name}: {left_out} tools are not offered: mcp.maxTools is {most}")
        return lines

    def _warn_of_unusable(self, ctx: Context) -> None:
        """Warn of what servers have listed after the report of all servers, and nothing can use."""
        if self._is_ended or not self._has_reported:
            return
        said = self._said_of_unusable
        texts = [f"MCP: {line}" for server in self._servers for line in self._unusable(server)]
        new = [each for each in texts if ("mcp", each) not in self._warnings.current and each not in said]
        if new and len(said) < _MOST_SAID:
            said.update(new)
            for text in new:
                self._warn(ctx, text)
            ctx.ui.notify("\n".join(new), "warning")

    def _warn(self, ctx: Context, text: str, source: str | None = None) -> None:
        """Warn of a server. A client of the protocol gets a notification instead of a record."""
        remedy = (
            "`pinnace mcp list` shows what is used." if source is None else f"`pinnace mcp test {source}` has details."
        )
        notice = Notice("mcp", text, remedy, source)
        if ctx.has_ui:
            self._warnings.keep(notice)
        else:
            self._warnings.add(notice)

    async def _open(self, ctx: Context, server: Server, use: Callable[[ServerLink], Awaitable[None]]) -> None:
        if self._is_ended:
            raise LinkLost("the session has ended")
        elicitation = Elicitation(server.name)
        hooks = ServerHooks(
            logged=partial(self._log.write, server.name),
            changed=partial(self._list_changed, server),
            roots=lambda: str(ctx.cwd),
            elicit=partial(self._elicit, ctx, server, elicitation) if ctx.has_ui else None,
            task_changed=server.task_changed,
        )
        await open_link(server.entry, self._environment(ctx), hooks, self._given.release, lambda: self._end_s, use)

    def _environment(self, ctx: Context) -> launching.Environment:
        given = self._given
        return launching.Environment(given.of_tools(), given.own, str(ctx.cwd), given.provider_token, given.sandbox)

    def _list_changed(self, server: Server, what: str) -> None:
        if what in ("tools", "prompts"):
            server.tools_changed()

    async def _elicit(
        self, ctx: Context, server: Server, elicitation: Elicitation, params: Mapping[str, object]
    ) -> Mapping[str, object]:
        call = server.only_call
        return await elicitation.ask(params, _Dialogs(ctx, call))

    # What models see.

    def _changed(self, ctx: Context, server: Server) -> None:
        """Register what a server offers now, and report its state. Never waits."""
        if server not in self._servers:
            return
        self._reports.changed()
        self._sign_ins.changed(ctx, server)
        for line in (server.error or "", *server.details.splitlines()) if server.details else ():
            self._log.write(server.name, {"level": "error", "logger": "stderr", "data": line})
        if server.state in ("failed", "needs-auth") and server.name not in self._notified:
            self._notified.add(server.name)  # once, until it is connected again
            self._notify_later(server)
        if server.state != "connected":
            return
        self._notified.discard(server.name)
        self._warnings.forget("mcp", server.name)
        self._register_all()
        self._warn_of_unusable(ctx)
        if server.offers("resources") and not resources.NAMES & self._definitions.keys():
            for tool in self._resources.tools():
                self._pi.register_tool(tool)
        if server.offers("prompts"):
            if server in self._listing:
                self._listing[server] = True
            else:
                self._pi.background.start_soon(self._list_prompts, ctx, server)

    def _tool_count(self, server: Server) -> int:
        return len(self._registered.get(server.name, ()))

    def _register_all(self) -> None:
        """Register the tools of all servers, as many as models are offered: the last servers' are left out."""
        others = {tool.name for tool in self._pi.get_all_tools() if tool.source_info.get("path") != PATH}
        taken: set[str] = set()
        for server in self._servers:
            names = tool_names(server.name, filter(server.entry.exposes, server.tools), taken)
            for own in [own for own, name in names.items() if name in others]:
                # The tool of an extension stays.
                text = f"MCP: {server.name}/{own} is not offered: there is a tool {names.pop(own)}"
                self._warnings.add(Notice("mcp", text))
            names = {own: name for own, name in names.items() if self._refused.get(name) != server.tools[own]}
            kept = dict(islice(names.items(), max(self._given.settings.max_tools - len(taken), 0)))
            self._left_out[server.name] = len(names) - len(kept)
            taken.update(kept.values())
            self._register_tools(server, kept)

    def _register_tools(self, server: Server, names: dict[str, str]) -> None:
        for name in set(self._registered.get(server.name, {}).values()) - set(names.values()):
            del self._definitions[name]
            self._pi.unregister_tool(name)
        self._registered[server.name] = names
        for own, name in names.items():
            tool = server.tools[own]
            if self._definitions.get(name) == tool:
                continue
            definition = ToolDefinition(
                name,
                tool.description,
                tool.parameters,
                partial(self._call, server, own),
                label=f"{server.name}/{own}",
                is_read_only=server.entry.is_read_only(own),
                annotations=tool.annotations,
                checks_itself=True,
                on_refused=partial(self._withdraw, server, name),
            )
            try:
                self._pi.register_tool(definition)
            except TypeError as error:  # it costs this tool alone
                self._registered[server.name] = {key: each for key, each in names.items() if key != own}
                self._warnings.add(Notice("mcp", f"MCP: {server.name}/{own} is not offered: {error}"))
                continue
            self._definitions[name] = tool

    def _withdraw(self, server: Server, name: str, ctx: Context, reason: str) -> None:
        """Offer a tool no longer, which a provider of models refuses, until its server defines it anew."""
        self._refused[name] = self._definitions[name]
        self._register_all()
        self._reports.changed()
        text = f"The tool {name} of the MCP server {server.name} is no longer offered, since the model's API refuses it"
        ctx.ui.notify(f"{text}: {first_line(reason, _MOST_LINE)}", "warning")

    async def _before_request(self, _ctx: Context, event: ContextWithSystem) -> None:
        """Let the first request wait for servers, and show the model which there are."""
        if not self._has_waited:
            self._has_waited = True
            with trio.move_on_after(self._given.settings.startup_wait_s):
                for server in self._servers:
                    await server.settled.wait()
        for server in self._servers:
            server.refresh()
        if not self._section:
            self._section = self._made_section()
        if self._section:
            # cast: handlers of this event alone see the system message, which is the first
            system = cast("dict[str, object]", event.messages[0])
            system["content"] = f"{system['content']}\n\n{self._section}"

    def _renew_section(self, _ctx: Context, _event: object) -> None:
        self._section = ""

    def _made_section(self) -> str:
        lines: list[str] = []
        for server in self._servers:
            if not server.entry.is_enabled:
                continue
            about = server.entry.description or ("" if server.link is None else server.link.instructions)
            line = first_line(about, _MOST_LINE)
            lines.append(f"- {server.name}: {line}" if line else f"- {server.name}")
        if not lines:
            return ""
        text = "\n".join(lines)[: _MOST_SECTION - len("<mcp_servers>\n\n</mcp_servers>")]
        return f"<mcp_servers>\n{text}\n</mcp_servers>"

    async def _call(self, server: Server, tool: str, ctx: ToolContext, params: Mapping[str, object]) -> ToolResult:
        def show(text: str) -> None:
            _ = ctx.update(ToolResult(text, {"server": server.name, "tool": tool}))

        if tool not in server.tools:
            raise ToolError(f"The MCP server {server.name} has withdrawn its tool {tool}.")
        call = {"name": tool, "arguments": dict(params), **({"task": {}} if server.tools[tool].needs_task else {})}
        try:
            with server.calling(ctx.tool_call_id):
                async with paced(show) as progress:
                    result = await outcome(server, await server.request("tools/call", call, progress), progress)
        except ServerError as error:
            raise ToolError(f"MCP tool {server.name}/{tool}: {error}") from None
        except CallTimedOut:
            raise ToolError(f"{failure_text(server, CallTimedOut())} The call may have taken effect.") from None
        except NeedsAuth:
            raise ToolError(
                f"The MCP server {server.name} {sign_in_hint(server.entry)}. The call was not executed."
            ) from None
        except NotConnected as error:
            raise ToolError(f"{failure_text(server, error)}. The call was not executed.") from None
        except LinkLost as error:
            raise ToolError(
                f"The MCP server {server.name} ended during the call ({error}). The call may have taken effect."
            ) from None
        shown = shown_result(server.name, tool, result, save_output, reads_resources=server.offers("resources"))
        details: dict[str, object] = {"server": server.name, "tool": tool}
        if shown.full_output_path is not None:
            details["fullOutputPath"] = shown.full_output_path
        schema = server.tools[tool].output_schema if tool in server.tools else None
        if schema is not None and "structuredContent" in result:
            # In a thread: a server may send much.
            value = result["structuredContent"]
            problem = await trio.to_thread.run_sync(schema_problem, value, schema, abandon_on_cancel=True)
            if problem is not None:
                details["outputSchemaError"] = problem[:_MOST_LINE]
        structured = {key: value for key, value in result.items() if key != "_meta"}
        return ToolResult(list(shown.blocks), details, structured, is_error=result.get("isError") is True)

    # What users see.

    async def _list_prompts(self, ctx: Context, server: Server) -> None:
        """List the prompts of a server, once more if they have changed meanwhile: never twice at the same time."""
        self._listing[server] = True
        try:
            while self._listing[server]:
                self._listing[server] = False
                await self._register_prompts(ctx, server)
                self._warn_of_unusable(ctx)
        finally:
            del self._listing[server]

    # DEVIATION D-92: there are prompts, and questions.
    async def _register_prompts(self, ctx: Context, server: Server) -> None:
        try:
            found, server.dropped_prompts = await prompts_of(server)
        except (ServerError, CallTimedOut, LinkLost) as error:
            why = first_line(str(error) or "no answer", _MOST_LINE)
            text = f"MCP server {server.name}: its prompts can't be listed: {why}"
            self._warn(ctx, text, server.name)
            ctx.ui.notify(text, "warning")
            return
        names = tool_names(server.name, found)
        for gone in set(self._prompts.get(server.name, ())) - set(names.values()):
            self._pi.unregister_command(gone)
        self._prompts[server.name] = tuple(names.values())
        for own, name in names.items():
            prompt = found[own]

            async def say(ctx: CommandContext, text: str, own: str = own) -> None:
                asked = found[own]
                try:
                    arguments = read_arguments(asked, text)
                    result = await _unless_aborted(
                        ctx, partial(server.request, "prompts/get", {"name": own, "arguments": arguments})
                    )
                except WrongArguments as error:
                    ctx.ui.notify(f"{own} of {server.name}: {error}", "error")
                except (ServerError, CallTimedOut, LinkLost) as error:
                    ctx.ui.notify(failure_text(server, error), "error")
                except trio.TooSlowError:
                    ctx.ui.notify(failure_text(server, CallTimedOut()), "error")
                else:
                    if result is not None:
                        self._pi.send_user_message(message_of(server.name, asked, result))

            self._pi.register_command(
                name, say, description=prompt.description or None, prompt_path=f"mcp:{server.name}"
            )

    async def _command(self, ctx: CommandContext, text: str) -> None:
        """Show the servers, connect one anew, sign in to one, or out."""
        word, _, name = text.strip().partition(" ")
        if word in ("login", "logout"):
            command = self._sign_ins.log_in if word == "login" else self._sign_ins.log_out
            await command(ctx, name.strip())
            return
        if word == "reconnect":
            chosen = [server for server in self._servers if name.strip() in ("", server.name)]
            for server in chosen:
                if server.entry.is_enabled:
                    server.reconnect()
            if not chosen:
                ctx.ui.notify(f'No MCP server named "{name.strip()}".', "error")
            return
        if word:
            ctx.ui.notify("Usage: /mcp, /mcp login [NAME], /mcp logout [NAME], /mcp reconnect [NAME]", "error")
            return
        ctx.ui.notify(self._status_text(), "info")

    def _status_text(self) -> str:
        lines: list[str] = []
        for server in self._servers:
            tools = f", {len(server.tools)} tools" if server.state == "connected" else ""
            error = f"\n    {server.error}" if server.error and server.state != "connected" else ""
            lines.append(f"{server.name}: {server.state}{tools}{error}")
            lines += [f"    {line}" for line in _left_out_lines(server)]
        lines += [f"config error: {error}" for error in self._configured.errors]
        lines += [f"overridden: {line}" for line in self._configured.overridden]
        return (
            "\n".join(lines) or f"No MCP servers configured. Add them to {user_file(self._given.own)} or .pi/mcp.json."
        )


def _left_out_lines(server: Server) -> list[str]:
    return [f"left out: {first_line(line, _MOST_LINE)}" for line in server.left_out[:_MOST_DROPPED]]


async def _unless_aborted(
    ctx: CommandContext, request: Callable[[], Awaitable[Mapping[str, object]]]
) -> Mapping[str, object] | None:
    """Return the result of a request for a prompt; None: the user has aborted.

    Raises:
        TooSlowError: It has taken too long.
    """
    result: Mapping[str, object] | None = None

    async def watch() -> None:
        while not ctx.aborted:  # noqa: ASYNC110  # what the context has of it is a flag
            await trio.sleep(_LOOK_S)
        nursery.cancel_scope.cancel()

    with trio.fail_after(_PROMPT_S):
        async with open_flat_nursery() as nursery:
            nursery.start_soon(watch)
            result = await request()
            nursery.cancel_scope.cancel()
    return result


def _ignore(_server: Server) -> None:
    """Report nothing yet: what is wrong at the start is reported at once."""


class ServerLog:
    """The file that takes the log messages of all servers."""

    def __init__(self, path: Path) -> None:
        """Write to a file, which is made with the first line."""
        self._path = path
        self._second = 0
        self._lines = 0

    def write(self, server: str, params: Mapping[str, object]) -> None:
        """Write a `notifications/message`; what is more than the file takes in a second is dropped. Never raises."""
        now_s = int(time.time())
        if now_s != self._second:
            self._second, self._lines = now_s, 0
        self._lines += 1
        if self._lines > _MOST_LINES_PER_S:
            return
        data = params.get("data")
        said = data if isinstance(data, str) else str(data)
        shown = [visible_line(str(params.get(key, ""))[:100]) for key in ("level", "logger")]
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now_s))
        line = f"{stamp} [{server}] {shown[0]} {shown[1]}: {visible_line(said[:_MOST_LOG_CHARS])}\n"
        with suppress(OSError):
            self._rotate()
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            number = os.open(self._path, flags, 0o600)
            try:
                os.write(number, REDACTOR.text(line).encode("utf-8", "replace"))
            finally:
                os.close(number)

    def _rotate(self) -> None:
        with suppress(FileNotFoundError):
            if self._path.stat().st_size > _MOST_LOG_BYTES:
                os.replace(self._path, self._path.with_name(f"{self._path.name}.1"))


class _Dialogs(Asking):
    """The dialogs of one question."""

    def __init__(self, ctx: Context, call: str | None) -> None:
        self._ui = ctx.ui
        self._call = call

    async def select(self, title: str, options: Sequence[str], url: str | None = None) -> str | None:
        return await self._ui.select(title, list(options), tool_call_id=self._call, url=url)

    async def input(self, title: str, placeholder: str | None) -> str | None:
        return await self._ui.input(title, placeholder, tool_call_id=self._call)
