"""``cfglint models``: the catalogue of models, one model with its parameter count worked out, and ``models add``."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from cfglint.catalog.architecture import Architecture, Tensor
    from cfglint.catalog.models import Model

OK: Final = 0
USAGE: Final = 2

STORE: Final = os.path.join(".cfglint", "models")
"""Where a project keeps the facts of its own models; read before the shipped catalogue."""

REPOSITORY: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "models",
        help="the catalogue of models, with sources",
        description="List the models of the catalogue, show one with its parameters worked out, or store a model's facts "
        "in the project.",
    )
    parser.add_argument("id", nargs="?", metavar="ID", help="a Hub id or alias; or the word `add`")
    parser.add_argument(
        "target", nargs="?", metavar="ID_OR_PATH", help="after `add`: a Hub id, a config.json or its folder"
    )
    parser.add_argument("--family", metavar="NAME", help="only this model_type (llama, qwen2, deepseek_v3)")
    parser.add_argument("--search", metavar="TEXT", help="only ids that contain the text")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--as", dest="name", metavar="ORG/NAME", help="after `add PATH`: the id to store it under")
    parser.add_argument("--revision", metavar="REV", help="after `add ID`: the Hub revision")
    parser.add_argument(
        "--project", metavar="FOLDER", default=".", help="after `add`: the project's folder (default: .)"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if args.id == "add":
        return add(args)
    if args.target is not None:
        return fail(f"one model at a time: {args.id} or {args.target}")
    if args.id is not None:
        return show(args.id, args.format, args.project)
    return listing(args.family, args.search, args.format)


def fail(message: str) -> int:
    print(f"cfglint models: {message}", file=sys.stderr)
    return USAGE


# --- the list -------------------------------------------------------------------------------------------------------


def listing(family: str | None, search: str | None, form: str) -> int:
    from cfglint.catalog.models import models

    chosen = [
        model
        for model in models()
        if (family is None or model.model_type.lower() == family.lower())
        and (search is None or any(search.lower() in name.lower() for name in (model.id, *model.aliases)))
    ]
    if form == "json":
        print(json.dumps({"version": 1, "models": [summary(model) for model in chosen]}, indent=2))
        return OK
    if not chosen:
        print(
            "no model of the catalogue matches; `cfglint models add ID_OR_PATH` stores another's facts in the project"
        )
        return OK
    width = max(len(model.id) for model in chosen)
    kind = max(6, *(len(model.model_type) for model in chosen))
    print(f"{'model':<{width}}  {'family':<{kind}}  {'parameters':>10}  {'active':>7}  {'dtype':<8}  {'context':>8}")
    for model in chosen:
        active = short(model.params_active) if model.params_active else ""
        dtype = (model.native_dtype or "").replace("float", "") if model.native_dtype else ""
        dtype = {"b16": "bf16", "16": "fp16", "32": "fp32"}.get(dtype, model.native_dtype or "")
        context = context_length(model.config)
        print(
            f"{model.id:<{width}}  {model.model_type:<{kind}}  {short(parameters(model)):>10}  {active:>7}  "
            f"{dtype if model.native_dtype_sourced or not dtype else dtype + '?':<8}  {f'{context:,}' if context else '':>8}".rstrip()
        )
    print(f"\n{len(chosen):,} models. `cfglint models ID` shows one with its sources; ? marks a dtype from memory.")
    return OK


def short(count: int) -> str:
    for size, unit in ((10**12, "T"), (10**9, "B"), (10**6, "M")):
        if count >= size:
            return f"{count / size:.2f}{unit}"
    return str(count)


def context_length(config: Mapping[str, Any]) -> int | None:
    for part in (config, config.get("text_config")):
        if isinstance(part, Mapping):
            for key in ("max_position_embeddings", "n_positions", "max_seq_len", "max_target_positions"):
                value = part.get(key)
                if isinstance(value, int):
                    return value
    return None


def summary(model: Model) -> dict[str, Any]:
    return {
        "id": model.id,
        "aliases": list(model.aliases),
        "family": model.model_type,
        "parameters": parameters(model),
        "active_parameters": model.params_active,
        "counted": model.counted,
        "dtype": model.native_dtype,
        "dtype_sourced": model.native_dtype_sourced,
        "fp16_safe": model.fp16_safe,
        "license": model.license,
        "source": model.source,
        "checked": model.checked,
    }


# --- one model ------------------------------------------------------------------------------------------------------


def show(name: str, form: str, project: str) -> int:
    from cfglint.catalog.architecture import UnknownArchitecture, architecture_from_config
    from cfglint.catalog.models import architecture_of, find_model, similar_models

    model = find_model(name)
    stored = stored_config(name, project)
    if stored is not None:
        try:
            architecture = architecture_from_config(stored)
        except UnknownArchitecture as error:
            return fail(f"{os.path.join(STORE, name, 'config.json')}: {error}")
        model = None
    elif model is not None:
        architecture = architecture_of(model)
    else:
        near = similar_models(name)
        hint = f"; nearest: {', '.join(near)}" if near else ""
        return fail(
            f"{name} is not in the catalogue{hint}\n  `cfglint models add {name}` stores its facts in the project"
        )
    if form == "json":
        document = {"version": 1, "model": facts(name, model), "architecture": described(architecture)}
        print(json.dumps(document, indent=2))
        return OK
    print_model(name, model, architecture)
    return OK


def stored_config(name: str, project: str) -> dict[str, Any] | None:
    """The project's own facts of a model, where it has them."""
    if not REPOSITORY.fullmatch(name):
        return None
    try:
        with open(os.path.join(project, STORE, *name.split("/"), "config.json"), encoding="utf-8") as file:
            config = json.load(file)
    except (OSError, ValueError):
        return None
    return config if isinstance(config, dict) else None


