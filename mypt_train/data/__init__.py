"""Turns JSONL into shards of tokens with loss masks, and reads them back. Needs no torch.

Read the modules in this order: `formats/options`, `encode_line` (a line becomes samples), `units`
(samples into unit files), `unit_files` (reads these), `collection` (which samples are kept, and in
which split), `packing` (samples into rows), `shards` (rows into files), `reader` and `verify` (the
way back). `scale/prepare` runs all of it.
"""
