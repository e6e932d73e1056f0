"""CTR012."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import FileOrigin
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Mapping, Scalar

from .pod import in_kubernetes, pod_spec


class InstanceGpuCount(Rule):
    """The pod asks for more GPUs than the instance type it is bound to has.

    No node of that type can ever hold the pod: it stays pending, and an autoscaler may add nodes for it in vain.

    How sure: the node selector names an instance type of the catalogue, or a label whose value says how many GPUs a node
    has, and the limit is a number.
    """

    code = "CTR012"
    name = "instance-gpu-count"
    family = "containers"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/",
        "https://aws.amazon.com/ec2/instance-types/g5/",
    )
    catalogue = ("k8s-instance-gpu-count",)
    _POD = """
            apiVersion: v1
            kind: Pod
            metadata: {{name: llm}}
            spec:
              nodeSelector: {{node.kubernetes.io/instance-type: {instance}}}
              containers:
                - name: llm
                  image: vllm/vllm-openai:v0.18.1
                  args: ["Qwen/Qwen2.5-32B-Instruct", "--tensor-parallel-size=4"]
                  resources: {{limits: {{nvidia.com/gpu: 4}}}}
            """
    good = (example("pod.yaml", _POD.format(instance="g5.12xlarge")),)
    bad = (example("pod.yaml", _POD.format(instance="g5.4xlarge"), at="nvidia.com/gpu", count=1),)

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        launch = in_kubernetes(job)
        spec = pod_spec(launch) if launch is not None else None
        asked = job.hardware.gpus_per_node
        if launch is None or spec is None or asked is None or launch.gpus is None or launch.gpus[0] != asked:
            return
        selector = spec.get("nodeSelector")
        if not isinstance(selector, Mapping):
            return
        from cfglint.catalog.labels import read_label

        for name, entry in selector.index.items():
            if not isinstance(entry.value, Scalar):
                continue
            match = read_label(name, str(entry.value.value))
            if match is None or match.share or match.count is None or asked <= match.count or match.count < 1:
                continue
            yield self.finding(
                f"the pod asks for {asked} GPUs, {entry.value.value!s} has {match.count:g}",
                launch.gpus[1],
                (
                    FileOrigin(launch.document, ("nodeSelector", name), entry.key.span, entry.value.span),
                    f"{match.count:g} × {match.gpu}",
                ),
                help="a larger instance type, or fewer GPUs",
                job=job,
            )
            return
