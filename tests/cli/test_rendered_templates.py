"""What `helm template` renders is checked from standard input, under a name."""

import io
import json
import sys

import pytest

from cfglint.cli.main import main

RENDERED = """---
# Source: chart/templates/service.yaml
apiVersion: v1
kind: Service
metadata: {name: llm}
spec: {ports: [{port: 80}]}
---
# Source: chart/templates/deployment.yaml
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm}
spec:
  template:
    spec:
      nodeSelector: {nvidia.com/gpu.product: Tesla-T4}
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.10.2
          args: ["--model", "Qwen/Qwen2.5-72B-Instruct"]
          resources: {limits: {nvidia.com/gpu: 1}}
"""


def test_a_rendered_chart_is_read_as_manifests(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(RENDERED.encode())))
    assert main(["check", "-", "--stdin-filename", "deploy.yaml", "--show-files", "--format", "json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    (file,) = answer["files"]
    assert (file["path"], file["dialects"], file["carrier"]) == ("deploy.yaml", ["vllm"], "kubernetes")
    assert [f["code"] for f in answer["findings"] if f["severity"] == "error"] == ["MEM101"]
