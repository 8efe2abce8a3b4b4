// An agent on the TypeScript SDK: the first word of a prompt says which part of the protocol it shows.
import { Readable, Writable } from "node:stream";

const { RequestError, agent, ndJsonStream } = await import(process.env.INTEROP_SDK);
const sessions = new Map();
let loggedIn = !process.argv.includes("--login");
const OPTIONS = ["allow_once", "allow_always", "reject_once", "reject_always"];

class Session {
  constructor(id, cwd) {
    Object.assign(this, { id, cwd, mode: "ask", depth: "brief", loud: false, said: [] });
  }

  get modes() {
    return { currentModeId: this.mode, availableModes: ["ask", "code"].map((id) => ({ id, name: id })) };
  }

  get configOptions() {
    const options = ["brief", "long"].map((value) => ({ value, name: value }));
    return [
      { id: "depth", name: "Depth", type: "select", category: "thought_level", currentValue: this.depth, options },
      { id: "loud", name: "Loud", type: "boolean", currentValue: this.loud },
    ];
  }

  async tell(client, update) {
    this.said.push(update);
    await client.notify("session/update", { sessionId: this.id, update });
  }

  say(client, text) {
    return this.tell(client, { sessionUpdate: "agent_message_chunk", content: { type: "text", text } });
  }
}

const find = (id) => {
  if (!sessions.has(id)) throw new RequestError(-32002, "Resource not found", { sessionId: id });
  return sessions.get(id);
};

const chapters = {
  async stream({ session, client, rest }) {
    for (let i = 0; i < Number(rest); i++) await session.say(client, `${i} `);
  },
  async big({ session, client, rest }) {
    await session.say(client, "x".repeat(Number(rest)));
  },
  async echo({ session, client, rest }) {
    await session.say(client, rest);
  },
  async updates({ session, client }) {
    const text = (text) => ({ type: "text", text });
    const entries = [{ content: "Look", priority: "high", status: "completed" }];
    await session.tell(client, { sessionUpdate: "agent_thought_chunk", content: text("Hm.") });
    await session.tell(client, { sessionUpdate: "plan", entries });
    await session.tell(client, { sessionUpdate: "usage_update", used: 10, size: 100 });
    await session.tell(client, { sessionUpdate: "session_info_update", title: "Interop" });
    await session.tell(client, { sessionUpdate: "current_mode_update", currentModeId: "code" });
    session.depth = "long";
    await session.tell(client, { sessionUpdate: "config_option_update", configOptions: session.configOptions });
    const image = { type: "image", data: "aGk=", mimeType: "image/png" };
    await session.tell(client, { sessionUpdate: "agent_message_chunk", content: image });
  },
  async tools({ session, client }) {
    const path = `${session.cwd}/a.txt`;
    const call = { toolCallId: "call-1", title: "Edit", kind: "edit", status: "pending", locations: [{ path, line: 3 }] };
    const diff = { type: "diff", path, oldText: "old\n", newText: "new\n" };
    await session.tell(client, { sessionUpdate: "tool_call", ...call });
    await session.tell(client, { sessionUpdate: "tool_call_update", toolCallId: "call-1", status: "in_progress" });
    const end = { toolCallId: "call-1", status: "completed", content: [diff], rawOutput: { ok: true } };
    await session.tell(client, { sessionUpdate: "tool_call_update", ...end });
  },
  async permission({ session, client }) {
    const { outcome } = await client.request("session/request_permission", {
      sessionId: session.id,
      toolCall: { toolCallId: "call-1", title: "Something", kind: "other", status: "pending" },
      options: OPTIONS.map((kind) => ({ optionId: `id-${kind}`, name: kind, kind })),
    });
    await session.say(client, outcome.optionId ?? outcome.outcome);
  },
  async read({ session, client, rest }) {
    const { content } = await client.request("fs/read_text_file", { sessionId: session.id, path: rest, line: 2, limit: 1 });
    await session.say(client, content);
  },
  async write({ session, client, rest }) {
    const [path, content] = rest.split(" ");
    await client.request("fs/write_text_file", { sessionId: session.id, path, content });
    await session.say(client, "written");
  },
  async run({ session, client, rest }) {
    const [command, ...args] = rest.split(" ");
    const terminal = await client.createTerminal({ sessionId: session.id, command, args });
    const content = [{ type: "terminal", terminalId: terminal.id }];
    await session.tell(client, { sessionUpdate: "tool_call", toolCallId: "call-1", title: rest, kind: "execute", content });
    const { exitCode } = await terminal.waitForExit();
    const { output } = await terminal.currentOutput();
    await terminal.release();
    await session.say(client, `${exitCode}: ${output}`);
  },
  async kill({ session, client }) {
    const terminal = await client.createTerminal({ sessionId: session.id, command: "sleep", args: ["600"] });
    await terminal.kill();
    const { signal } = await terminal.waitForExit();
    await terminal.release();
    await session.say(client, `${signal}`);
  },
  async wait({ session, client }) {
    const cancelled = new Promise((resolve) => (session.cancel = resolve));
    await session.say(client, "waiting");
    await cancelled;
    await session.say(client, " stopped");
    return "cancelled";
  },
  async form({ session, client }) {
    const answer = await client.request("elicitation/create", {
      sessionId: session.id,
      mode: "form",
      message: "Which one?",
      requestedSchema: {
        type: "object",
        properties: { name: { type: "string" }, count: { type: "integer", minimum: 1 } },
        required: ["name"],
      },
    });
    await session.say(client, JSON.stringify([answer.action, answer.content ?? null]));
  },
  async url({ session, client }) {
    const question = { mode: "url", message: "Go there", url: "https://example.com/login", elicitationId: "visit-1" };
    const { action } = await client.request("elicitation/create", { sessionId: session.id, ...question });
    await client.notify("elicitation/complete", { elicitationId: "visit-1" });
    await session.say(client, action);
  },
  async ping({ session, client }) {
    await session.say(client, JSON.stringify(await client.request("_interop/ping", { greeting: "hello" })));
  },
  async error() {
    throw new RequestError(-32050, "as requested", { asked: true });
  },
  async refuse() {
    return "refusal";
  },
};

