"""Which release this is, for `--version` and `hello`."""


def program_version() -> str:
    """Return the version of the installed distribution, or `0+unknown` when run from its sources."""
    from importlib.metadata import PackageNotFoundError, version  # slow: it reads mails

    try:
        return version("pinnace")
    except PackageNotFoundError:
        return "0+unknown"
