"""SRV001."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cfglint.jobs.facts import Reading
from cfglint.jobs.job import ServingJob
from cfglint.jobs.versions import in_words
from cfglint.lint.context import Context
from cfglint.lint.finding import Confidence, Finding, Fix, Severity
from cfglint.lint.fixes import remove_key
from cfglint.lint.rule import Rule, example

from .dropped_in import DROPPED_IN
from .server import arguments, managed, readings, since, statement, version, wrapper

INSTEAD = {
    "disable_log_requests": "leave it out: requests are not logged unless --enable-log-requests is given",
    "swap_space": "leave it out: the V1 engine does not swap to host memory",
    "task": "--runner pooling, with --convert embed or --convert classify where a generative model is adapted",
    "enable_reasoning": "--reasoning-parser alone switches reasoning on",
    "guided_decoding_backend": "--structured-outputs-config.backend",
    "guided_decoding_disable_fallback": "--structured-outputs-config.disable_fallback",
    "guided_decoding_disable_any_whitespace": "--structured-outputs-config.disable_any_whitespace",
    "guided_decoding_disable_additional_properties": "--structured-outputs-config.disable_additional_properties",
    "rope_scaling": "--hf-overrides with rope_parameters (rope_scaling for models of transformers 4)",
    "rope_theta": "--hf-overrides with rope_parameters (rope_theta for models of transformers 4)",
    "use_v2_block_manager": "leave it out",
    "num_scheduler_steps": "leave it out: multi-step scheduling went with the V0 engine",
    "multi_step_stream_outputs": "leave it out: multi-step scheduling went with the V0 engine",
    "device": "leave it out: the platform is found by itself",
    "worker_use_ray": "--distributed-executor-backend ray",
    "engine_use_ray": "leave it out",
    "max_context_len_to_capture": "--compilation-config.cudagraph_capture_sizes",
    "max_seq_len_to_capture": "--compilation-config.cudagraph_capture_sizes",
    "cuda_graph_sizes": "--cudagraph-capture-sizes",
    "disable_mm_preprocessor_cache": "--mm-processor-cache-gb 0",
    "enable_multimodal_encoder_data_parallel": "--mm-encoder-tp-mode data",
    "override_pooler_config": "--pooler-config",
    "num_redundant_experts": "--eplb-config.num_redundant_experts",
    "eplb_window_size": "--eplb-config.window_size",
    "eplb_step_interval": "--eplb-config.step_interval",
    "eplb_log_balancedness": "--eplb-config.log_balancedness",
    "calculate_kv_scales": "leave it out and serve a checkpoint with calibrated scales",
    "lora_extra_vocab_size": "leave it out: adapters that add tokens are no longer taken",
    "num_lookahead_slots": "leave it out",
    "preemption_mode": "leave it out: the V1 engine always recomputes",
    "scheduler_delay_factor": "leave it out",
    "tokenizer_pool_size": "leave it out",
    "disable_frontend_multiprocessing": "leave it out",
    "disable_async_output_proc": "leave it out",
}
SPECULATIVE = {
    "speculative_model": "model",
    "num_speculative_tokens": "num_speculative_tokens",
    "speculative_draft_tensor_parallel_size": "draft_tensor_parallel_size",
    "speculative_max_model_len": "max_model_len",
    "speculative_model_quantization": "quantization",
    "speculative_disable_by_batch_size": "disable_by_batch_size",
    "ngram_prompt_lookup_max": "prompt_lookup_max",
    "ngram_prompt_lookup_min": "prompt_lookup_min",
}
"""Arguments of before 0.8.3 to keys of ``--speculative-config``."""
WITHOUT_EFFECT = frozenset({"disable_log_requests", "use_v2_block_manager", "num_lookahead_slots", "swap_space"})
"""What these asked for is what releases without them do."""


class RemovedArgument(Rule):
    """Argument that this vLLM release no longer has.

    vLLM's parser refuses what it does not know: the server exits at once with "unrecognized arguments", and a container
    restarts for ever. Dozens of arguments went between 0.6 and 0.33, most of them with the V0 engine.

    How sure: arguments were read from the source of eight releases between 0.4.3 and 0.33.0. With the version stated
    (image tag, requirements, settings) it is an error. Without it, or with a tag such as ``latest``, it is a warning: an
    older release may still be meant; in Ray Serve's files, whose image chooses the release, it is information. When most arguments went is known to the release; where it is not, nothing is said between
    two samples that differ.
    """

    code = "SRV001"
    name = "removed-argument"
    family = "serving"
    severity = "error"
    kinds = ("serve",)
    fixable = "safe"
    evidence = (
        "https://github.com/kserve/kserve/pull/4883",
        "https://github.com/jdaln/dgx-spark-inference-stack/pull/13",
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/engine/arg_utils.py",
    )
    catalogue = (
        "cli-removed-flag-vllm",
        "cli-guided-to-structured",
        "cli-task-to-runner",
        "cli-enable-reasoning",
        "rope-cli-removed",
        "spec-legacy-flags",
    )
    good = (
        example(
            "serve.sh",
            "docker run --gpus all --ipc=host vllm/vllm-openai:v0.8.5 --model Qwen/Qwen2.5-7B-Instruct --swap-space 8",
            note="0.8.5 still has it",
        ),
        example(
            "serve.sh",
            "docker run --gpus all --ipc=host vllm/vllm-openai:v0.33.0 --model Qwen/Qwen2.5-7B-Instruct --disable-log-requests",
            note="0.33 takes --disable-x for every --enable-x",
        ),
    )
    bad = (
        example(
            "serve.sh",
            "docker run --gpus all --ipc=host vllm/vllm-openai:v0.18.1 --model Qwen/Qwen2.5-7B-Instruct --swap-space 8",
            at="swap_space",
            count=1,
        ),
        example(
            {
                "serve.yaml": """
                model: Qwen/Qwen2.5-7B-Instruct
                max-model-len: 8192
                guided-decoding-backend: xgrammar
                """,
                "requirements.txt": "vllm==0.18.1",
            },
            at="guided-decoding-backend",
        ),
        example(
            "serve.sh",
            "vllm serve Qwen/Qwen2.5-7B-Instruct --speculative-model Qwen/Qwen2.5-0.5B --num-speculative-tokens 4",
        ),
        example(
            "serve_config.yaml",
            """
            applications:
              - name: embeddings
                import_path: ray.serve.llm:build_openai_app
                args:
                  llm_configs:
                    - model_loading_config: {model_id: embed, model_source: Qwen/Qwen3-Embedding-0.6B}
                      engine_kwargs: {task: embed}
            """,
            at="task",
            note="Ray's image chooses the release: information",
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        from cfglint.catalog.engines import engine_argument

        legacy: list[tuple[Reading, str]] = []
        for reading in readings(job):
            for name, _, key, _entry in arguments(reading):
                argument = engine_argument("vllm", f"--{name}")
                if argument is None or argument.absent_from is None:
                    continue
                severity = self._severity(job, name, argument)
                if severity is None:
                    continue
                if name in SPECULATIVE:
                    legacy.append((reading, key))
                    continue
                yield self._one(job, reading, key, name, argument.absent_from, severity)
        if legacy:
            yield self._speculative(job, legacy)

    def _severity(self, job: ServingJob, name: str, argument: Any) -> Severity | None:
        if version(job) is None:
            fork = name == "device" and str(getattr(statement(job, name), "value", "")) in ("neuron", "hpu", "tpu")
            if wrapper(job) == "ray-serve-llm":
                return "info"  # Ray's image chooses the release
            return None if managed(job) or fork else "warning"
        if name == "disable_log_requests" and since(job, "0.33.0"):
            return None  # vllm/utils/argparse_utils.py, EnableDisableAction
        return "error" if since(job, DROPPED_IN.get(name, argument.absent_from)) else None

    def _one(self, job: ServingJob, reading: Reading, key: str, name: str, gone: str, severity: Severity) -> Finding:
        gone = DROPPED_IN.get(name, gone)
        stated = version(job)
        confidence: Confidence = "high" if severity == "error" else "medium" if severity == "warning" else "low"
        known = f"vLLM {in_words(stated)}" if stated else "the vLLM version is not stated here, and the argument"
        flag = f"--{name.replace('_', '-')}"
        what = f"{known} has no {flag}" if stated else f"{known} {flag}"
        by = "went with" if name in DROPPED_IN else "is gone by"
        message = f"{what}: it {by} {gone}" if stated else f"{what} {by} {gone}"
        fixes: tuple[Fix, ...] = ()
        if name in WITHOUT_EFFECT and severity == "error" and not reading.context.get("command_line"):
            edit = remove_key(reading, (key,))
            fixes = (Fix(f"Remove {key}", (edit,)),) if edit is not None else ()
        return self.finding(
            message,
            reading.origin(key),
            help=INSTEAD.get(name, "leave it out"),
            severity=severity,
            confidence=confidence,
            fixes=fixes,
            data={"argument": name, "absent_from": gone, "version": stated},
            job=job,
        )

    def _speculative(self, job: ServingJob, found: list[tuple[Reading, str]]) -> Finding:
        stated = version(job)
        keys = ", ".join(f"--{key.lstrip('-').replace('_', '-')}" for _, key in found)
        where = [reading.origin(key) for reading, key in found]
        unknown = "" if stated else "; the vLLM version is not stated here"
        return self.finding(
            f"{keys}: from 0.8.3 on speculation is set by --speculative-config alone{unknown}",
            *where,
            help="--speculative-config '{"
            + ", ".join(f'"{SPECULATIVE[key.lstrip("-").replace("-", "_")]}": …' for _, key in found)
            + "}'",
            severity="error" if stated else "info" if managed(job) else "warning",
            confidence="high" if stated else "low" if managed(job) else "medium",
            data={"arguments": [key for _, key in found], "version": stated},
            job=job,
        )
