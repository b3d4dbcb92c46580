"""The read tool: windows of texts, their notices, and images."""

import base64
import os
import struct
import tracemalloc
import zlib
from io import BytesIO
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from pinnace_agent.shell.truncation import truncate_head
from pinnace_agent.tools.base import ToolContext, ToolError, ToolResult
from pinnace_agent.tools.images.header import image_type
from pinnace_agent.tools.read import ReadTool
from pinnace_agent.tools.text.window import CHUNK_BYTES, read_window
from pinnace_agent.tools.validation import validate_arguments

READ = ReadTool()


async def read(folder: Path, path: str, *, supports_images: bool = True, **options: object) -> ToolResult:
    context = ToolContext(str(folder), "c1", lambda _: None, dict(os.environ), supports_images=supports_images)
    return await READ.execute(validate_arguments(READ, {"path": path, **options}), context)


async def text_of(folder: Path, path: str, **options: object) -> str:
    (block,) = (await read(folder, path, supports_images=True, **options)).content
    assert block["type"] == "text"
    return block["text"]


def write(folder: Path, text: str, name: str = "f.txt") -> None:
    (folder / name).write_bytes(text.encode())


@pytest.mark.parametrize("text", ["", "\n", "one", "one\ntwo\n", "a\r\nb\n", "\ufeffwith BOM\n", "é\u2028x"])
async def test_a_short_text_is_shown_as_it_is(text: str, tmp_path: Path) -> None:
    write(tmp_path, text)

    assert await read(tmp_path, "f.txt") == ToolResult([{"type": "text", "text": text}])


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (b"\x1b[1mbold\x1b[0m\x07 a\rb\r\n", "␛[1mbold␛[0m␇ a␍b\r\n"),
        (b"\x7fELF\x02\x01\x01" + bytes(2_000), "[Binary file: ELF program or library, 2.0KB. "),
        (b"text\n" + bytes(2_000), "[Binary file: unknown kind, 2.0KB. "),
        (b"x" * 5_000 + b"\0y", "x" * 5_000 + "␀y"),
        (b"%PDF-1.7\nall of it ASCII", "%PDF-1.7\nall of it ASCII"),
        (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3", "[Binary file: PDF document, 14B. "),
        (
            "a text\n".encode("utf-16"),
            "[Binary file: text in UTF-16, 16B. Its bytes are not shown. Use bash to look into",
        ),
        (b"caf\xe9 in Latin-1\n", "caf\ufffd in Latin-1\n"),
        (bytes(range(1, 32)) * 20, "[Binary file: unknown kind, 620B. "),
    ],
)
async def test_no_control_character_of_a_file_is_shown(content: bytes, shown: str, tmp_path: Path) -> None:
    """R-TOL-11: a text shows them as pictures, and what is no text is named by its kind and size."""
    (tmp_path / "f").write_bytes(content)

    assert (await text_of(tmp_path, "f", offset=1)).startswith(shown)


async def test_bytes_that_are_no_text_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "f.txt").write_bytes(b"a\xffb\xc3")

    assert await text_of(tmp_path, "f.txt") == "a\ufffdb\ufffd"


async def test_a_window_names_the_next_offset(tmp_path: Path) -> None:
    write(tmp_path, "line1\nLINE2\nline3\n")

    assert await text_of(tmp_path, "f.txt", offset=2, limit=1) == (
        "LINE2\n\n[2 more lines in file. Use offset=3 to continue.]"
    )
    assert await text_of(tmp_path, "f.txt", offset=2) == "LINE2\nline3\n"
    assert await text_of(tmp_path, "f.txt", offset=4) == "", "what follows the last line feed"


@pytest.mark.parametrize("offset", [0, 1, -5, None])
async def test_an_offset_before_the_first_line_is_the_first_line(offset: object, tmp_path: Path) -> None:
    write(tmp_path, "a\nb")

    assert await text_of(tmp_path, "f.txt", offset=offset) == "a\nb"


