"""Compiles a grammar and declared tools into tables.

Read the modules in this order: `byte_dfa` (free content), `nfa` (structure), `call_graph` and
`grammar_graph` (calls, then the whole grammar), `token_table`, `token_classes` (tokens in free
content). `tables` packs the result.
"""
