"""Sessions that extensions in TypeScript change and compact, twice at once and from handlers; and logins."""

import json
import time
from typing import Any, Final

from tests.rpc.conftest import CONVERSATION_TIMEOUT_S
from tests.rpc.extensions.conftest import Extended, Start

SESSIONS: Final = """
import fs from "node:fs";
let kept;
export default (pi) => {
  const settled = async (...works) => (await Promise.allSettled(works.map((each) => each()))).map(
    (each) => each.status === "fulfilled" ? (each.value ?? null) : each.reason.message);
  const first = (ctx) => ctx.sessionManager.getEntries().find((each) => each.message?.role === "user");
  const acts = {
    fork: (ctx) => ctx.fork(first(ctx).id),
    navigateTree: (ctx) => ctx.navigateTree(first(ctx).id),
    switchSession: (ctx) => ctx.switchSession(ctx.sessionManager.getSessionFile()),
    newSession: (ctx) => ctx.newSession(),
    reload: (ctx) => {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300); // nothing that was asked for before shows yet
      ctx.sessionManager.getSessionFile();
      return ctx.reload();
    },
  };
  const show = (name, outcomes) => {
    fs.writeFileSync(`${name}.part`, JSON.stringify(outcomes));
    fs.renameSync(`${name}.part`, `${name}.json`);
  };
  const asks = (event, ctx) => ctx.ui.confirm("Sure?", "").then((isSure) => ({ cancel: !isSure }));
  for (const each of ["session_before_switch", "session_before_fork"]) pi.on(each, asks);
  pi.on("session_before_tree", asks);
  pi.registerCommand("twice", { handler: async (args, ctx) => {
    const act = () => acts[args](ctx);
    show(args, await settled(act, act));
  } });
  pi.registerCommand("alone", { handler: (args, ctx) => {
    const act = () => acts.newSession(ctx);
    const works = [act, act, () => pi.exec("sleep", ["1000"])];
    void settled(...works).then(async (outcomes) => show("alone", [...outcomes, ...await settled(act)]));
  } });
  pi.registerCommand("compact", { handler: async (args, ctx) => {
    const done = () => new Promise((onComplete, reject) => ctx.compact({ onComplete, onError: reject }));
    ctx.ui.notify(JSON.stringify(await settled(done, done)));
    kept = ctx;
  } });
  pi.on("input", async (event, ctx) => {
    if (event.text !== "from a handler") return;
    const works = Object.values(acts).map((act) => () => act(kept));
    ctx.ui.notify(JSON.stringify(await settled(...works)));
  });
};
"""
LOGIN: Final = """
import fs from "node:fs";
export default (pi) => {
  const models = JSON.parse(fs.readFileSync(`${process.env.PI_CODING_AGENT_DIR}/models.json`, "utf8"));
  const [fake] = Object.values(models.providers);
  const model = { id: "m", name: "M", reasoning: false, input: ["text"], contextWindow: 9000, maxTokens: 100,
    cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 } };
  pi.registerProvider("mine", {
    baseUrl: fake.baseUrl, api: "openai-completions", models: [model],
    async refreshModels({ credential, signal, publish, allowNetwork, stored }) {
      const isTaken = await publish({ update() {} });
      const seen = [credential?.type, credential?.access, signal.aborted, isTaken, allowNetwork, stored];
      return [model, { ...model, id: seen.join("-") }];
    },
    oauth: {
      name: "Mine",
      async login(callbacks) { throw new Error("not called"); },
      async refreshToken(credentials, signal) {
        return { ...credentials, access: `fresh-of-${credentials.refresh}`, expires: Date.now() + 3_600_000 };
      },
      getApiKey: (credentials) => credentials.access,
    },
  });
};
"""


def outcomes_of(one: Extended, name: str) -> list[Any]:
    """Wait for the outcomes of what an extension has asked for."""
    file = one.work / f"{name}.json"
    deadline_s = time.monotonic() + CONVERSATION_TIMEOUT_S
    while not file.exists():
        assert time.monotonic() < deadline_s, name
        time.sleep(0.02)
    found: list[Any] = json.loads(file.read_text())
    return found


def test_each_of_two_changes_at_once_has_an_outcome(scripted: Start) -> None:
    """The second is decided when the first has ended, also when no call of the extension waits for them."""
    one = scripted(SESSIONS, [{"text": "done", "repeat": -1}], has_session=True)
    one.say("hello")
    done = {"cancelled": False}
    seconds = {
        "navigateTree": "navigate_tree: something runs; wait_for_idle() first",
        "fork": "Invalid entry ID for forking",
        "switchSession": done,
        "newSession": done,
    }
    for act, second in seconds.items():
        command = one.begin(f"/twice {act}")
        gate = one.asked("confirm")  # the second was asked for by now
        one.reply(gate, confirmed=True)
        if second == done:
            one.reply(one.asked("confirm"), confirmed=True)
        one.accepted(command)
        assert [done, second] == outcomes_of(one, act)
        one.say("more")
        assert "done" == one.pi.ask("get_last_assistant_text")["text"]
    command = one.begin("/twice reload")
    one.accepted(command)
    reloaded, again = outcomes_of(one, "reload")
    assert reloaded is None
    assert again is None or "reload" in again
    one.command("/alone")
    for _ in range(2):
        one.reply(one.asked("confirm"), confirmed=True)
    first, then, program, late = outcomes_of(one, "alone")
    assert [done, done] == [first, then]
    assert "the session has ended" in program
    assert "has ended" in late or "stale" in late
    assert not one.errors


def test_a_second_compaction_has_an_outcome_of_its_own(scripted: Start) -> None:
    """Each call has one outcome; from a handler that the session waits for, all are refused."""
    one = scripted(SESSIONS, [{"text": "done", "repeat": -1}], has_session=True)
    one.say("hello")
    one.command("/compact")
    outcomes = json.loads(one.notice())
    assert 2 == len(outcomes)
    small = "Nothing to compact (session too small)"  # the second one may come when the first has ended
    assert small == outcomes[0]
    assert outcomes[1] in (small, "Compaction already in progress")
    mark = one.pi.mark()
    one.begin("from a handler")
    refusals = json.loads(one.notice())
    assert 5 == len(refusals)
    assert all("this would be a deadlock" in each for each in refusals)
    one.pi.wait({"type": "agent_settled"}, since=mark)


def test_a_login_of_an_extension_is_refreshed_and_used(scripted: Start) -> None:
    """An expired login, by the extension's function; the request and the list of models have the fresh token."""
    login = {"type": "oauth", "access": "old", "refresh": "again", "expires": 1}
    one = scripted(LOGIN, [{"text": "let in", "repeat": -1}], files={"auth.json": {"mine": login}})
    assert one.pi.request({"type": "set_model", "provider": "mine", "modelId": "m"})["success"]
    one.say("hello")
    assert "let in" == one.pi.ask("get_last_assistant_text")["text"]
    listed = [each["id"] for each in one.pi.ask("get_available_models")["models"] if each["provider"] == "mine"]
    assert ["m", "oauth-fresh-of-again-false-true-true-"] == listed
    kept = json.loads((one.pi.home.agent_dir / "auth.json").read_text())["mine"]
    assert ("fresh-of-again", "again") == (kept["access"], kept["refresh"])
