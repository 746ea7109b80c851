"""Formats in which a checkpoint stores each weight class, from its quantisation configuration.

Understood: fp8 (per tensor, 128 x 128 blocks), fbgemm_fp8, mxfp4 (gpt-oss), awq, gptq, compressed-tensors,
modelopt (also as a separate hf_quant_config.json) and quark, with the modules each of them leaves out.
Anything else is refused by name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kernels.dtypes import NAMES as DTYPES
from kernels.dtypes import WIDTH_BYTES
from sweep.catalog.hf_module_names import ModuleNames, from_layers
from sweep.catalog.hf_read import Config
from sweep.errors import UserError


@dataclass(frozen=True)
class Format:
    """A number format and the bytes of one parameter in it, scales included."""

    dtype: str
    width: float


def plain(dtype: str) -> Format:
    """A format with its own width."""
    return Format(dtype, float(WIDTH_BYTES[DTYPES.index(dtype)]))


@dataclass(frozen=True)
class Module:
    """A weight matrix of one layer: its class, its name from `layers.` on, its parameters."""

    weight_class: str
    name: str
    params: float


SIXTEEN_BIT = {"bfloat16": "bfloat16", "float16": "float16", "float32": "float32", "half": "float16"}

MODELOPT = {
    "FP8": "fp8",
    "FP8_PB_WO": "fp8_block",
    "FP8_PB_REAL": "fp8_block",
    "FP8_PER_CHANNEL_PER_TOKEN": "fp8_ptpc",
    "NVFP4": "nvfp4",
    "NVFP4_AWQ": "nvfp4",
    "W4A16_NVFP4": "nvfp4",
    "W4A8_NVFP4_FP8": "nvfp4",
    "MXFP4": "mxfp4",
    "W4A8_MXFP4_FP8": "mxfp4",
    "MXFP8": "mxfp8",
    "INT4_AWQ": "int4_wo",
    "W4A16_AWQ": "int4_wo",
    "W4A8_AWQ": "int4_wo",
    "W8A8_SQ_PER_CHANNEL": "int8",
    "INT8_SQ": "int8",
    "INT8_WO": "int8",
}
"""Names that modelopt gives its algorithms."""


class Scheme:
    """Which format each module has."""

    def __init__(self, default: Format, ignored: ModuleNames, base: Format) -> None:
        self.default, self.ignored, self.base = default, ignored, base
        self.named: dict[str, Format] = {}
        self.rules: list[tuple[ModuleNames, Format]] = []
        self.classes: frozenset[str] = frozenset({"attn", "mlp", "experts", "shared"})
        self.kv = "bfloat16"

    def of(self, module: Module) -> Format:
        """The module's format: named by itself or a parent, left out, or the default of its class."""
        parts = module.name.split(".")
        for end in range(len(parts), 0, -1):
            found = self.named.get(".".join(parts[:end]))
            if found:
                return found
        if module.name in self.ignored:
            return self.base
        for names, form in self.rules:
            if module.name in names:
                return form
        return self.default if module.weight_class in self.classes else self.base


def stored_formats(
    quantization: Config | None, base_dtype: str, modules: Iterable[Module]
) -> dict[str, object]:
    """`checkpoint_*` fields: the format that most of a class has, its mean width where that differs."""
    base = plain(SIXTEEN_BIT.get(base_dtype.removeprefix("torch."), "bfloat16"))
    scheme = read_scheme(quantization, base) if quantization else Scheme(base, ModuleNames([], ""), base)
    params: dict[str, dict[Format, float]] = {}
    for module in modules:
        by_format = params.setdefault(module.weight_class, {})
        form = scheme.of(module)
        by_format[form] = by_format.get(form, 0.0) + module.params
    fields: dict[str, object] = {
        f"checkpoint_{name}": base.dtype
        for name in ("attn", "mlp", "experts", "shared", "router", "embed", "head")
    }
    for name, by_format in params.items():
        total = sum(by_format.values())
        main = max(by_format, key=lambda f: by_format[f])
        fields[f"checkpoint_{name}"] = main.dtype
        mean = sum(f.width * n for f, n in by_format.items()) / total if total else main.width
        if name in ("attn", "mlp", "experts", "shared") and abs(mean / plain(main.dtype).width - 1) > 1e-4:
            fields[f"checkpoint_{name}_width"] = round(mean, 6)
    fields["checkpoint_kv"] = scheme.kv
    return fields


