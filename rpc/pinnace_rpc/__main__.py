"""`python -P -m pinnace_rpc`: the program without its console script.

Without `-P` Python looks for modules in the current folder first. An agent is started in folders of other people's
projects, whose `pinnace_rpc` or `typing.py` would run in the place of ours: it is refused.
"""

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        if sys.stderr is not None:
            sys.stderr.write(
                "pinnace: `python -m pinnace_rpc` imports modules of the current folder, which may be a project's: run "
                "`pinnace`, or `python -P -m pinnace_rpc`\n"
            )
        sys.exit(2)
    from pinnace_rpc.cli.main import main

    sys.exit(main())
