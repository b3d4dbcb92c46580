"""The result of a command line that is refused: it can't be understood, so its words are searched. Rule R-RES-01."""

from collections.abc import Sequence

from pinnace_rpc.options.table import SUBCOMMANDS


def report_usage_error(words: Sequence[str], text: str, code: int) -> int:
    """Write the result, if the words name a file for it, and return the exit code.

    Args:
        words: The command line.
        text: Why it is refused.
        code: The exit code without `--exit-codes detailed`.
    """
    if words and words[0] in SUBCOMMANDS:
        return code
    if _given(words, "--exit-codes") == "detailed":
        from pinnace_spec.batch.results import DETAILED_EXIT_CODES  # loads what most refusals do not need

        code = DETAILED_EXIT_CODES["usage"]
    if path := _given(words, "--result-file"):
        from pinnace_rpc.results.collector import write_usage_error

        write_usage_error(path, text, code)
    return code


def _given(words: Sequence[str], option: str) -> str | None:
    """Return the last value of an option; None: it has none."""
    found = None
    for place, word in enumerate(words):
        if word == "--":
            break
        name, has_value, value = word.partition("=")
        if name == option:
            found = value if has_value else next(iter(words[place + 1 : place + 2]), None)
    return found