def parameters(model: Model) -> int:
    """Its total; where the published figure counts something else, that of its architecture."""
    if not model.no_count:
        return model.params_total - min(model.extra_in_checkpoint, 0)
    from cfglint.catalog.models import architecture_of

    return architecture_of(model).total_parameters or model.params_total


def facts(name: str, model: Model | None) -> dict[str, Any]:
    if model is None:
        return {"id": name, "source": STORE}
    return {
        **summary(model),
        "trained_in": model.trained_in,
        "trained_in_evidence": model.trained_in_evidence,
        "fp16_evidence": model.fp16_evidence,
        "dtype_source": model.native_dtype_source,
        "matches_published_total": model.matches_published,
        "extra_parameters_in_checkpoint": model.extra_in_checkpoint,
        "published_figure": {"value": model.params_total, "is": model.no_count} if model.no_count else None,
        "gated": model.gated,
        "config_of": model.config_of or None,
        "note": model.note or None,
        "config": dict(model.config),
    }


def described(architecture: Architecture) -> dict[str, Any]:
    mixers: dict[str, int] = {}
    for layer in architecture.layers:
        mixers[layer.mixer] = mixers.get(layer.mixer, 0) + 1
    return {
        "hidden_size": architecture.hidden_size,
        "num_hidden_layers": architecture.num_hidden_layers,
        "num_attention_heads": architecture.num_attention_heads,
        "num_key_value_heads": architecture.num_key_value_heads,
        "head_dim": architecture.head_dim,
        "intermediate_size": architecture.intermediate_size,
        "vocab_size": architecture.vocab_size,
        "tie_word_embeddings": architecture.tie_word_embeddings,
        "max_position_embeddings": architecture.max_position_embeddings,
        "mixers": mixers,
        "kv_cache_elements_per_token": sum(layer.kv_cache_elements for layer in architecture.layers),
        "parameters": architecture.total_parameters,
        "active_parameters": architecture.active_parameters,
        "exact": architecture.exact,
        "missing": architecture.missing or None,
        "tensors": [
            {
                "module": tensor.module,
                "role": tensor.role,
                "shape": list(tensor.shape),
                "stack": tensor.stack or None,
                "count": times(tensor),
                "parameters": tensor.parameters,
                "bias": tensor.bias,
            }
            for tensor in architecture.tensors
        ],
    }


def times(tensor: Tensor) -> int:
    return tensor.count * (len(tensor.layers) if tensor.stack else 1)


def print_model(name: str, model: Model | None, architecture: Architecture) -> None:
    print(model.id if model else name)
    rows = [("family", f"{architecture.model_type} ({architecture.architecture or 'architecture not stated'})")]
    if model is not None:
        rows += model_rows(model)
    else:
        rows.append(("source", f"the project's own {os.path.join(STORE, name, 'config.json')}"))
    rows += shape_rows(architecture)
    for label, value in rows:
        print(f"  {label:<12}  {value}")
    if architecture.tensors:
        print_tensors(architecture)
    if architecture.missing:
        print(f"\nNot worked out: {architecture.missing}.")
    elif not architecture.exact:
        print(
            "\nThe tensors do not add up to the published total exactly: the files hold buffers or extra heads besides."
        )


