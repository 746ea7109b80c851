"""What a checkpoint's id says: who made it, of which model, in which number format.

Ids follow no standard, but their words do: `RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16` is Llama 3.1 8B
with 4-bit weights. Nothing here knows a particular model.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sweep.errors import UserError
from sweep.spelling import folded

FORMATS: tuple[tuple[str, str], ...] = (
    (
        r"mxfp4[-_]mtp[-_]moefp4|mxfp4[-_]attn[-_]?fp8|moe[-_]mxfp4[-_]attn[-_](?:mtp[-_])?ptpc[-_]fp8",
        "mxfp4+fp8",
    ),
    (r"w[-_]mxfp4[-_]a[-_]fp8|mxfp4", "mxfp4"),
    (r"mxfp8", "mxfp8"),
    (r"nvfp4(?:a16)?|fp4", "nvfp4"),
    (r"(?:mtp[-_])?ptpc(?:[-_]fp8)?|fp8[-_](?:dynamic|ptpc)", "fp8_ptpc"),
    (r"fp8[-_]kv", "fp8+kv"),
    (r"fp8[-_]block", "fp8_block"),
    (r"fp8[-_]static(?:[-_]pertensor)?", "fp8_tensor"),
    (r"fp8", "fp8"),
    (r"(?:quantized\.)?w8a(?:8|16)|int8|8bit", "int8"),
    (r"(?:quantized\.)?w4a16(?:[-_]g\d+)?|int4|4bit|awq|gptq|autoround", "int4_wo"),
    (r"bf16|bfloat16|fp16", "bfloat16"),
)
"""Words for a number format and what they mean; the first found decides, all are taken out of the name."""

NOT_PRICED = re.compile(
    r"(?<![a-z0-9])(gguf|mlx|bnb|exl[23]|nf4|i?q[2-8]_[a-z0-9_]+|[2356]bit|onnx|openvino)(?![a-z0-9])"
)
"""Packagings whose formats are not modelled."""

NOT_MODELLED = re.compile(
    r"(?<![a-z0-9])(deepseek[-_ ]v4(?:\.\d)?|kimi[-_ ]k3|kimi[-_ ]linear|step[-_ ]?3(?:\.\d)?|nemotron[-_ ](?:super|ultra|nano)[-_ ]\d+b"
    r"|gemma[-_ ]3n|gemma[-_ ]4[-_ ]e[24]b)(?![a-z0-9])"
)
"""Models whose attention or layers are of kinds that no kernel prices: compressed attention, searched layers,
per-layer embeddings. Named here so that nobody takes a neighbour's name for them."""

NOT_A_MODEL = re.compile(
    r"(?<![a-z])(eagle3?|drafter|draft|lora|adapter|reward|rerank(?:er)?|embedding)(?![a-z])"
)
"""Words that make of a model's name the name of something else."""

FORMAT_LIKE = re.compile(r"(^|_)(?:(?:nv|mx|u)?(?:fp|int|bf)\d+\w*|w\d+a\d+\w*|\d+bits?|quant\w*)(_|$)")
"""Words that look like a number format; one that `FORMATS` does not know makes an id unknown."""

VARIANTS = frozenset(
    "instruct it chat hf base pt thinking preview latest mtp meta nvidia terminus speciale exp v2 unquantized".split()
)
"""Words that leave the architecture as it is (`meta` and `nvidia` as prefixes of a name)."""

RELEASE = re.compile(r"0\d{3}|2[3-9](?:0[1-9]|1[0-2])")
"""Release dates in names: 0528, 2507."""


@dataclass(frozen=True)
class CheckpointId:
    """An id taken apart. `base` is the name without its format, `stem` also without variants and dates.

    All three are folded (lower case, one underscore between words); `org` and `scheme` are "" where not said.
    """

    org: str
    base: str
    stem: str
    scheme: str = ""
    revision: int = 1


def parse_id(text: str) -> CheckpointId:
    """Take apart `org/name`, or a name alone. Raises `UserError` for packagings that are not priced."""
    org, _, name = text.strip().lower().rpartition("/")
    for pattern, problem in (
        (NOT_PRICED, "this packaging is not modelled"),
        (NOT_A_MODEL, "not a language model to serve by itself"),
        (NOT_MODELLED, "this architecture is not modelled"),
    ):
        found = pattern.search(text.lower())
        if found:
            raise UserError(f"{problem} ({found.group(1)})", field="model", value=text)
    name, scheme = _without_format(name)
    revision = re.search(r" [-_]*v(\d)$", name)
    base = folded(name[: revision.start()] if revision else name)
    return CheckpointId(org, base, stem_of(base), scheme, int(revision.group(1)) if revision else 1)


def _without_format(name: str) -> tuple[str, str]:
    """The name with blanks for its words of number formats, and what the first of them means."""
    scheme = ""
    for words, meaning in FORMATS:
        pattern = re.compile(rf"(?<![a-z0-9])(?:{words})(?![a-z0-9])")
        if pattern.search(name):
            name, scheme = pattern.sub(" ", name), scheme or meaning
    return name.rstrip("-_ ") + (" " if name.endswith((" ", "-", "_")) else ""), scheme


def stem_of(base: str) -> str:
    """The folded name without variants and release dates."""
    words = [w for w in base.split("_") if w not in VARIANTS and not RELEASE.fullmatch(w)]
    return "_".join(words)


def holds_stem(words: str, stem: str) -> bool:
    """Whether a folded name has `stem`, which names a size, as a run of its words (`hermes_3_llama_3_1_8b`)."""
    return bool(re.search(r"(^|_)\d+(_\d+)?b(_|$)", stem)) and f"_{stem}_" in f"_{words}_"
