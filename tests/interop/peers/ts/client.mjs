// A client on the TypeScript SDK: plays the steps it is given against an agent's process, and prints what it saw.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";

const { client, ndJsonStream } = await import(process.env.INTEROP_SDK);
const { cwd, steps, capabilities, command, answers } = JSON.parse(readFileSync(0, "utf8"));
const asked = [];
let updates = [];
let sessionId;
let cancelAt;

const heard = (method, answer) => ({ params }) => {
  asked.push({ method, params });
  return answer(params);
};

async function permission(params, agent) {
  if (answers.permission === "cancel") {
    await agent.notify("session/cancel", { sessionId });
    return { outcome: { outcome: "cancelled" } };
  }
  const { optionId } = params.options.find(({ kind }) => kind === answers.permission);
  return { outcome: { outcome: "selected", optionId } };
}

async function update({ params, agent }) {
  updates.push(params.update);
  if (params.update.sessionUpdate !== cancelAt) return;
  cancelAt = undefined;
  await agent.notify("session/cancel", { sessionId });
}

const verbs = (agent) => ({
  answer: (given) => Object.assign(answers, given),
  initialize: () => agent.request("initialize", { protocolVersion: 1, clientCapabilities: capabilities }),
  authenticate: (methodId) => agent.request("authenticate", { methodId }),
  new: async () => {
    const opened = await agent.request("session/new", { cwd, mcpServers: [] });
    sessionId = opened.sessionId;
    return opened;
  },
  prompt: (text, options = {}) => {
    cancelAt = options.cancelAt;
    const wanted = options.sessionId ?? sessionId;
    return agent.request("session/prompt", { sessionId: wanted, prompt: [{ type: "text", text }] });
  },
  load: () => agent.request("session/load", { sessionId, cwd, mcpServers: [] }),
  resume: () => agent.request("session/resume", { sessionId, cwd, mcpServers: [] }),
  list: () => agent.request("session/list", { cwd }),
  close: () => agent.request("session/close", { sessionId }),
  delete: () => agent.request("session/delete", { sessionId }),
  set_mode: (modeId) => agent.request("session/set_mode", { sessionId, modeId }),
  set_config: (configId, value) =>
    agent.request("session/set_config_option", {
      sessionId,
      configId,
      value,
      ...(typeof value === "boolean" ? { type: "boolean" } : {}),
    }),
  extension: (name, params) => agent.request(`_${name}`, params),
});

async function play(agent) {
  const known = verbs(agent);
  const seen = [];
  for (const [verb, ...args] of steps) {
    updates = [];
    const step = { updates };
    try {
      step.result = (await known[verb](...args)) ?? {};
    } catch ({ code, message, data }) {
      step.error = { code, message, data };
    }
    seen.push(step);
  }
  return { steps: seen, asked };
}

const child = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
const stream = ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
await client()
  .onNotification("session/update", update)
  .onNotification("elicitation/complete", heard("elicitation/complete", () => {}))
  .onRequest("session/request_permission", ({ params, agent }) => {
    asked.push({ method: "session/request_permission", params });
    return permission(params, agent);
  })
  .onRequest("fs/read_text_file", heard("fs/read_text_file", ({ path }) => ({ content: answers.files[path] ?? "" })))
  .onRequest("fs/write_text_file", heard("fs/write_text_file", () => ({})))
  .onRequest("terminal/create", heard("terminal/create", () => ({ terminalId: "terminal-1" })))
  .onRequest("terminal/output", heard("terminal/output", () => answers.terminal.output))
  .onRequest("terminal/wait_for_exit", heard("terminal/wait_for_exit", () => answers.terminal.exit))
  .onRequest("terminal/kill", heard("terminal/kill", () => ({})))
  .onRequest("terminal/release", heard("terminal/release", () => ({})))
  .onRequest("elicitation/create", heard("elicitation/create", () => answers.elicitation))
  .onRequest("_duologue.example/ping", (params) => params, heard("_duologue.example/ping", () => ({ pong: true })))
  .connectWith(stream, async (agent) => console.log(JSON.stringify(await play(agent))));
child.stdin.end();
child.on("exit", () => process.exit(0));
