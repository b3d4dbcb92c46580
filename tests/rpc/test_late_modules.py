"""Modules that wait for their first use: each in a process of its own, since they are loaded once."""

import subprocess
import sys

import pytest

from pinnace_rpc.cli import LATE_MODULES

BEGIN = """
import sys, threading
from types import ModuleType
from pinnace_rpc.late_modules import defer
"""


def run(program: str) -> str:
    """Run a program without this process' modules; return what it printed."""
    root = [path for path in sys.path if path.endswith(("/rpc", "/agent", "/spec", "/statechart"))]
    program = f"import sys; sys.path[:0] = {root!r}\n{BEGIN}{program}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


USED = {
    "ssl": "SSLContext",
    "hmac": "compare_digest",
    "idna": "encode",
    "ipaddress": "ip_address",
    "locale": "getlocale",
}


@pytest.mark.parametrize("name", LATE_MODULES)
def test_a_module_is_loaded_when_it_is_looked_into(name: str) -> None:
    program = f"""
defer({name!r})
import {name}
before = set(sys.modules)
assert type({name}) is not ModuleType and {name!r} in sys.modules and {USED[name]!r} not in vars({name})
from {name} import {USED[name]} as found
assert type({name}) is ModuleType and found is {name}.{USED[name]} and sys.modules[{name!r}] is {name}
assert {name}.__spec__.name == {name!r} and {name}.__file__
print("loaded")
"""
    assert run(program) == "loaded"


def test_trio_looks_into_none_of_them() -> None:
    program = f"""
defer(*{LATE_MODULES!r})
import trio
trio.run(trio.sleep, 0)
print([name for name in {LATE_MODULES!r} if type(sys.modules[name]) is ModuleType], "_ssl" in sys.modules)
"""
    assert run(program) == "[] False"


def test_threads_that_look_at_once_all_see_the_whole_module() -> None:
    """Each looks for another of its members; the last one stands at the end of its source."""
    program = """
defer("ssl")
import ssl
barrier, found = threading.Barrier(8), []
def look(name):
    barrier.wait()
    found.append(getattr(ssl, name))
names = ["SSLContext", "get_server_certificate", "get_protocol_name", "create_default_context"] * 2
threads = [threading.Thread(target=look, args=(name,)) for name in names]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(len(found), len(set(found)))
"""
    assert run(program) == "8 4"


def test_a_member_that_is_not_there_is_an_attribute_error() -> None:
    program = """
defer("hmac")
import hmac
try:
    hmac.nothing
except AttributeError as error:
    print(error, hasattr(hmac, "__path__"))
"""
    assert run(program) == "module 'hmac' has no attribute 'nothing' False"


def test_a_failure_to_load_is_told_and_may_be_tried_again(tmp_path: object) -> None:
    program = f"""
import pathlib
folder = pathlib.Path({str(tmp_path)!r})
sys.path.insert(0, str(folder))
source = "from pathlib import Path\\nif not Path(__file__).with_name('good').exists(): raise OSError('bad')\\nx = 1"
(folder / "broken.py").write_text(source)
defer("broken")
import broken
for _ in range(2):
    try:
        print(broken.x)
    except OSError as error:
        print(error)
    (folder / "good").touch()
"""
    assert run(program) == "bad\n1"


def test_a_module_that_is_loaded_or_is_not_there_is_left_alone() -> None:
    program = """
import ssl
defer("ssl", "no_such_module")
print(type(ssl) is ModuleType, "no_such_module" in sys.modules)
"""
    assert run(program) == "True False"
