"""`pinnace --export IN [OUT]`: a session file as a page, or its active branch as a session file.

Does not change the session. Prints the path of the written file to stdout, as clients of pi expect it.
"""

import os
import sys

from pinnace_agent.config.credentials.known_keys import learn_users_keys
from pinnace_agent.export.exporting import export_lines, export_page
from pinnace_agent.export.source import read_source
from pinnace_rpc.cli.options import ExportOptions
from pinnace_spec.rules import errors


def main(options: ExportOptions) -> int:
    """Export and return the exit code."""
    cwd = os.getcwd()
    learn_users_keys(os.environ)
    try:
        source = read_source(options.source, cwd)
        if options.target is not None and options.target.endswith(".jsonl"):
            path = export_lines(source, options.target, cwd=cwd, env=os.environ)
        else:
            path = export_page(source, options.target, cwd=cwd, env=os.environ, only_active=options.only_active)
    except errors.ClientError as error:
        sys.stderr.write(f"pinnace: {error.text}\n")
        return 1
    if source.damaged_lines:
        sys.stderr.write(f"pinnace: {source.damaged_lines} damaged lines of {source.path} were skipped\n")
    sys.stdout.write(f"Exported to: {path}\n")
    sys.stdout.flush()
    return 0
