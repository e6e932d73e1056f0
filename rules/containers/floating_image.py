"""CTR004."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..serving.server import engine, engine_title, launch_of, runs
from .pod import image_origin

IMAGES = {
    "vllm": ("vllm",),
    "sglang": ("sglang",),
    "tgi": ("text-generation-inference",),
    "lmdeploy": ("lmdeploy",),
    "trtllm": ("tensorrt-llm",),
}
"""What the images of each engine are called."""
_RELEASE_IN_NAME = re.compile(r"\.\d+-\d+\.")
"""Google's containers for deep learning bear the release in their name (``…-cu124.2-3.ubuntu2204.py311``)."""
FLOATING = frozenset({"latest", "nightly", "main", "dev", ""})


class FloatingImage(Rule):
    """The server's image has no fixed version: ``latest``, ``nightly`` or no tag.

    Engines drop arguments and change defaults from release to release. A pod that is rescheduled pulls another release than
    its neighbour, and one that worked yesterday ends with "unrecognized arguments".

    How sure: the tag is what the file says; a digest is as good as a version. A warning for manifests and compose files,
    information for command lines.
    """

    code = "CTR004"
    name = "floating-image"
    family = "containers"
    severity = "warning"
    kinds = ("serve",)
    evidence = (
        "https://kubernetes.io/docs/concepts/containers/images/",
        "https://github.com/kserve/kserve/pull/4883",
    )
    catalogue = ("k8s-image-latest",)
    good = (
        example("serve.sh", "docker run --gpus all vllm/vllm-openai:v0.18.1 Qwen/Qwen2.5-7B-Instruct"),
        example(
            "serve.sh",
            "docker run --gpus all vllm/vllm-openai@sha256:05a31dc4185b042e91f4d2183689ac8a87bd845713d5c3f987563c5899878271 Qwen/Qwen2.5-7B-Instruct",
        ),
    )
    bad = (
        example(
            "docker-compose.yml",
            """
            services:
              llm:
                image: lmsysorg/sglang:latest
                command: python3 -m sglang.launch_server --model-path Qwen/Qwen2.5-7B-Instruct --host 0.0.0.0
            """,
            count=1,
        ),
        example(
            "serve.sh", "docker run --gpus all vllm/vllm-openai:latest Qwen/Qwen2.5-7B-Instruct", at="image", count=1
        ),
        example(
            "docker-compose.yml",
            """
            services:
              llm:
                image: vllm/vllm-openai
                command: --model Qwen/Qwen2.5-7B-Instruct
            """,
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        launch = launch_of(job)
        if launch is None or launch.image is None or not launch.image.known or not runs(job, *IMAGES):
            return
        image = launch.image.text
        tag = image.rpartition("/")[2].partition(":")[2]
        if (
            "@" in image
            or not any(word in image for word in IMAGES[engine(job)])
            or tag.lower() not in FLOATING
            or "$" in image
            or "<" in image
        ):
            return
        if not tag and _RELEASE_IN_NAME.search(image):
            return
        manifest = launch.carrier in ("kubernetes", "compose")
        yield self.finding(
            f"image {image} {'has no tag' if not tag else 'is whatever is newest'}: the {engine_title(job)} release is not fixed",
            image_origin(launch),
            help="a release's tag, or a digest",
            severity="warning" if manifest else "info",
            job=job,
        )
