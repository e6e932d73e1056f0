"""CTR002."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.estimate.result import GIB
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Parameter, Rule, example
from cfglint.source.node import Mapping, Node, value_at

from ..serving.server import managed, runs, size
from .pod import in_kubernetes, mounts, origin_in

PERIOD, FAILURES = 10, 3
"""Kubernetes' defaults for periodSeconds and failureThreshold."""


class LivenessBeforeLoaded(Rule):
    """The liveness probe kills the server before its weights are loaded.

    /health answers only once the model is loaded and graphs are captured. A liveness probe without a startup probe restarts
    the container after initialDelaySeconds + periodSeconds × failureThreshold, and loading begins again, for ever.

    How sure: the time is worked out from the size of the weights with a rate and a start-up time that are parameters: 1 GiB/s
    (a good network disk; local NVMe does more, a cold bucket less) and 60 s for imports, compilation and graphs. A model from
    the Hub in a pod without volumes is fetched first, at 0.25 GiB/s. A warning.
    """

    code = "CTR002"
    name = "liveness-before-loaded"
    family = "containers"
    severity = "warning"
    confidence = "medium"
    kinds = ("serve",)
    evidence = (
        "https://github.com/kserve/kserve/issues/5062",
        "https://github.com/kserve/kserve/pull/5063",
        "https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/",
    )
    catalogue = ("k8s-startup-probe",)
    parameters = {
        "gib_per_second": Parameter(1.0, "reading weights from a good network disk"),
        "gib_per_second_fetched": Parameter(0.25, "fetching weights from the Hub, where no volume holds them"),
        "start_seconds": Parameter(60, "imports, compilation, profiling and CUDA graphs"),
    }
    good = (
        example(
            "pod.yaml",
            """
            apiVersion: v1
            kind: Pod
            metadata: {name: llm}
            spec:
              containers:
                - name: llm
                  image: vllm/vllm-openai:v0.18.1
                  args: ["meta-llama/Llama-3.3-70B-Instruct", "--tensor-parallel-size=4"]
                  livenessProbe: {httpGet: {path: /health, port: 8000}, periodSeconds: 10}
                  startupProbe: {httpGet: {path: /health, port: 8000}, periodSeconds: 10, failureThreshold: 90}
            """,
        ),
    )
    bad = (
        example(
            "pod.yaml",
            """
            apiVersion: v1
            kind: Pod
            metadata: {name: llm}
            spec:
              containers:
                - name: llm
                  image: vllm/vllm-openai:v0.18.1
                  args: ["meta-llama/Llama-3.3-70B-Instruct", "--tensor-parallel-size=4"]
                  livenessProbe: {httpGet: {path: /health, port: 8000}, initialDelaySeconds: 120, periodSeconds: 10}
            """,
            at="livenessProbe",
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        launch = in_kubernetes(job)
        if launch is None or launch.container is None or not runs(job, "vllm", "sglang", "tgi") or managed(job):
            return
        probe = launch.container.get("livenessProbe")
        if not isinstance(probe, Mapping) or "startupProbe" in launch.container:
            return
        delay, period, failures = (
            _seconds(probe, "initialDelaySeconds", 0),
            _seconds(probe, "periodSeconds", PERIOD),
            _seconds(probe, "failureThreshold", FAILURES),
        )
        serving = context.estimate(job).serving
        tp, pp = size(job, "tensor_parallel_size"), size(job, "pipeline_parallel_size")
        if (
            delay is None
            or period is None
            or failures is None
            or serving is None
            or not serving.weights
            or tp is None
            or pp is None
        ):
            return
        weights = serving.weights * tp * pp
        allowed = delay + period * failures
        needed = self.options["start_seconds"] + weights / GIB / self.options["gib_per_second"]
        name = str(job.value("model_id") or "")
        fetched = name.count("/") == 1 and not name.startswith((".", "/")) and not any(True for _ in mounts(launch))
        if fetched:
            needed += weights / GIB / self.options["gib_per_second_fetched"]
        if allowed >= needed:
            return
        threshold = int(needed * 2 / 10) + 1
        yield self.finding(
            f"the liveness probe gives up after {allowed} s; {weights / GIB:.0f} GiB of weights take about {needed:.0f} s to {'fetch, ' if fetched else ''}load and start",
            origin_in(launch, launch.container, "livenessProbe"),
            (job.model_id, f"{weights / GIB:.0f} GiB"),
            help=f"a startupProbe on the same path with periodSeconds: 10, failureThreshold: {threshold}",
            data={"allowed_s": allowed, "needed_s": round(needed)},
            job=job,
        )


def _seconds(probe: Node, key: str, default: int) -> int | None:
    value = value_at(probe, key)
    if value is None:
        return default
    return value if isinstance(value, int) and not isinstance(value, bool) else None
