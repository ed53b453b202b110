"""Legal records of gabgpt."""

from __future__ import annotations

from random import Random

from tests.support.build import assistant, chat, user
from tests.support.maker import Maker, Record

NAME = "gabgpt"


def record(random: Random, clean: bool = True) -> Record:
    make = Maker(random, NAME, clean=clean)
    messages: list[Record] = []
    for _ in make.some(1, 4):
        thought = {"think": make.text(empty=5)} if make.one_in(2) else {}
        messages += [user(make.text(empty=5)), assistant(make.text(empty=5), **thought)]
    return make.note(chat(*messages))
