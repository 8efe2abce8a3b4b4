"""JSON-RPC 2.0 without I/O: framing, envelopes, ids, correlation, cancellation.

Method names of ACP, typed parameters, tasks and clocks do not belong here. `transports`, `runtime` and
every package that sends or receives frames may import it.
"""
