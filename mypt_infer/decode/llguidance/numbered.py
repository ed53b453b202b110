"""Numbers places as they are reached, within a bound of bytes: the oldest are forgotten.

Input: places with keys and sizes. Output: numbers. States are integers, which say nothing when they
are dropped, so what they stand for cannot be freed with them. A server that runs for long reaches
more places than memory holds.

Theory of operation. When the room is used up, the older half of the places is forgotten, but for
those that are in use (`hold_used`) and those that younger ones come from (`before`): whoever goes
on from a state finds all of its past. A forgotten number is not used again before all others of a
long cycle were; whoever asks for it gets an error, not the answer for another place.

>>> numbered = Numbered[str, str](10, room=4)
>>> [numbered.number(key, key.upper(), 1) for key in "abcde"]
[10, 11, 12, 13, 14]
>>> numbered[13], numbered.number("d", "D", 1), len(numbered)
('D', 13, 3)
>>> numbered[10]
Traceback (most recent call last):
...
mypt_infer.decode.base.allow.ForgottenState: state 10 of the machine was forgotten: ...
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar
from weakref import WeakMethod

from mypt_infer.decode.base.allow import ForgottenState

_K = TypeVar("_K", bound=Hashable)
_P = TypeVar("_P")
# Numbers are used again after so many; a state packs them into 25 bits.
_CYCLE = 1 << 24
# The bytes of the places of one engine.
ROOM = 64 << 20


class Numbered(Generic[_K, _P]):
    """Places by number, from `first` on. `before` is the number that a place comes from, or -1.

    Whoever calls `number` holds a lock.
    """

    def __init__(
        self, first: int, *, room: int | None = None, before: Callable[[_P], int] | None = None
    ) -> None:
        self.first, self.size, self._before = first, 0, before
        self.room = ROOM if room is None else room
        self.numbers: dict[_K, int] = {}
        self._places: dict[int, tuple[_P, _K, int]] = {}
        self._next, self._limit = 0, self.room
        self._listeners: list[WeakMethod[Callable[[set[int]], None]]] = []
        self._holders: list[WeakMethod[Callable[[], Iterable[int]]]] = []

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, number: int) -> _P:
        entry = self._places.get(number)
        if entry is None:
            raise ForgottenState(
                f"state {number} of the machine was forgotten: {self.room >> 20} MB of states were "
                "reached since; start again from the prompt, or hold states that wait"
            )
        return entry[0]

    def on_forgetting(self, listener: Callable[[set[int]], None]) -> None:
        """Calls a method with the numbers whenever some are forgotten, as long as it lives."""
        self._listeners.append(WeakMethod(listener))

    def hold_used(self, used: Callable[[], Iterable[int]]) -> None:
        """Keeps the numbers that a method returns when places are forgotten, as long as it lives.

        Numbers that are not known have no effect.
        """
        self._holders.append(WeakMethod(used))

    def used_numbers(self) -> set[int]:
        methods = [method() for method in self._holders]
        return {n for used in methods if used is not None for n in used() if n in self._places}

    def number(self, key: _K, place: _P, size: int) -> int:
        """Returns the number of a place; `size` are its bytes, about."""
        number_of_key = self.numbers.get(key)
        if number_of_key is not None:
            return number_of_key
        if self.size + size > self._limit:
            self._forget(place)
        while (new := self.first + self._next % _CYCLE) in self._places:
            self._next += 1
        self._next += 1
        self._places[new] = place, key, size
        self.numbers[key] = new
        self.size += size
        return new

    def forget(self, numbers: set[int]) -> None:
        """Forgets places, and tells those who asked to be told."""
        for number in numbers:
            _, key, size = self._places.pop(number)
            del self.numbers[key]
            self.size -= size
        for listener in [method() for method in self._listeners]:
            if listener is not None:
                listener(numbers)
        self._listeners = [method for method in self._listeners if method() is not None]

    def drop(self, which: Callable[[_P], bool]) -> None:
        """Forgets the places of which `which` is true."""
        self.forget({n for n, (place, _, _) in self._places.items() if which(place)})

    def _forget(self, coming: _P) -> None:
        """Forgets the older half, but for what is in use, and what places that stay come from."""
        in_use = self.used_numbers()
        if self._before is not None:
            in_use.add(self._before(coming))
        room = 0
        for number in reversed(self._places):
            place, _, size = self._places[number]
            if room + size > self.room // 2 and number not in in_use:
                continue
            room += size
            in_use.add(number)
            if self._before is not None and (before := self._before(place)) >= 0:
                in_use.add(before)
        self.forget(set(self._places) - in_use)
        # What is kept may fill the room: then the next time comes when it has grown by half.
        self._limit = max(self.room, self.size + self.room // 2)
