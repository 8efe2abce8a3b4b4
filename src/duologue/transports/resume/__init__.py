"""Resume a broken connection without losing a frame: what both ends count, buffer and send.

Both ends agree on it in the `_meta` of `initialize`, which peers without this feature ignore; no layer above sees it.
From then on the client counts the frames that it sends after its `initialize`, the server those that it sends after its
response, each from one; each buffers what the other has not acknowledged. They exchange notifications of their own:

    _duologue/received {"count": n}                       n of your frames have arrived: drop them
    _duologue/resume   {"connectionId": c, "received": n} first on a new connection: resume c; n of yours have arrived
    _duologue/resumed  {"received": m}                    resumed; m of yours have arrived, the rest of mine follows
    _duologue/lost     {"reason": r}                      that connection can no longer be resumed

These are not counted, and no layer above sees them. A server closes a WebSocket with `REPLACED` when another one
resumed its connection, and with `HISTORY_LOST` when it cannot resume one.

`protocol` has the messages and numbers of both ends, `buffers` what each end counts and keeps.
"""