def kv_format(quantization: Config) -> str:
    """Format of the KV cache that a quantisation configuration asks for."""
    return read_scheme(quantization, plain("bfloat16")).kv


def read_scheme(quantization: Config, base: Format) -> Scheme:
    """The scheme of a `quantization_config` or of the content of a modelopt hf_quant_config.json."""
    inner = quantization.get("quantization")
    q: Config = inner if isinstance(inner, dict) else quantization
    method = str(q.get("quant_method") or "").lower()
    if q.get("quant_algo") or method == "modelopt":
        return _modelopt(q, base)
    readers = {
        "fp8": _fp8,
        "fbgemm_fp8": _fbgemm,
        "mxfp4": _mxfp4,
        "awq": _int_weight_only,
        "gptq": _int_weight_only,
        "auto-round": _int_weight_only,
        "compressed-tensors": _compressed_tensors,
        "quark": _quark,
    }
    if method not in readers:
        raise UserError(
            "this quantisation is not modelled",
            field="quantization_config.quant_method",
            value=method or "missing",
            allowed=", ".join((*readers, "modelopt")),
        )
    return readers[method](q, base)


def _left_out(q: Config) -> ModuleNames:
    names: list[Any] = []
    for key in ("modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules", "exclude"):
        listed = q.get(key) or []
        if not isinstance(listed, list):
            raise UserError("not a list of module names", field=f"quantization_config.{key}")
        names += listed
    return ModuleNames(names, "quantization_config.ignore")


def _mapping(q: Config, key: str) -> Config:
    found = q.get(key) or {}
    if not isinstance(found, dict):
        raise UserError("is not a mapping", field=f"quantization_config.{key}", value=found)
    return found


def _fp8(q: Config, base: Format) -> Scheme:
    block = q.get("weight_block_size")
    return Scheme(plain("fp8_block" if block else "fp8"), _left_out(q), base)


def _fbgemm(q: Config, base: Format) -> Scheme:
    """Meta's FP8: one scale per output channel; attention is among the modules left out."""
    return Scheme(plain("fp8_ptpc"), _left_out(q), base)


def _mxfp4(q: Config, base: Format) -> Scheme:
    scheme = Scheme(plain("mxfp4"), _left_out(q), base)
    scheme.classes = frozenset({"experts"})
    return scheme


def _int_weight_only(q: Config, base: Format) -> Scheme:
    bits = q.get("bits", q.get("w_bit"))
    if bits not in (4, 8):
        raise UserError(
            "this width is not modelled", field="quantization_config.bits", value=bits, allowed="4, 8"
        )
    has_zeros = bool(q.get("zero_point", not q.get("sym", True)))
    group = q.get("group_size", q.get("q_group_size", 128))
    return Scheme(_grouped_int(bits, group, has_zeros), _left_out(q), base)


def _grouped_int(bits: int, group: Any, has_zeros: bool) -> Format:
    """Integer weights with a 16-bit scale per group of inputs (and a zero point of the weights' width)."""
    if bits == 8:
        return plain("int8")
    per_group = 2.0 + (0.5 if has_zeros else 0.0)
    size = group if isinstance(group, int) and group > 0 else 0
    return Format("int4_wo", 0.5 + (per_group / size if size else 0.0))


def _tensor_format(w: Config, field: str) -> Format:
    """The format of a compressed-tensors weight description."""
    bits, kind, strategy, group = w.get("num_bits"), w.get("type"), w.get("strategy"), w.get("group_size")
    if kind == "float" and bits == 8:
        if strategy == "block" or w.get("block_structure"):
            return plain("fp8_block")
        if strategy == "group":
            return plain("mxfp8")
        return plain("fp8_ptpc" if strategy == "channel" else "fp8")
    if kind == "float" and bits == 4:
        return plain("mxfp4" if group == 32 else "nvfp4")
    if kind == "int" and bits in (4, 8):
        return _grouped_int(bits, group, not w.get("symmetric", True))
    raise UserError("this weight format is not modelled", field=field, value=f"{kind}{bits}")


