// An agent of version 2 on the TypeScript SDK: the first word of a prompt says which part of the protocol it shows.
import { Readable, Writable } from "node:stream";

const { agent, ndJsonStream } = await import(process.env.INTEROP_SDK.replace("/v1/", "/v2/"));
const sessions = new Map();
const OPTIONS = ["allow_once", "reject_once"].map((kind) => ({ optionId: `id-${kind}`, name: kind, kind }));
const base64 = (text) => Buffer.from(text).toString("base64");
const text = (text) => ({ type: "text", text });

class Session {
  constructor(id, cwd) {
    Object.assign(this, { id, cwd, mode: "ask", said: [], count: 0 });
  }

  get configOptions() {
    const options = ["ask", "code"].map((value) => ({ value, name: value }));
    return [{ configId: "m", name: "Mode", type: "select", category: "mode", currentValue: this.mode, options }];
  }

  async tell(client, ...updates) {
    for (const update of updates) {
      this.said.push(update);
      await client.notify("session/update", { sessionId: this.id, update });
    }
  }

  state(client, state, rest = {}) {
    return client.notify("session/update", { sessionId: this.id, update: { sessionUpdate: "state_update", state, ...rest } });
  }
}

const chapters = {
  async echo({ session, client, rest }) {
    const pieces = [rest.slice(0, 2), rest.slice(2)];
    for (const piece of pieces) {
      await session.tell(client, { sessionUpdate: "agent_message_chunk", messageId: "a", content: text(piece) });
    }
  },
  async whole({ session, client, rest }) {
    const update = { sessionUpdate: "agent_message", messageId: `w${session.count}` };
    await session.tell(client, { ...update, content: [text("no")] }, { ...update, content: [text(rest)] });
  },
  async tools({ session, client }) {
    const path = `${session.cwd}/a.txt`;
    const call = { sessionUpdate: "tool_call_update", toolCallId: "call" };
    const patch = `diff --git ${path} ${path}\n--- ${path}\n+++ ${path}\n@@ -1 +1 @@\n-old\n+new\n`;
    const diff = { type: "diff", changes: [{ operation: "modify", path }], patch: { format: "git_patch", text: patch } };
    const terminal = { sessionUpdate: "terminal_update", terminalId: "term" };
    await session.tell(
      client,
      { ...call, title: "Edit", kind: "edit", status: "pending", locations: [{ path, line: 3 }] },
      { ...call, status: "in_progress", content: [diff] },
      { sessionUpdate: "tool_call_content_chunk", toolCallId: "call", content: { type: "terminal", terminalId: "term" } },
      { ...terminal, command: "make", cwd: session.cwd },
      { sessionUpdate: "terminal_output_chunk", terminalId: "term", data: base64("out\n") },
      { ...terminal, exitStatus: { exitCode: 0 } },
      { ...call, status: "completed", locations: null },
      { sessionUpdate: "plan_update", plan: { type: "items", planId: "p", entries: [] } },
      { sessionUpdate: "usage_update", used: 10, size: 100 },
      { sessionUpdate: "session_info_update", title: "Interop" },
    );
  },
  async permission({ session, client }) {
    await session.state(client, "requires_action");
    const toolCall = { toolCallId: "call-1", title: "Something" };
    const params = { sessionId: session.id, title: "May I?", options: OPTIONS };
    const { outcome } = await client.request("session/request_permission", {
      ...params,
      subject: { type: "tool_call", toolCall },
    });
    await session.state(client, "running");
    const said = text(outcome.optionId ?? outcome.outcome);
    await session.tell(client, { sessionUpdate: "agent_message_chunk", messageId: "p", content: said });
  },
  async wait({ session }) {
    await new Promise((resolve) => (session.cancel = resolve));
    return { stopReason: "cancelled" };
  },
  async fail() {
    return { stopReason: "error", error: { code: -32002, message: "gone" } };
  },
};

async function work(session, client, prompt, messageId) {
  const [{ text: said }] = prompt;
  const word = said.split(" ")[0];
  await session.tell(client, { sessionUpdate: "user_message", messageId, content: prompt });
  await session.state(client, "running");
  const end = await chapters[word]({ session, client, rest: said.slice(word.length + 1) });
  await session.state(client, "idle", end ?? { stopReason: "end_turn" });
}

const app = agent()
  .onRequest("initialize", () => ({
    protocolVersion: 2,
    info: { name: "interop", version: "2" },
    capabilities: { session: { delete: {} } },
  }))
  .onRequest("session/new", ({ params }) => {
    const session = new Session(`session-${sessions.size + 1}`, params.cwd);
    sessions.set(session.id, session);
    const availableCommands = [{ type: "command", name: "init", description: "Begin" }];
    return { sessionId: session.id, configOptions: session.configOptions, availableCommands };
  })
  .onRequest("session/resume", async ({ params, client }) => {
    const session = sessions.get(params.sessionId);
    if (params.replayFrom) {
      for (const update of session.said) await client.notify("session/update", { sessionId: session.id, update });
    }
    await session.state(client, "idle");
    return { configOptions: session.configOptions };
  })
  .onRequest("session/list", () => ({ sessions: [...sessions.values()].map(({ id, cwd }) => ({ sessionId: id, cwd })) }))
  .onRequest("session/close", () => ({}))
  .onRequest("session/delete", ({ params }) => (sessions.delete(params.sessionId), {}))
  .onRequest("session/set_config_option", ({ params }) => {
    const session = sessions.get(params.sessionId);
    session.mode = params.value;
    return { configOptions: session.configOptions };
  })
  .onRequest("session/prompt", ({ params, client }) => {
    const session = sessions.get(params.sessionId);
    const messageId = `user-${++session.count}`;
    setImmediate(() => work(session, client, params.prompt, messageId));
    return { messageId };
  })
  .onNotification("session/cancel", ({ params }) => sessions.get(params.sessionId).cancel?.());

app.connect(ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
