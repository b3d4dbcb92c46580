"""The words of the reference that are not generated."""

from typing import Final

FIRST_PAGE: Final = """\
# The protocol: reference

A coding agent that runs without a terminal is driven by a program: an editor, a chat, a build. The program starts the
agent, writes **commands** to its standard input and reads **records** from its standard output, one JSON object a line.
Each command gets one **response**; what happens in between is told by **events**.

```text
→ {"id":"1","type":"prompt","message":"Say hello"}
← {"id":"1","type":"response","command":"prompt","success":true}
← {"type":"agent_start"}
← … the answer, piece by piece …
← {"type":"agent_end","messages":[…]}
```

This page says everything that an agent promises in this exchange, as numbered rules. It is generated from the same
files that run the agent and judge it: the rules, the table of the statechart, the models of the records. What it says
of the program is therefore checked whenever the program is. Nothing here needs the source to be understood.

Words that mean something here:

- A **run** is the work on a prompt: one or more **turns**, each of them one answer of the model with the tool calls
  that it asks for.
- While the agent works further texts can be **queued**: to *steer* (before the model's next answer) or to *follow up*
  (when the agent would otherwise stop).
- The agent has **settled** when nothing more will happen by itself.
- A **generation** is a time in the life of the original program's protocol: 0.18, 0.5x, seed (the published protocol),
  0.87, 1.5. This program speaks all of them at once as far as they agree; a **profile** chooses where they do not.
- The **chart** is the statechart behind it all: regions (RUN, SESSION, SHELL, UI, IO) that each are in one state, and
  rows that say what happens when something comes."""

HOW_TO_READ: Final = """\
- **Level**: MUST, SHOULD or MAY, as in RFC 2119.
- **Origin**: *seed*, the published protocol says so; *observed*, the original program does so; *ours*, the original
  leaves it open or gets it wrong. A foreign agent that breaks a rule of ours is told so, but has not failed.
- **Generations**: those that the rule holds for. `pi` is this program.
- **Rows of the chart**: what carries the rule out. `run/llm/llm_stop[has_steering]` is region RUN in state `llm`, when
  the answer has ended, if a steering text waits; effects stand behind it in the order of what they write.
- **Searched for in the models**: properties that hold in every state that the model checker has seen, within bounds.
- **Noticed by**: what would turn red if the rule were broken. An invariant (`I-…`) is judged on every trace; a scenario
  is a script for any agent; a path names a test in the repository.
- **Differs from the original**: a deviation on purpose.

The same can be asked of the program: `pinnace explain R-QUE-07`."""

NO_STATEMENT: Final = "Nothing yet: there is no model in this edition."
