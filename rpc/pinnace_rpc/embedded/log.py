"""The agent's log in a program: the program's handlers get it, without keys."""

import logging

from pinnace_agent.redaction.redactor import REDACTOR


class _WithoutKeys(logging.Handler):
    """Takes the keys out of records before other handlers have them, whatever these are attached to above it."""

    def emit(self, record: logging.LogRecord) -> None:
        """Change the text of a record, and of its exception."""
        record.msg, record.args = REDACTOR.text(record.getMessage()), None
        if record.exc_info:
            text = record.exc_text or logging.Formatter().formatException(record.exc_info)
            record.exc_text, record.exc_info = REDACTOR.text(text), None


def redact_log() -> None:
    """Let the loggers below `pinnace` give no key to the program's handlers; further calls change nothing."""
    logger = logging.getLogger("pinnace")
    if not any(isinstance(each, _WithoutKeys) for each in logger.handlers):
        logger.handlers.insert(0, _WithoutKeys())
