// The TypeScript SDK's ways over the network, with the settings that it comes with.
import { once } from "node:events";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const sdk = pathToFileURL(process.env.BENCH_TYPESCRIPT_SDK);
const transport = (name) => import(new URL(`../../transports/${name}.js`, sdk));
const { WebSocket, WebSocketServer } = createRequire(sdk)("ws");

export async function listen(agent) {
  const { AcpServer } = await transport("server");
  const { createNodeHttpHandler, createNodeWebSocketUpgradeHandler } = await transport("node-adapter");
  const server = new AcpServer({ agent });
  const http = createServer(createNodeHttpHandler(server));
  http.on("upgrade", createNodeWebSocketUpgradeHandler(server, new WebSocketServer({ noServer: true })));
  http.listen(0, "127.0.0.1", () => console.log(http.address().port));
}

export async function dial(wire, child) {
  const [port] = await once(createInterface({ input: child.stdout }), "line");
  const url = `${wire}://127.0.0.1:${port}/acp`;
  if (wire === "http") return (await transport("http-stream")).createHttpStream(url);
  return (await transport("ws-stream")).createWebSocketStream(url, { WebSocket });
}
