"""pinnace as an agent of Inspect AI: it runs in the sandbox of a sample, and its model is the one of the evaluation.

    inspect eval inspect_pinnace.py --model anthropic/claude-opus-4-5 --sandbox docker

The sandbox must have `pinnace` on its PATH; with `--sandbox local` it is that of this machine. Inspect's bridge answers
its model's requests inside the sandbox, so that every request is in the log of the evaluation, and no key is in there.
"""

import json

from inspect_ai import Task, task
from inspect_ai.agent import Agent, AgentState, agent, sandbox_agent_bridge
from inspect_ai.dataset import Sample
from inspect_ai.model import user_prompt
from inspect_ai.scorer import Score, Scorer, Target, accuracy, scorer
from inspect_ai.solver import TaskState
from inspect_ai.util import sandbox

PORT = 13131


@agent
def pinnace(port: int = PORT) -> Agent:
    """Let pinnace work on the last message of the user."""

    async def execute(state: AgentState) -> AgentState:
        async with sandbox_agent_bridge(state, port=port) as bridge:
            provider = {
                "baseUrl": f"http://127.0.0.1:{port}/v1",
                "api": "openai-completions",
                "apiKey": "bridge",
                "models": [{"id": "inspect"}],
            }
            models = json.dumps({"providers": {"inspect": provider}})
            await sandbox().write_file(".pinnace/models.json", models)
            words = ["pinnace", "-p", "--provider", "inspect", "--model", "inspect", "--no-session"]
            done = await sandbox().exec(
                [*words, user_prompt(state.messages).text],
                env={"PI_CODING_AGENT_DIR": ".pinnace"},
            )
            if not done.success:
                raise RuntimeError(f"pinnace ended with {done.returncode}: {done.stderr}")
            return bridge.state

    return execute


@scorer(metrics=[accuracy()])
def file_holds() -> Scorer:
    """Read the file `answer.txt` that the agent should have written."""

    async def score(state: TaskState, target: Target) -> Score:
        found = await sandbox().exec(["cat", "answer.txt"])
        return Score(value=found.stdout.strip() == target.text, explanation=found.stderr or found.stdout)

    return score


@task
def writes_a_file() -> Task:
    """One sample, which needs a tool."""
    prompt = "Write the product of 6 and 7 into the file answer.txt, with the tool bash."
    return Task(dataset=[Sample(input=prompt, target="42")], solver=pinnace(), scorer=file_holds(), sandbox="local")
