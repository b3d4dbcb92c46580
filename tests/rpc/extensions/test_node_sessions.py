"""Sessions that extensions in TypeScript replace, move in and compact, twice at once and from handlers; and logins."""

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
    reload: (ctx) => ctx.reload(),
  };
  pi.registerCommand("twice", { handler: async (args, ctx) => {
    const act = () => acts[args](ctx);
    const shown = JSON.stringify(await settled(act, act));
    fs.writeFileSync(`${args}.part`, shown);
    fs.renameSync(`${args}.part`, `${args}.json`);
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


def twice(one: Extended, act: str) -> list[Any]:
    """Have an extension do something twice at once; return what became of both."""
    one.command(f"/twice {act}")
    file = one.work / f"{act}.json"
    deadline = time.monotonic() + CONVERSATION_TIMEOUT_S
    while not file.exists():
        assert time.monotonic() < deadline, act
        time.sleep(0.02)
    found: list[Any] = json.loads(file.read_text())
    return found


def test_a_second_change_of_the_session_ends_and_the_agent_goes_on(scripted: Start) -> None:
    """Each call has one outcome; from a handler that the session waits for, all are refused."""
    one = scripted(SESSIONS, [{"text": "done", "repeat": -1}], has_session=True)
    one.say("hello")
    one.command("/compact")
    outcomes = json.loads(one.notice())
    assert 2 == len(outcomes)
    assert "in progress" in outcomes[1]
    mark = one.pi.mark()
    one.begin("from a handler")
    refusals = json.loads(one.notice())
    assert 5 == len(refusals)
    assert all("this would be a deadlock" in each for each in refusals)
    one.pi.wait({"type": "agent_settled"}, since=mark)
    for act in ("navigateTree", "fork", "switchSession", "newSession", "reload"):
        outcomes = twice(one, act)
        assert [None if act == "reload" else {"cancelled": False}] == outcomes[:1]
        assert 2 == len(outcomes)
        one.say("more")
        assert "done" == one.pi.ask("get_last_assistant_text")["text"]


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
