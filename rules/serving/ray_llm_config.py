"""SRV107."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cfglint.dialects.base import Launch
from cfglint.jobs.facts import FileOrigin
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Mapping, Node, Scalar, Sequence, Span, at, value_at

from .server import launch_of, size

ACCELERATORS = frozenset(
    {
        "V100", "P100", "T4", "P4", "K80", "A10G", "L4", "L40S", "A100", "H100", "H200", "H20", "B200",
        "Intel-GPU-Max-1550", "Intel-GPU-Max-1100", "Intel-GAUDI", "AMD-Instinct-MI100", "AMD-Instinct-MI250X",
        "AMD-Instinct-MI250X-MI250", "AMD-Instinct-MI210", "AMD-Instinct-MI300A", "AMD-Instinct-MI300X-OAM",
        "AMD-Instinct-MI300X-HF", "AMD-Instinct-MI308X", "AMD-Instinct-MI325X-OAM", "AMD-Instinct-MI350X-OAM",
        "AMD-Instinct-MI355X-OAM", "AMD-Radeon-R9-200-HD-7900", "AMD-Radeon-HD-7900", "aws-neuron-core", "TPU-V2",
        "TPU-V3", "TPU-V4", "TPU-V5P", "TPU-V5LITEPOD", "TPU-V6E", "Ascend910B", "Ascend910B4", "A100-40G", "A100-80G",
        "GB200", "GB300", "B300", "A10", "RTX-PRO-6000",
    }
)  # fmt: skip
"""ray/util/accelerators/accelerators.py of Ray 2.51, and names that newer cards may bear in later releases."""
NEAR = {
    "A100-80GB": "A100-80G", "A100-40GB": "A100-40G", "NVIDIA-A100": "A100", "H100-80GB": "H100", "NVIDIA-L4": "L4",
    "NVIDIA-H100": "H100", "A100_80G": "A100-80G", "MI300X": "AMD-Instinct-MI300X-OAM",
}  # fmt: skip


class RayLlmConfig(Rule):
    """A Ray Serve LLM configuration that Ray refuses, or that no cluster can place.

    Every rank of the engine takes one bundle of the placement group with one GPU in it: fewer bundles than ranks, or bundles of
    several GPUs, end with an error or wait for ever. ``accelerator_type`` must be one of Ray's names ("Unsupported accelerator
    type"). ``log_engine_metrics`` needs the statistics that ``disable_log_stats`` switches off.

    How sure: read in ray/llm/_internal/serve of 2.51. An accelerator's name that Ray may have learned since is a warning.
    """

    code = "SRV107"
    name = "ray-llm-config"
    family = "serving"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://github.com/ray-project/ray/blob/ray-2.51.0/python/ray/llm/_internal/serve/core/configs/llm_config.py",
        "https://github.com/ray-project/ray/blob/ray-2.51.0/python/ray/util/accelerators/accelerators.py",
    )
    catalogue = ("ray-placement-tp", "ray-accelerator-type", "ray-log-stats")
    _CONFIG = """
        applications:
          - name: llms
            import_path: ray.serve.llm:build_openai_app
            args:
              llm_configs:
                - model_loading_config: {{model_id: qwen, model_source: Qwen/Qwen2.5-14B-Instruct}}
                  accelerator_type: {gpu}
                  engine_kwargs: {{tensor_parallel_size: 2, max_model_len: 8192}}
                  placement_group_config: {{bundles: [{bundles}]}}
        """
    good = (example("serve.yaml", _CONFIG.format(gpu="L40S", bundles="{GPU: 1}, {GPU: 1}")),)
    bad = (
        example("serve.yaml", _CONFIG.format(gpu="L40S", bundles="{GPU: 1}"), at="placement_group_config", count=1),
        example("serve.yaml", _CONFIG.format(gpu="L40S", bundles="{GPU: 2}"), count=1),
        example("serve.yaml", _CONFIG.format(gpu="A100-80GB", bundles="{GPU: 1}, {GPU: 1}"), count=1),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        launch = launch_of(job)
        config = launch.context.get("llm_config") if launch is not None else None
        if launch is None or not isinstance(config, Mapping):
            return
        yield from self._bundles(job, launch, config)
        kind = value_at(config, "accelerator_type")
        if isinstance(kind, str) and kind not in ACCELERATORS and "$" not in kind:
            near = NEAR.get(kind)
            yield self.finding(
                f"Ray has no accelerator type {kind}",
                _origin(launch, config, "accelerator_type"),
                help=f"accelerator_type: {near}" if near else "one of Ray's own names, A100, H100, L4 …",
                severity="error" if near else "warning",
                confidence="high" if near else "medium",
                job=job,
            )
        if (
            value_at(config, "log_engine_metrics") is True
            and value_at(config, "engine_kwargs", "disable_log_stats") is True
        ):
            yield self.finding(
                "log_engine_metrics needs the statistics that disable_log_stats switches off",
                _origin(launch, config, "log_engine_metrics"),
                help="leave disable_log_stats out",
                job=job,
            )

    def _bundles(self, job: ServingJob, launch: Launch, config: Mapping) -> Iterator[Finding]:
        bundles = at(config, "placement_group_config", "bundles")
        tp, pp = size(job, "tensor_parallel_size"), size(job, "pipeline_parallel_size")
        if not isinstance(bundles, Sequence) or tp is None or pp is None:
            return
        given = [_gpus(item) for item in bundles.items]
        if any(count is None for count in given):
            return
        counts = [count for count in given if count is not None]
        where = _origin(launch, config, "placement_group_config")
        if any(count > 1 for count in counts):
            yield self.finding(
                f"a bundle of {max(counts):g} GPUs: each rank takes a bundle of one",
                where,
                help=f"bundles: [{', '.join(['{GPU: 1}'] * min(tp * pp, 4))}{', …' if tp * pp > 4 else ''}]",
                job=job,
            )
        elif sum(counts) < tp * pp:
            yield self.finding(
                f"{sum(counts):g} GPUs in the placement group, and the engine has {tp * pp} ranks",
                where,
                (job.tensor_parallel_size, f"{tp * pp} ranks"),
                help=f"{tp * pp} bundles of one GPU",
                job=job,
            )


def _gpus(item: Node) -> float | None:
    count = value_at(item, "GPU")
    if count is None:
        return 1.0 if isinstance(item, Mapping) and "GPU" not in item else None
    return float(count) if isinstance(count, (int, float)) and not isinstance(count, bool) else None


def _origin(launch: Launch, config: Mapping, key: str) -> FileOrigin | None:
    entry = config.entry(key)
    if entry is None:
        return None
    place: Callable[[Span], Span] = launch.context.get("place") or (lambda span: span)
    value = entry.value.span if isinstance(entry.value, Scalar) else entry.key.span
    return FileOrigin(launch.document, (key,), place(entry.key.span), place(value))
