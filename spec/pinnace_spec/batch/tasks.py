"""A task of `pinnace batch`: one line of its file of tasks, as it is published in `schema/batch.json`.

Closed: a field that is misspelt is an error, since a limit that is not read is no limit. Rule R-BAT-01.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

# Words of a command line, values of the environment, and paths: systems allow 128 KiB each, and no NUL.
WORD: Final = r"^[^\x00]+$"
VALUE: Final = r"^[^\x00]*$"
LISTED_PROMPT: Final = r"^[^\x00]*[^\x00\s][^\x00]*$"
PROMPT: Final = r"\S"
PATTERNS: Final[Mapping[str, str]] = {
    WORD: "a text without NUL characters",
    VALUE: "a text without NUL characters",
    LISTED_PROMPT: "a text that is not blank and has no NUL characters",
    PROMPT: "a text that is not blank",
}
"""What error texts name as expected, by pattern."""
Word = Annotated[str, Field(min_length=1, max_length=30_000, pattern=WORD)]
Value = Annotated[str, Field(max_length=30_000, pattern=VALUE)]
ListedPrompt = Annotated[str, Field(min_length=1, max_length=30_000, pattern=LISTED_PROMPT)]
Prompt = Annotated[str, Field(pattern=PROMPT)]
Seconds = Annotated[float, Field(gt=0, le=1_000_000)]
# Part of paths and of session ids.
TaskId = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,98}[A-Za-z0-9])?$")]
Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
MOST_BYTES: Final = 1_000_000
"""Of all prompts of a list, and the environment: words that a program is started with."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)


class CopiedWorkspace(_Model):
    """A folder of the worker that is copied for the task."""

    copy_of: Word = Field(alias="copy")
    """The path of the folder."""


class GitWorkspace(_Model):
    """A repository that is cloned for the task."""

    git: Word
    """Its path on the worker, or its URL."""
    rev: Word = "HEAD"
    """What is checked out: a branch, a tag or a commit."""


class TaskLimits(_Model):
    """Limits of a task. The first three are those of the agent, from a prompt until the agent has settled."""

    maxTurns: Annotated[int, Field(ge=1, le=999_999_999)] | None = None
    """Answers of the model."""
    maxCost: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """US dollars, by the prices of the models."""
    maxRunSeconds: Seconds | None = None
    """Work on one prompt."""
    timeoutSeconds: Seconds | None = None
    """The whole agent process, which is then ended, and killed if it does not end."""
    verifySeconds: Seconds = 600.0
    """The verification command."""


class Task(_Model):
    """What one agent is to do, where, and how it is verified."""

    id: TaskId
    """Unique in the batch; names the session and its file."""
    prompt: Prompt | None = None
    """The prompt; either this or `prompts`."""
    prompts: Annotated[list[ListedPrompt], Field(min_length=1)] | None = None
    """Prompts that are sent one after the other. A line feed is put before one that begins with @, which would name a
    file."""
    cwd: Word | None = None
    """An existing folder to work in, which the task changes. Neither this nor `workspace`: an empty folder."""
    workspace: CopiedWorkspace | GitWorkspace | None = None
    """A folder of the task's own, which is removed afterwards."""
    files: dict[Word, str] = {}
    """Files to write before the start: relative paths in the working folder, and contents."""
    env: dict[Name, Value] = {}
    """Variables of the agent and of the verification command."""
    model: Word | None = None
    """As `--model`."""
    limits: TaskLimits = TaskLimits()
    verify: Word | None = None
    """A command of /bin/sh, run in the working folder when the prompts are completed. The task passes if it exits with
    0."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.prompt is None) is (self.prompts is None):
            raise ValueError("a task has either prompt or prompts")
        if self.cwd is not None and self.workspace is not None:
            raise ValueError("a task has either cwd or workspace")
        words = [*(self.prompts or ()), *self.env.values()]
        if sum(len(word.encode()) for word in words) > MOST_BYTES:
            raise ValueError(f"prompts and env have more than {MOST_BYTES} bytes together, which no system can start")
        for path in self.files:
            if path.startswith("/") or ".." in path.split("/"):
                raise ValueError(f"files: {path} is no relative path in the working folder")
        return self