async function prompt({ params, client }) {
  const session = find(params.sessionId);
  const [{ text }] = params.prompt;
  session.said.push({ sessionUpdate: "user_message_chunk", content: params.prompt[0] });
  const word = text.slice(0, 20).split(" ")[0];
  const stopReason = await chapters[word]({ session, client, rest: text.slice(word.length + 1) });
  return { stopReason: stopReason ?? "end_turn" };
}

async function open({ params, client }) {
  if (!loggedIn) throw RequestError.authRequired();
  const session = new Session(`session-${sessions.size + 1}`, params.cwd);
  sessions.set(session.id, session);
  // Before the answer that introduces the session, as many agents do.
  const availableCommands = [{ name: "init", description: "Begin" }];
  const update = { sessionUpdate: "available_commands_update", availableCommands };
  await client.notify("session/update", { sessionId: session.id, update });
  return { sessionId: session.id, modes: session.modes, configOptions: session.configOptions };
}

async function load({ params, client }) {
  const session = find(params.sessionId);
  for (const update of session.said) await client.notify("session/update", { sessionId: session.id, update });
  return { modes: session.modes, configOptions: session.configOptions };
}

function list({ params }) {
  const all = [...sessions.values()].map(({ id, cwd }) => ({ sessionId: id, cwd, title: `Title of ${id}` }));
  const at = Number(params.cursor ?? 0);
  return { sessions: all.slice(at, at + 1), ...(at + 1 < all.length ? { nextCursor: `${at + 1}` } : {}) };
}

const initialize = () => ({
  protocolVersion: 1,
  agentInfo: { name: "interop", version: "1" },
  agentCapabilities: {
    loadSession: true,
    promptCapabilities: { image: true, embeddedContext: true },
    sessionCapabilities: { list: {}, resume: {}, close: {}, delete: {} },
  },
  authMethods: [{ id: "token", name: "Token" }],
});

const app = agent()
  .onRequest("initialize", initialize)
  .onRequest("authenticate", () => {
    loggedIn = true;
    return {};
  })
  .onRequest("session/new", open)
  .onRequest("session/load", load)
  .onRequest("session/resume", ({ params }) => {
    const { modes, configOptions } = find(params.sessionId);
    return { modes, configOptions };
  })
  .onRequest("session/list", list)
  .onRequest("session/close", ({ params }) => void find(params.sessionId))
  .onRequest("session/delete", ({ params }) => void sessions.delete(params.sessionId))
  .onRequest("session/set_mode", ({ params }) => void (find(params.sessionId).mode = params.modeId))
  .onRequest("session/set_config_option", ({ params }) => {
    const session = find(params.sessionId);
    session[params.configId] = params.value;
    return { configOptions: session.configOptions };
  })
  .onRequest("session/prompt", prompt)
  .onNotification("session/cancel", ({ params }) => find(params.sessionId).cancel?.())
  .onRequest("_interop/echo", (params) => params, ({ params }) => params);

if (process.argv.includes("--listen")) {
  const { listen } = await import("./network.mjs");
  await listen(app);
} else {
  app.connect(ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
}
