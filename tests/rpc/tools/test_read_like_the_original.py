"""read as the original has it: the same calls on the same files, each through a whole agent.

What release 1.5.2 answered is kept in tests/data, so that this runs without it. Where it is present it must still
answer so. To record anew, delete the file and run this with the original.
"""

import base64
import re
import struct
import zlib
from pathlib import Path
from typing import Any, Final

import pytest
from tests.rpc.tools.recorded_tool import Comparison, RecordedTool

from pinnace_campaigns.trials.tool_trials import FileContent, Trial

# Why it can't be shown is told in words of our own.
OMITTED: Final = re.compile(r"\[Image omitted: .*?\]$")


def read(path: object, /, *, files: dict[str, FileContent] | None = None, **args: object) -> Trial:
    return Trial("read", {"path": path, **args}, {"f": "one\ntwo\n"} if files is None else files, {})


def window(content: str | bytes, **args: object) -> Trial:
    return read("{c}/f", files={"f": content}, **args)


def image(content: bytes, name: str = "f") -> Trial:
    return read("{c}/" + name, files={name: content})


def differs(trial: Trial, why: str, text: str, *, fails: bool = True) -> Trial:
    """Say what ours answers, and why it does."""
    return trial._replace(ours={"content": [text], "isError": fails, **({"details": {}} if fails else {})}, why=why)


def binary(content: bytes, kind: str) -> Trial:
    text = f"[Binary file: {kind}, {len(content)}B. Its bytes are not shown. Use bash to look into it, e.g. file or"
    return differs(window(content), BINARY, f"{text} strings.]", fails=False)


def invalid(args: str, problem: str) -> str:
    return f'Validation failed for tool "read":\n  - {problem}\n\nReceived arguments:\n{args}'


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, *extra: bytes) -> bytes:
    """Write a red picture."""
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    pixels = chunk(b"IDAT", zlib.compress((b"\0" + b"\xff\0\0" * width) * height))
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(extra) + pixels + chunk(b"IEND", b"")


def bmp(header_size: int = 40) -> bytes:
    head = struct.pack("<IiiHHIIiiII", header_size, 1, 1, 1, 24, 0, 4, 0, 0, 0, 0)
    return b"BM" + struct.pack("<IHHI", 58, 0, 0, 54) + head + b"\0\0\xff\0"


GIF: Final = base64.b64decode("R0lGODlhAQABAIAAAP8AAP///yH5BAAAAAAALAAAAAABAAEAAAICRAEAOw==")
WEBP: Final = base64.b64decode("UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==")
JPEG: Final = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB"
    "AQEBAQH/wAALCAABAAEBAREA/8QAFAABAAAAAAAAAAAAAAAAAAAACf/EABQQAQAAAAAAAAAAAAAAAAAAAAD/2gAIAQEAAD8AVN//2Q=="
)
ANIMATION: Final = chunk(b"acTL", b"\0" * 8)

CONTROLS: Final = "Control characters, which strict providers refuse, are shown by pictures of them."
BINARY: Final = "What is no text is named, not shown."
OWN_WORDS: Final = "What no system says but a runtime is said in words of our own."
DEVICE: Final = "What may never end, or is meant for another reader, is not read."
NULL: Final = "null for a text is an empty one, not the word."
NUMERAL: Final = "Only decimal numerals are taken for numbers."
WHOLE: Final = "A number of lines is whole and not negative."

