"""CTR005."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cfglint.dialects.base import Launch
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Mapping, Sequence, at

from ..serving.server import docker_run, launch_of, managed, runs, stated, wrapper
from .pod import mounts, pod_spec, variable_names

TOKENS = frozenset(
    {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACE_HUB_TOKEN", "HUGGINGFACE_TOKEN", "HF_TOKEN_PATH"}
)
OTHER_SOURCES = frozenset({"VLLM_USE_MODELSCOPE", "HF_ENDPOINT", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"})
"""Where one of these is set the weights do not come from the Hub itself."""
GATED = re.compile(r"^(meta-llama/|google/gemma-[123])", re.IGNORECASE)
"""Publishers whose models ask for agreement to a licence; the catalogue knows others one by one."""
HOME = re.compile(r"huggingface|(^|/)\.cache/?$|^/root/?$")
CACHE = re.compile(r"huggingface|hf[-_]?(home|cache|hub)|models?|weights|cache|data", re.IGNORECASE)


class GatedModelWithoutToken(Rule):
    """A gated model is fetched from the Hub, and the container has no token.

    The download ends with "401 Client Error … Access to model meta-llama/… is restricted" and the container restarts.

    How sure: the model is known to be gated, it is named by its Hub id, and no variable of the container holds a token. With
    variables from elsewhere, an offline or mirror setting, or a mounted cache that may hold the weights already, nothing is
    said. Of KServe's resources those with ``--model_id`` alone count: a storage address, a service account or a runtime
    chosen by name may bring the token.
    """

    code = "CTR005"
    name = "gated-model-without-token"
    family = "containers"
    severity = "warning"
    kinds = ("serve",)
    evidence = (
        "https://huggingface.co/docs/hub/models-gated",
        "https://docs.vllm.ai/en/latest/deployment/docker/",
    )
    catalogue = ("k8s-hf-token-missing",)
    _SERVICE = """
            apiVersion: serving.kserve.io/v1beta1
            kind: InferenceService
            metadata: {{name: llama}}
            spec:
              predictor:
                model:
                  modelFormat: {{name: huggingface}}
                  args: ["--model_name=llama", "--model_id=meta-llama/Llama-3.1-8B-Instruct"]
                  resources: {{limits: {{nvidia.com/gpu: "1"}}}}{more}
            """
    good = (
        example(
            "isvc.yaml",
            _SERVICE.format(
                more="""
                  env: [{name: HF_TOKEN, valueFrom: {secretKeyRef: {name: hf-secret, key: HF_TOKEN}}}]"""
            ),
        ),
        example(
            "isvc.yaml",
            _SERVICE.format(
                more="""
                  runtime: our-runtime"""
            ),
            note="the runtime may have it",
        ),
        example(
            "serve.sh", "docker run --gpus all -e HF_TOKEN vllm/vllm-openai:v0.18.1 meta-llama/Llama-3.1-8B-Instruct"
        ),
        example("serve.sh", "docker run --gpus all vllm/vllm-openai:v0.18.1 Qwen/Qwen2.5-7B-Instruct"),
        example("serve.sh", "vllm serve meta-llama/Llama-3.1-8B-Instruct", note="the host may be logged in"),
    )
    bad = (
        example("serve.sh", "docker run --gpus all vllm/vllm-openai:v0.18.1 meta-llama/Llama-3.1-8B-Instruct", count=1),
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
                  args: ["--model", "google/gemma-3-4b-it"]
            """,
        ),
        example("isvc.yaml", _SERVICE.format(more=""), count=1),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        launch = launch_of(job)
        fact = job.model_id
        if launch is None or fact is None or not isinstance(fact.value, str):
            return
        if managed(job) and not _fetched_by_kserve(job, launch):
            return
        if not runs(job, "vllm", "sglang", "tgi"):
            return
        if launch.carrier not in ("kubernetes", "compose") and docker_run(launch) is None:
            return
        row = job.model.row if job.model is not None else None
        if (
            fact.value.count("/") != 1
            or fact.value.startswith((".", "/"))
            or not (GATED.match(fact.value) or (row is not None and row.gated is True))
        ):
            return
        names = variable_names(launch)
        if names is None or names & (TOKENS | OTHER_SOURCES) or stated(job, "hf_token") or stated(job, "download_dir"):
            return
        paths = [path for path, _ in mounts(launch)]
        if any(HOME.search(path) for path in paths):
            return  # the token that ``hf auth login`` keeps lies there
        cached = any(CACHE.search(path) for path in paths)
        spec = pod_spec(launch)
        if spec is not None and isinstance(spec.get("initContainers"), Sequence):
            return
        if launch.container is not None and any(k in launch.container for k in ("secrets", "extends", "<<")):
            return
        yield self.finding(
            f"{fact.value} is gated, and the container has no Hugging Face token"
            + (": it must be in the mounted folder already" if cached else ""),
            fact,
            help="HF_TOKEN from a secret",
            severity="info" if cached else "warning",
            confidence="low" if cached else None,
            job=job,
        )


def _fetched_by_kserve(job: ServingJob, launch: Launch) -> bool:
    """Whether KServe's Hugging Face server fetches the model itself, with the environment of the resource alone."""
    predictor = at(launch.document.root, "spec", "predictor")
    model = at(predictor, "model")
    if wrapper(job) != "kserve" or not isinstance(predictor, Mapping) or not isinstance(model, Mapping):
        return False
    return "serviceAccountName" not in predictor and not {"runtime", "storageUri", "storage"} & set(model.index)
