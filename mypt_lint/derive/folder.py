"""Writes the files of a custom format for what was learned of a template."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from mypt_lint.derive.shape import DAY, NAME, Block, NotLearnedError, Shape, pieces
from mypt_lint.template.checks import LIKELY_SPECIAL
from mypt_spec.bodies.call_tags import BareKeys, Keywords, Tags
from mypt_spec.compiled.toml import load
from mypt_spec.table import LISTS
from mypt_spec.templates.sandbox import ToolTemplate

_PATHS = load(Path(__file__).with_name("paths.toml"))
_MARKS = {"BEGIN": "Begins a chat.", "PLAIN": "Is for no system block.", "TAIL": "Ends a chat."}


def files(name: str, shape: Shape, special: frozenset[str]) -> dict[str, str]:
    """Returns the texts of grammar, token table and records of a format, by file name."""
    shape = _parted(shape, special)
    in_all = shape.tools is not None and shape.tools.head[2]
    if shape.tools is not None and shape.tools.place == "head" and shape.system is not None:
        head = Block(shape.begin.removesuffix(shape.system.closer), shape.system.closer)
        shape = replace(shape, begin="", head=head)
    shape = replace(shape, plain="") if (_head(shape) or in_all) and not shape.head else shape
    return {
        f"{name.replace('-', '_')}.lark": _grammar(name, shape),
        "tokens.toml": _tokens(name, shape, special),
        "records.toml": _records(shape),
    }


def _parted(shape: Shape, special: frozenset[str]) -> Shape:
    """Returns the shape with each definition alone where a special token is between two of them.

    Those that are no part of another block get one around them.
    """
    if (tools := shape.tools) is None:
        return shape
    item, _, between = tools.body.partition("}")
    value = {"{tool": "tools[0]", "{function": "tools[0].function"}.get(item)
    if value is None or not any("special" in piece for piece in pieces(between, special)):
        return shape
    body = ToolTemplate(f"{{{{- {value} | tojson -}}}}", each=True)
    tools = replace(tools, body=body, after_tool=between)
    if tools.place in ("system", "first", "last"):
        opener, closer = tools.definitions.opener, tools.definitions.closer
        start = max((tag.start() for tag in LIKELY_SPECIAL.finditer(opener)), default=0)
        tag = LIKELY_SPECIAL.search(closer)
        end = closer[tag.end() :].lstrip() if tag else ""
        around, inner = Block(opener[:start], end), Block(opener[start:], closer.removesuffix(end))
        if not (start and end):
            return shape
        tools = replace(tools, definitions=inner, around=around)
    return replace(shape, tools=tools)


def literals_of(shape: Shape) -> Iterator[str]:
    """Yields the literals of a shape, without the words around definitions of tools."""
    yield from (shape.begin, shape.plain, shape.tail, shape.after_answer)
    for piece, block in blocks_of(shape).items():
        ends = block.opener.partition(" ")[0], block.closer.rpartition(" ")[2]
        yield from ends if piece == "tools" else (block.opener, block.closer)


def blocks_of(shape: Shape) -> dict[str, Block]:
    """Returns the blocks of a shape by their pieces, in the order of their rows."""
    blocks = {"head": shape.head, "system": shape.system, "user": shape.user}
    blocks |= {"answer": shape.answer, "thought": shape.thought}
    if (first := shape.head or shape.system) is not None:
        space = shape.tools.head[2] if shape.tools is not None else ""
        opener = first.opener.removesuffix(_head(shape)).removesuffix(space)
        blocks["head" if shape.head else "system"] = replace(first, opener=opener)
    if (tools := shape.tools) is not None:
        blocks |= {} if tools.place.endswith("question") else {"tools": tools.definitions}
        blocks |= {p: getattr(tools, p) for p in ("around", "said", "call", "results", "result")}
    return {piece: block for piece, block in blocks.items() if block is not None}


def _head(shape: Shape) -> str:
    """Returns the text that each system block begins with, after its tag."""
    first = shape.head or shape.system
    opener = first.opener if first is not None else ""
    tags = [*LIKELY_SPECIAL.finditer(opener.partition(DAY)[0])] if DAY in opener else []
    dated = opener[tags[-1].end() :].lstrip() if tags else ""
    return dated if shape.tools is None else shape.tools.head[1] or dated


def _paths(shape: Shape) -> dict[str, str]:
    """Returns the blocks of pieces, as `records.toml` names them."""
    inside = shape.tools is not None and shape.tools.inside
    own = "results" in blocks_of(shape)
    paths = _PATHS | ({"result": f"{'tool' if own else 'user'}/tool_response"} if inside else {})
    paths |= {"result": "assistant/tool"} if shape.tools and shape.tools.one_block else {}
    place = shape.tools.place if shape.tools is not None else ""
    block = ("developer/" if shape.head else "system/") * (place in ("before", "after"))
    paths |= {"system": "developer"} if shape.head else {}
    block = "around/" if "around" in blocks_of(shape) else block
    paths |= {"tools": f"{block}tools"} if place != "head" else {}
    paths |= {"thought": "think", "said": "said", "call": "tool_call"} if shape.spoken else {}
    return {piece: paths[piece] for piece in blocks_of(shape)}


def _joins(shape: Shape) -> dict[str, tuple[str, str]]:
    """Returns the white space before a block of a piece after texts, and after others of it."""
    if (t := shape.tools) is None:
        return {"user": (shape.after_answer, "")} if shape.after_answer else {}
    after = {"call": (t.after_text or "", t.after_text or "" if t.first else "")}
    after |= {"tools": (t.beside, "")} if t.place == "after" else {}
    after["result"] = (t.after_result, t.after_result)
    return {piece: spaces for piece, spaces in after.items() if any(spaces)}


def _closers(shape: Shape) -> dict[str, tuple[str, list[str]]]:
    """Returns the name of each closing tag by its spelling, and the pieces that it ends."""
    out: dict[str, tuple[str, list[str]]] = {}
    blocks = blocks_of(shape)
    for piece in sorted(blocks, key=lambda piece: piece != "answer"):
        if blocks[piece].closer:
            name = "END" if piece == "answer" else f"{piece.upper()}_END"
            out.setdefault(blocks[piece].closer, (name, []))[1].append(piece)
    return out


def _grammar(name: str, shape: Shape) -> str:
    blocks, joins, tools = blocks_of(shape), _joins(shape), shape.tools
    ends = {piece: end for end, pieces in _closers(shape).values() for piece in pieces}

    def rule(piece: str, *parts: str) -> str:
        opener = f"{piece.upper()}_OPEN"
        if piece == "answer" and shape.answer.lead:
            opener, parts = "(ANSWER_OPEN | ANSWER_LEAD thought)", parts[1:]
        return " ".join(filter(None, (opener, *parts, ends.get(piece, ""))))

    texts = {p: "TEXT" + "+*"[b.blank and b.opener != ""] for p, b in blocks.items()}
    first = "system" if shape.needs_system or (_head(shape) and not shape.head) else "system?"
    first = "(system | PLAIN)" if shape.plain else first
    head = "BEGIN " if shape.begin else "head " if shape.head else ""
    head += f"{first} " if shape.system else ""
    thought = "thought" + "?" * (not shape.always) if shape.thought else ""
    rules = {"start": f"{head}turn+", "turn": "user answer"}
    rules |= {"system": rule("system", texts["system"])} if shape.system else {}
    rules["user"] = rule("user", texts["user"])
    rules["answer"] = rule("answer", *[thought] * (not shape.spoken), texts["answer"])
    rules["answer"] = f"{thought} {rules['answer']}" if shape.spoken else rules["answer"]
    rules |= {"head": rule("head", "TEXT+")} if shape.head else {}
    if shape.after_answer:
        mark = "BEGIN " if shape.begin else ""
        first = "(system following | user)" if shape.system else "user"
        rules |= {"start": f"{mark}{first} answer turn*", "turn": "following answer"}
        rules["following"] = rules["user"].replace("USER_OPEN", "USER_NEXT")
    in_prompts = any("empty_thought" in row for row in shape.options.values())
    empty = "TEXT*" if shape.fills or shape.always or in_prompts else texts.get("thought", "")
    empty = "" if shape.only_prompts and shape.no_thoughts else empty
    rules |= {"thought": rule("thought", empty)} if shape.thought else {}
    if tools is not None:
        definitions, place = "(TOOLS_OPEN tools)? ", tools.place
        if tools.around is not None:
            definitions = f"(AROUND_OPEN TOOLS_OPEN tools {ends['around']})? "
        lead, mid, late = (definitions * (place == p) for p in ("system", "first", "last"))
        start = f"{head.replace(f'{first} ', f'{lead}{first} ')}{mid}turn* {late}last"
        rules |= {"start": start, "turn": "user (asked results)* answer"}
        rules["last"] = "user (asked results)* (answer | asked)"
        following = {p: f"{p.upper()}_NEXT" if p in joins else f"{p.upper()}_OPEN" for p in texts}
        if place == "after":
            text = f"({texts['system']} | TEXT+ {following['tools']} tools)"
            rules["system"] = rule("system", text)
            first = "SYSTEM_LEAD" if blocks["system"].lead else "SYSTEM_OPEN"
            rules["system"] += f" | {first} TOOLS_OPEN tools {ends['system']}"
        elif place == "head":
            rules["head"] = rule("head", "TEXT+ (TOOLS_OPEN tools)?")
        elif place == "before":
            rules["system"] = rule("system", f"({texts['system']} | TOOLS_OPEN tools TEXT*)")
        calls = "CALL_OPEN call"
        calls = f"({rule('said', 'TEXT+')})? {calls}" if tools.said else calls
        if tools.after_text is not None:
            calls = f"({calls} | TEXT+ {following['call']} call)"
        rules["asked"] = f"{thought} {calls}" if shape.spoken else rule("answer", thought, calls)
        if tools.first:
            joined, lead = calls.replace("CALL_OPEN", "CALL_NEXT"), rule("answer", "thought", calls)
            lead = lead.replace("ANSWER_OPEN | ", "" if shape.answer.lead else "ANSWER_OPEN | ")
            rules["asked"] = f"ANSWER_OPEN {joined} {ends.get('answer', '')} | {lead}"
        if tools.call.closer.endswith(tools.end or NAME):
            rules["asked"] = rules["asked"].removesuffix(ends["answer"])
        each = getattr(tools.body, "each", False) and not tools.after_tool
        after = f" (TOOLS_OPEN TEXT+ {ends.get('tools')})*" * each
        again = " (TOOLS_AGAIN TEXT+)*" if tools.after_tool else ""
        end = ends.get("tools", "")  # without a closing tag, they end where the next tag begins
        rules |= {"tools": f"TEXT+{again} {end}{after}".rstrip()} if "tools" in blocks else {}
        again = f"({tools.again} TEXT+)* " if tools.again else ""
        rules["call"] = f"TEXT+ {again}{ends['call']}"
        response = "TEXT+" if tools.result_body == "json" else texts["result"]
        rules["response"] = f"{response} {ends['result']}"
        several = f"RESULT_OPEN response ({following['result']} response)*"
        several = several if tools.again or tools.call_body in LISTS else "RESULT_OPEN response"
        around = "user" if tools.results is None else "results"
        rules["results"] = rule(around, several) if tools.inside else several
        if tools.waits:
            rules |= {"last": rules["turn"], "asked": rules["asked"].removesuffix(ends["answer"])}
        if tools.one_block:
            rules["user"] += " ANSWER_OPEN"
            rules |= {n: rules[n].removeprefix("ANSWER_OPEN ") for n in ("answer", "asked")}
        if tools.late:
            rules["asked"], end = rules["asked"].removeprefix(f"{thought} "), ends["answer"]
            resumes = "ANSWER" in tools.between
            more = ["thinking"] * bool(thought) + ["resumed"] * resumes
            done = "resulted TEXT*" if tools.late != "ended" else "resulted"
            after = f"({' | '.join(['resulted', *more])})? TEXT* {end}"
            rules |= dict.fromkeys(("turn", "last"), f"user {thought} {after}")
            rules["resulted"] = f"({' | '.join([done, *more])})? asked results"
            some = f"({done} | resumed)" if resumes else done
            rules |= {"thinking": f"{some} thought"} if thought else {}
            rules |= {"resumed": f"resulted TEXT+ {end} ANSWER_AGAIN"} if resumes else {}
    if shape.ends and "answer" in ends:  # in place of END
        rules["final"] = f"{rules['answer'].removesuffix(ends['answer'])}TAIL"
        final = {"last": rules["last"].replace("answer", "final")} if tools else {}
        if tools and rules["asked"].endswith(ends["answer"]):
            final["last"] = final["last"].replace("| asked)", "| pending)")
            final["pending"] = f"{rules['asked'].removesuffix(ends['answer'])}TAIL"
        rules |= final or {"start": f"{head}turn* user final"}
    elif shape.tail:
        rules["start"] += " TAIL"
    names = [name for name in _MARKS if getattr(shape, name.lower())]
    names += [f"{p.upper()}_OPEN" for p in blocks] + [f"{p.upper()}_NEXT" for p in joins]
    names += [f"{piece.upper()}_LEAD" for piece, block in blocks.items() if block.lead]
    names += [f"{piece}_AGAIN" for piece in (tools.between if tools is not None else ())]
    names += [end for end, _ in _closers(shape).values()]
    out = [f"// {name}: the language of one conversation, over the terminals of tokens.toml.", ""]
    out += [f"{left}: {right}" for left, right in rules.items()]
    return "\n".join([*out, "", f"%declare {' '.join(names)} TEXT", ""])


def _tokens(name: str, shape: Shape, special: frozenset[str]) -> str:
    doc = "Learned from the chat template of a model."
    head: dict[str, Any] = {"name": name, "title": name, "doc": doc, "turn_opener": "user"}
    head |= {"glue": True} | _given(bare_end=shape.bare_end)
    out = ["[dialect]", *_rows(head)]
    if shape.drops:
        history = _given(drops=["think"], empty="assistant" * (shape.fills or shape.each))
        history |= _given(each=shape.each, leaves_empty=shape.always, strip=shape.trims)
        history |= _given(leaves=shape.leaves, strip_before_calls=shape.strip_before_calls)
        history |= _given(answered=shape.tools is not None and shape.tools.answered)
        out += ["", "[history]", *_rows(history)]
    rows: list[dict[str, Any]] = []
    for mark, doc in _MARKS.items():
        if literal := getattr(shape, mark.lower()):
            rows.append({"name": mark, "spelling": pieces(literal, special), "doc": doc})
    if shape.ends:
        closes = {"closes": "assistant", "mark": True} if shape.answer.closer else {}
        rows[-1] |= closes | {"origin": "model"}
    kinds = {piece: path.rpartition("/")[2] for piece, path in _paths(shape).items()}
    for piece, block in blocks_of(shape).items():
        opened = piece == "thought" and shape.opens
        kind, spelling = kinds[piece], pieces(block.opener, special)
        if piece == "answer" and shape.unprompted:
            spelling[0] |= {"prompts": False}
        row: dict[str, Any] = {"name": f"{piece.upper()}_OPEN", "spelling": spelling}
        row |= {"opens": kind, "doc": f"Opens {kind}."}
        row |= _given(strip=block.strip, prefix=block.prefix, suffix=block.suffix)
        row |= {} if block.blank else {"blank": False}
        spoken = "thought", "said", "call", *["answer"] * shape.spoken
        row |= {"origin": "model"} if piece in spoken and not opened else {}
        row |= {"body_loss": 1} if piece == "answer" or opened else {}
        waits = shape.tools is not None and shape.tools.waits
        is_over = block.closer or (shape.ending[1] and not (shape.thought and shape.after_answer))
        if piece == "answer" and (waits or not is_over):
            row |= {"stops": _stops(shape, special)}
        elif piece == "results" and not block.closer:
            row |= {"stops": ["ANSWER_OPEN"] + ["ANSWER_LEAD"] * bool(shape.answer.lead)}
        row |= {"role": piece} if piece == "thought" else {}
        if shape.tools is not None:
            inside = shape.tools.inside or waits
            row |= {"role": "result"} if piece == "result" and inside else {}
            if piece == "call":
                row |= {"again": True} if shape.tools.again == "CALL_OPEN" else {}
                row |= {"body": (body := shape.tools.call_body)}
                if isinstance(body, Tags):
                    tags = {"function": [*body.function], "argument": [*body.argument]}
                    row |= {"tags": tags | _given(python=body.python, wrap=[*body.wrap])}
                elif isinstance(body, Keywords):
                    row |= {"keywords": {"calls": [*body.calls]}}
                    row["keywords"] |= _given(quote=body.end, escapes=body.escapes)
                elif isinstance(body, BareKeys):
                    row |= {"bare_keys": {"quote": body.end, "null": body.null}}
            row |= {"body": (body := shape.tools.body)} if piece == "tools" else {}
            if piece == "tools" and isinstance(body, ToolTemplate):
                row |= {"template": {"text": body.text, "each": body.each}}
            row |= {"body": shape.tools.result_body} if piece == "result" else {}
        rows.append(row)
        if block.lead:
            lead = {"name": f"{piece.upper()}_LEAD", "spelling": pieces(block.lead, special)}
            rows.append(row | lead | {"before": kinds["thought" if piece == "answer" else "tools"]})
    for piece, (after_text, after_block) in _joins(shape).items():
        same, name = after_text == after_block, piece.upper()
        row = {"name": f"{name}_NEXT", "joins": f"{name}_OPEN", "space": after_text}
        if after_text.strip():  # the first has no tag
            row["spelling"], same = pieces(row.pop("space"), special), True
        rows.append(row | _given(after="text" * (not same), first=same and piece == "call"))
    for piece, literal in shape.tools.between.items() if shape.tools is not None else ():
        row = {"name": f"{piece}_AGAIN", "joins": f"{piece}_OPEN"}
        tag: dict[str, Any] = {"spelling": pieces(literal, special)}
        rows.append(row | (tag if literal else {"resumes": True}))
    for closer, (end, closed) in _closers(shape).items():
        spelling = pieces(closer, special)
        own = shape.tools.end if shape.tools and "call" in closed else shape.answer.closer
        ends_answer = closer.endswith(own or NAME)
        if ends_answer and "space" in spelling[-1] and "special" in spelling[-2:][0]:
            spelling[-1]["loss"] = 0  # generation stops before it
        ends = [kinds[piece] for piece in closed]
        row = {"name": end, "spelling": spelling, "closes": ends if ends[1:] else ends[0]}
        apart = shape.spoken or (shape.tools is not None and shape.tools.one_block)
        if "call" in closed and ends_answer and not apart:
            row |= {"closes": [*ends, kinds["answer"]], "both": True}
        by_model = {"answer", "thought", "said", "call"} & {*closed}
        row |= {"doc": "Closes the open block."} | ({"origin": "model"} if by_model else {})
        rows.append(row)
    for row in rows:
        out += ["", "[[terminal]]", *_rows(row)]
    return "\n".join([*out, ""])


def _stops(shape: Shape, special: frozenset[str]) -> list[str]:
    """Returns the opening tags that end an answer. Raises NotLearnedError."""
    after = [p for p in ("user", "results", "result") if "/" not in _paths(shape).get(p, "/")]
    after = ["result"] if shape.answer.closer else after
    if any("special" not in pieces(blocks_of(shape)[p].opener, special)[0] for p in after):
        raise NotLearnedError("no special token is after an answer, so no model learns to stop")
    return [f"{piece.upper()}_OPEN" for piece in after]


def _records(shape: Shape) -> str:
    out = ["# The messages of OpenAI and TRL.", 'shape = "messages"']
    out += _rows(_given(begin="begin" * bool(shape.begin), finish="tail" * bool(shape.tail)))
    texts: dict[str, str] = {}
    if (tools := shape.tools) is not None:
        leads = "system" * (tools.place in ("before", "head", "system"))
        before = "last" if tools.place.startswith("last") else leads
        late = "ended" if tools.late == "ended" else tools.late != ""
        out += _rows(_given(tools_before=before, text_after_results=late))
        texts |= {"before": tools.definitions.opener} if tools.place.endswith("question") else {}
        texts |= {"after": tools.beside} if tools.place == "before" and tools.beside else {}
    defaults = {} if shape.default is None else {"system": shape.default}
    if shape.tools is not None and shape.tools.default not in (None, shape.default or ""):
        defaults["system_with_tools"] = shape.tools.default
    defaults |= {"without_system": "plain"} if shape.plain else {}
    defaults |= {"thought": ""} if shape.always else {}
    out += ["", "[defaults]", *_rows(defaults)] if defaults else []
    paths = {p: path for p, path in _paths(shape).items() if p not in ("results", "around")}
    if shape.no_thoughts and not shape.only_prompts:
        paths.pop("thought", None)
    names = {"head": "system", "system": "developer"} if shape.head else {}
    out += ["", "[blocks]", *_rows({names.get(key, key): path for key, path in paths.items()})]
    out += ["", "[tools]", *_rows(texts)] if texts else []
    in_head: dict[str, Any] = {"text": text.replace(DAY, "{}")} if (text := _head(shape)) else {}
    in_head |= {"name": shape.day[0], "default": shape.day[1]} if DAY in text else {}
    heads = {True: tools.head[0], False: tools.head[2]} if tools is not None else {}
    options = [{"tools": key, "text": text} for key, text in heads.items() if text]
    dated = [in_head] if in_head else []
    options = dated + options if shape.head else options + dated
    if shape.dated:
        day = {"name": shape.day[0], "default": shape.day[1], "system": False}
        options.append(day | {"text": shape.dated.replace(DAY, "{}")})
    head: dict[str, Any] = {"block": "system", "always": True} if options else {}
    head |= _given(system="developer" * bool(shape.head), only_prompts=shape.only_prompts)
    out += ["", "[options]", *_rows(head)] if head else []
    for option in [*options, *shape.options.values()]:
        out += ["", "[[option]]", *_rows(option)]
    if shape.system_in is not None:
        before, after, strip = shape.system_in
        where = {"question": "first", "before": before, "after": after} | _given(strip=strip)
        out += ["", "[system]", *_rows(where)]
    return "\n".join([*out, ""])


def _given(**values: Any) -> dict[str, Any]:
    """Returns the values that say something."""
    return {key: value for key, value in values.items() if value}


def _rows(values: dict[str, Any]) -> Iterator[str]:
    return (f"{key} = {_toml(value)}" for key, value in values.items())


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(_rows(value))} }}"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
