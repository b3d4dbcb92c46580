"""Faults of the host, and of what an agent keeps for it: each is found by the random deaths of `chaos.hosted`.

Data only, in the form of the other faults. `check` is the quick test that must fail, too, where there is one. Run one:
`python -P -m pinnace_campaigns.chaos.hosted --fault NAME`.
"""

from typing import Final

from pinnace_campaigns.mutants.catalogue import AgentMutant

_AGENT: Final = "rpc/pinnace_rpc/host/agent.py"
_COMMANDS: Final = "rpc/pinnace_rpc/host/client_commands.py"
_JOURNAL: Final = "rpc/pinnace_rpc/host/journal.py"
_TABLE: Final = "rpc/pinnace_rpc/host/table.py"
_CONNECTION: Final = "rpc/pinnace_rpc/host/connection.py"
_SERVER: Final = "rpc/pinnace_rpc/host/server.py"
_QUEUE: Final = "agent/pinnace_agent/session/queue/durable_queue.py"
_REPEATS: Final = "tests/rpc/host/test_host_repeats.py::"
_CLIENTS: Final = "tests/rpc/host/test_host_clients.py::"
_DURABLE: Final = "tests/rpc/sessions/test_durable_queue.py::"

HOST_MUTANTS: Final = (
    AgentMutant(
        "accepted-before-saved",
        "A queued message is accepted, and not in the file.",
        _QUEUE,
        "        try:\n            add(self._session, message)\n        except SaveError as error:\n",
        "        try:\n            assert message\n        except SaveError as error:\n",
        f"{_DURABLE}test_an_accepted_message_is_on_the_disk_before_its_response",
        (),
    ),
    AgentMutant(
        "a-return-is-forgotten",
        "What was returned to a client is not removed from the file, and so queued again by the next process.",
        _QUEUE,
        "        try:\n            mark_returned(",
        "        try:\n            _ = (",
        f"{_DURABLE}test_what_was_delivered_or_returned_is_not_queued_again",
        (),
    ),
    AgentMutant(
        "no-message-is-known",
        "A message that is sent again is delivered again.",
        _QUEUE,
        '            return None if is_refused else MessageFate("delivered", entry_id)\n',
        "            return None\n",
        "tests/rpc/sessions/test_repeated_messages.py::test_a_repeated_message_is_answered_and_not_delivered_again",
        (),
    ),
    AgentMutant(
        "everything-is-sent-again",
        "After a crash of its agent every open command of a named client is executed again.",
        _COMMANDS,
        "is_repeatable = command.name in routing.SAFE or (",
        "is_repeatable = True or (",
        f"{_REPEATS}test_a_command_that_a_crash_of_the_agent_cut_is_unknown_for_ever",
        (),
    ),
    AgentMutant(
        "a-crash-of-the-host-forgets-commands",
        "The next host knows no command, and executes again what a client repeats.",
        _TABLE,
        "        self._load()\n",
        "        os.ftruncate(self._descriptor, 0)\n",
        f"{_REPEATS}test_a_crash_of_the_host_leaves_a_command_unknown",
        (),
    ),
    AgentMutant(
        "a-record-is-dropped",
        "One record of a hundred is counted and not written.",
        _JOURNAL,
        "        self._write(lines, self.seq - events + 1)\n",
        "        if events and self.seq % 100 == 0:\n            return\n"
        "        self._write(lines, self.seq - events + 1)\n",
        f"{_CLIENTS}test_many_clients_get_every_record",
        (),
    ),
    AgentMutant(
        "a-crash-of-the-host-claims-completeness",
        "After a crash of the host no record is reported as missing, and no run as interrupted.",
        _AGENT,
        "        self._is_complete = not self.details.has_process and is_latest\n",
        "        self._is_complete, self._was_interrupted = True, False\n",
        f"{_CLIENTS}test_what_the_end_of_a_host_has_cut_is_reported_by_the_next",
        (),
    ),
    AgentMutant(
        "connections-are-counted-anew",
        "The journal's responses to connections of a former host go to those of this one.",
        _SERVER,
        'self._last_number = int.from_bytes(surroundings.system.urandom(_NUMBER_BYTES), "big")',
        "self._last_number = 0",
        f"{_CLIENTS}test_responses_of_a_former_host_go_to_no_client_of_this_one",
        (),
    ),
    AgentMutant(
        "a-command-dies-with-its-connection",
        "A command that waits for the agent's process is lost with its connection, and in progress for ever.",
        _COMMANDS,
        "        with trio.CancelScope(shield=True):  # until the process takes commands, or there is none\n",
        "        with trio.CancelScope():\n",
        f"{_REPEATS}test_a_command_that_waits_for_the_agent_is_answered_to_the_connection_that_repeats_it",
        (),
    ),
    AgentMutant(
        "an-ended-connection-takes-commands",
        "A connection that was replaced or closed reads on, and so gets the answers that another one waits for.",
        _CONNECTION,
        "        return self._end is not None or self._scope.cancel_called\n",
        "        return False\n",
        f"{_REPEATS}test_a_connection_that_has_ended_takes_no_answer_from_the_one_that_repeats_its_commands",
        (),
    ),
    AgentMutant(
        "a-run-that-was-cut-is-not-reported",
        "A crash of the agent in a run is reported without `interrupted`.",
        "rpc/pinnace_rpc/host/process_output.py",
        # Not only what the host has seen of the run: the session shows most runs that were cut, too.
        "        was_interrupted = restart.was_interrupted or (",
        "        was_interrupted = False and (",
        "",
        (),
    ),
    AgentMutant(
        "a-pipe-stays-open",
        "The host keeps a pipe of each agent that has ended.",
        _AGENT,
        "            await trio.aclose_forcefully(process.stdout)\n",
        "            self.__dict__.setdefault('leaked', []).append(process)\n",
        "",
        (),
    ),
)
