"""The same findings in less time: clean lines are filtered out, and findings are cached by
skeleton.
"""
