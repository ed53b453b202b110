"""Holds the names of the shapes, for options and completion, which load nothing else."""

NAMES = (
    "openai", "sharegpt", "alpaca", "completion", "preference", "kto", "prompt", "turns", "text",
    "plain", "anthropic", "gemini", "responses", "atif", "claude-code", "codex", "pi", "sts",
    "swe-agent", "openhands", "inspect",
)  # fmt: skip
OTHER = "other"  # a shape that is not read
DETECTABLE = (*NAMES, OTHER)
TEXTS = "text"  # texts that are serialised already
OPT_OUT = "_mypt_lint"  # the metadata key by which a record opts out of rules
AUTO, NATIVE = "auto", "native"  # find out; the records of a dialect
