"""Kinds of faults of files, turns, tools and thoughts."""

# fmt: off
from __future__ import annotations

import copy
import gzip
import json
import random
from collections.abc import Callable
from typing import Any

from bench.kinds import shapes
from bench.kinds.faults import add, as_bytes, whole
from bench.kinds.shapes import Record
from bench.kinds.texts import text

# --- files

def _line(change: Callable[[str], str]) -> Callable[[Record], str]:
    return lambda record: change(json.dumps(record, ensure_ascii=False))

add("file", "chat", "closing brace missing", _line(lambda s: s[:-1]))
add("file", "chat", "trailing comma", _line(lambda s: s[:-1] + ",}"))
add("file", "chat", "Python dictionary", repr)
add("file", "chat", "two records in a line", _line(lambda s: s + s))
add("file", "chat", "comma between records", _line(lambda s: s + ","))
add("file", "chat", "comment line", lambda r: "// " + json.dumps(r))
add("file", "chat", "log line", lambda r: "2026-11-03 14:02:11,338 INFO worker-3 wrote 500 rows")
add("file", "chat", "generator's prose between records", lambda r: "Here are 5 more examples:")
add("file", "chat", "code fence between records", lambda r: "```json")
add("file", "chat", "NaN", lambda r: r.update(score=float("nan")))
add("file", "chat", "Infinity", lambda r: r.update(score=float("inf")))
add("file", "chat", "duplicate key", _line(lambda s: s[:-1] + ', "messages": []}'))
add('file', 'chat', 'lone surrogate', _line(lambda s: s.replace('"content": "', '"content": "\\ud83d ', 1)))
add("file", "chat", "list as a record", lambda r: r["messages"])
add("file", "chat", "string as a record", lambda r: json.dumps(json.dumps(r)))
add("file", "chat", "null as a record", lambda r: "null")
add("file", "chat", "number as a record", lambda r: "17")
add("file", "chat", "empty object", lambda r: "{}")
add("file", "chat", "blank line", lambda r: "")
add('file', 'chat', 'telemetry record', lambda r: {'ts': 1730, 'level': 'info', 'event': 'flush', 'rows': 12})
add("file", "chat", "nested too deep", lambda r: r.update(x=json.loads("[" * 400 + "]" * 400)))
add("file", "chat", "raw line end in a string", _line(lambda s: s.replace(" ", "\n", 3)))
add('file', 'chat', 'raw tab in a string', _line(lambda s: s.replace('content": "', 'content": "\t\x01', 1)))
add('file', 'chat', 'line separator', _line(lambda s: s.replace('content": "', 'content": "\u2028', 1)))
whole('file', 'chat', 'Latin-1', lambda rs, _: as_bytes([*rs, {'messages': [{'role': 'user', 'content': 'Café crème?'}, {'role': 'assistant', 'content': 'Oui, très bon.'}]}]).decode().encode('latin-1', 'replace'))
whole("file", "chat", "UTF-16", lambda rs, _: as_bytes(rs).decode().encode("utf-16"))
whole("file", "chat", "byte order mark", lambda rs, _: b"\xef\xbb\xbf" + as_bytes(rs))
whole("file", "chat", "CRLF", lambda rs, _: as_bytes(rs).replace(b"\n", b"\r\n"))
whole("file", "chat", "empty file", lambda rs, _: b"")
whole("file", "chat", "cut at the end", lambda rs, _: as_bytes(rs)[:-200])
whole('file', 'chat', 'indented JSON', lambda rs, _: '\n'.join(json.dumps(r, indent=2) for r in rs).encode())
whole("file", "chat", "array without its end", lambda rs, _: json.dumps(rs).encode()[:-1], ".json")
whole("file", "chat", "array in .jsonl, cut", lambda rs, _: json.dumps(rs).encode()[:-400])
whole('file', 'chat', 'HTML page', lambda rs, _: b'<!DOCTYPE html>\n<html><head><title>403 Forbidden</title></head></html>\n')
whole('file', 'chat', 'LFS pointer', lambda rs, _: b'version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n')
whole("file", "chat", "gzip cut off", lambda rs, _: gzip.compress(as_bytes(rs))[:-40], ".jsonl.gz")
whole("file", "chat", "gzip named .jsonl", lambda rs, _: gzip.compress(as_bytes(rs)))
whole('file', 'alpaca', 'CSV row of another width', lambda rs, _: b'prompt,completion\nHow old is it?,Three years.\nWho made it?,Ada,and Bob\n', '.csv')
whole('file', 'chat', 'logs in .jsonl', lambda rs, _: b'INFO start\nINFO loaded 3\nWARN slow\nINFO end\n')
whole('file', 'chat', 'records of another shape in between', lambda rs, rng: [*rs[:20], shapes.sharegpt(rng), *rs[20:]])
whole('file', 'chat', 'records inside an object', lambda rs, _: json.dumps({'version': 1, 'data': rs}).encode(), '.json')
# --- turns

