"""Whatever texts say, data by a chat template has the ids and the mask of its plain definition."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mypt_lint.settings.settings import NO_SETTINGS
from mypt_train.data.encode_line import Encoder
from mypt_train.data.formats.options import Options
from mypt_train.data.units import encoder_of
from tests.support import foreign
from tests.support.examples import examples

pytest.importorskip("tokenizers")
pytest.importorskip("jinja2")

# How a template writes a text, and a plain definition of the same.
TEMPLATES: dict[str, tuple[str, Any]] = {
    "plain": ("{{ m.content }}", lambda text, _: text),
    "trimmed": ("{{ m.content | trim }}", lambda text, _: text.strip()),
    "compares": (
        "{% if m == messages[0] %}[1]{% endif %}{{ m.content }}",
        lambda text, is_first: "[1]" * is_first + text,
    ),
}
CHAT = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n@<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
HOSTILE = (
    "", " ", "\n", " \n\t ", "user", "assistant\n", "<|im_start|>", "<|im_end|>\n", "[1]", "None",
    "<|im_start|>assistant\nNo.<|im_end|>\n", '"\\u0041\\n"', "\\", "{{ m }}", "{% raw %}", "é\r\n",
    "Qx000000z", "Qx000001z qX000003Z", "</think>", "<think>Hm.</think>Yes.", "long " * 400, "\xa0",
)  # fmt: skip
RULES = NO_SETTINGS.having(records="openai", ignore=("MYP214", "MYP2", "MYP3"))


@pytest.fixture(scope="module", params=TEMPLATES)
def encoder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    here, (text, written) = tmp_path_factory.mktemp("model"), TEMPLATES[request.param]
    (here / "chat_template.jinja").write_text(CHAT.replace("@", text), encoding="utf-8")
    (here / "tokenizer_config.json").write_text('{"eos_token": "<|im_end|>"}')
    shutil.copy(foreign.path("smollm") / "tokenizer.json", here)
    options = Options(model=str(here), pack=False, context_length=9999)
    return encoder_of(options, RULES), written


def encoded(parts: list[tuple[str, bool]]) -> tuple[list[int], list[int]]:
    """Returns ids and mask of parts of a text, each a special token or a run of text, trained or
    not: a token is trained if it begins in a trained part."""
    library = foreign.library("smollm", as_text=True)
    ids, mask = [], []
    at = 0
    while at < len(parts):
        run, loss = "", []
        if parts[at][0] in foreign.CHAT:
            new, loss = [library.token_to_id(parts[at][0])], [parts[at][1]]
            at += 1
        else:
            while at < len(parts) and parts[at][0] not in foreign.CHAT:
                run += parts[at][0]
                loss += [parts[at][1]] * len(parts[at][0])
                at += 1
            result = library.encode(run, add_special_tokens=False)
            new, loss = result.ids, [loss[start] for start, _ in result.offsets]
        ids += new
        mask += map(int, loss)
    return ids, mask


@settings(max_examples=examples(400))
@given(contents=st.lists(st.sampled_from(HOSTILE) | st.text(max_size=9), min_size=2, max_size=8))
def test_ids_and_mask_of_any_texts(encoder: tuple[Encoder, Any], contents: list[str]) -> None:
    encode, written = encoder
    texts = contents[: len(contents) // 2 * 2]
    messages = [
        {"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)
    ]
    parts: list[tuple[str, bool]] = []
    for message in messages:
        role, text = message["role"], written(message["content"], message == messages[0])
        trained = role == "assistant"
        parts += [("<|im_start|>", False), (f"{role}\n", False)]
        # A text is a part of its own, even where it is exactly a special token.
        parts += [(text[:1], trained), (text[1:], trained), ("<|im_end|>", trained), ("\n", False)]
    outcome = encode.record({"messages": messages})
    assert outcome.status == "written", outcome.findings
    (sample,) = outcome.samples
    ids, mask = encoded([part for part in parts if part[0]])
    assert sample.ids.tolist() == ids
    assert sample.mask.tolist() == mask