TRIALS: Final = (
    # Paths.
    read("{c}/f"),
    read("./{c}/../{c}/f"),
    read("{work}/{c}/f"),
    read("@{c}/f"),
    read("@@{c}/f"),
    read("@{work}/{c}/f"),
    read("{c}/f/"),
    read("{c}/f/.."),
    read("{c}//f"),
    read("~/nothing"),
    read("~"),
    read("~root/x"),
    read("@~/nothing"),
    read("file://{work}/{c}/f"),
    read("file://{work}/{c}/a%20b", files={"a b": "one"}),
    read("file://localhost{work}/{c}/f"),
    read("{c}/a\u00a0b", files={"a b": "one"}),
    read("{c}/a\u3000b\u2009c", files={"a b c": "one"}),
    read("{c}/a\u00a0b", files={"a\u00a0b": "one"}),
    read("{c}/f ", files={"f": "one"}),
    read(" {c}/f"),
    read("{c}/a\tb\nc", files={"a\tb\nc": "one"}),
    read("{c}/Shot 1.02.03 PM.txt", files={"Shot 1.02.03\u202fPM.txt": "one"}),
    read("{c}/Shot 1.02.03 am.txt", files={"Shot 1.02.03\u202fam.txt": "one"}),
    read("{c}/Shot 1.02.03\u202fPM.txt", files={"Shot 1.02.03\u202fPM.txt": "one"}),
    read("{c}/é", files={"e\u0301": "decomposed"}),
    read("{c}/é", files={"e\u0301": "decomposed", "é": "composed"}),
    read("{c}/it's", files={"it\u2019s": "curly"}),
    read("{c}/l'été", files={"l\u2019e\u0301te\u0301": "both"}),
    read("{c}/it\u2019s", files={"it's": "straight"}),
    read("{c}/link", files={"f": "one", "link": Path("f")}),
    read("{c}/link", files={"link": Path("nowhere")}),
    read("{c}/link", files={"link": Path("link")}),
    # What is no file.
    read("{c}/nope"),
    read("{c}/no/such/file"),
    read("{c}/f/x"),
    read("{c}"),
    read("."),
    read(""),
    read("{c}/" + "x" * 300),
    differs(read("{c}/a\0b"), OWN_WORDS, "Not a path, since it contains a NUL character: '{c}/a\\x00b'"),
    differs(read("/dev/null"), DEVICE, "Not a file with content, but a pipe, socket or device: /dev/null"),
    # Arguments.
    read(5),
    differs(read(None), NULL, "EISDIR: illegal operation on a directory, read"),
    read(True),
    read(["f"]),
    read({"a": 1}),
    Trial("read", {}, {}, {}),
    Trial("read", {"file": "{c}/f"}, {"f": "one"}, {}),
    window("a\nb\nc", why="unknown"),
    window("a\nb\nc", offset="2"),
    window("a\nb\nc", offset="two"),
    window("a\nb\nc", offset=" 2 "),
    differs(
        window("a\nb\nc", offset=""),
        NUMERAL,
        invalid('{\n  "path": "{c}/f",\n  "offset": ""\n}', "offset: expected number, got string"),
    ),
    window("a\nb\nc", offset=True),
    window("a\nb\nc", offset=None, limit=None),
    window("a\nb\nc", offset=[2], limit={}),
    window("a\nb\nc", limit="1e0"),
    differs(
        window("a\nb\nc", limit="0x1"),
        NUMERAL,
        invalid('{\n  "path": "{c}/f",\n  "limit": "0x1"\n}', "limit: expected number, got string"),
    ),
    # Windows.
    window("a\nb\nc\n", offset=0),
    window("a\nb\nc\n", offset=1),
    window("a\nb\nc\n", offset=-5),
    window("a\nb\nc\n", offset=2),
    window("a\nb\nc\n", offset=4),
    window("a\nb\nc\n", offset=5),
    window("a\nb\nc", offset=3),
    window("a\nb\nc", offset=4),
    window("a\nb\nc", offset=1_000_000_000),
    window("a\nb\nc", offset=2.7),
    window("a\nb\nc", offset=9.5),
    window("a\nb\nc\n", limit=1),
    window("a\nb\nc\n", limit=3),
    window("a\nb\nc\n", limit=4),
    window("a\nb\nc\n", limit=99),
    window("a\nb\nc\n", limit=0),
    differs(window("a\nb\nc\n", limit=-1), WHOLE, "\n\n[4 more lines in file. Use offset=1 to continue.]", fails=False),
    differs(
        window("a\nb\nc\n", limit=1.5), WHOLE, "a\n\n[3 more lines in file. Use offset=2 to continue.]", fails=False
    ),
    window("a\nb\nc\n", offset=2, limit=1),
    window("a\nb\nc\n", offset=2, limit=2),
    window("a\nb\nc\n", offset=4, limit=1),
    window("a\nb\nc\n", offset=9, limit=0),
    window("a\n\n\nb", offset=2, limit=1),
    # Contents.
    window(""),
    window("", offset=1),
    window("", offset=2),
    window("\n"),
    window("\n\n\n"),
    window("one"),
    window("\ufeffwith a mark\n"),
    window("a\r\nb\r\n"),
    differs(window("a\rb\r"), CONTROLS, "a␍b␍", fails=False),
    differs(
        window("a\x0bb\x0cc\x1cd\x85e\u2028f\u2029g", offset=1, limit=1),
        CONTROLS,
        "a␋b␌c␜d\x85e\u2028f\u2029g",
        fails=False,
    ),
    differs(window("\x1b[31mred\x1b[0m\x07"), CONTROLS, "␛[31mred␛[0m␇", fails=False),
    binary(b"a\0b\0\0\n", "unknown kind"),
    window(b"a\xffb\xfe\n"),
    window(b"\xc3"),
    window(b"\xe2\x82"),
    window(b"\xf0\x9f\x98"),
    window(b"\xc0\xaf \xe0\x80\xaf \xed\xa0\x80 \xf4\x90\x80\x80 \xf8\x88\x80\x80\x80"),
    window(b"\xe2\x82\xe2\x82\xac\xf0\x9f\x98a"),
    window("e\u0301 é 😀 日本"),
    binary(bytes(range(256)), "unknown kind"),
    # Long ones.
    window("".join(f"{number}\n" for number in range(1, 2001))),
    window("\n".join(f"{number}" for number in range(1, 2001))),
    window("".join(f"{number}\n" for number in range(1, 2002))),
    window("".join(f"{number}\n" for number in range(1, 3001)), offset=11),
    window("".join(f"{number}\n" for number in range(1, 3001)), offset=1001),
    window("".join(f"{number}\n" for number in range(1, 3001)), offset=1002),
    window("x\n" * 5000, limit=2500),
    window("x\n" * 5000, limit=2000),
    window("x\n" * 5000, limit=1999),
    window(("x" * 1023 + "\n") * 100),
    window(("x" * 1023 + "\n") * 100, offset=90),
    window(("x" * 1023 + "\n") * 100, offset=2, limit=60),
    window(("x" * 24 + "\n") * 3000),
    window(("x" * 25 + "\n") * 3000),
    window("x" * 51_200),
    window("x" * 51_200 + "\n"),
    window("x" * 51_199 + "\n"),
    window("x" * 51_201),
    window("x" * 51_200 + "\ny"),
    window("x" * 51_199 + "\ny"),
    window("x" * 60_000 + "\nshort\n"),
    window("short\n" + "é" * 30_000 + "\nshort\n", offset=2),
    window("short\n" + "x" * 60_000 + "\nshort\n"),
    window("short\n" + "x" * 60_000 + "\nshort\n", offset=2, limit=1),
    window("😀" * 12_800),
    window("😀" * 12_801),
    window(b"\xff" * 20_000),
    window("x" * 2_000_000 + "\n", offset=1),
    # Images, and what only looks like one.
    image(png(2, 1)),
    image(JPEG),
    image(GIF),
    image(WEBP),
    image(bmp()),
    image(png(2, 1), "picture.txt"),
    image(b"no picture\n", "picture.png"),
    image(b"", "empty.png"),
    binary(png(2, 1, ANIMATION), "PNG image"),
    image(png(2001, 3)),
    image(png(2000, 2000)),
    image(png(4000, 3000)),
    image(png(2, 1)[:45]),
    binary(png(2, 1)[:8] + b"rest", "PNG image"),
    binary(b"\xff\xd8\xff\xf7rest", "JPEG image"),
    image(b"\xff\xd8\xff\xe0rest"),
    image(b"GIF88a rest"),
    image(b"GIF89a"),
    binary(b"RIFF\0\0\0\0WAVEfmt ", "unknown kind"),
    image(b"BMW builds cars, and motorcycles.\n"),
    binary(bmp(41), "unknown kind"),
    image(bmp()[:30]),
    read("{c}/f", files={"f": png(2, 1)}, offset=99, limit=1),
)


def settled(record: dict[str, Any]) -> dict[str, Any]:
    return {**record, "content": [OMITTED.sub("[Image omitted]", text) for text in record["content"]]}


TOOL: Final = RecordedTool("read-tool", TRIALS, settled=settled)


@pytest.mark.parametrize("index", range(len(TRIALS)))
def test_a_call_is_answered_as_by_the_original(index: int, comparison: Comparison) -> None:
    comparison.check(index)


@pytest.mark.peer
@pytest.mark.slow
def test_the_original_still_answers_so(original_pi: list[str], tmp_path: Path) -> None:
    if not (Path(original_pi[1]).parents[2] / "node_modules/@silvia-odwyer/photon-node").exists():
        pytest.skip("without photon-node the original leaves all images out")
    TOOL.check_original(original_pi, tmp_path)
