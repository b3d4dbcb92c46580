"""What a terminal sends: any bytes are decoded, in any pieces; nothing that is typed or pasted is lost."""

import sys
from collections.abc import Sequence
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st
from textual import events
from textual.message import Message

from pinnace_tui.input.decoder import BackgroundReported, InputDecoder, is_text
from pinnace_tui.input.keys import Keys

START, END = b"\x1b[200~", b"\x1b[201~"
PIECES = st.one_of(
    st.binary(max_size=6),
    st.text(max_size=3).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.sampled_from([START, END, b"\x1b", b"\x1b[", b"\x1bO", b"\x1b]11;rgb:", b"\x07", b"\x1b\\", b"\r", b"\x1b[M"]),
    st.sampled_from([b"\x1b[<0;1;1M", b"\x1b[<64;-5;9M", b"\x1b[48;0;0;0;0t", b"\x1b[?2048;1$y", b"\x1b[12;1R"]),
    st.builds(
        lambda parameters, final: f"\x1b[{parameters}{final}".encode(),
        st.text("0123456789:;", max_size=12),
        st.sampled_from([*"u~ABCDEFGHIMOPQRSZabt@^", "$", "$y", "\x1b", "é"]),
    ),
)


def decoded(*pieces: bytes, expires: bool = True) -> list[Message]:
    """What comes of pieces that follow each other at once, and of the silence after them."""
    decoder = InputDecoder()
    found = [message for piece in pieces for message in decoder.feed(piece)]
    for _ in range(1000):
        if not expires or decoder.wait_s is None:
            return found
        found += decoder.expire()
    raise AssertionError("it waits for ever")


def shown(messages: Sequence[Message]) -> list[object]:
    return [
        (each.key, each.character)
        if isinstance(each, events.Key)
        else (type(each), each.text)
        if isinstance(each, events.Paste)
        else (type(each), each.x, each.y, each.button, each.shift)
        if isinstance(each, events.MouseEvent)
        else type(each)
        for each in messages
    ]


def keys(*pieces: bytes) -> list[str]:
    return [each.key for each in decoded(*pieces) if isinstance(each, events.Key)]


@given(st.lists(PIECES, max_size=8))
@example([b"\x1b[99999999u", b"\x1b[97:65;5:3u", b"\xff\xfe", b"\x1b[1114112u"])
def test_any_bytes_in_any_pieces_mean_the_same(pieces: list[bytes]) -> None:
    """Also each byte alone. Key names are those that the client can look up."""
    whole = b"".join(pieces)
    expected = shown(decoded(whole))
    assert shown(decoded(*(whole[place : place + 1] for place in range(len(whole))))) == expected
    assert shown(decoded(*pieces)) == expected
    known = Keys()
    for message in decoded(whole):
        if isinstance(message, events.Key):
            known.action(message.key)
            assert message.character is None or message.character.encode("utf-8")


@given(st.lists(PIECES, max_size=8))
def test_silence_at_any_place_ends_nothing(pieces: list[bytes]) -> None:
    decoder = InputDecoder()
    for piece in pieces:
        decoder.feed(piece)
        for _ in range(1000):
            if decoder.wait_s is None:
                break
            decoder.expire()
        assert decoder.wait_s is None
    # Whatever came before, a user gets out of a paste that lost its end, and writes.
    decoder.feed(b"\x03")
    found = [*decoder.feed(b"ab"), *decoder.expire()]
    assert "".join(each.character or "" for each in found if isinstance(each, events.Key)).endswith("ab")


def test_every_character_that_is_no_control_character_is_typed() -> None:
    """As UTF-8, and as kitty's protocol names it: scripts, private use, what has no name; of the rest each 16th."""
    known = Keys()
    for first in range(0, sys.maxunicode + 1, 4096):
        step = 1 if first < 0x3000 or 0xE000 <= first <= 0xFFFF or first == 0x1F000 else 16
        letters = [letter for letter in map(chr, range(first, first + 4096, step)) if is_text(letter)]
        found = [each for each in decoded("".join(letters).encode()) if isinstance(each, events.Key)]
        assert [each.character for each in found] == letters
        assert {known.action(each.key) for each in found} <= {None}
        named = b"".join(f"\x1b[0;;{ord(letter)}u".encode() for letter in letters[::8])
        assert [each.character for each in decoded(named) if isinstance(each, events.Key)] == letters[::8]


@given(st.text(), st.lists(st.integers(0, 60), max_size=4))
@example("\x1b[31mred\x1b[0m\rsecond\r", [8])
@example("evil\x1b[201~\rrm -rf\r", [])
@example("a\x1b[200~b", [])
def test_a_paste_is_one_text(text: str, cuts: list[int]) -> None:
    """Also one that holds an end of a paste, as long as it holds no beginning behind that."""
    content = text.encode("utf-8", "replace")
    if content.find(START, content.find(END)) > content.find(END) >= 0:
        return
    sent = START + content + END
    places = [0, *sorted(min(cut, len(sent)) for cut in cuts), len(sent)]
    pieces = [sent[begin:end] for begin, end in pairwise(places)]
    text = content.decode().replace("\0", "")
    assert shown(decoded(*pieces)) == ([(events.Paste, text)] if text else [])


