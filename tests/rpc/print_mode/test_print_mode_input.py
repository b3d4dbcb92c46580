"""What is asked: stdin, files and messages together, as they stand on the command line."""

import base64
import os
import threading
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from pinnace_campaigns.trials.one_shot import OneShot, OneShotStarter
from pinnace_fuzz.script import Scripted

ANSWER: list[Scripted] = [{"text": "one"}, {"text": "two"}]


def png(width: int = 2, height: int = 2) -> bytes:
    file = BytesIO()
    Image.new("RGB", (width, height), "teal").save(file, "PNG")
    return file.getvalue()


def writing(**files: bytes) -> Callable[[Path], None]:
    """Write files before the start; `_` stands for a dot in their names."""

    def prepare(work: Path) -> None:
        for name, content in files.items():
            (work / name.replace("_", ".")).write_bytes(content)

    return prepare


def texts(one_shot: OneShot) -> list[str]:
    """What was asked, with the working folder left out."""
    work = f"{one_shot.home.work}/"
    return [blocks[0]["text"].replace(work, "") for blocks in one_shot.asked]


LOGGED = ("pinnace: info: ", "pinnace: debug: ")


@pytest.mark.parametrize(
    ("words", "stdin", "asked"),
    [
        (["hello"], b"", ["hello"]),
        (["-p"], b"from stdin", ["from stdin"]),
        ([], b"  from stdin \n", ["from stdin"]),
        (["-p", "hello"], b" from stdin\n", ["from stdinhello"]),
        (["-p", "hello"], b" \n", ["hello"]),
        (["-p", "@a.txt"], b"", ['<file name="a.txt">\ntext\n\n</file>\n']),
        (["-p", "@a.txt", "hello"], b"", ['<file name="a.txt">\ntext\n\n</file>\nhello']),
        (["-p", "hello", "@a.txt"], b"", ['<file name="a.txt">\ntext\n\n</file>\nhello']),
        (
            ["@a.txt", "-p", "hello", "@b.txt"],
            b"in",
            ['in<file name="a.txt">\ntext\n\n</file>\n<file name="b.txt">\nmore\n</file>\nhello'],
        ),
        (["-p", "@empty.txt", "hello"], b"", ["hello"]),
        (["-p", "a", "b"], b"in", ["ina", "b"]),
        (["-p", "@a.txt", "a", "b"], b"", ['<file name="a.txt">\ntext\n\n</file>\na', "b"]),
        (["-p", "", "b"], b"", ["b"]),
        (["-p", "---\nname: x\n---\nbody"], b"", ["---\nname: x\n---\nbody"]),
        (["-p", "--", "--no-session", "@b.txt"], b"", ['<file name="b.txt">\nmore\n</file>\n--no-session']),
        (["-p", "hello", "--verbose", "again"], b"", ["hello", "again"]),
        (["-p", "list", "the files"], b"", ["list", "the files"]),
        (["-p", "@~/home.txt"], b"", ['<file name="../home/home.txt">\nat home\n</file>\n']),
        # R-TOL-11
        (["-p", "@red.txt"], b"\x1b[1min\x1b[0m\x07\r\n", ['in<file name="red.txt">\n␛[31mred␛[0m\n</file>\n']),
        (
            ["-p", "@a.zip"],
            b"",
            [
                '<file name="a.zip">\n[Binary file: ZIP archive, or a document in one, 7B. Its bytes are not shown.]\n'
                "</file>\n"
            ],
        ),
    ],
)
def test_this_is_asked(words: list[str], stdin: bytes, asked: list[str], print_agent: OneShotStarter) -> None:
    def prepare(work: Path) -> None:
        writing(
            a_txt=b"text\n", b_txt=b"more", empty_txt=b"", red_txt=b"\x1b[31mred\x1b[0m", a_zip=b"PK\x03\x04\0\0\0"
        )(work)
        (work.parent / "home" / "home.txt").write_text("at home")

    one_shot = print_agent(words, ANSWER, prepare=prepare)
    ended = one_shot.end(stdin)

    lines = [line for line in ended.err.splitlines() if not line.startswith(LOGGED)]  # of --verbose
    assert (0, []) == (ended.code, lines)
    assert ("--verbose" in words) == (ended.err != "")
    home = f'"{one_shot.home.home}/'
    assert asked == [text.replace(home, '"../home/') for text in texts(one_shot)]