def _kv_dtype(kv: Any) -> str:
    """Format of the KV cache from any of its descriptions; 16 bit where there is none."""
    bits = kv.get("num_bits") if isinstance(kv, dict) else {"FP8": 8, "NVFP4": 4}.get(str(kv).upper())
    return {"8": "fp8", "4": "nvfp4"}.get(str(bits), "bfloat16")


def _compressed_tensors(q: Config, base: Format) -> Scheme:
    groups = q.get("config_groups")
    if not isinstance(groups, dict) or not groups:
        raise UserError("missing from the configuration", field="quantization_config.config_groups")
    scheme = Scheme(base, _left_out(q), base)
    for name, group in groups.items():
        where = f"quantization_config.config_groups.{name}"
        if not isinstance(group, dict) or not isinstance(group.get("weights"), dict):
            continue
        form = _tensor_format(group["weights"], where)
        targets = group.get("targets") or ["Linear"]
        if not isinstance(targets, list):
            raise UserError("is not a list", field=f"{where}.targets", value=targets)
        if any(target in ("Linear", "FusedMoE") for target in targets):
            scheme.default = form
        else:
            scheme.rules.append((ModuleNames(targets, where), form))
    scheme.kv = _kv_dtype(q.get("kv_cache_scheme"))
    return scheme


def _modelopt(q: Config, base: Format) -> Scheme:
    algorithm = str(q.get("quant_algo") or "").upper()
    mixed = algorithm == "MIXED_PRECISION"
    layers = _mapping(q, "quantized_layers") if mixed else {}
    if mixed and not layers:
        raise UserError("missing from the configuration", field="quantization_config.quantized_layers")
    scheme = Scheme(base if mixed else _algorithm(algorithm), _left_out(q), base)
    for name, layer in layers.items():
        if not isinstance(layer, dict):
            raise UserError(
                "is not a mapping", field=f"quantization_config.quantized_layers.{name}", value=layer
            )
        scheme.named[from_layers(str(name))] = _algorithm(str(layer.get("quant_algo")).upper())
    scheme.kv = _kv_dtype(q.get("kv_cache_quant_algo") or q.get("kv_cache_scheme"))
    return scheme


def _algorithm(name: str) -> Format:
    if name not in MODELOPT:
        raise UserError(
            "this quantisation is not modelled", field="quant_algo", value=name, allowed=", ".join(MODELOPT)
        )
    return plain(MODELOPT[name])


def _quark_format(w: Any, field: str) -> Format:
    """The format of a quark weight description (a list describes two-level scales: the first counts)."""
    w = w[0] if isinstance(w, list) and w else w
    if not isinstance(w, dict):
        raise UserError("is not a description of weights", field=field, value=w)
    dtype, scheme = str(w.get("dtype")), str(w.get("qscheme"))
    if dtype == "fp4":
        return plain("mxfp4")
    if dtype in ("fp8_e4m3", "fp8_e5m2"):
        return plain(
            {"per_channel": "fp8_ptpc", "per_group": "mxfp8", "per_block": "fp8_block"}.get(scheme, "fp8")
        )
    if dtype in ("int4", "uint4"):
        return _grouped_int(4, w.get("group_size"), dtype == "uint4")
    if dtype in ("int8", "uint8"):
        return plain("int8")
    raise UserError("this weight format is not modelled", field=field, value=dtype)


def _quark(q: Config, base: Format) -> Scheme:
    top = q.get("global_quant_config")
    weight = top.get("weight") if isinstance(top, dict) else None
    if not weight:
        raise UserError(
            "missing from the configuration", field="quantization_config.global_quant_config.weight"
        )
    scheme = Scheme(_quark_format(weight, "global_quant_config.weight"), _left_out(q), base)
    for name, config in _mapping(q, "layer_quant_config").items():
        if isinstance(config, dict) and config.get("weight"):
            scheme.rules.append(
                (ModuleNames([name], "layer_quant_config"), _quark_format(config["weight"], name))
            )
    kv = q.get("kv_cache_quant_config") or q.get("kv_cache_group")
    scheme.kv = "fp8" if kv else "bfloat16"
    return scheme
