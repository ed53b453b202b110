"""Findings in an open document, and the language server."""
