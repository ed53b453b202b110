"""Holds `mypt-lint`: its options, subcommands, session, watch mode and language server."""
