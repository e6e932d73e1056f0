"""SEC006."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..serving.server import managed, runs_vllm, statement, switch, text
from .open_server import exposed

FEATURES = {
    "enable_prompt_embeds": "clients send tensors that go into the model as they are, and can crash it",
    "enable_mm_embeds": "clients send tensors that go into the model as they are, and can crash it",
    "trust_request_chat_template": "clients send Jinja templates, which the server runs",
    "enable_tokenizer_info_endpoint": "clients read the tokenizer's configuration and chat template",
}


class ExposedFeatures(Rule):
    """Features for trusted clients on a server that others can reach.

    Prompt embeddings, templates out of requests, the demonstration tool server (it runs code that the model writes, with
    network access), and a CORS setup that lets every web page call with the visitor's credentials: vLLM's security page
    tells of each.

    How sure: the settings are stated, and the server is published on all addresses or behind a LoadBalancer or NodePort. A
    gateway that filters cannot be seen: warnings of medium confidence. The CORS pair is reported wherever it stands.
    """

    code = "SEC006"
    name = "exposed-features"
    family = "security"
    severity = "warning"
    confidence = "medium"
    kinds = ("serve",)
    evidence = (
        "https://docs.vllm.ai/en/latest/usage/security/",
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/engine/arg_utils.py",
    )
    catalogue = (
        "sec-prompt-embeds", "sec-request-template", "sec-debug-endpoints", "sec-tool-server-demo", "sec-cors-credentials",
    )  # fmt: skip
    good = (
        example(
            "serve.sh",
            "docker run --gpus all -p 127.0.0.1:8000:8000 vllm/vllm-openai:v0.18.1 Qwen/Qwen2.5-7B-Instruct --enable-prompt-embeds",
            note="published on the loopback address only",
        ),
    )
    bad = (
        example(
            "serve.sh",
            "docker run --gpus all -p 8000:8000 vllm/vllm-openai:v0.18.1 Qwen/Qwen2.5-7B-Instruct --enable-prompt-embeds",
            at="enable_prompt_embeds",
            count=1,
        ),
        example(
            "serve.sh",
            """vllm serve Qwen/Qwen2.5-7B-Instruct --allow-credentials --allowed-origins '["*"]'""",
            at="allow_credentials",
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        if not runs_vllm(job) or managed(job):
            return
        origins = statement(job, "allowed_origins")
        anyone = origins is None or "*" in str(origins.value)
        if switch(job, "allow_credentials") is True and anyone:
            yield self.finding(
                "allow_credentials with every origin allowed: any web page can call with its visitor's credentials",
                statement(job, "allow_credentials"),
                (origins, "every origin"),
                help="name the origins in allowed_origins, or leave allow_credentials out",
                job=job,
            )
        found = exposed(job, context)
        if found is None:
            return
        how, _ = found
        for name, effect in FEATURES.items():
            if switch(job, name) is True:
                yield self.finding(
                    f"{name} on a server that is {how}: {effect}",
                    statement(job, name),
                    help="leave it out, or keep the server on a private address",
                    job=job,
                )
        tools = text(job, "tool_server")
        if tools is not None and tools.value == "demo":
            yield self.finding(
                f"the demonstration tool server on a server that is {how}: code that the model writes is run",
                tools,
                help="a tool server of your own, without network access",
                job=job,
            )