def _message(at: int, **values: Any) -> Callable[[Record], None]:
    return lambda r: r["messages"][at].update(values)

def _drop(at: int, key: str) -> Callable[[Record], None]:
    return lambda r: r["messages"][at].pop(key)

def _insert(at: int, message: Record) -> Callable[[Record], None]:
    return lambda r: r["messages"].insert(at, message)

SYSTEM = {"role": "system", "content": "You answer in one sentence."}

add("turns", "chat", "no messages key", lambda r: {"dialog": r["messages"]})
add("turns", "chat", "no messages", lambda r: r.update(messages=[]))
add("turns", "chat", "messages as text", lambda r: r.update(messages=json.dumps(r["messages"])))
add("turns", "chat", "messages null", lambda r: r.update(messages=None))
add('turns', 'chat', 'message as text', lambda r: r['messages'].__setitem__(0, 'Hello there, how are you?'))
add("turns", "chat", "message null", lambda r: r["messages"].__setitem__(0, None))
add("turns", "chat", "no role", _drop(0, "role"))
add("turns", "chat", "no content", _drop(1, "content"))
add("turns", "chat", "unknown role", _message(0, role="customer"))
add("turns", "chat", "role capitalised", _message(1, role="Assistant"))
add("turns", "chat", "role with a space", _message(0, role="user "))
add("turns", "chat", "role of ShareGPT", _message(1, role="gpt"))
add("turns", "chat", "role null", _message(1, role=None))
add("turns", "chat", "content a number", _message(1, content=42))
add("turns", "chat", "content an object", _message(1, content={"answer": "Yes, it is."}))
add("turns", "chat", "content a list of texts", _message(1, content=["Yes, ", "it is."]))
add("turns", "chat", "content null without calls", _message(1, content=None))
add("turns", "chat", "content true", _message(0, content=True))
add("turns", "chat", "question empty", _message(0, content=""))
add("turns", "chat", "question blank", _message(0, content=" \n "))
add("turns", "chat", "answer empty", _message(1, content=""))
add("turns", "chat", "answer blank", _message(1, content="   "))
add("turns", "chat", "answer of invisible characters", _message(1, content="\u200b\u200b"))
add("turns", "chat", "system empty", _insert(0, {"role": "system", "content": ""}))
add("turns", "chat", "system blank", _insert(0, {"role": "system", "content": "  \n"}))
add("turns", "chat", "no answer", lambda r: r["messages"].pop())
add("turns", "chat", "answer first", lambda r: r["messages"].pop(0))
add('turns', 'turns', 'ends with a question', lambda r: r['messages'].append({'role': 'user', 'content': 'And why is that so?'}))
add('turns', 'chat', 'two questions in a row', _insert(0, {'role': 'user', 'content': 'Hello, I have a question.'}))
add('turns', 'chat', 'two answers in a row', lambda r: r['messages'].append({'role': 'assistant', 'content': 'I hope that this was of use.'}))
add('turns', 'chat', 'two system messages', lambda r: r['messages'].__setitem__(slice(0, 0), [SYSTEM, {'role': 'system', 'content': 'You are brief.'}]))
add("turns", "turns", "system in the middle", lambda r: r["messages"].insert(3, SYSTEM))
add("turns", "chat", "system last", lambda r: r["messages"].append(SYSTEM))
add("turns", "chat", "system alone", lambda r: r.update(messages=[SYSTEM]))
add("turns", "chat", "system after the question", _insert(1, SYSTEM))
add('turns', 'chat', 'key with a typing error', lambda r: r['messages'][1].update(contnet=r['messages'][1].pop('content')))
add("turns", "chat", "unknown key of a message", _message(1, sentiment_v2="warm"))
add("turns", "chat", "unknown key of one record", lambda r: r.update(mesages=[]))
add("turns", "chat", "weight 2", _message(1, weight=2))
add("turns", "chat", "weight as text", _message(1, weight="1"))
add("turns", "chat", "weight true", _message(1, weight=True))
add("turns", "chat", "weight on the question", _message(0, weight=1))
add("turns", "chat", "all answers of weight 0", _message(1, weight=0))
add("turns", "chat", "name not a text", _message(0, name=7))
add('turns', 'turns', 'question twice in a conversation', lambda r: r['messages'].extend([*copy.deepcopy(r['messages'][-2:-1]), {'role': 'assistant', 'content': 'As I said before, it depends on the size.'}]))
add('turns', 'turns', 'exchange twice in a conversation', lambda r: r['messages'].extend(copy.deepcopy(r['messages'][-2:])))
add('turns', 'turns', 'same answer twice in a conversation', lambda r: r['messages'].extend([{'role': 'user', 'content': 'And what about the other one, in the garden?'}, copy.deepcopy(r['messages'][-1])]))
add('turns', 'chat', 'answer repeats the question', lambda r: r['messages'][1].update(content=r['messages'][0]['content']))
add('turns', 'chat', 'answer begins with the whole question', lambda r: (r['messages'][0].update(content=text(random.Random(4), 200)), r['messages'][1].update(content=r['messages'][0]['content'] + ' Yes.'))[0])
add('turns', 'sharegpt', 'ShareGPT: unknown speaker', lambda r: r['conversations'][0].update({'from': 'visitor'}))
add("turns", "sharegpt", "ShareGPT: no value", lambda r: r["conversations"][1].pop("value"))
add("turns", "sharegpt", "ShareGPT: no from", lambda r: r["conversations"][0].pop("from"))
add('turns', 'sharegpt', 'ShareGPT: two questions', lambda r: r['conversations'].insert(0, {'from': 'human', 'value': 'Hi, is this the right place?'}))
add("turns", "sharegpt", "ShareGPT: answer first", lambda r: r["conversations"].pop(0))
add("turns", "sharegpt", "ShareGPT: empty answer", lambda r: r["conversations"][1].update(value=""))
add("turns", "sharegpt", "ShareGPT: no conversation", lambda r: r.update(conversations=[]))
add('turns', 'sharegpt', 'ShareGPT: content in place of value', lambda r: r['conversations'][1].update(content=r['conversations'][1].pop('value')))
add("turns", "alpaca", "Alpaca: no output", lambda r: r.pop("output"))
add("turns", "alpaca", "Alpaca: empty output", lambda r: r.update(output=""))
add("turns", "alpaca", "Alpaca: output null", lambda r: r.update(output=None))
add("turns", "alpaca", "Alpaca: output a list", lambda r: r.update(output=[r["output"]]))
add("turns", "alpaca", "Alpaca: empty instruction", lambda r: r.update(instruction="", input=""))
add('turns', 'alpaca', 'Alpaca: output repeats the input', lambda r: r.update(instruction='Rewrite the text politely.', input=text(random.Random(3), 200), output=text(random.Random(3), 200)))
add("turns", "completion", "empty completion", lambda r: r.update(completion=""))
add("turns", "completion", "no completion", lambda r: r.pop("completion"))
add("turns", "completion", "empty prompt", lambda r: r.update(prompt=""))
add("turns", "completion", "prompt a number", lambda r: r.update(prompt=3))
add('turns', 'prompt_messages', 'completion of a user', lambda r: r['completion'][0].update(role='user'))
add('turns', 'prompt_messages', 'prompt ends with an answer', lambda r: r['prompt'].append({'role': 'assistant', 'content': 'Let me see what I can do.'}))
add('turns', 'preference', 'chosen equals rejected', lambda r: r.update(rejected=copy.deepcopy(r['chosen'])))
add('turns', 'preference', 'chosen equals rejected but for white space', lambda r: r.update(rejected=[{'role': 'assistant', 'content': r['chosen'][0]['content'].replace(' ', '  ', 1) + '\n'}]))
add("turns", "preference", "no rejected", lambda r: r.pop("rejected"))
add("turns", "preference", "chosen empty", lambda r: r["chosen"][0].update(content=""))
add('turns', 'preference', 'rejected ends with a user', lambda r: r['rejected'].append({'role': 'user', 'content': 'No, thanks.'}))
add("turns", "preference", "rejected without messages", lambda r: r.update(rejected=[]))
add('turns', 'preference', 'chosen a text, rejected messages', lambda r: r.update(chosen=r['chosen'][0]['content']))
add('turns', 'preference', 'answers of other prompts', lambda r: (r.update(chosen=[*r['prompt'], *r['chosen']], rejected=[{'role': 'user', 'content': 'Something else entirely?'}, *r['rejected']]), r.pop('prompt'))[0])
add("turns", "kto", "label as text", lambda r: r.update(label="true"))
add("turns", "kto", "label a number", lambda r: r.update(label=7))
add("turns", "kto", "no label", lambda r: r.pop("label"))
add("turns", "kto", "label null", lambda r: r.update(label=None))
add('turns', 'parts', 'part of unknown type', lambda r: r['messages'][0]['content'].append({'type': 'vidio', 'vidio': 'x.mp4'}))
add("turns", "parts", "part without text", lambda r: r["messages"][0]["content"][0].pop("text"))
add('turns', 'parts', 'part with empty text', lambda r: r['messages'][0]['content'][0].update(text=''))
add("turns", "parts", "no parts", lambda r: r["messages"][0].update(content=[]))
add("turns", "plain", "text empty", lambda r: r.update(text=""))
add("turns", "plain", "text null", lambda r: r.update(text=None))
# --- tools

