"""Answers requests: parameters in, jobs for the rows, and what they tell on its way back.

Input: the parameters of a request. Output: `Running`, the answers of one request as they grow.
Prompts and decoders are made in threads beside the server's loop, which is never kept waiting.
"""

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from mypt_infer.decode import BudgetError, PromptError
from mypt_infer.generate.llama import Llama
from mypt_infer.generate.loop import check_vocabulary
from mypt_infer.generate.opened import read_prompt
from mypt_infer.generate.sample import Sampling
from mypt_infer.run_format import format_of
from mypt_infer.serve.answers import Answer, ChatAnswer, Json, TextAnswer
from mypt_infer.serve.asked.decoders import (
    Choice,
    Decoders,
    Ready,
    Recipe,
    check_strict,
    choice_of,
    response_of,
)
from mypt_infer.serve.asked.errors import ONCE, ApiError
from mypt_infer.serve.asked.names import Names
from mypt_infer.serve.asked.parameters import Chat, Completion
from mypt_infer.serve.asked.prompts import Prompt, Prompter
from mypt_infer.serve.compiles import Compiles
from mypt_infer.serve.jobs import Failed, Job, Update
from mypt_infer.serve.rows import Rows
from mypt_spec import Dialect

_LOG = logging.getLogger("mypt-serve")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of a server.

    `rows` answers are drawn at once, `queue` more may wait. `compiles` decoders are compiled at
    once, and `queue` more may wait. `new_tokens` is the budget of a request
    that names none. `seconds` is the time of a request. `body` is the most bytes of one.
    """

    rows: int = 16
    queue: int = 64
    compiles: int = 8
    new_tokens: int = 512
    seconds: float = 300.0
    body: int = 8 << 20


@dataclass(eq=False)
class Running:
    """The answers of one request as they grow; iterate it once, and close it."""

    prompts: list[Prompt]
    answers: list[Answer]
    jobs: list[Job]
    updates: asyncio.Queue[tuple[int, Update]]
    first: tuple[int, Update] | None = None

    async def wait(self) -> None:
        """Waits until the first answer begins. Raises ApiError if it cannot."""
        self.first = await self.updates.get()
        if isinstance(self.first[1], Failed):
            self.close()
            raise refusal(self.first[1].error)

    async def steps(self) -> AsyncIterator[tuple[int, Update, list[Json]]]:
        """Yields for each step the number of the answer, what was told, and the new choices.

        Raises ApiError where an answer fails.
        """
        remaining = len(self.answers)
        while remaining:
            at, update = self.first if self.first is not None else await self.updates.get()
            self.first = None
            answer = self.answers[at]
            if isinstance(update, Failed):
                self.close()
                raise refusal(update.error)
            if answer.reason:
                continue  # it has stopped at a text, and the model did not know yet
            new = answer.take(update)
            if answer.reason:
                self.jobs[at].cancelled = True
                remaining -= 1
            yield at, update, new

    def close(self) -> None:
        """Lets the model stop, if nobody waits any more."""
        for job in self.jobs:
            job.cancelled = True


class Service:
    """A model, and all that its requests share. `name` is the model's name for clients."""

    def __init__(
        self,
        model: Llama,
        dialect: Dialect,
        *,
        name: str,
        folder: str | None = None,
        system: str | None = None,
        history: str = "official",
        tools: Sequence[str] = (),
        limits: Limits | None = None,
        device: str = "cpu",
    ) -> None:
        self.dialect, self.format, self.name = dialect, format_of(dialect), name
        self._history = history
        self.limits, self._tools = limits or Limits(), tuple(tools)
        self.began = int(time.time())
        self.decoders = Decoders(dialect)
        self.prompter = Prompter(dialect, folder or dialect.name, system=system, history=history)
        self.plain = self.decoders.get(Recipe((), Choice("none")))
        check_vocabulary(model, self.plain.decoder)
        most, queue = self.limits.rows, self.limits.queue
        self.rows = Rows(model, most=most, queue=queue, device=device)
        # Converters and parsers keep what they have seen: one thread, so nothing is shared.
        self._prompts = ThreadPoolExecutor(1)
        self._compiles = Compiles(self.decoders, most=self.limits.compiles, queue=queue)

    def start(self) -> None:
        """Starts to draw."""
        self.rows.start()

    def close(self) -> None:
        """Stops drawing; who still waits is told."""
        self._compiles.close()
        self.rows.close()
        self._prompts.shutdown(cancel_futures=True)

    async def chat(self, params: Chat) -> Running:
        """Returns the answers to a request of /v1/chat/completions. Raises ApiError."""
        self.check_model(params.model)
        names = Names(self._tools)
        tools = names.tools(params.tools or ())
        tool_names = [_name(tool, at) for at, tool in enumerate(tools)]
        check_strict(tools)
        choice = choice_of(params.tool_choice, tool_names, names.inner)
        response = response_of(params.response_format)
        single = params.parallel_tool_calls is False and bool(tools)
        if single and self.format.lists:
            raise ApiError(
                f"in {self.dialect.name} one block holds several calls: leave it out",
                param="parallel_tool_calls",
            )
        recipe = Recipe(tools, choice, response, think=params.thoughts != 0)
        loop = asyncio.get_running_loop()
        messages = names.messages(params.messages)
        prompt_arguments = (messages, tools, params.chat_template_kwargs)
        prompt = await loop.run_in_executor(self._prompts, self.prompter.prompt, *prompt_arguments)
        ready = await self._ready(recipe, params)
        most = params.max_completion_tokens or params.max_tokens
        top = (params.top_logprobs or 0) if params.logprobs else None
        logs = top is not None
        answers: list[Answer] = [
            ChatAnswer(self.format, prompt.ids, names, params.stops, logprobs=logs, single=single)
            for _ in range(params.choices)
        ]
        return self._run(params, [prompt] * params.choices, answers, ready, most, top)

    async def complete(self, params: Completion) -> Running:
        """Returns the answers to a request of /v1/completions. Raises ApiError."""
        self.check_model(params.model)
        loop = asyncio.get_running_loop()
        parsed = [
            await loop.run_in_executor(self._prompts, self._ids, one) for one in params.prompts
        ]
        bounds = [(params.tools or own, choice) for _, own, choice in parsed]
        if any(bound != bounds[0] for bound in bounds):
            problem = "the prompts have other tools or tool_choice: send each in its own request"
            raise ApiError(problem, param="prompt")
        tools = Names(self._tools if params.tools else ()).tools(bounds[0][0])
        tool_names = [_name(tool, at) for at, tool in enumerate(tools)]
        check_strict(tools)
        choice = choice_of(bounds[0][1], tool_names, str)
        recipe = Recipe(tools, choice, think=params.thoughts != 0)
        ready = await self._ready(recipe, params)
        prompts = [prompt for prompt, *_ in parsed for _ in range(params.choices)]
        answers: list[Answer] = [
            TextAnswer(self.dialect, params.stops, logprobs=params.logprobs is not None)
            for _ in prompts
        ]
        return self._run(params, prompts, answers, ready, params.max_tokens, params.logprobs)

    async def _ready(self, recipe: Recipe, params: Chat | Completion) -> Ready:
        """Returns the decoder of a request, with that of its budget. Raises ApiError."""
        ready = await self._compiles.ready(recipe, self.limits.seconds)
        if params.thoughts is not None:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._prompts, lambda: ready.thoughts)
        return ready

    def _ids(self, prompt: str | list[int]) -> tuple[Prompt, list[Any], Any]:
        """Returns a prompt, and the tools and `tool_choice` of one that is a record."""
        if isinstance(prompt, list):
            return Prompt([*prompt], frozenset()), [], None
        try:
            ids, tools, choice = read_prompt(self.dialect, prompt, self._history)
        except ValueError as error:
            raise ApiError(f"prompt: {error}", param="prompt") from None
        tools = [t if "function" in t else {"type": "function", "function": t} for t in tools]
        return Prompt(ids, frozenset()), tools, choice

    def check_model(self, name: str) -> None:
        """Raises ApiError for the name of another model."""
        if name != self.name:
            raise ApiError(
                f"the model {name!r} is not here; this server has {self.name!r}",
                status=404,
                param="model",
                code="model_not_found",
            )

    def _run(
        self,
        params: Chat | Completion,
        prompts: list[Prompt],
        answers: list[Answer],
        ready: Ready,
        most: int | None,
        top: int | None,
    ) -> Running:
        loop, updates = asyncio.get_running_loop(), asyncio.Queue[tuple[int, Update]]()
        sampling = Sampling(
            temperature=1.0 if params.temperature is None else params.temperature,
            top_k=params.top_k,
            top_p=params.top_p,
            greedy_calls=False,
        )
        jobs = []
        for at, prompt in enumerate(prompts):

            def notify(update: Update, at: int = at) -> None:
                if not loop.is_closed():
                    loop.call_soon_threadsafe(updates.put_nowait, (at, update))

            job = Job(
                prompt,
                ready,
                self._room(len(prompt.ids), most),
                sampling,
                notify,
                seed=None if params.seed is None else f"{params.seed} {at}",
                top=top,
                thoughts=params.thoughts,
                deadline=time.monotonic() + self.limits.seconds,
            )
            jobs.append(job)
        self.rows.put(*jobs)
        return Running(prompts, answers, jobs, updates)

    def _room(self, prompt: int, most: int | None) -> int:
        """Returns the budget of an answer. Raises ApiError where the model has no room for it."""
        room = self.rows.positions - prompt if self.rows.positions is not None else 1 << 19
        least = most if most is not None else 1
        if least > room:
            raise ApiError(
                f"the model has {self.rows.positions} positions; the prompt has {prompt} tokens, "
                f"and the answer may have {least}",
                param="messages" if most is None else "max_tokens",
                code="context_length_exceeded",
            )
        return min(room, self.limits.new_tokens) if most is None else most


def refusal(error: Exception) -> ApiError:
    """Returns the answer to a request that failed."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, BudgetError):
        message = f"{error}: max_tokens of {error.minimum} would do"
        return ApiError(message, param="max_tokens", code="max_tokens_too_small")
    if isinstance(error, PromptError):
        return ApiError(str(error), param="messages")
    _LOG.error("a request failed", exc_info=error)
    message = "the server failed at this request; its log says why"
    return ApiError(message, status=500, kind="server_error", headers=ONCE)


def _name(tool: Any, at: int) -> str:
    function = tool.get("function") if isinstance(tool, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if tool.get("type") != "function" or not isinstance(name, str) or not name:
        expected = 'expected {"type": "function", "function": {"name": ..., "parameters": {...}}}'
        raise ApiError(f"tools[{at}]: {expected}", param=f"tools[{at}]")
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name):  # a dot is in names that models have learnt
        expected = f"the name {name[:70]!r}: use letters, digits, _ and -, at most 64 of them"
        raise ApiError(f"tools[{at}]: {expected}", param=f"tools[{at}].function.name")
    return name
