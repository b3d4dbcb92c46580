"""`pinnace --export IN [OUT]`: a session file as a page, or its active branch in another format.

Does not change the session. Prints the path of the written file to stdout, as clients of pi expect it.
"""

import os
import sys
from typing import assert_never

from pinnace_agent.config.credentials.known_keys import learn_users_keys
from pinnace_agent.export.exporting import export_lines, export_page, export_trajectory, export_transcript
from pinnace_agent.export.source import Source, read_source
from pinnace_rpc.options.options import ExportOptions
from pinnace_rpc.options.release import program_version
from pinnace_spec.rules import errors


def main(options: ExportOptions) -> int:
    """Export and return the exit code."""
    cwd = os.getcwd()
    learn_users_keys(os.environ)
    try:
        source = read_source(options.source, cwd)
        path = _export(source, options, cwd)
    except errors.ClientError as error:
        sys.stderr.write(f"pinnace: {error.text}\n")
        return 1
    if source.damaged_lines:
        sys.stderr.write(f"pinnace: {source.damaged_lines} damaged lines of {source.path} were skipped\n")
    sys.stdout.write(f"Exported to: {path}\n")
    sys.stdout.flush()
    return 0


def _export(source: Source, options: ExportOptions, cwd: str) -> str:
    target, env = options.target, os.environ
    is_session = target is not None and target.endswith(".jsonl")
    match options.format or ("jsonl" if is_session else "html"):
        case "html":
            return export_page(source, target, cwd=cwd, env=env, only_active=options.only_active)
        case "jsonl":
            return export_lines(source, target, cwd=cwd, env=env)
        case "markdown":
            return export_transcript(source, target, cwd=cwd, env=env)
        case "atif":
            return export_trajectory(source, target, cwd=cwd, env=env, program_version=program_version())
        case _ as unknown:
            assert_never(unknown)
