"""Family 1, schema: the shape of a record."""

from __future__ import annotations

from mypt_spec.findings import rule


@rule("MYP101", "record-not-an-object")
class RecordNotAnObject:
    """A line is JSON, but not an object."""


@rule("MYP102", "missing-key")
class MissingKey:
    """A required key is missing."""


@rule("MYP103", "unknown-key")
class UnknownKey:
    """A key that the format does not have."""


@rule("MYP104", "wrong-type")
class WrongType:
    """A value has another JSON type than the format wants."""


@rule("MYP105", "unknown-role")
class UnknownRole:
    """A message has a role that the format does not have."""


@rule("MYP107", "no-messages")
class NoMessages:
    """A conversation has no messages."""


@rule("MYP108", "role-system-in-messages")
class RoleSystemInMessages:
    """The system prompt stands among the messages."""


@rule("MYP109", "role-alias")
class RoleAlias:
    """A role goes by a name that other formats use."""


@rule("MYP110", "object-as-string")
class ObjectAsString:
    """An object is written as a JSON string."""


@rule("MYP111", "language-tag", "warning")
class LanguageTag:
    """The language is no BCP 47 tag."""
