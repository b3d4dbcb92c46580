"""Sessions that extensions in TypeScript compact and move in, twice at once and from handlers; and logins."""

import json
from typing import Final

from tests.rpc.extensions.conftest import Start

SESSIONS: Final = """
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
  pi.registerCommand("move", { handler: async (args, ctx) => {
    const act = () => acts.navigateTree(ctx);
    ctx.ui.notify(JSON.stringify(await settled(act, act)));
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


def test_a_second_compaction_or_move_has_an_outcome_of_its_own(scripted: Start) -> None:
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
    one.command("/move")
    assert [{"cancelled": False}, {"cancelled": False}] == json.loads(one.notice())
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
