// The TypeScript SDK's own server for WebSocket and HTTP, on loopback; prints the port it listens on.
import { createServer } from "node:http";
import { createRequire } from "node:module";

const transports = process.env.INTEROP_SDK.replace(/dist\/.*/, "dist/transports/");
const { AcpServer } = await import(`${transports}server.js`);
const { createNodeHttpHandler, createNodeWebSocketUpgradeHandler } = await import(`${transports}node-adapter.js`);
const { WebSocketServer } = createRequire(process.env.INTEROP_WS)("ws");

export const listen = async (app) => {
  const server = new AcpServer({ agent: app });
  const http = createServer(createNodeHttpHandler(server));
  http.on("upgrade", createNodeWebSocketUpgradeHandler(server, new WebSocketServer({ noServer: true })));
  await new Promise((resolve) => http.listen(0, "127.0.0.1", resolve));
  console.log(http.address().port);
};
