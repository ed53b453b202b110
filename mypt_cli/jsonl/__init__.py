"""Reads and writes files of JSONL.

It finds which files to read, packed or plain, cuts them into whole lines, and writes files that are
whole or not there.
"""
