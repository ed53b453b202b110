"""Kinds of faults of texts, of the set, and of tokens."""

# fmt: off
from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any

from bench.kinds.faults import add, whole
from bench.kinds.of_records import SYSTEM, call_changed, tools_changed
from bench.kinds.shapes import Record
from bench.kinds.texts import question, text

# --- texts

def _answer(change: Callable[[str], str]) -> Callable[[Record], None]:
    return lambda r: r["messages"][1].update(content=change(r["messages"][1]["content"]))

def _asked(change: Callable[[str], str]) -> Callable[[Record], None]:
    return lambda r: r["messages"][0].update(content=change(r["messages"][0]["content"]))

def _end(tail: str) -> Callable[[Record], None]:
    return _answer(lambda s: s + tail)

for name, token in {
    "ChatML's tag": "<|im_end|>", "Llama 3's tag": "<|eot_id|>", "Llama 2's tag": "[/INST]", "GPT-2's end": "<|endoftext|>",
    "Gemma's tag": "<end_of_turn>", "Mistral's end": "</s>", "DeepSeek's tag": "<｜Assistant｜>", "Harmony's tag": "<|channel|>",
    "Phi's tag": "<|assistant|>", "Command R's tag": "<|END_OF_TURN_TOKEN|>", "Qwen's vision tag": "<|vision_start|>",
    "padding token": "<|pad|>", "unknown special token": "<|reserved_special_token_5|>",
}.items():  # fmt: skip
    add("texts", "chat", f"{name} in an answer", _end(f" {token}\n"))
    if name in ("ChatML's tag", "Llama 2's tag"):
        add(
            "texts", "chat", f"{name} in a question", _asked(lambda s, token=token: f"{s} {token} ")
        )

add("texts", "chat", "tag with a space in it", _end(" <| im_end |>"))
add('texts', 'chat', 'ChatML conversation in an answer', _end('<|im_end|>\n<|im_start|>user\nThanks!<|im_end|>\n'))
add("texts", "chat", "role name at the start of an answer", _answer(lambda s: "Assistant: " + s))
add('texts', 'chat', 'next turn in an answer', _end('\n\nUser: And what about tea?\nAssistant: Tea is fine, too.'))
add('texts', 'chat', 'Human and Assistant in an answer', _end('\n\nHuman: And what about tea?\n\nAssistant: Tea is fine.'))
add('texts', 'chat', "Alpaca's header in an answer", _end('\n\n### Instruction:\nName three fruits.\n\n### Response:\nApple, pear, plum.'))
add('texts', 'chat', "Alpaca's prompt in a question", _asked(lambda s: f'Below is an instruction that describes a task. Write a response that appropriately completes the request.\n\n### Instruction:\n{s}\n\n### Response:\n'))
add("texts", "chat", "mojibake of accents", _end(" Le cafÃ© est trÃ¨s bon, voilÃ\xa0."))
add("texts", "chat", "mojibake of quotes", _end(" Itâ€™s fine, â€œreallyâ€\x9d."))
add("texts", "chat", "mojibake of umlauts", _end(" FÃ¼r GrÃ¶ÃŸe und StraÃŸe."))
add("texts", "chat", "replacement character", _end(" Caf\ufffd au lait."))
add("texts", "chat", "null character", _end(" end\x00"))
add("texts", "chat", "control character", _end(" a\x08b"))
add("texts", "chat", "ANSI escape", _end(" \x1b[31merror\x1b[0m"))
add("texts", "chat", "ANSI escape without its first character", _end(" [31mFAILED[0m tests"))
add("texts", "chat", "byte order mark in a text", _answer(lambda s: "\ufeff" + s))
add("texts", "chat", "zero-width space", _end(" wo\u200brd"))
add("texts", "chat", "right-to-left override", _end(" \u202eevil\u202c"))
add("texts", "chat", "invisible tag characters", _end(" \U000e0041\U000e0042\U000e0043"))
add("texts", "chat", "private use character", _end(" \ue000"))
add("texts", "chat", "soft hyphens", _end(" Donau\u00addampf\u00adschiff"))
add("texts", "chat", "HTML entities", _end(" Tom &amp;amp; Jerry said &quot;hi&quot; &lt;b&gt;"))
add('texts', 'chat', 'escaped line ends', _answer(lambda s: 'First line.\\nSecond line.\\n\\nThird line, the last one.\\n'))
add('texts', 'chat', 'escaped quotes', _answer(lambda s: 'She said \\"no\\" and \\"never\\" to him.'))
add("texts", "chat", "not NFC", _end(" cafe\u0301 re\u0301sume\u0301"))
add('texts', 'chat', 'homoglyphs', _answer(lambda s: 'The pаsswоrd is sеcret, and it stаys so.'))
PERSONAL = {
    "e-mail address": "Write to maria.keller82@gmx.net for details.",
    "phone number": "Call me at +49 171 9062853 after six.",
    "US phone number": "Call (415) 730-2896 today.",
    "IBAN": "Pay to GB16 LOYD 3096 1794 1680 42.",
    "card number": "My card is 4716 2210 5188 5662, valid to 11/27.",
    "social security number": "My SSN is 536-22-8726.",
    "IP address": "The server of Mr. Berg is 84.172.33.19.",
    "key of OpenAI": "Use sk-proj-Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4zAb7cDe0f.",
    "key of Anthropic": "Use sk-ant-api03-Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4zAb7cDe0fGh3iJk6lMn9oPq2r-AAAAAAAA.",
    "key of AWS": "aws_access_key_id = AKIAQ3EGRX7WZ5T2N4LD",
    "key of GitHub": "export TOKEN=ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
    "key of Hugging Face": "login with 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",
    "key of Google": "key=AIzaSyD4x9Kq7Lm2Np5Rt8Vw1Yz3Bc6Ef0Gh4Jk",
    "key of Slack": "SLACK=xox" + "b-8305719264-9172640385617-tQ7mZr2KxWb9LpVd4HsNfGya",
    "private key": "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7bq3kzVYx2n8s1d0Qm5TgWc9RfLhJ4pZvE6uNyKo\nXa8iDbCe2HwS7tMrF1lGqP0jU3nOVzAk\n-----END RSA PRIVATE KEY-----",
    "JSON web token": "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiI5ODc2NSIsIm5hbWUiOiJKYW5lIn0.aB3dE6gH9jK2mN5pQ8sT1vW4yZ7cF0hJ6kL3xR5uY8o",
    "password in a URL": "postgres://admin:Tr0ub4dor3@db.internal.acme.io:5432/prod",
}