def test_what_is_typed_behind_a_paste_is_typed() -> None:
    pasted = (events.Paste, "a\rb")
    assert shown(decoded(START + b"a\rb" + END + b"\rc")) == [pasted, ("enter", "\r"), ("c", "c")]
    assert shown(decoded(*[START + b"a\rb" + END] * 2)) == [pasted, pasted]


def test_a_paste_without_an_end_is_inserted_and_left_by_escape() -> None:
    decoder = InputDecoder()
    assert decoder.feed(START + "é\x1b[20".encode()[:-5]) == []
    found = [*decoder.feed("é\x1b[20".encode()[-5:]), *decoder.expire()]
    assert shown(found) == [(events.Paste, "é")]
    assert shown(decoder.feed(b"1~x") + decoder.expire()) == [("x", "x")]
    decoder.feed(START + b"a")
    decoder.expire()
    assert shown(decoder.feed(b"b") + decoder.expire()) == [(events.Paste, "b")]
    assert decoder.feed(b"\x1b") == []
    assert shown(decoder.feed(b"b")) == [("b", "b")]


def test_keys_of_terminals_of_all_kinds() -> None:
    table = {
        b"\x1b\r": "alt+enter",
        b"\xc2\x8d": "alt+enter",  # Alt as the eighth bit
        b"\x1b[13;3u": "alt+enter",
        b"\x1b[27;3;13~": "alt+enter",  # of xterm
        b"\x1b[13;2u": "shift+enter",
        b"\x1b[57414u": "enter",
        b"\x1bOM": "enter",
        b"\x1b": "escape",
        b"\x1b[": "alt+left_square_bracket",
        b"\x1bO": "alt+shift+o",
        b"\x1b]": "alt+right_square_bracket",
        b"\x1bq": "alt+q",
        b"\x1b\xc3\xa9": "alt+é",
        b"\x1b[113;3u": "alt+q",
        b"\x1b[102;6u": "ctrl+shift+f",
        b"\x06": "ctrl+f",
        b"\x1f": "ctrl+underscore",
        b"\x00": "ctrl+@",
        b"\x7f": "backspace",
        b"\x1b\x7f": "ctrl+w",
        b"\x1bb": "ctrl+left",
        b"\x1b[Z": "shift+tab",
        b"\x1b[9;2u": "shift+tab",
        b"\x1b[A": "up",
        b"\x1bOA": "up",
        b"\x1b[57419u": "up",
        b"\x1b[1;3A": "alt+up",
        b"\x1b[1;6A": "ctrl+shift+up",
        b"\x1b[a": "shift+up",  # of rxvt
        b"\x1bOa": "ctrl+up",
        b"\x1b[3$": "shift+delete",
        b"\x1b[3^": "ctrl+delete",
        b"\x1b[5~": "pageup",
        b"\x1b[1;5H": "ctrl+home",
        b"\x1bOR": "f3",
        b"\x1b[13~": "f3",
        b"\x1b[1;2R": "shift+f3",
        b"\x1b[[C": "f3",
        b"\x1b[25~": "f13",
        b"/": "slash",
        b"\x1b[47;5u": "ctrl+slash",
    }
    assert {sent: keys(sent) for sent in table} == {sent: [key] for sent, key in table.items()}


def test_sequences_that_mean_nothing_here_write_nothing() -> None:
    nothing = [
        b"\x1b[57441u",
        b"\x1b[57428u",
        b"\x1b[97;1:3u",
        b"\x1b[?1;2c",
        b"\x1b[99~",
        b"\x1b[M !!",
        b"\x1b[12;40R",
    ]
    nothing += [b"\x1b_Gi=1;OK\x1b\\", b"\x1bP>|xterm\x1b\\", b"\x1b[48;24;80;0;0t", b"\x1b[1;2", END]
    assert [decoded(each) for each in nothing] == [[]] * len(nothing)


def test_text_of_kittys_protocol() -> None:
    """Of input methods, with modifiers that make text, and of terminals that name none."""
    assert keys(b"\x1b[0;;26085:26412u") == ["日", "本"]
    assert keys(b"\x1b[97;2;65u", b"\x1b[97;2u", b"\x1b[97:65;2u", b"\x1b[97u", b"\x1b[50;2:1;64u") == [
        *["A"] * 3,
        "a",
        "at",
    ]
    assert keys(b"\x1b[113;7;64u") == ["at"]  # AltGr
    assert keys(b"\x1b[57404;;53u", b"\x1b[57404u") == ["5", "5"]


def test_the_mouse_and_reports_of_the_terminal() -> None:
    sent = b"\x1b[<0;3;4M\x1b[<4;3;4m\x1b[<65;1;1M\x1b[<35;2;2M\x1b[I\x1b[O\x1b[?2026;2$y"
    kinds = [type(each).__name__ for each in decoded(sent)]
    expected = "MouseDown MouseUp MouseScrollDown MouseMove AppFocus AppBlur TerminalSupportsSynchronizedOutput"
    assert kinds == expected.split()
    backgrounds = decoded(b"\x1b]11;rgb:ffff/ffff/eeee\x07", b"\x1b]11;rgb:1/2/3\x1b\\")
    assert [each.is_dark for each in backgrounds if isinstance(each, BackgroundReported)] == [False, True]
