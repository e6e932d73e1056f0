"""SEC002."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Place
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Document, SourceFile, Span

from .secrets_in_files import HUB_TOKEN, shown


class HubTokenInFile(Rule):
    """A Hugging Face access token stands in the file.

    It gives its owner's rights on the Hub to whoever can read the file, and stays in the history of the repository after it
    is taken out: it must be revoked.

    How sure: the token format is ``hf_`` with 34 letters and digits. Tokens of one repeated letter or of the word "x" are
    placeholders and left out.
    """

    code = "SEC002"
    name = "hub-token-in-file"
    family = "security"
    severity = "error"
    kinds = ("file",)
    evidence = (
        "https://huggingface.co/docs/hub/security-tokens",
        "https://huggingface.co/docs/hub/security-secrets",
    )
    catalogue = ("k8s-hf-token-plain",)
    good = (
        example("serve.sh", "HF_TOKEN=hf_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx vllm serve Qwen/Qwen2.5-7B-Instruct"),
        example("serve.sh", 'HF_TOKEN="$(cat token)" vllm serve Qwen/Qwen2.5-7B-Instruct'),
    )
    bad = (
        example(
            "serve.sh",
            "HF_TOKEN=" + "hf_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY2z" + " vllm serve Qwen/Qwen2.5-7B-Instruct",
            count=1,
        ),
    )

    def check_file(self, file: SourceFile, context: Context) -> Iterator[Finding]:
        if "hf_" not in file.text:
            return
        for match in HUB_TOKEN.finditer(file.text):
            token = match.group()
            before = file.text[match.start() - 1 : match.start()]
            if len(set(token[3:].lower())) < VARIED or before.isalnum() or before == "_":
                continue
            if not (any(c.isdigit() for c in token[3:]) or any(c.isupper() for c in token[3:])):
                continue  # a long name: hf_modelpathwithnounderscores
            document = file.documents[0] if file.documents else Document(file)
            yield self.finding(
                f"a Hugging Face token stands here in plain text ({shown(token)})",
                Place(document, Span(match.start(), match.end())),
                help="revoke it, and take HF_TOKEN from a secret",
            )


VARIED = 10
"""A random token of 34 characters has more different ones than this; placeholders have fewer."""