async def test_a_limit_of_nothing_shows_how_much_there_is(tmp_path: Path) -> None:
    write(tmp_path, "a\nb\n")

    assert await text_of(tmp_path, "f.txt", limit=0) == ("\n\n[3 more lines in file. Use offset=1 to continue.]")


async def test_a_limit_that_reaches_the_end_needs_no_notice(tmp_path: Path) -> None:
    write(tmp_path, "a\nb\n")

    assert await text_of(tmp_path, "f.txt", limit=3) == "a\nb\n"
    assert await text_of(tmp_path, "f.txt", limit=99) == "a\nb\n"


async def test_an_offset_beyond_the_end_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "a\nb\n")

    with pytest.raises(ToolError, match=r"^Offset 4\.5 is beyond end of file \(3 lines total\)$"):
        await read(tmp_path, "f.txt", offset=4.5)
    with pytest.raises(ToolError, match=r"^Offset 9 is beyond end of file \(3 lines total\)$"):
        await read(tmp_path, "f.txt", offset="9")


async def test_many_lines_are_cut_by_lines(tmp_path: Path) -> None:
    write(tmp_path, "".join(f"{number}\n" for number in range(1, 3001)))
    result = await read(tmp_path, "f.txt", offset=11)

    expected = "\n".join(str(number) for number in range(11, 2011))
    notice = "[Showing lines 11-2010 of 3001. Use offset=2011 to continue.]"
    assert result.content == [{"type": "text", "text": f"{expected}\n\n{notice}"}]
    assert result.details is not None
    truncation = result.details["truncation"]
    assert isinstance(truncation, dict)
    assert truncation["content"] == expected
    assert (truncation["truncatedBy"], truncation["totalLines"]) == ("lines", 2990)


async def test_long_lines_are_cut_by_bytes(tmp_path: Path) -> None:
    write(tmp_path, ("x" * 1023 + "\n") * 100)
    text = await text_of(tmp_path, "f.txt")

    assert text.endswith("\n\n[Showing lines 1-50 of 101 (50.0KB limit). Use offset=51 to continue.]")
    assert text.startswith(("x" * 1023 + "\n") * 49)


async def test_the_notice_of_a_cut_counts_fewer_lines_than_the_limit(tmp_path: Path) -> None:
    write(tmp_path, "x\n" * 5000)

    assert (await text_of(tmp_path, "f.txt", limit=2500)).endswith(
        "\n\n[Showing lines 1-2000 of 5001. Use offset=2001 to continue.]"
    )


async def test_a_line_that_is_too_long_is_left_to_the_shell(tmp_path: Path) -> None:
    write(tmp_path, "short\n" + "é" * 30_000 + "\nshort\n")
    result = await read(tmp_path, "./f.txt", offset=2)

    assert result.content == [
        {
            "type": "text",
            "text": "[Line 2 is 58.6KB, exceeds 50.0KB limit. Use bash: sed -n '2p' ./f.txt | head -c 51200]",
        }
    ]
    assert result.details is not None
    assert result.details["truncation"] == {
        "content": "",
        "truncated": True,
        "truncatedBy": "bytes",
        "totalLines": 2,
        "totalBytes": 60_007,
        "outputLines": 0,
        "outputBytes": 0,
        "lastLinePartial": False,
        "firstLineExceedsLimit": True,
        "maxLines": 2000,
        "maxBytes": 51_200,
    }


_line = st.sampled_from(["", "x", "é€", "some words", "y" * 40_000])


@given(st.lists(_line, max_size=8), st.integers(0, 9), st.none() | st.integers(0, 9), st.booleans())
def test_a_window_is_what_splitting_the_whole_text_gives(
    lines: list[str], start: int, limit: int | None, in_small_chunks: bool
) -> None:
    text = "\n".join(lines)
    file = BytesIO(text.encode())
    if in_small_chunks:
        whole = file.read

        def read_little(size: int | None = -1, /) -> bytes:
            return whole(7)

        file.read = read_little  # type: ignore[method-assign]
    window = read_window(file, start, limit, lambda: None)

    all_lines = text.split("\n")
    selected = all_lines[start:] if limit is None else all_lines[start : start + limit]
    assert window.total_lines == len(all_lines)
    assert window.shown == truncate_head("\n".join(selected))
    if selected:
        assert window.first_line_bytes == len(selected[0].encode())


