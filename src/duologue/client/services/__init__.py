"""Services of a client for an agent: files, terminals, tools and forms for the user.

Permission to use them is decided in `client.permissions`. The client's request handler and `client.connect` import this
package.
"""
