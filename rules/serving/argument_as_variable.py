"""SRV031."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import FileOrigin
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..containers.pod import cuda_image
from .server import launch_of, managed, runs_vllm


class ArgumentAsVariable(Rule):
    """An engine's argument is given as an environment variable, which vLLM does not read.

    vLLM's own variables (``VLLM_…``) switch kernels and timeouts; no option of ``vllm serve`` can be given by one.
    ``VLLM_MAX_MODEL_LEN`` or ``VLLM_GPU_MEMORY_UTILIZATION`` changes nothing, newer releases log "Unknown vLLM environment
    variable".

    How sure: the project's own image, the name is that of an argument, and no release read has such a variable. Where the
    text of the file uses the variable (``$VLLM_MODEL`` in a command) nothing is said.
    """

    code = "SRV031"
    name = "argument-as-variable"
    family = "serving"
    severity = "warning"
    confidence = "medium"
    kinds = ("serve",)
    evidence = (
        "https://docs.vllm.ai/en/latest/configuration/env_vars/",
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/envs.py",
    )
    catalogue = ("env-unknown-vllm",)
    _POD = """
            apiVersion: v1
            kind: Pod
            metadata: {{name: llm}}
            spec:
              containers:
                - name: llm
                  image: vllm/vllm-openai:v0.18.1
                  args: ["Qwen/Qwen2.5-7B-Instruct"]
                  env: [{{name: {name}, value: "{value}"}}]
            """
    good = (
        example("pod.yaml", _POD.format(name="VLLM_LOGGING_LEVEL", value="DEBUG")),
        example(
            "docker-compose.yml",
            """
            services:
              llm:
                image: vllm/vllm-openai:v0.18.1
                environment: {VLLM_MAX_MODEL_LEN: 8192}
                command: ["Qwen/Qwen2.5-7B-Instruct", "--max-model-len", "${VLLM_MAX_MODEL_LEN:-8192}"]
                gpus: all
            """,
            note="the command uses it",
        ),
    )
    bad = (example("pod.yaml", _POD.format(name="VLLM_MAX_MODEL_LEN", value="8192"), at="VLLM_MAX_MODEL_LEN", count=1),)

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        launch = launch_of(job)
        if launch is None or not runs_vllm(job) or managed(job) or not cuda_image(launch):
            return
        from cfglint.catalog.engines import engine_argument, environment_names

        known, text = environment_names("vllm"), launch.document.file.text
        for name, word in launch.environment.items():
            if not name.startswith("VLLM_") or name in known:
                continue
            own = name.removeprefix("VLLM_").lower()
            argument = engine_argument("vllm", f"--{own}")
            if argument is None or any(form + name in text for form in ("$", "${", "$(")):
                continue
            yield self.finding(
                f"vLLM reads no {name}: {argument.name} is an argument",
                FileOrigin(launch.document, (name,), word.span, word.span),
                help=f"{argument.name} {word.text}" if word.known else argument.name,
                job=job,
            )
