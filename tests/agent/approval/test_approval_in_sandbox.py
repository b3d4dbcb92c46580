"""What a question of tool approval names is the file that the tool changes, which a sandbox may show elsewhere."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pinnace_agent.approval.question import examine
from pinnace_agent.files.protected import Places
from pinnace_agent.files.tool_calls import Answer, FileCall
from pinnace_agent.tools.local.file_calls import FILE_CALLS, Take


class Inside:
    """The files of a sandbox in which every link leads to the same place."""

    async def perform(self, call: FileCall, take: Take) -> Answer:
        del take
        assert "real path" == call.name
        return "/inside/file"


@pytest.fixture
def inside() -> Iterator[None]:
    FILE_CALLS.use(Inside())
    yield
    FILE_CALLS.use(None)


async def test_the_path_of_a_question_is_that_of_the_sandbox(inside: None, tmp_path: Path) -> None:
    del inside
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    call = await examine("write", {"path": "link", "content": ""}, str(tmp_path), Places, is_builtin=True)

    assert ("/inside/file", "/inside/file") == (call.path, call.bound_path)
