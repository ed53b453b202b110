"""Family 7, generation: what a model wrote, read as the continuation of a prompt."""

from __future__ import annotations

from mypt_spec.findings import rule


@rule("MYP701", "unfinished-generation", "info")
class UnfinishedGeneration:
    """A generation is legal so far, but not complete."""


@rule("MYP702", "injected-tag-generated")
class InjectedTagGenerated:
    """A model wrote a tag that only the system may write."""


@rule("MYP703", "generation-past-end")
class GenerationPastEnd:
    """A model went on after the end of its turn."""
