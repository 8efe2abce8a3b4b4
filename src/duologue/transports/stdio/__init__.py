"""Line-delimited frames over pipes, files and sockets, and this process's own stdin and stdout.

Child processes are in `transports.process`, network clients in `transports.remote`. Every package above `jsonrpc`
may import this one.
"""
