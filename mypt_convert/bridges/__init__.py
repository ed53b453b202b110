"""Turns canonical records into steps and back, for conversion.

A dialect has a file here unless its schema says enough (own.py). Apart from the adapters, this is
the only code that knows a dialect's JSON.
"""

from contextlib import suppress
from importlib import import_module

from mypt_convert.bridges.steps import Bridge
from mypt_spec.adapters.declared import Declared
from mypt_spec.adapters.messages import Messages
from mypt_spec.dialect import detectable_dialects, dialect, dialects, folder

_NEEDED = {"user": "user", "text": "assistant"}  # kinds of steps, and the roles that say them


def bridge_of(name: str) -> Bridge:
    """Returns the bridge of a dialect. Raises KeyError for one whose records have none."""
    from mypt_convert.bridges.messages import MessageBridge
    from mypt_convert.bridges.own import OwnBridge

    has_code = name in detectable_dialects()
    if has_code:
        with suppress(ModuleNotFoundError):
            bridge: Bridge = import_module(f"{__name__}.{folder(name).name}").BRIDGE
            return bridge
    declared = dialect(name)
    if not has_code and (name in dialects() or isinstance(declared.adapter, Messages)):
        return MessageBridge.of(declared)
    if not (has_code or isinstance(declared.adapter, Declared)):
        raise KeyError(f"{name}: records that an adapter.py reads cannot be converted")
    bridge = OwnBridge.of(declared.adapter.SCHEMA)
    if missing := [role for kind, role in _NEEDED.items() if kind not in bridge.roles]:
        listed = " and ".join(missing)
        raise KeyError(f'{name}: no role of its records is {listed}; say so in its "aliases"')
    return bridge
