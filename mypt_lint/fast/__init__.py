"""Finds the same in less time: splits lines into what rules see, and judges that once.

A record is split into the rest that rules see, its texts, and its JSON values: by the splitter of
the adapter, or the one that schema_splitter.py makes of its schema (both for adapter_scan.py), or,
if it is a third-party record with findings, by chats.py. Over these are three memos, by rest: the
verdict that it is clean (adapter_scan.py), its findings (findings_cache.py), its tokens
(mypt_train/data/templates/). The column `fast` of rules.toml says when the rules that are on
allow it.

Read fast_checker, clean_filter, clean_texts, adapter_scan, schema_splitter; then findings_cache,
skeleton and chats.
"""
