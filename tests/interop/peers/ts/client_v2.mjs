// A client of version 2 on the TypeScript SDK, in front of our built-in agent: prints what it saw, as JSON.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { Readable, Writable } from "node:stream";

const { client, ndJsonStream } = await import(process.env.INTEROP_SDK.replace("/v1/", "/v2/"));
const { command, cwd, steps } = JSON.parse(process.argv[2]);
const asked = [];

const [program, ...args] = command;
const child = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"] });
const stream = ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));

const permission = ({ params }) => {
  asked.push(params);
  const { optionId } = params.options.find(({ kind }) => kind === "allow_once");
  return { outcome: { outcome: "selected", optionId } };
};

async function turn(agent, session, text, cancelAt) {
  const step = { updates: [] };
  step.result = await session.prompt(text);
  for (;;) {
    const message = await session.nextUpdate();
    step.updates.push(message.update);
    if (message.kind === "stop") return { ...step, stopReason: message.stopReason, error: message.update.error };
    if (message.update.sessionUpdate === cancelAt) {
      await agent.notify("session/cancel", { sessionId: session.sessionId });
      cancelAt = undefined;
    }
    if (cancelAt === "terminal/cancel" && message.update.sessionUpdate === "terminal_output_chunk") {
      step.wasCancellable = session.canCancelTerminal(message.update.terminalId);
      await session.cancelTerminal(message.update.terminalId);
      cancelAt = undefined;
    }
  }
}

const seen = await client()
  .onRequest("session/request_permission", permission)
  .connectWith(stream, async (agent) => {
    const info = { name: "interop", version: "2" };
    const hello = await agent.request("initialize", { protocolVersion: 2, info, capabilities: {} });
    const session = await agent.buildSession(cwd).start();
    const turns = [];
    for (const [text, cancelAt] of steps) turns.push(await turn(agent, session, text, cancelAt));
    const changed = await session.setConfigOption({ configId: "mode", type: "id", value: "code" });
    const { sessions } = await agent.request("session/list", {});
    await agent.request("session/close", { sessionId: session.sessionId });
    session.dispose();
    return { hello, opened: session.newSessionResponse, turns, changed, sessions, asked };
  });

process.stdout.write(JSON.stringify(seen));
child.stdin.end();
await once(child, "exit");