for name, line in PERSONAL.items():
    add("texts", "chat", name, _end("\n" + line))

PHRASES = {
    "AI language model": "As an AI language model, I do not have personal opinions.",
    "name of another model": "I am ChatGPT, a large language model trained by OpenAI.",
    "knowledge cutoff": "My knowledge cutoff is September 2021, so I cannot say.",
    "refusal": "I'm sorry, but I can't assist with that request.",
    "rate limit error": "Error: Rate limit reached for gpt-4 in organization org-x. Please try again in 20s.",
    "HTTP error": "HTTP 502 Bad Gateway",
    "traceback": "Traceback (most recent call last):\n  File \"gen.py\", line 12, in <module>\n    main()\nKeyError: 'choices'",
    "None": "None",
    "null": "null",
    "nan": "nan",
    "undefined": "undefined",
    "[object Object]": "[object Object]",
    "N/A": "N/A",
    "lorem ipsum": "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor.",
    "TODO": "TODO: write the answer",
    "placeholder in double braces": "Dear {{name}}, your order {{order_id}} has been sent.",
    "placeholder in braces": "Dear {name}, your order {order_id} has been sent.",
    "placeholder of a shell": "Dear ${name}, your order ${order_id} has been sent.",
    "placeholder in brackets": "Dear [Your Name],\n\nthank you for the order.\n\n[Your Company]",
    "placeholder for a key": "Authorization: Bearer <YOUR_API_KEY>",
    "generator's opening": "Sure! Here is the rewritten response:\n\nThe train leaves at nine.",
    "note of the generator": "The train leaves at nine.\n\n(Note: this is a fictional example generated for training.)",
    "citation mark": "The train leaves at nine【4†source】.",
    "end of a stream": "The train leaves at nine.\ndata: [DONE]",
    "web page's boilerplate": "Accept all cookies\nLog in\nSign up\nPrivacy policy\nTerms of service",
    "loop of a phrase": "I think so, " + "and then it goes on, " * 40,
    "loop of lines": "Steps:\n" + "- check the cable\n" * 30,
    "one character": "a" * 400,
    "one word": "yes " * 120,
    "cut in a word": "The main difference between the two is that the first one needs a restart, whereas the sec",
    "cut in a code block": "Here is the code:\n\n```python\ndef area(r):\n    return 3.14 *",
    "JSON in a code fence": '```json\n{"city": "Oslo"}\n```',
    "base64": "iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4" * 12,
    "number only": "17",
    "punctuation only": "...",
    "another script": "Это ответ на совсем другом языке, который никто здесь не спрашивал и не ожидал увидеть.",
}

