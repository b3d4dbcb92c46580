"""Markdown on the page: what is a link, what is text, and that nothing takes long."""

import html
import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pinnace_agent.export.markup.highlight import MAX_CHARACTERS as MAX_CODE
from pinnace_agent.export.markup.highlight import MAX_LINE, Highlighter
from pinnace_agent.export.markup.prose import MAX_CHARACTERS, Prose, is_plain, is_safe_link, plain_html

PROSE = Prose(Highlighter())


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "java&#x0A;script:alert(1)",
        "&#106;avascript:alert(1)",
        "\\javascript:alert(1)",
        "vbscript:x",
        "data:text/html,x",
        "file:///etc/passwd",
        "blob:x",
        "//evil.invalid/x",
        "/etc/passwd",
        "x.html",
        "#e1",
        "http:evil",
        "javascript://http://x",
    ],
)
@pytest.mark.parametrize("form", ["[text]({})", "<{}>", "![text]({})", "[![text](x)]({})"])
def test_only_three_schemes_are_links(url: str, form: str) -> None:
    assert "href" not in PROSE.html(form.format(url))


@pytest.mark.parametrize("url", ["http://a.example/", "HTTPS://a.example/?b=c&d", "mailto:a@b.example"])
def test_links_open_elsewhere_without_a_referrer(url: str) -> None:
    shown = PROSE.html(f'[text]({url} "title")')
    assert re.search(
        r'<a href="[^"]+" rel="noopener noreferrer nofollow" target="_blank" title="title">text</a>', shown
    )


def test_the_target_of_a_link_that_is_not_made_is_shown() -> None:
    assert '<p><span class="dead">the <em>file</em> (src/a.py)</span></p>\n' == PROSE.html("[the *file*](src/a.py)")


def test_an_image_of_elsewhere_is_a_link() -> None:
    shown = PROSE.html('![a "cat"](https://a.example/cat.png)')
    assert "<img" not in shown
    assert 'class="remote" href="https://a.example/cat.png"' in shown


def test_an_image_in_the_text_is_not_shown() -> None:
    shown = PROSE.html(f"![a](data:image/png;base64,{'A' * 5000})")
    assert "<img" not in shown
    assert len(shown) < 300


def test_raw_html_is_text() -> None:
    shown = PROSE.html("<script>alert(1)</script>\n\n<img src=x onerror=alert(1)> <!-- --> <a href='javascript:1'>")
    assert set(re.findall(r"<(\w+)", shown)) == {"p", "code"}
    assert '<code class="tag">&lt;img src=x onerror=alert(1)&gt;</code>' in shown


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ('<file name="a*b*c.py">', ['<file name="a*b*c.py">']),
        ("</details>", ["</details>"]),
        ("a <br/> b <x:y z=1>", ["<br/>", "<x:y z=1>"]),
        ("a < b and c > d, <3, 1<<2, <>", []),
        ("`<b>`", []),
        ("<https://a.example/>", []),
    ],
)
def test_a_tag_in_a_text_is_marked_as_one_and_nothing_in_it_is_markdown(text: str, tags: list[str]) -> None:
    shown = PROSE.html(text)
    assert tags == [html.unescape(each) for each in re.findall('<code class="tag">(.*?)</code>', shown)]


@pytest.mark.parametrize(
    "text",
    [
        "> " * 50 + "hidden",
        "- " * 50 + "hidden",
        "1. " * 50 + "hidden",
        "[//]: # (hidden)",
        "[a]: http://a.example 'hidden'\n\n[a]",
        "[a](http://a.example 'hidden')",
        "```py hidden\nx\n```",
        "<!-- hidden -->",
        "|a|\n|-|\n|b|c|hidden|",
        "a|b\n-|-\nb|c|hidden",
        "> |a|\n> |-|\n> |b| hidden",
        "*" * 200 + "hidden",
    ],
)
def test_nothing_is_hidden_from_readers(text: str) -> None:
    assert "hidden" in PROSE.html(text)


def test_a_table_has_the_cells_that_it_should_have() -> None:
    shown = PROSE.html("|a|b|\n|-|-|\n|1|2|\n|3|4|5\\|6|**7**|\n|8|\n")
    assert re.findall(r"<t[dh]>(.*?)</t[dh]>", shown) == [
        *("a", "b", "1", "2", "3", "4", "5|6 | <strong>7</strong>", "8", "")
    ]


def test_program_text_is_marked_and_escaped() -> None:
    shown = PROSE.html("```python\ndef f(): return '</script>' # <b>\n```\n\n    <i>\n")
    assert '<span class="k">def </span>' in shown
    assert "&lt;/script&gt;" in shown
    assert "<pre><code>&lt;i&gt;</code></pre>" in shown


def test_alignment_needs_no_style_of_its_own() -> None:
    shown = PROSE.html("|a|b|\n|---:|:-:|\n|1|2|\n")
    assert "style" not in shown
    assert '<td class="right">1</td>' in shown


def test_a_long_text_is_shown_as_it_is_written() -> None:
    text = "*a* " * (MAX_CHARACTERS // 4) + "<end>"
    shown = PROSE.html(text)
    assert "65,536" in shown
    assert f">{html.escape(text)}</pre>" in shown


@pytest.mark.parametrize("unit", ["[", "![", "> > > b\n", "*_", "[](", "- - - ", "|a", "a\n"])
def test_a_text_that_is_made_to_be_slow_is_whole(unit: str) -> None:
    """No time is judged: the parser's steps are counted, and what has too many is shown as written."""
    text = unit * (20_000 // len(unit))
    shown = html.unescape(re.sub(r"<[^>]*>", "", PROSE.html(text)))
    assert shown.count("a") + shown.count("b") >= text.count("a") + text.count("b")
    if unit in {"[", "!["}:
        assert "too intricate" in shown


@pytest.mark.parametrize(
    "code",
    ["x = 1\n" * (MAX_CODE // 6 + 1), "x = 1" + "a" * MAX_LINE, "x = 1" + "\n" * 100],
    ids=["long", "wide", "blank"],
)
def test_program_text_over_a_limit_is_whole_without_marks(code: str) -> None:
    assert html.escape(code, quote=False) == Highlighter().marked(code, "python")


def test_a_page_marks_for_a_limited_time() -> None:
    times = iter(range(0, 1_000, 15))
    highlighter = Highlighter(lambda: next(times))
    assert ["<span" in highlighter.marked("def f(): 1", "python") for _ in range(4)] == [True, True, False, False]


def test_an_unknown_language_runs_no_lexer() -> None:
    assert "a &lt; b" == Highlighter().marked("a < b", "brainfuck")


@given(st.text(st.sampled_from("ab \n\n.,;'\"()?é#-1:"), max_size=80), st.booleans())
def test_what_is_plain_is_what_the_parser_would_make_of_it(text: str, keeps_lines: bool) -> None:
    assume(is_plain(text))
    parser = PROSE._markdown(keeps_lines=keeps_lines)
    parsed = str(parser.render(text, {"left": 10_000})).replace("&quot;", '"').replace("&#x27;", "'")
    plain = plain_html(text, keeps_lines=keeps_lines).replace("&quot;", '"').replace("&#x27;", "'")
    assert re.sub(r"\n+", "\n", parsed) == re.sub(r"\n+", "\n", plain)


@given(st.text(max_size=60))
def test_a_link_has_one_of_three_schemes(url: str) -> None:
    if is_safe_link(url):
        assert re.match(r"(https?|mailto):", url, re.IGNORECASE)