def model_rows(model: Model) -> list[tuple[str, str]]:
    rows = [("aliases", ", ".join(model.aliases))] if model.aliases else []
    how = "total of the published files"
    if model.counted:
        how = "counted from its dimensions" + (", equal to the published files" if model.matches_published else "")
    fewer = -model.extra_in_checkpoint
    if figure := model.no_count or (f"elements in the files, {fewer:,} fewer" if fewer > 0 else ""):
        rows.append(("parameters", f"{parameters(model):,} (counted from its dimensions)"))
        rows.append(("published", f"{model.params_total:,}: {figure}"))
    else:
        rows.append(("parameters", f"{model.params_total:,} ({how})"))
    if model.params_active:
        rows.append(("active", f"{model.params_active:,} of them for each token"))
    if model.extra_in_checkpoint > 0:
        what = "draft layers, buffers or scales"
        besides = f"{model.extra_in_checkpoint:,} {'more' if model.counted else 'of them'} ({what})"
        rows.append(("in the files", besides))
    if model.native_dtype:
        sourced = model.native_dtype_source if model.native_dtype_sourced else "from memory, not located"
        rows.append(("dtype", f"{model.native_dtype} ({sourced})"))
    if model.quantization:
        method = model.quantization.get("quant_method") or model.quantization.get("quant_algo")
        rows.append(("quantization", str(method)))
    if model.trained_in:
        rows.append(("trained in", f"{model.trained_in} ({model.trained_in_evidence})"))
    if model.fp16_safe != "unknown":
        rows.append(("fp16", f"{'safe' if model.fp16_safe == 'yes' else 'not safe'} ({model.fp16_evidence})"))
    gated = {True: ", gated", False: ", not gated", None: ""}[model.gated]
    rows.append(("licence", (model.license or "not known") + gated))
    rows.append(("source", f"{model.source} (checked {model.checked})"))
    if model.config_of:
        rows.append(("config of", f"{model.config_of}, equal in sizes and total"))
    if model.note:
        rows.append(("note", model.note))
    return rows


def shape_rows(architecture: Architecture) -> list[tuple[str, str]]:
    a = architecture
    layers = f"{a.num_hidden_layers} layers" if a.layers else "layers not known"
    if a.encoder_layers:
        layers = f"{len(a.encoder_layers)} encoder and {a.num_hidden_layers} decoder layers"
    shape = f"{layers}, hidden {a.hidden_size:,}, vocabulary {a.vocab_size:,}"
    if a.intermediate_size:
        shape += f", MLP {a.intermediate_size:,}"
    rows = [("shape", shape)]
    if a.num_attention_heads:
        heads = f"{a.num_attention_heads} heads" + (f" of {a.head_dim}" if a.head_dim else "")
        if a.mla is None and a.num_key_value_heads != a.num_attention_heads:
            heads += f", {a.num_key_value_heads} for keys and values"
        windows = sorted({layer.window for layer in a.layers if layer.window})
        if windows:
            count = sum(1 for layer in a.layers if layer.window)
            heads += f"; {count} layers see {', '.join(f'{window:,}' for window in windows)} tokens"
        rows.append(("attention", heads))
    if a.mla:
        rows.append(("latent", f"{a.mla.kv_lora_rank} + {a.mla.qk_rope_head_dim} cached per token and layer (MLA)"))
    if a.moe:
        shared = f", shared {a.moe.shared_intermediate_size:,}" if a.moe.shared_intermediate_size else ""
        rows.append(("experts", f"{a.moe.top_k} of {a.moe.num_experts}, width {a.moe.intermediate_size:,}{shared}"))
    if a.ssm:
        count = sum(1 for layer in a.layers if layer.recurrent)
        rows.append(("recurrent", f"{count} layers of {a.ssm.kind}"))
    elements = sum(layer.kv_cache_elements for layer in a.layers)
    if elements:
        rows.append(("KV cache", f"{elements:,} elements per token ({2 * elements / 2**10:,.1f} KiB at 2 bytes)"))
    return rows


def print_tensors(architecture: Architecture) -> None:
    """The parameter count with its working, by role."""
    roles: dict[str, list[Tensor]] = {}
    for tensor in architecture.tensors:
        roles.setdefault(tensor.role.replace("_", " "), []).append(tensor)
    total = sum(tensor.parameters for tensor in architecture.tensors)
    lines: list[tuple[str, str, str, int]] = []
    for role, tensors in roles.items():
        lines.append((role, "", "", sum(tensor.parameters for tensor in tensors)))
        merged: dict[tuple[str, tuple[int, ...]], int] = {}
        for tensor in tensors:
            key = (tensor.module + (" bias" if tensor.bias else ""), tensor.shape)
            merged[key] = merged.get(key, 0) + times(tensor)
        if role in ("vision", "audio") and len(merged) > SHOWN:
            continue
        for (module, shape), count in merged.items():
            size = " × ".join(f"{side:,}" for side in shape)
            product = 1
            for side in shape:
                product *= side
            lines.append(("", module, f"{size}" + (f"  × {count:,}" if count > 1 else ""), product * count))
    modules = max(len(line[1]) for line in lines)
    sizes = max(len(line[2]) for line in lines)
    print("\nParameters")
    for role, module, size, count in lines:
        if role:
            print(f"  {role:<{modules + sizes + 6}}  {count:>17,}  {100 * count / total:5.1f} %")
        else:
            print(f"    {module:<{modules}}  {size:<{sizes}}    {count:>17,}")
    print(f"  {'total':<{modules + sizes + 6}}  {total:>17,}")