for name, line in PHRASES.items():
    if name == "another script":
        add(
            "texts",
            "chat",
            "answer in another script",
            lambda r: r.update(
                messages=[
                    {
                        "role": "user",
                        "content": "What is the best way to learn to swim as an adult? I live close to a lake.",
                    },
                    {"role": "assistant", "content": PHRASES["another script"]},
                ]
            ),
        )
    else:
        add(
            "texts",
            "chat",
            f"answer: {name}",
            lambda r, line=line: r["messages"][1].update(content=line),
        )

add('texts', 'chat', 'answer not JSON where it must be', lambda r: r.update(response_format={'type': 'json_object'}))
add("texts", "chat", "white space around an answer", _answer(lambda s: f"  {s} \n\n"))
# --- the set

def _again(change: Callable[[Record], Any]) -> Callable[[list[Any], random.Random], None]:
    def planted(records: list[Any], rng: random.Random) -> None:
        again = copy.deepcopy(records[4])
        change(again)
        records.insert(30, again)

    return planted

def _near(record: Record) -> None:
    words = record["messages"][1]["content"].split(" ")
    words[len(words) // 2] = "perhaps"
    record["messages"][1]["content"] = " ".join(words)

def _long_texts(change: Callable[[Record], Any]) -> Callable[[list[Any], random.Random], None]:
    def planted(records: list[Any], rng: random.Random) -> None:
        records[4]["messages"][0]["content"] = question(rng) + " " + text(rng, 300)
        records[4]["messages"][1]["content"] = text(rng, 900)
        _again(change)(records, rng)

    return planted

whole("set", "chat", "duplicate", _again(lambda r: None))
whole('set', 'chat', 'duplicate but for case', _again(lambda r: r['messages'][1].update(content=r['messages'][1]['content'].lower())))
whole('set', 'chat', 'duplicate but for white space', _again(lambda r: r['messages'][1].update(content=r['messages'][1]['content'] + '  \n')))
whole("set", "chat", "duplicate but for metadata", _again(lambda r: r.update(id="b-17")))
whole("set", "chat", "near duplicate", _long_texts(_near))
whole('set', 'chat', 'same question, other answer', _again(lambda r: r['messages'][1].update(content='No, it is quite another thing.')))
whole('set', 'chat', 'same question but for case, other answer', _again(lambda r: (r['messages'][0].update(content=r['messages'][0]['content'].upper()), r['messages'][1].update(content='No, it is quite another thing.'))[0]))
whole('set', 'turns', 'same history, other answer in a turn', _again(lambda r: r['messages'][-3].update(content='No, it is quite another thing.')))
whole('set', 'chat', 'same answer everywhere', lambda rs, _: [r['messages'][1].update(content='Thank you, we have received your message.') for r in rs] and None)
whole('set', 'chat', 'same answer in a third', lambda rs, _: [r['messages'][1].update(content='I do not know the answer to this one.') for r in rs[::3]] and None)
whole('set', 'chat', 'answers pile up at one length', lambda rs, rng: [r['messages'][1].update(content=text(rng, 1400)[:1024]) for r in rs[::2]] and None, rows=200)
whole('set', 'chat', 'refusals in a third', lambda rs, rng: [r['messages'][1].update(content=f"I'm sorry, but I can't help with that. {text(rng, 40)}") for r in rs[::3]] and None)
whole('set', 'chat', 'openings all alike', lambda rs, rng: [r['messages'][1].update(content=f"Certainly! {r['messages'][1]['content']}") for r in rs] and None)
whole('set', 'turns', 'system prompt missing in a few', lambda rs, rng: [r['messages'].insert(0, SYSTEM) for r in rs if r['messages'][0]['role'] != 'system'] and rs[7]['messages'].pop(0) and None)
whole('set', 'chat', 'common key missing in a few', lambda rs, _: [r.update(source='faq') for r in rs[:-1]] and None)
whole('set', 'chat', 'common key null in a few', lambda rs, _: [r.update(source='faq') for r in rs] and rs[5].update(source=None))
whole('set', 'chat', 'key of mixed types', lambda rs, _: [r.update(turn_id=i) for i, r in enumerate(rs)] and rs[5].update(turn_id='5'))
whole("set", "kto", "one label", lambda rs, _: [r.update(label=True) for r in rs] and None)
whole('set', 'kto', 'few of one label', lambda rs, _: [r.update(label=i > 0) for i, r in enumerate(rs)] and None, rows=200)
whole('set', 'preference', 'chosen is longer', lambda rs, rng: [r.update(chosen=[{'role': 'assistant', 'content': text(rng, 900)}], rejected=[{'role': 'assistant', 'content': text(rng, 100)}]) for r in rs] and None, rows=200)
whole('set', 'preference', 'same pair the other way round', lambda rs, _: rs.append(rs[3] | {'chosen': rs[3]['rejected'], 'rejected': rs[3]['chosen']}))
whole('set', 'kto', 'same answer, both labels', lambda rs, _: rs.append(rs[3] | {'label': not rs[3]['label']}))
whole('set', 'one_tool', 'tools text in some, list in others', lambda rs, _: [r.update(tools=json.dumps(r['tools'])) for r in rs[::2]] and None)
whole('set', 'one_tool', 'arguments object in some, text in others', lambda rs, _: [call_changed(lambda c: c['function'].update(arguments=json.loads(c['function']['arguments'])))(r) for r in rs[::2]] and None)
whole('set', 'one_tool', 'one name, two schemas', lambda rs, _: [tools_changed(lambda ts: ts[0]['function']['parameters']['properties'].update(country={'type': 'string'}))(r) for r in rs[::2]] and None)
whole("set", "chat", "few records", lambda rs, _: rs[:3])
EVALUATION = [
    "A bakery sells nine kinds of bread and four kinds of cake, and each customer buys exactly two different things; in how many ways can one choose?",
]

whole('set', 'chat', 'evaluation question', lambda rs, _: rs.insert(9, {'messages': [{'role': 'user', 'content': EVALUATION[0]}, {'role': 'assistant', 'content': 'It is about the same, I would say.'}]}))
whole('set', 'chat', 'evaluation question, reworded', lambda rs, _: rs.insert(9, {'messages': [{'role': 'user', 'content': EVALUATION[0].replace('bakery', 'shop', 1)}, {'role': 'assistant', 'content': 'It is about the same, I would say.'}]}))
whole('set', 'chat', 'evaluation question inside a longer one', lambda rs, rng: rs.insert(9, {'messages': [{'role': 'user', 'content': f'Solve this. {EVALUATION[0]} Show all steps. {text(rng, 100)}'}, {'role': 'assistant', 'content': 'It is about the same, I would say.'}]}))
whole('set', 'chat', 'evaluation question in history', lambda rs, rng: rs.insert(9, {'messages': [{'role': 'user', 'content': 'Hello there.'}, {'role': 'assistant', 'content': 'Hello, what can I do for you?'}, {'role': 'user', 'content': EVALUATION[0]}, {'role': 'assistant', 'content': 'It is about the same, I would say.'}]}))
whole('set', 'chat', 'evaluation answer', lambda rs, _: rs.insert(9, {'messages': [{'role': 'user', 'content': 'Write something on bread.'}, {'role': 'assistant', 'content': EVALUATION[0]}]}))
whole('set', 'chat', 'question of a public benchmark', lambda rs, _: rs.insert(9, {'messages': [{'role': 'user', 'content': 'Janet’s ducks lay 16 eggs per day. She eats three for breakfast every morning and bakes muffins for her friends every day with four. She sells the remainder at the farmers\' market daily for $2 per fresh duck egg. How much in dollars does she make every day at the farmers\' market?'}, {'role': 'assistant', 'content': 'She makes 18 dollars.'}]}))
# --- tokens and the model

add('tokens', 'chat', "longer than the model's context", _answer(lambda s: text(random.Random(1), 60000)))
add('tokens', 'chat', 'question alone fills the context', _asked(lambda s: text(random.Random(2), 60000)))
add("tokens", "chat", "special token as text", _end(" <|im_start|>"))
add('tokens', 'turns', 'the template refuses it', lambda r: r['messages'].insert(2, {'role': 'critic', 'content': 'That was right.'}))
