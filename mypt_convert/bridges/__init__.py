"""Turns canonical records into steps and back, one file a dialect, for conversion.

Apart from the adapters, this is the only code that knows a dialect's JSON.
"""

from importlib import import_module

from mypt_convert.bridges.steps import Bridge
from mypt_spec.adapters.declared import Declared
from mypt_spec.adapters.messages import Messages
from mypt_spec.dialect import detectable_dialects, dialect, dialects, folder

_NEEDED = {"user": "user", "text": "assistant"}  # kinds of steps, and the roles that say them


def bridge_of(name: str) -> Bridge:
    """Returns the bridge of a dialect. Raises KeyError for one whose records have none."""
    if name in detectable_dialects():
        try:
            bridge: Bridge = import_module(f"{__name__}.{folder(name).name}").BRIDGE
        except ModuleNotFoundError:
            raise KeyError(
                f"no bridge for {name!r}: records of this dialect cannot be converted"
            ) from None
        return bridge
    from mypt_convert.bridges.messages import MessageBridge
    from mypt_convert.bridges.own import OwnBridge

    declared = dialect(name)
    if name in dialects() or isinstance(declared.adapter, Messages):
        return MessageBridge.of(declared)
    if not isinstance(declared.adapter, Declared):
        raise KeyError(f"{name}: records that an adapter.py reads cannot be converted")
    bridge = OwnBridge.of(declared.adapter.SCHEMA)
    if missing := [role for kind, role in _NEEDED.items() if kind not in bridge.roles]:
        listed = " and ".join(missing)
        raise KeyError(f'{name}: no role of its records is {listed}; say so in its "aliases"')
    return bridge
