"""Holds `mypt-prepare`, and its subcommands for several machines."""
