"""KServe: InferenceService, ServingRuntime and LLMInferenceService; their containers, and what stands for a vLLM command."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from cfglint.dialects.base import Dialect, Launch, Recognition
from cfglint.dialects.carriers import kubernetes
from cfglint.dialects.carriers.kubernetes import environment, words_of
from cfglint.jobs.facts import Reading
from cfglint.source.node import Document, Entry, Mapping, Node, Route, Scalar, Sequence, at, value_at
from cfglint.source.shell import Word, parse_shell

RUNTIME_ARGUMENTS: Final = frozenset(
    {
        "model_name", "model_dir", "model_id", "model_revision", "tokenizer_revision", "max_length", "disable_lower_case",
        "disable_special_tokens", "task", "backend", "return_token_type_ids", "return_probabilities", "return_raw_logits",
        "http_port", "grpc_port", "workers", "max_threads", "max_asyncio_workers", "enable_grpc", "enable_docs_url",
        "enable_latency_logging", "configure_logging", "log_config_file", "access_log_format", "predictor_host",
        "dtype_backend", "disable_log_requests", "nthread", "grpc_max_send_message_length",
    }
)  # fmt: skip
"""Arguments of KServe's Hugging Face server that are not vLLM's."""
_COMMENT: Final = re.compile(r"(?:^|(?<=\s))#.*")
_LANGUAGE_MODEL: Final = re.compile(
    r"hugging-?_?face|vllm|sglang|text-generation|trt-?llm|tensorrt-?_?llm|lmdeploy|ollama|llama|bert|gpt|qwen|mistral|gemma"
    r"|deepseek|(?<![a-z])llm(?![a-z])",
    re.IGNORECASE,
)
"""Servers and families of language models, as images, arguments and addresses name them."""
MODEL_MOUNT: Final = "/mnt/models"
PARALLELISM: Final = {
    "tensor": "--tensor-parallel-size",
    "pipeline": "--pipeline-parallel-size",
    "data": "--data-parallel-size",
    "dataLocal": "--data-parallel-size-local",
}


class KserveDialect(Dialect):
    name = "kserve"
    title = "KServe"
    kind = "serve"
    wraps = True
    summary = "InferenceService, ServingRuntime, LLMInferenceService: containers, vLLM arguments, resources"

    def recognise(self, document: Document, root: Mapping) -> Recognition | None:
        api = value_at(root, "apiVersion")
        if not isinstance(api, str) or not api.startswith(("serving.kserve.io/", "serving.kubeflow.org/")):
            return None
        kind = str(value_at(root, "kind") or "")
        if kind.startswith("LLM"):
            return Recognition(90, f"{api} {kind}")
        # KServe serves models of every kind: a resource for a scikit-learn model is none of ours
        text = _COMMENT.sub("", document.file.text[root.span.start : root.span.end])
        named = _LANGUAGE_MODEL.search(text)
        return Recognition(90, f"{api} {kind} that names {named.group().lower()}") if named else None

    def read(self, document: Document, root: Mapping) -> Iterator[Reading]:
        yield Reading(self.name, document, root, role="carrier", kind="serve", carrier="kubernetes")

    def launches(self, document: Document, root: Mapping) -> Iterator[Launch]:
        kind = value_at(root, "kind")
        if kind == "LLMInferenceService":
            yield from _llm_service(document, root)
            return
        predictor = at(root, "spec", "predictor")
        if isinstance(predictor, Mapping):
            yield from _predictor(document, root, predictor)
        if kind != "LLMInferenceServiceConfig":
            yield from kubernetes.launches(document)


def _predictor(document: Document, root: Mapping, predictor: Mapping) -> Iterator[Launch]:
    """``predictor.model`` (or the older ``predictor.huggingface``) of the Hugging Face runtime, whose engine is vLLM."""
    for key in ("model", "huggingface"):
        model = predictor.get(key)
        if not isinstance(model, Mapping):
            continue
        kind = str(value_at(model, "modelFormat", "name") or "") if key == "model" else key
        arguments = words_of(model.get("args"))
        if kind.lower() not in ("huggingface", "vllm") or _argument(arguments, "backend") == "huggingface":
            return
        if str(_argument(arguments, "task") or "text_generation") not in ("text_generation", "text2text_generation"):
            return
        start = at(model, "modelFormat") or model
        words = [Word("vllm", "", start.span), Word("serve", "", start.span)]
        named = _hub_id(model.get("storageUri"))
        for word in arguments:
            if _name(word) == "model_id" and "=" in word.text:
                named = Word(word.text.partition("=")[2], word.raw, word.span, word.known)
        words += [named] if named is not None else [Word(MODEL_MOUNT, "", start.span, False)]
        words += _without_runtime_arguments(arguments)
        yield from kubernetes.container_launches(
            document,
            root,
            ("spec", "predictor", key, "model"),
            predictor,
            _with_command(model, words),
            wrapper="kserve",
        )


def _with_command(container: Mapping, words: list[Word]) -> Mapping:
    """The container as it is, but for what it runs."""
    items: list[Node] = [Scalar(w.span, w.text, w.raw, "double" if w.quoted else "plain") for w in words]
    kept = [e for e in container.entries if e.name not in ("args", "command")]
    span = words[0].span if words else container.span
    return Mapping(container.span, [*kept, Entry(Scalar(span, "command", "command"), Sequence(span, items))])


def _llm_service(document: Document, root: Mapping) -> Iterator[Launch]:
    """Each pod template; a container without a command of its own gets ``vllm serve`` from the controller's template."""
    spec = root.get("spec")
    if not isinstance(spec, Mapping):
        return
    model = _hub_id(at(spec, "model", "uri"))
    for route in (("template",), ("prefill", "template"), ("worker",), ("prefill", "worker")):
        pod = at(spec, *route)
        containers = at(pod, "containers") if isinstance(pod, Mapping) else None
        container = at(containers, 0) if containers is not None else None
        if not isinstance(pod, Mapping) or not isinstance(container, Mapping):
            continue
        own = [*words_of(container.get("command")), *words_of(container.get("args"))]
        if own:
            inside = container
        elif model is not None:
            words = [Word("vllm", "", model.span), Word("serve", "", model.span), model]
            words += _parallelism(at(spec, *route[:-1], "parallelism"))
            words += _additional(container)
            inside = _with_command(container, words)
        else:
            continue
        place: Route = ("spec", *route, "containers", 0)
        for launch in kubernetes.container_launches(document, root, place, pod, inside, wrapper="kserve"):
            if model is not None:
                launch.words = [model if w.text == MODEL_MOUNT else w for w in launch.words]
            yield launch


