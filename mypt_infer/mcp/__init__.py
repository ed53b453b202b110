"""Speaks the Model Context Protocol, both ways: offers a Toolbox, and calls the tools of servers.

`offer` serves the tools of a workspace to any client. `connect` brings the tools of a server into a
Toolbox, so that the decoder reads their schemas and the controller bounds their results.
"""
