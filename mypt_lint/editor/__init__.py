"""Shows findings, fixes and the loss mask in an editor: the language server."""