def _parallelism(node: Node | None) -> Iterator[Word]:
    for name, entry in (node.index if isinstance(node, Mapping) else {}).items():
        flag = PARALLELISM.get(name)
        if flag is not None and isinstance(entry.value, Scalar):
            yield Word(flag, entry.key.raw, entry.key.span)
            yield Word(str(entry.value.value), entry.value.raw, entry.value.span)


def _additional(container: Mapping) -> Iterator[Word]:
    """``VLLM_ADDITIONAL_ARGS``, which the controller's template appends."""
    found = environment(container).get("VLLM_ADDITIONAL_ARGS")
    if found is None:
        return
    parsed = parse_shell("", "vllm " + found.text)
    for command in parsed.script.commands if parsed.script else []:
        for word in command.words[1:]:
            text = word.text if "{{" not in word.text else "$(VLLM_ADDITIONAL_ARGS)"  # the controller fills it in
            yield Word(text, "", found.span, word.known and text == word.text, word.quoted)


def _hub_id(node: Node | None) -> Word | None:
    if not isinstance(node, Scalar) or not isinstance(node.value, str):
        return None
    scheme, separator, target = node.value.partition("://")
    return Word(target.partition(":")[0], node.raw, node.span) if separator and scheme == "hf" else None


def _name(word: Word) -> str:
    return word.text.partition("=")[0].lstrip("-").replace("-", "_")


def _argument(words: list[Word], name: str) -> str | None:
    for i, word in enumerate(words):
        if word.text.startswith("--") and _name(word) == name:
            if "=" in word.text:
                return word.text.partition("=")[2]
            return words[i + 1].text if i + 1 < len(words) else None
    return None


def _without_runtime_arguments(words: list[Word]) -> list[Word]:
    kept: list[Word] = []
    skip = False
    for i, word in enumerate(words):
        if word.text.startswith("--"):
            skip = _name(word) in RUNTIME_ARGUMENTS
            if not skip:
                kept.append(word)
            skip = skip and "=" not in word.text
        elif not skip or (i and not words[i - 1].text.startswith("--")):
            kept.append(word)
            skip = False
        else:
            skip = False
    return kept


DIALECT = KserveDialect()
