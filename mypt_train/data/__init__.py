"""Turns JSONL into shards of tokens with loss masks, and reads them back. Needs no torch.

Read the modules in this order: `options`, `units` (pieces of the inputs), `encode_line` (a line
becomes samples), `packing` (samples into rows), `shards` (rows into files), `prepare` (all of it),
`reader` and `verify` (the way back).
"""
