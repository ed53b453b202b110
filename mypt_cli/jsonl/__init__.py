"""Files of JSONL: which, packed or plain, cut into whole lines; and files that are whole or not
there.
"""
