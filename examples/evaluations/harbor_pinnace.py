"""pinnace as an agent of Harbor, which runs Terminal-Bench and other benchmarks, each task in a container of its own.

    harbor run --path TASKS --agent harbor_pinnace:Pinnace --model anthropic/claude-opus-4-5 --agent-kwarg wheel=FILE

A container that has no `pinnace` needs Python 3.11 with pip, and gets the wheel. A trial keeps `result.json`, the
session, and the trajectory in ATIF, which Harbor's viewer shows.
"""

import json
import shlex
from pathlib import Path
from typing import Any

from harbor.agents.capabilities import AgentCapabilities
from harbor.agents.installed.base import BaseInstalledAgent, with_prompt_template
from harbor.environments.base import BaseEnvironment
from harbor.models.agent.context import AgentContext


class Pinnace(BaseInstalledAgent):
    """Runs `pinnace -p` on the instruction of a task."""

    capabilities = AgentCapabilities(atif=True)

    def __init__(self, *args: Any, wheel: str | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._wheel = wheel

    @staticmethod
    def name() -> str:
        return "pinnace"

    def get_version_command(self) -> str:
        return "pinnace --version"

    async def install(self, environment: BaseEnvironment) -> None:
        is_there = await environment.exec(command="command -v pinnace")
        if is_there.return_code == 0:
            return
        if self._wheel is None:
            raise ValueError("the environment has no pinnace: name a wheel with --agent-kwarg wheel=FILE")
        place = f"/tmp/{Path(self._wheel).name}"
        await environment.upload_file(self._wheel, place)
        await self.exec_as_root(environment, command=f"python3 -m pip install --quiet {shlex.quote(place)}")

    @with_prompt_template
    async def run(self, instruction: str, environment: BaseEnvironment, context: AgentContext) -> None:
        logs = self.environment_logs_dir.as_posix()
        words = ["pinnace", "-p", "--result-file", f"{logs}/result.json", "--session-dir", f"{logs}/sessions"]
        if self.model_name:
            words += ["--model", self.model_name]
        # The exit code says no more than the result, and a task that failed is judged all the same.
        run = f"{shlex.join([*words, '--', instruction])} < /dev/null || test -s {logs}/result.json"
        session = f'"$(find {logs}/sessions -name "*.jsonl" | head -n 1)"'
        export = f"pinnace --export {session} {logs}/trajectory.json --format atif"
        await self.exec_as_agent(environment, command=f"mkdir -p {logs}/sessions && ({run}) && {export}")

    def populate_context_post_run(self, context: AgentContext) -> None:
        try:
            result = json.loads((self.logs_dir / "result.json").read_text())
        except FileNotFoundError:
            return
        usage = result["usage"]
        context.n_input_tokens = usage["input"] + usage["cacheRead"] + usage["cacheWrite"]
        context.n_cache_tokens = usage["cacheRead"]
        context.n_output_tokens = usage["output"]
        context.cost_usd = result["cost"]
        context.metadata = {"reason": result["reason"], "turns": result["turns"]}
