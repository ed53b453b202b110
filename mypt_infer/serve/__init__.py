"""Serves a model over HTTP as OpenAI's API does; every answer is decoded under the grammar.

Read `asked` for what a request asks, `rows` for how answers are
drawn together, `deltas` and `answers` for what goes back. `docs/serving.md` describes it.
"""
