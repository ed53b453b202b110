"""Reads the records that people have, of whatever shape, as chats.

A shape says how a record is laid out, such as OpenAI's `messages`; a dialect says what the model
reads. `shapes.read` makes a `Chat` of a record, in which each value knows its place in the user's
own record, and `checks.findings` says what is wrong with it whatever the dialect.
"""
