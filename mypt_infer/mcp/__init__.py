"""Speaks the Model Context Protocol: offers the tools of a workspace to any client."""
