"""CTR007."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import FileOrigin
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Entry, Mapping, at, value_at

from ..serving.server import runs_vllm
from .pod import image_origin, in_kubernetes, manifests, namespace, pod_spec, variable_names


class ServiceNamedVllm(Rule):
    """A Service called ``vllm`` sets ``VLLM_PORT`` to an address, and vLLM cannot read it.

    Kubernetes gives every pod of the namespace ``<SERVICE>_PORT=tcp://10.…:8000``. vLLM takes VLLM_PORT for its own internal
    port and ends with "VLLM_PORT 'tcp://…' appears to be a URI", or in releases before 0.9 "invalid literal for int()".

    How sure: Service and pod are in the same namespace of the files, service links are on, and the container does not set
    VLLM_PORT itself. vLLM's documentation warns of the name.
    """

    code = "CTR007"
    name = "service-named-vllm"
    family = "containers"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://docs.vllm.ai/en/latest/configuration/env_vars/",
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/envs.py",
        "https://github.com/vllm-project/vllm/issues/34199",
    )
    catalogue = ("k8s-vllm-port-service",)
    _POD = """
            ---
            apiVersion: v1
            kind: Pod
            metadata: {name: chat, labels: {app: chat}}
            spec:
              containers:
                - name: llm
                  image: vllm/vllm-openai:v0.18.1
                  args: ["Qwen/Qwen2.5-7B-Instruct"]
            """
    good = (
        example(
            {
                "chat.yaml": """
                apiVersion: v1
                kind: Service
                metadata: {name: vllm}
                spec: {selector: {app: chat}, ports: [{port: 8000}]}
                """
                + _POD,
                "kustomization.yaml": "nameSuffix: -chat\nresources: [chat.yaml]",
            },
            note="kustomize gives the Service another name",
        ),
        example(
            "chat.yaml",
            """
            apiVersion: v1
            kind: Service
            metadata: {name: vllm-chat}
            spec: {selector: {app: chat}, ports: [{port: 8000}]}
            """
            + _POD,
        ),
    )
    bad = (
        example(
            "chat.yaml",
            """
            apiVersion: v1
            kind: Service
            metadata: {name: vllm}
            spec: {selector: {app: chat}, ports: [{port: 8000}]}
            """
            + _POD,
            at="name",
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        launch = in_kubernetes(job)
        if launch is None or not runs_vllm(job):
            return
        spec, root = pod_spec(launch), launch.context.get("manifest")
        if spec is None or value_at(spec, "enableServiceLinks") is False:
            return
        names = variable_names(launch)
        if names is not None and "VLLM_PORT" in names:
            return
        for document, service in manifests(context, "Service"):
            if value_at(service, "metadata", "name") != "vllm" or value_at(service, "spec", "type") == "ExternalName":
                continue
            if value_at(service, "spec", "clusterIP") == "None" or namespace(service) != namespace(root):
                continue  # a headless Service sets no variables
            if (
                document.file is not launch.document.file
                and document.path.rpartition("/")[0] != launch.document.path.rpartition("/")[0]
            ):
                continue
            if _kustomized(document.path, context):
                continue  # a prefix or suffix may give it another name
            entry = _name_entry(service)
            yield self.finding(
                "a Service called vllm sets VLLM_PORT=tcp://… in this pod, which vLLM takes for its own port",
                FileOrigin(document, ("metadata", "name"), entry.key.span, entry.value.span)
                if entry is not None
                else None,
                (image_origin(launch), "the server that reads it"),
                help="another name for the Service, or enableServiceLinks: false in the pod",
                job=job,
            )
            return


def _kustomized(path: str, context: Context) -> bool:
    folder = path.rpartition("/")[0]
    beside = f"{folder}/kustomization" if folder else "kustomization"
    return f"{beside}.yaml" in context.files or f"{beside}.yml" in context.files


def _name_entry(service: Mapping) -> Entry | None:
    metadata = at(service, "metadata")
    return metadata.entry("name") if isinstance(metadata, Mapping) else None
