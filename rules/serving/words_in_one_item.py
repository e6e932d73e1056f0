"""SRV012."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cfglint.dialects.base import Launch
from cfglint.dialects.carriers.kubernetes import COMMAND_IN_ONE
from cfglint.dialects.server import image_name
from cfglint.jobs.facts import FileOrigin
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Scalar, Sequence

from .server import launch_of, runs

JOINED = re.compile(r"(--?[A-Za-z][\w-]*)[ \t]+(\S.*)")


class WordsInOneItem(Rule):
    """An option and its value stand in one item of a list: the engine sees one word.

    ``- --dtype auto`` in ``args`` is the single word ``--dtype auto``. No shell splits it, so the engine ends with
    "unrecognized arguments: --dtype auto".

    A whole command in one item is the same: "exec: \"python3 -m …\": no such file or directory".

    How sure: Kubernetes and compose pass list items as they are. Strings that a shell reads (``sh -c``) are split and not
    looked at here.
    """

    code = "SRV012"
    name = "words-in-one-item"
    family = "serving"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://github.com/vllm-project/vllm/issues/22072",
        "https://kubernetes.io/docs/tasks/inject-data-application/define-command-argument-container/",
    )
    catalogue = ("cli-arg-with-space",)
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
                  args: ["--model", "Qwen/Qwen2.5-7B-Instruct", "--dtype=auto", "--override-generation-config={\\"temperature\\": 0.5}"]
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
                  args:
                    - --model=Qwen/Qwen2.5-7B-Instruct
                    - --dtype auto
                    - --max-model-len 8192
            """,
            count=1,
        ),
        example(
            "docker-compose.yml",
            """
            services:
              llm:
                image: lmsysorg/sglang:v0.5.6
                command: ["python3 -m sglang.launch_server --model-path Qwen/Qwen2.5-7B-Instruct --host 0.0.0.0"]
            """,
            count=1,
        ),
        example(
            "docker-compose.yml",
            """
            services:
              llm:
                image: lmsysorg/sglang:v0.5.6
                entrypoint: ["python3", "-m", "sglang.launch_server"]
                command: ["--model-path Qwen/Qwen2.5-7B-Instruct", "--host 0.0.0.0"]
            """,
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        launch = launch_of(job)
        if launch is None or launch.carrier not in ("kubernetes", "compose", "helm") or not runs(job):
            return
        yield from self._whole_command(job, launch)
        joined = [w for w in launch.words if JOINED.fullmatch(w.text) and "=" not in w.text.split()[0]]
        if not joined:
            return
        first = JOINED.fullmatch(joined[0].text)
        assert first is not None
        where = [FileOrigin(launch.document, ("args",), w.span, w.span) for w in joined]
        yield self.finding(
            f"{joined[0].text!r} is one word to the engine"
            + (
                f"; {len(joined) - 1} more of these items {'is' if len(joined) == 2 else 'are'} the same"
                if len(joined) > 1
                else ""
            ),
            *where,
            help=f"{first[1]}={first[2]}, or two items",
            job=job,
        )

    def _whole_command(self, job: ServingJob, launch: Launch) -> Iterator[Finding]:
        container = launch.container
        if container is None or launch.carrier == "helm":
            return
        key = "command" if launch.carrier == "kubernetes" or "entrypoint" not in container else "entrypoint"
        own = launch.image is not None and image_name(launch.image.text) in OWN_ENTRYPOINT
        if launch.carrier == "compose" and key == "command" and own:
            return  # repeated-entrypoint's finding
        items = container.get(key)
        first = items.items[0] if isinstance(items, Sequence) and items.items else None
        if isinstance(first, Scalar) and COMMAND_IN_ONE.match(str(first.value)):
            yield self.finding(
                f"the whole command {_short(str(first.value))} is one word: no program is called so",
                FileOrigin(launch.document, (key,), first.span, first.span),
                help="one item for each word, or [sh, -c, …]",
                job=job,
            )


def _short(text: str) -> str:
    return repr(text if len(text) <= LONG else text[:LONG] + "…")


LONG = 40
OWN_ENTRYPOINT = frozenset({"vllm-openai", "vllm-openai-rocm", "text-generation-inference"})