def test_a_picture_is_attached_whatever_its_name_says(print_agent: OneShotStarter) -> None:
    one_shot = print_agent(["-p", "@photo.txt", "what is it?"], ANSWER, prepare=writing(photo_txt=png()))
    one_shot.end()
    [[text, image]] = one_shot.asked

    assert f'<file name="{one_shot.home.work}/photo.txt"></file>\nwhat is it?' == text["text"]
    assert f"data:image/png;base64,{base64.b64encode(png()).decode()}" == image["image_url"]["url"]


def test_a_picture_is_made_small_enough_and_that_is_reported(print_agent: OneShotStarter) -> None:
    one_shot = print_agent(["-p", "@big.png"], ANSWER, prepare=writing(big_png=png(2400, 20)))
    one_shot.end()
    [[text, _]] = one_shot.asked

    assert "[Image: original 2400x20, displayed at 2000x17. Multiply coordinates by 1.20" in text["text"]


def test_a_picture_stays_as_it_is_if_the_settings_say_so(print_agent: OneShotStarter) -> None:
    settings = {"images": {"autoResize": False}}
    one_shot = print_agent(["-p", "@big.png"], ANSWER, prepare=writing(big_png=png(2400, 20)), settings=settings)
    one_shot.end()
    [[text, image]] = one_shot.asked

    assert text["text"].endswith('big.png"></file>\n')
    assert image["image_url"]["url"].endswith(base64.b64encode(png(2400, 20)).decode())


def test_a_damaged_picture_is_left_out_and_that_is_reported(print_agent: OneShotStarter) -> None:
    one_shot = print_agent(["-p", "@cut.png", "hello"], ANSWER, prepare=writing(cut_png=png()[:40]))
    one_shot.end()

    assert [
        '<file name="cut.png">[Image omitted: it is damaged, or of a kind that can\'t be decoded.]</file>\nhello'
    ] == (texts(one_shot))


@pytest.mark.parametrize(("word", "problem"), [("@nope.txt", "file not found: "), ("@folder", "Is a directory")])
@pytest.mark.parametrize("mode", ["text", "json"])
def test_a_file_that_cannot_be_read_ends_it_before_anything_is_printed(
    mode: str, word: str, problem: str, print_agent: OneShotStarter
) -> None:
    one_shot = print_agent(["--mode", mode, word, "hello"], prepare=lambda work: (work / "folder").mkdir())
    # Not after the end of stdin, which may be far away.
    assert 1 == one_shot.process.wait(timeout=60)
    ended = one_shot.end()

    assert "" == ended.out
    assert str(one_shot.home.work / word[1:]) in ended.err
    assert problem in ended.err
    assert [] == one_shot.llm.requests


def test_binary_data_on_stdin_is_rejected_before_anything_is_sent(print_agent: OneShotStarter) -> None:
    """R-TOL-11."""
    one_shot = print_agent(["-p", "what is it?"])
    ended = one_shot.end(b"\x1f\x8b\x08\0\0")

    assert 1 == ended.code
    assert "stdin is no text, but binary data (gzip data): give a file as @path" in ended.err
    assert [] == one_shot.llm.requests


def test_a_file_may_be_a_pipe(print_agent: OneShotStarter) -> None:
    """As a shell's `@<(command)`."""

    def prepare(work: Path) -> None:
        os.mkfifo(work / "pipe")
        threading.Thread(target=(work / "pipe").write_text, args=("through a pipe",)).start()

    one_shot = print_agent(["-p", "@pipe"], ANSWER, prepare=prepare)
    assert 0 == one_shot.end().code
    assert ['<file name="pipe">\nthrough a pipe\n</file>\n'] == texts(one_shot)


def test_what_is_no_utf8_is_replaced(print_agent: OneShotStarter) -> None:
    one_shot = print_agent(["-p", "@a.txt", os.fsdecode(b"w\xffrd")], ANSWER, prepare=writing(a_txt=b"t\xffxt"))
    assert 0 == one_shot.end(b"st\xffn").code

    assert ['st\ufffdn<file name="a.txt">\nt\ufffdxt\n</file>\nw\ufffdrd'] == texts(one_shot)


def test_stdin_that_is_closed_is_empty(print_agent: OneShotStarter) -> None:
    assert (0, "one\n", "") == print_agent(["-p", "hello"], ANSWER, closed_stdin=True).end()
