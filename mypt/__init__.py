"""Holds the commands. Each is a thin layer over the libraries, and no library imports one."""