async def test_a_large_file_is_not_held_in_memory(tmp_path: Path) -> None:
    with open(tmp_path / "f.txt", "wb") as file:
        for _ in range(300):
            file.write(b"0123456789abcde\n" * 6_250)
    tracemalloc.start()
    try:
        text = await text_of(tmp_path, "f.txt", offset=1_875_000, limit=3)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert text == "0123456789abcde\n"
    assert peak < 8 * CHUNK_BYTES


async def test_a_missing_file_is_reported_as_by_the_system(tmp_path: Path) -> None:
    with pytest.raises(ToolError) as caught:
        await read(tmp_path, "gone.txt")

    assert str(caught.value) == f"ENOENT: no such file or directory, access '{tmp_path}/gone.txt'"


async def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"^EISDIR: illegal operation on a directory, read$"):
        await read(tmp_path, ".")


async def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with trio.fail_after(30), pytest.raises(ToolError, match=r"^Not a file with content"):
        await read(tmp_path, "pipe")


async def test_a_cancelled_read_ends(tmp_path: Path) -> None:
    write(tmp_path, "x")
    with trio.CancelScope() as scope:
        scope.cancel()
        await read(tmp_path, "f.txt")

    assert scope.cancelled_caught


def png(*extra: bytes) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    pixels = chunk(b"IDAT", zlib.compress(b"\0\xff\0\0"))
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(extra) + pixels + chunk(b"IEND", b"")


ANIMATION = struct.pack(">I", 8) + b"acTL" + b"\0" * 12
BMP = b"BM" + struct.pack("<IHHI", 58, 0, 0, 54) + struct.pack("<IiiHHIIiiII", 40, 1, 1, 1, 24, 0, 4, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("head", "found"),
    [
        (b"\xff\xd8\xff\xe0rest", "image/jpeg"),
        (b"\xff\xd8\xff\xf7rest", None),
        (png(), "image/png"),
        (png(ANIMATION), None),
        (b"\x89PNG\r\n\x1a\n", None),
        (b"GIF89a", "image/gif"),
        (b"GIF87a", "image/gif"),
        (b"GIF88a", None),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        (b"RIFF\0\0\0\0WAVEfmt ", None),
        (BMP, "image/bmp"),
        (b"BMW builds cars, and motorcycles.", None),
        (b"", None),
        (b"text", None),
    ],
)
def test_an_image_is_known_by_its_content(head: bytes, found: str | None) -> None:
    assert image_type(head) == found


async def test_an_image_is_attached_whatever_its_name(tmp_path: Path) -> None:
    (tmp_path / "picture.txt").write_bytes(png())

    assert await read(tmp_path, "picture.txt") == ToolResult(
        [
            {"type": "text", "text": "Read image file [image/png]"},
            {"type": "image", "data": base64.b64encode(png()).decode(), "mimeType": "image/png"},
        ]
    )


async def test_a_text_is_a_text_whatever_its_name(tmp_path: Path) -> None:
    write(tmp_path, "no picture", "picture.png")

    assert await text_of(tmp_path, "picture.png") == "no picture"


async def test_a_model_without_images_gets_a_notice(tmp_path: Path) -> None:
    (tmp_path / "p.png").write_bytes(png())
    text, image = (await read(tmp_path, "p.png", supports_images=False)).content

    assert text["type"] == "text"
    title, hint = text["text"].split("\n")
    assert title == "Read image file [image/png]"
    assert hint.startswith("[")
    assert "cannot see images" in hint
    assert image["type"] == "image"