def call_changed(change: Callable[[Record], Any]) -> Callable[[Record], None]:
    def planted(record: Record) -> None:
        for message in record["messages"]:
            if message.get("tool_calls"):
                change(message["tool_calls"][0])
                return

    return planted

def calls_changed(change: Callable[[Record, int], Any]) -> Callable[[Record], None]:
    """Changes the record, given the index of its first message of calls."""

    def planted(record: Record) -> None:
        at = next(i for i, m in enumerate(record["messages"]) if m.get("tool_calls"))
        change(record, at)

    return planted

def _arguments(name: str, value: Any) -> Callable[[Record], None]:
    dumped = value if isinstance(value, str) else json.dumps(value)
    return call_changed(lambda c: c["function"].update(name=name, arguments=dumped))

def tools_changed(change: Callable[[list[Record]], Any]) -> Callable[[Record], None]:
    def planted(record: Record) -> None:
        record["tools"] = copy.deepcopy(record["tools"])
        change(record["tools"])

    return planted

one = "one_tool"

add("tools", one, "call without id", call_changed(lambda c: c.pop("id")))
add("tools", one, "call with empty id", call_changed(lambda c: c.update(id="")))
add("tools", one, "call id a number", call_changed(lambda c: c.update(id=7)))
add("tools", one, "call without type", call_changed(lambda c: c.pop("type")))
add("tools", one, "call of another type", call_changed(lambda c: c.update(type="functoin")))
add("tools", one, "call without function", call_changed(lambda c: c.pop("function")))
add("tools", one, "call without name", call_changed(lambda c: c["function"].pop("name")))
add("tools", one, "call with empty name", call_changed(lambda c: c["function"].update(name="")))
add('tools', one, 'call of a name with a space', call_changed(lambda c: c['function'].update(name='get weather')))
add("tools", one, "arguments cut off", _arguments("get_weather", '{"city": "Os'))
add("tools", one, "arguments a Python dictionary", _arguments("get_weather", "{'city': 'Oslo'}"))
add('tools', one, 'arguments encoded twice', _arguments('get_weather', json.dumps(json.dumps({'city': 'Oslo'}))))
add("tools", one, "arguments a list", _arguments("get_weather", ["Oslo"]))
add("tools", one, "arguments a number", _arguments("get_weather", 7))
add("tools", one, "arguments null", call_changed(lambda c: c["function"].update(arguments=None)))
add('tools', one, 'arguments empty text', call_changed(lambda c: c['function'].update(name='get_weather', arguments='')))
add("tools", one, "no arguments", call_changed(lambda c: c["function"].pop("arguments")))
add('tools', one, 'arguments an object among texts', call_changed(lambda c: c['function'].update(arguments=json.loads(c['function']['arguments']))))
add('tools', one, 'arguments in a code fence', _arguments('get_weather', '```json\n{"city": "Oslo"}\n```'))
add('tools', one, 'duplicate argument', _arguments('get_weather', '{"city": "Oslo", "city": "Bergen"}'))
add('tools', one, 'argument NaN', _arguments('place_order', '{"article": "tea", "count": 1, "price": NaN}'))
add("tools", one, "undeclared tool", call_changed(lambda c: c["function"].update(name="get_forecast")))
add("tools", one, "name in another case", _arguments("Get_Weather", {"city": "Oslo"}))
add('tools', one, 'undeclared argument', _arguments('get_weather', {'city': 'Oslo', 'country': 'NO'}))
add("tools", one, "required argument missing", _arguments("place_order", {"article": "tea"}))
add('tools', one, 'argument of another type', _arguments('place_order', {'article': 'tea', 'count': 'two'}))
add("tools", one, "number as text", _arguments("place_order", {"article": "tea", "count": "2"}))
add('tools', one, 'argument outside its enum', _arguments('get_weather', {'city': 'Oslo', 'unit': 'kelvin'}))
add("tools", one, "argument out of range", _arguments("get_weather", {"city": "Oslo", "days": 40}))
add('tools', one, 'nested item of another type', _arguments('search_docs', {'query': 'tea', 'filters': {'tags': [1, 2]}}))
add('tools', one, 'arguments padded with null', _arguments('get_weather', {'city': 'Oslo', 'unit': None, 'days': None}))
add("tools", one, "required argument blank", _arguments("get_weather", {"city": ""}))
add("tools", one, "placeholder as an argument", _arguments("get_weather", {"city": "<city>"}))
add('tools', 'parallel', 'duplicate id in a message', calls_changed(lambda r, at: r['messages'][at]['tool_calls'][1].update(id=r['messages'][at]['tool_calls'][0]['id'])))
add('tools', 'agent', 'duplicate id in a conversation', calls_changed(lambda r, at: [m.update(tool_call_id='call_1') if m['role'] == 'tool' else [c.update(id='call_1') for c in m.get('tool_calls', [])] for m in r['messages'][2:6]]))
add("tools", one, "result without call", calls_changed(lambda r, at: r["messages"].pop(at)))
add('tools', one, 'result of an unknown id', calls_changed(lambda r, at: r['messages'][at + 1].update(tool_call_id='call_zzz')))
add('tools', one, 'result without id', calls_changed(lambda r, at: r['messages'][at + 1].pop('tool_call_id')))
add("tools", one, "call without result", calls_changed(lambda r, at: r["messages"].pop(at + 1)))
add('tools', 'parallel', 'one of the results missing', calls_changed(lambda r, at: r['messages'].pop(at + 1)))
add('tools', one, 'result twice', calls_changed(lambda r, at: r['messages'].insert(at + 1, copy.deepcopy(r['messages'][at + 1]))))
add('tools', one, 'result before its call', calls_changed(lambda r, at: r['messages'].insert(at, r['messages'].pop(at + 1))))
add('tools', one, 'question between call and result', calls_changed(lambda r, at: r['messages'].insert(at + 1, {'role': 'user', 'content': 'Are you still there, please?'})))
add('tools', one, 'result of another name', calls_changed(lambda r, at: r['messages'][at + 1].update(name='other_tool')))
add("tools", one, "empty result", calls_changed(lambda r, at: r["messages"][at + 1].update(content="")))
add("tools", one, "result null", calls_changed(lambda r, at: r["messages"][at + 1].update(content=None)))
add('tools', one, 'result cut off', calls_changed(lambda r, at: r['messages'][at + 1].update(content='{"temperature": 21, "sky": "cle')))
add('tools', one, 'result a Python dictionary', calls_changed(lambda r, at: r['messages'][at + 1].update(content="{'temperature': 21, 'ok': True}")))
add('tools', one, 'result an object', calls_changed(lambda r, at: r['messages'][at + 1].update(content={'temperature': 21})))
add('tools', one, '[object Object] as a result', calls_changed(lambda r, at: r['messages'][at + 1].update(content='[object Object]')))
add("tools", one, "no answer after the result", lambda r: r["messages"].pop())
add("tools", one, "empty list of calls", lambda r: r["messages"][-1].update(tool_calls=[]))
add('tools', one, 'calls null in one message', lambda r: r['messages'][-1].update(tool_calls='none'))
add('tools', one, 'calls an object', calls_changed(lambda r, at: r['messages'][at].update(tool_calls=r['messages'][at]['tool_calls'][0])))
add('tools', one, 'calls as JSON text', calls_changed(lambda r, at: r['messages'][at].update(tool_calls=json.dumps(r['messages'][at]['tool_calls']))))
add('tools', one, 'flat call', calls_changed(lambda r, at: r['messages'][at].update(tool_calls=[c['function'] | {'id': c['id']} for c in r['messages'][at]['tool_calls']])))
add('tools', one, 'call by a user', lambda r: r['messages'][1].update(tool_calls=[{'id': 'c1', 'type': 'function', 'function': {'name': 'get_weather', 'arguments': '{"city": "Oslo"}'}}]))
add('tools', one, 'call as text', calls_changed(lambda r, at: r['messages'].__setitem__(at, {'role': 'assistant', 'content': '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'})))
add('tools', one, 'call as JSON in the answer', lambda r: r['messages'][-1].update(content='{"name": "get_weather", "arguments": {"city": "Oslo"}}'))
add('tools', one, 'calls in both styles', calls_changed(lambda r, at: r['messages'][at].update(function_call=r['messages'][at]['tool_calls'][0]['function'])))
add("tools", one, "calls without tools", lambda r: r.pop("tools"))
add("tools", one, "tools empty", lambda r: r.update(tools=[]))
add("tools", one, "tools null", lambda r: r.update(tools=None))
add("tools", one, "tools an object", lambda r: r.update(tools=r["tools"][0]))
add('tools', one, 'tools as JSON text in one record', lambda r: r.update(tools=json.dumps(r['tools'])))
add('tools', one, 'tools as text that is not JSON', lambda r: r.update(tools='get_weather, search_docs, place_order'))
add("tools", one, "tool without name", tools_changed(lambda ts: ts[0]["function"].pop("name")))
add("tools", one, "tool without function", tools_changed(lambda ts: ts[1].pop("function")))
add("tools", one, "tool without type", tools_changed(lambda ts: ts[1].pop("type")))
add("tools", one, "tool flat", tools_changed(lambda ts: ts.__setitem__(1, ts[1]["function"])))
add("tools", one, "tool twice", tools_changed(lambda ts: ts.append(copy.deepcopy(ts[0]))))
add('tools', one, 'tool name with a space', tools_changed(lambda ts: ts.append(shapes._tool('close the door', 'Closes it.', {}, []))))
add('tools', one, 'tool name too long', tools_changed(lambda ts: ts.append(shapes._tool('x' * 80, 'Long.', {}, []))))
add('tools', one, 'parameters a list', tools_changed(lambda ts: ts[0]['function'].update(parameters=['city'])))
add('tools', one, 'parameters without an object', tools_changed(lambda ts: ts[0]['function'].update(parameters={'type': 'array'})))
add('tools', one, 'schema of an unknown type', tools_changed(lambda ts: ts[0]['function']['parameters']['properties']['city'].update(type='strng')))
add('tools', one, 'required argument that is not declared', tools_changed(lambda ts: ts[0]['function']['parameters']['required'].append('zip')))
add('tools', one, 'required true in a property', tools_changed(lambda ts: ts[0]['function']['parameters']['properties']['city'].update(required=True)))
add('tools', one, 'tool without description', tools_changed(lambda ts: ts[0]['function'].update(description='')))
add("tools", one, "tool null", tools_changed(lambda ts: ts.append(None)))
add("tools", one, "parallel_tool_calls as text", lambda r: r.update(parallel_tool_calls="yes"))
add('tools', 'parallel', 'parallel calls where they are forbidden', lambda r: r.update(parallel_tool_calls=False))
add('tools', one, 'tool_choice of an unknown tool', lambda r: r.update(tool_choice={'type': 'function', 'function': {'name': 'nope'}}))
add('tools', 'functions', 'legacy: arguments cut off', lambda r: r['messages'][1]['function_call'].update(arguments='{"city": "O'))
add("tools", "functions", "legacy: result without name", lambda r: r["messages"][2].pop("name"))
add('tools', 'functions', 'legacy: result of another name', lambda r: r['messages'][2].update(name='other'))
add('tools', 'functions', 'legacy: call without name', lambda r: r['messages'][1]['function_call'].pop('name'))
add('tools', 'functions', 'legacy: undeclared function', lambda r: r['messages'][1]['function_call'].update(name='nope'))
# --- thoughts

