"""The Autobahn test suite: 247 ways to use and misuse a WebSocket, played against both of our ends."""
