"""JSON-RPC 2.0 without I/O: framing, envelopes, ids, correlation, cancellation.

Method names of ACP, typed parameters, tasks and clocks do not belong here. `transports`, `runtime` and
everything that moves frames may import it.
"""
