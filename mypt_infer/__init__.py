"""Generates and runs conversations, on the engine of `mypt_spec`.

`decode` says which token may come next, `generate` runs models under it, `controller` runs turns
with tools, `workspace` is a folder of documents as tools, `chat` is a chat on the terminal.
`gabgpt` and `praxis` hold what existing chat loops of these two formats need.
"""
