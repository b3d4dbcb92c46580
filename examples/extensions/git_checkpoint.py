"""Stores the state of the files at each turn, so that a fork can restore it.

    pinnace --mode rpc -e examples/extensions/git_checkpoint.py

Works in a Git repository, with tracked files. Elsewhere it does nothing.
"""

from pinnace.extensions import Cancel, Context, ExtensionAPI
from pinnace.extensions import events as ev

CHANGING = {"bash", "write", "edit"}
RESTORE, KEEP, CANCEL = "Restore the files of that time", "Keep the files as they are", "Do not fork"


def extension(pi: ExtensionAPI) -> None:
    checkpoints: dict[str, str] = {}  # entry of the session -> commit with the files at that entry
    is_changed = True
    latest = ""

    async def git(*words: str) -> str:
        """Run git in the working folder; return no output if it fails. `pi.exec` uses no shell and does not raise."""
        done = await pi.exec("git", *words)
        return done.stdout.strip() if done.code == 0 else ""

    async def snapshot() -> str:
        """Return a commit with the current files. Changes neither the files nor a branch."""
        return await git("stash", "create") or await git("rev-parse", "HEAD")  # nothing to stash: as in HEAD

    @pi.on("tool_result")
    def changed(ctx: Context, event: ev.ToolResult) -> None:
        nonlocal is_changed
        is_changed = is_changed or event.tool_name in CHANGING

    @pi.on("turn_start")
    async def remember(ctx: Context, event: ev.TurnStart) -> None:
        nonlocal is_changed, latest
        leaf = ctx.session_manager.get_leaf_id()  # the entry that this turn continues from
        if is_changed:
            latest, is_changed = await snapshot(), False
        if leaf and latest:
            checkpoints[leaf] = latest

    @pi.on("agent_settled")
    def tidy(ctx: Context, event: ev.AgentSettled) -> None:
        """Drop other entries: a fork starts at a user message."""
        nonlocal is_changed
        is_changed = True  # changes from here on are the user's own
        for entry_id in list(checkpoints):
            entry = ctx.session_manager.get_entry(entry_id)
            message = entry.get("message") if entry else None
            if not isinstance(message, dict) or message.get("role") != "user":
                del checkpoints[entry_id]

    @pi.on("session_before_fork")
    async def offer(ctx: Context, event: ev.SessionBeforeFork) -> Cancel | None:
        commit = checkpoints.get(event.entry_id)
        if commit is None or not ctx.has_ui:
            return None
        answer = await ctx.ui.select("The files have changed since. What about them?", [RESTORE, KEEP, CANCEL])
        if answer == CANCEL:
            return Cancel()  # neither the session nor the files change
        if answer == RESTORE:
            if now := await git("stash", "create"):  # the current files stay in `git stash list`
                await git("stash", "store", "-m", "before going back", now)
            await git("restore", f"--source={commit}", "--worktree", "--", ":/")
            ctx.ui.notify(f"Restored the files of {commit[:10]}")
        return None