add('thoughts', 'chat', 'thought tag in content', lambda r: r['messages'][1].update(content='<think>\nLet me see.\n</think>\n\n' + r['messages'][1]['content']))
add('thoughts', 'chat', 'thought tag without end', lambda r: r['messages'][1].update(content='<think>\nLet me see. ' + r['messages'][1]['content']))
add('thoughts', 'chat', 'thought tag without beginning', lambda r: r['messages'][1].update(content='Let me see.\n</think>\n\n' + r['messages'][1]['content']))
add('thoughts', 'chat', 'two thoughts', lambda r: r['messages'][1].update(content='<think>a</think>Yes.<think>b</think>No.'))
add('thoughts', 'chat', 'thought tag in the question', lambda r: r['messages'][0].update(content='<think>hm</think> What is it?'))
add('thoughts', 'chat', 'empty thought tag', lambda r: r['messages'][1].update(content='<think>\n\n</think>\n\n' + r['messages'][1]['content']))
add('thoughts', 'thinking', 'thought equals the answer', lambda r: r['messages'][1].update(reasoning_content=r['messages'][1]['content']))
add('thoughts', 'thinking', 'thought of a user', lambda r: r['messages'][0].update(reasoning_content='I wonder whether it is true.'))
add('thoughts', 'thinking', 'thought a list', lambda r: r['messages'][1].update(reasoning_content=['one', 'two']))
add('thoughts', 'thinking', 'empty thought', lambda r: r['messages'][1].update(reasoning_content=''))
add('thoughts', 'thinking', 'thought given twice', lambda r: r['messages'][1].update(content='<think>Let me see.</think> Yes.'))
add("thoughts", "thinking", "thought and no answer", lambda r: r["messages"][1].update(content=""))
whole('thoughts', 'chat', 'thoughts in some answers', lambda rs, rng: [r['messages'][1].update(reasoning_content=text(rng, 200)) for r in rs[::5]] and None)
