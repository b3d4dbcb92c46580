"""The end of `pinnace auth login amazon-bedrock`: the codes of the devices that roles of AWS need (`mfa_serial`).

A code is read at a terminal alone, with an echo: it is good once. Uses the network only where a role needs a code.
"""

import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime

import trio

from pinnace_agent.llm.bedrock.endpoint import REGION_VARIABLES, USUAL_REGION
from pinnace_agent.llm.bedrock.identity.aws_files import (
    AddressMissing,
    AwsFiles,
    environment_of,
    profile_name,
    read_aws_files,
)
from pinnace_agent.llm.bedrock.identity.keys import roles_to_sign_in, sign_in
from pinnace_agent.llm.bedrock.identity.sources import NoKeys
from pinnace_agent.llm.transport.client import close_clients
from pinnace_rpc.options.parser import CommandError
from pinnace_rpc.options.streams import echo


def enter_codes(variables: Mapping[str, str]) -> int:
    """Ask for the code of each role that needs one now, and keep its keys; return how many there were.

    Args:
        variables: Those of the entry in auth.json.

    Raises:
        CommandError: A role can't be taken on, or no terminal can be asked.
    """
    env = environment_of(os.environ, variables)
    return trio.run(_enter_codes, env, read_aws_files(env))


async def _enter_codes(env: Mapping[str, str], files: AwsFiles) -> int:
    try:
        roles = await roles_to_sign_in(env, files, _region(env, files))
    except (NoKeys, AddressMissing):  # a request says so: the settings may be for later
        return 0
    try:
        for role in roles:
            asked = f"the code of {role.mfa_serial}, which the role {role.arn} needs"
            if sys.stdin is None or not sys.stdin.isatty():
                raise CommandError(f"{asked}, can't be asked for without a terminal: run this command at one")
            echo(f"Enter {asked}:")
            until_s = await sign_in(role, sys.stdin.readline().strip(), env)
            end = datetime.fromtimestamp(until_s, UTC).strftime("%Y-%m-%d %H:%M UTC")
            echo(f"amazon-bedrock: the keys of {role.arn} are good until {end}")
    except NoKeys as why:
        raise CommandError(str(why)) from None
    finally:
        await close_clients()
    return len(roles)


def _region(env: Mapping[str, str], files: AwsFiles) -> str:
    """Return the region whose security tokens are asked for: keys are good in every region."""
    named = next((env[name] for name in REGION_VARIABLES if env.get(name)), None)
    return named or (files.profile(profile_name(env)) or {}).get("region") or USUAL_REGION
