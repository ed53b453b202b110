"""Checkpoints in pieces: written while training goes on, read by any number of processes."""