SHOWN: Final = 8
"""A vision tower of more different tensors than these is shown as its sum."""


# --- models add -----------------------------------------------------------------------------------------------------


def add(args: argparse.Namespace) -> int:
    from cfglint.catalog.architecture import UnknownArchitecture, architecture_from_config

    if not args.target:
        return fail("add what? `cfglint models add org/name`, or a config.json or its folder")
    if not os.path.isdir(args.project):
        return fail(f"{args.project} is not a folder")
    try:
        name, config = local_config(args.target, args.name) if os.path.exists(args.target) else hub_config(args)
    except Problem as problem:
        return fail(str(problem))
    folder = os.path.join(args.project, STORE, *name.split("/"))
    path = os.path.join(folder, "config.json")
    try:
        os.makedirs(folder, exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(json.dumps(config, indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        return fail(f"cannot write {path}: {error.strerror}")
    print(f"stored {name} in {path}")
    try:
        architecture = architecture_from_config(config)
    except UnknownArchitecture as error:
        print(f"  its parameters cannot be worked out: {error}")
        return OK
    if architecture.total_parameters is not None:
        print(f"  {architecture.model_type}, {architecture.total_parameters:,} parameters")
    else:
        print(f"  {architecture.model_type}; not worked out: {architecture.missing}")
    return OK


class Problem(Exception):
    """What keeps a model from being stored, in words for the user."""


def local_config(path: str, name: str | None) -> tuple[str, dict[str, Any]]:
    """A ``config.json`` or its folder, and the id to store it under."""
    file = os.path.join(path, "config.json") if os.path.isdir(path) else path
    config = read_config(file)
    if name is None:
        stated = config.get("_name_or_path")
        if isinstance(stated, str) and REPOSITORY.fullmatch(stated):
            name = stated
        else:
            parts = os.path.abspath(os.path.dirname(os.path.abspath(file))).replace(os.sep, "/").split("/")[-2:]
            raise Problem(f"under which id? say `--as org/name`, for instance --as {'/'.join(parts)}")
    return checked_name(name), config


def read_config(file: str) -> dict[str, Any]:
    try:
        with open(file, encoding="utf-8-sig") as handle:
            config = json.load(handle)
    except OSError as error:
        raise Problem(f"cannot read {file}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise Problem(f"{file} is not JSON: {error}") from None
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        raise Problem(f"{file} is no model config: it states no model_type")
    return config


def checked_name(name: str) -> str:
    if not REPOSITORY.fullmatch(name) or ".." in name:
        raise Problem(f"{name!r} is no model id; one looks like org/name")
    return name


def hub_config(args: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """The config of a model on the Hub: the only place where cfglint uses the network."""
    if args.target.startswith(("./", "../", "/", "~")):
        raise Problem(f"{args.target}: no such file or folder")
    name = checked_name(args.target)
    try:
        download = import_module("huggingface_hub").hf_hub_download
    except ImportError:
        raise Problem(
            "fetching from the Hub needs huggingface_hub: pip install 'cfglint-llm[hub]'\n"
            f"  or download its config.json and say `cfglint models add PATH --as {name}`"
        ) from None
    try:
        file: str = download(repo_id=name, filename="config.json", revision=args.revision)
    except Exception as error:  # the library's errors share no base class across its versions
        kind = type(error).__name__
        why = {
            "GatedRepoError": "it is gated: accept its terms on the Hub and log in (`hf auth login`)",
            "RepositoryNotFoundError": "the Hub has no such model, or it is private",
            "RevisionNotFoundError": f"it has no revision {args.revision}",
            "EntryNotFoundError": "it has no config.json",
            "RemoteEntryNotFoundError": "it has no config.json",
            "LocalEntryNotFoundError": "the Hub cannot be reached and the config is not in the local cache",
            "OfflineModeIsEnabled": "HF_HUB_OFFLINE is set and the config is not in the local cache",
        }.get(kind, f"the Hub cannot be reached ({kind})")
        raise Problem(f"cannot fetch {name}: {why}") from None
    return name, read_config(file)
