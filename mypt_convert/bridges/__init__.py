"""Turns canonical records into steps and back, one file a dialect, for conversion.

Apart from the adapters, this is the only code that knows a dialect's JSON.
"""

from __future__ import annotations

from importlib import import_module
from typing import cast

from mypt_convert.bridges.steps import Bridge
from mypt_spec.adapters.declared import Declared
from mypt_spec.adapters.messages import Messages
from mypt_spec.dialect import detectable_dialects, dialect, dialects, folder, is_folder

_NEEDED = {"user": "user", "text": "assistant"}  # kinds of steps, and the roles that say them


def bridge_of(name: str) -> Bridge:
    """Returns the bridge of a dialect. Raises KeyError for one whose records have none."""
    module = folder(name).name
    if name in dialects() and name not in detectable_dialects():
        from mypt_convert.bridges.messages import MessageBridge

        return MessageBridge.of(dialect(name))
    if is_folder(name) or name not in dialects():
        return _bridge_of_custom(name)
    try:
        return cast(Bridge, import_module(f"{__name__}.{module}"))
    except ModuleNotFoundError:
        raise KeyError(
            f"no bridge for {name!r}: records of this dialect cannot be converted"
        ) from None


def _bridge_of_custom(name: str) -> Bridge:
    """Returns the bridge of a format of one's own, which its `records.toml` describes."""
    from mypt_convert.bridges.messages import MessageBridge
    from mypt_convert.bridges.own import OwnBridge

    custom = dialect(name)
    if isinstance(custom.adapter, Messages):
        return MessageBridge.of(custom)
    if isinstance(custom.adapter, Declared):
        bridge = OwnBridge.of(custom.adapter.SCHEMA)
        if missing := [role for kind, role in _NEEDED.items() if kind not in bridge.roles]:
            listed = " and ".join(missing)
            raise KeyError(f'{name}: no role of its records is {listed}; say so in its "aliases"')
        return bridge
    raise KeyError(f"{name}: records that an adapter.py reads cannot be converted")
