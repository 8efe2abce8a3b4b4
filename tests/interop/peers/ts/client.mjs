// A client on the TypeScript SDK. Each line it reads is a play: an agent to start, or its address, and steps to do. Each
// line it prints is what it saw of one.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { Readable, Writable } from "node:stream";

const { client, ndJsonStream } = await import(process.env.INTEROP_SDK);

class Player {
  constructor(play) {
    Object.assign(this, play);
    this.asked = [];
    this.seen = [];
    this.updates = [];
    this.said = {};
  }

  async update({ params, agent }) {
    this.updates.push(params.update);
    this.said[params.sessionId] = (this.said[params.sessionId] ?? "") + (params.update.content?.text ?? "");
    if (params.update.sessionUpdate !== this.cancelAt) return;
    this.cancelAt = undefined;
    await agent.notify("session/cancel", { sessionId: this.sessionId });
  }

  async permission({ params, agent }) {
    if (this.answers.permission === "cancel") {
      await agent.notify("session/cancel", { sessionId: this.sessionId });
      return { outcome: { outcome: "cancelled" } };
    }
    const { optionId } = params.options.find(({ kind }) => kind === this.answers.permission);
    return { outcome: { outcome: "selected", optionId } };
  }

  app() {
    const { answers } = this;
    const heard = (method, answer) => (context) => {
      this.asked.push({ method, params: context.params });
      return answer(context);
    };
    const ping = "_duologue.example/ping";
    const replies = {
      "session/request_permission": (context) => this.permission(context),
      "fs/read_text_file": ({ params }) => ({ content: answers.files[params.path] ?? "" }),
      "fs/write_text_file": () => ({}),
      "terminal/create": () => ({ terminalId: "terminal-1" }),
      "terminal/output": () => answers.terminal.output,
      "terminal/wait_for_exit": () => answers.terminal.exit,
      "terminal/kill": () => ({}),
      "terminal/release": () => ({}),
      "elicitation/create": () => answers.elicitation,
    };
    const app = client()
      .onNotification("session/update", (context) => this.update(context))
      .onNotification("elicitation/complete", heard("elicitation/complete", () => {}))
      .onRequest(ping, (params) => params, heard(ping, () => ({ pong: true })));
    for (const [method, reply] of Object.entries(replies)) app.onRequest(method, heard(method, reply));
    return app;
  }

  verbs(agent) {
    const { cwd } = this;
    const here = () => ({ sessionId: this.sessionId });
    const reopen = () => ({ ...here(), cwd, mcpServers: [] });
    return {
      answer: (given) => Object.assign(this.answers, given),
      initialize: () => agent.request("initialize", { protocolVersion: 1, clientCapabilities: this.capabilities }),
      authenticate: (methodId) => agent.request("authenticate", { methodId }),
      new: async () => {
        const opened = await agent.request("session/new", { cwd, mcpServers: [] });
        this.sessionId = opened.sessionId;
        return opened;
      },
      prompt: (text, { cancelAt, sessionId } = {}) => {
        this.cancelAt = cancelAt;
        const prompt = [{ type: "text", text }];
        return agent.request("session/prompt", { sessionId: sessionId ?? this.sessionId, prompt });
      },
      parallel: async (count, text) => {
        const each = Array.from({ length: count });
        const opened = await Promise.all(each.map(() => agent.request("session/new", { cwd, mcpServers: [] })));
        const prompt = [{ type: "text", text }];
        await Promise.all(opened.map(({ sessionId }) => agent.request("session/prompt", { sessionId, prompt })));
        return { said: opened.map(({ sessionId }) => this.said[sessionId]) };
      },
      load: () => agent.request("session/load", reopen()),
      resume: () => agent.request("session/resume", reopen()),
      list: () => agent.request("session/list", { cwd }),
      close: () => agent.request("session/close", here()),
      delete: () => agent.request("session/delete", here()),
      set_mode: (modeId) => agent.request("session/set_mode", { ...here(), modeId }),
      set_config: (configId, value) => {
        const type = typeof value === "boolean" ? { type: "boolean" } : {};
        return agent.request("session/set_config_option", { ...here(), configId, value, ...type });
      },
      extension: (name, params) => agent.request(`_${name}`, params),
    };
  }

  async play(agent) {
    const verbs = this.verbs(agent);
    for (const [verb, ...args] of this.steps) {
      const step = { updates: (this.updates = []) };
      this.seen.push(step);
      try {
        step.result = (await verbs[verb](...args)) ?? {};
      } catch ({ code, message, data }) {
        step.error = { code, message, data };
      }
    }
    return { steps: this.seen, asked: this.asked };
  }

  // What a transport should keep to itself would show among what the agent asked.
  watch({ readable, writable }) {
    const look = (message, controller) => {
      if (message.method?.startsWith("_duologue/")) this.asked.push({ method: message.method, params: message.params });
      controller.enqueue(message);
    };
    return { writable, readable: readable.pipeThrough(new TransformStream({ transform: look })) };
  }
}

async function remotely(player) {
  const { dial } = await import("./network.mjs");
  const stream = player.watch(await dial(player.url, player.headers));
  try {
    return await player.app().connectWith(stream, (agent) => player.play(agent));
  } catch (error) {
    // The way to the agent is closed: whatever should have come next failed, and so did the rest.
    const failed = { updates: [], error: { message: `${error}` } };
    return { steps: [...player.seen.filter(({ result, error }) => result ?? error), failed], asked: player.asked };
  }
}

async function locally(player) {
  const [program, ...args] = player.command;
  const child = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"] });
  const stream = ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
  const seen = await player.app().connectWith(stream, (agent) => player.play(agent));
  const exit = once(child, "exit");
  child.stdin.end();
  await exit;
  return seen;
}

for await (const line of createInterface({ input: process.stdin })) {
  const player = new Player(JSON.parse(line));
  console.log(JSON.stringify(await (player.url ? remotely : locally)(player)));
}
