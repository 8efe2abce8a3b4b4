// An agent on the TypeScript SDK that takes text into a running turn as the adapters for Claude Code and Codex do: the
// answer comes at once, and without a running turn it depends on `_meta.steering.idleBehavior`.
import { Readable, Writable } from "node:stream";

const { RequestError, agent, ndJsonStream } = await import(process.env.INTEROP_SDK);
const turns = new Map(); // the running turn of each session: its texts, and what wakes it

const initialize = () => ({
  protocolVersion: 1,
  agentInfo: { name: "steered", version: "1" },
  agentCapabilities: {},
  _meta: { steering: { supported: true } },
});

const say = (client, sessionId, text) =>
  client.notify("session/update", {
    sessionId,
    update: { sessionUpdate: "agent_message_chunk", content: { type: "text", text } },
  });

async function run(client, sessionId) {
  const turn = { texts: [], wake: () => {} };
  turns.set(sessionId, turn);
  await say(client, sessionId, "working ");
  for (;;) {
    while (turn.texts.length) {
      const text = turn.texts.shift();
      if (text === "stop") {
        turns.delete(sessionId);
        return { stopReason: "end_turn" };
      }
      await say(client, sessionId, `[${text}] `);
    }
    await new Promise((resolve) => (turn.wake = resolve));
  }
}

function steer({ params, client }) {
  if (!Array.isArray(params.prompt) || params.prompt.length === 0) throw RequestError.invalidParams();
  const behaviour = params._meta?.steering?.idleBehavior;
  if (behaviour !== undefined && behaviour !== "promptRequired") throw RequestError.invalidParams();
  const turn = turns.get(params.sessionId);
  if (turn) {
    turn.texts.push(params.prompt.map((block) => block.text).join(""));
    turn.wake();
    return { outcome: "injected" };
  }
  if (behaviour === "promptRequired") return { outcome: "promptRequired", reason: "noRunningTurn" };
  run(client, params.sessionId);
  return { outcome: "startedNewTurn" };
}

agent()
  .onRequest("initialize", initialize)
  .onRequest("session/new", () => ({ sessionId: "s1" }))
  .onRequest("session/prompt", ({ params, client }) => run(client, params.sessionId))
  .onRequest("_session/steering", (params) => params, steer)
  .connect(ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
