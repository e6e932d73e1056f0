"""Measure evaluation and checkpoint saving without a GPU, as ``../shared/oracle/fakemem.py`` measures the training step.

usage: oracle-env/bin/python evaluation_oracle.py [FAKEMEM] < cases.jsonl > measured.jsonl

A case is a case of ``fakemem.py`` (default ``../shared/oracle/fakemem.py``) with ``eval_batch``, and ``use_cache`` where the
model's config has it on. After two steps, gradients freed, the model is switched to evaluation and runs forward with labels
and without gradients, as ``Trainer.prediction_step`` does; then its state dict is taken as accelerate takes it from FSDP2.
``../shared/oracle/README.md`` says how to make the environment.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import sys
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

GIB = 2**30


def load(path: str) -> Any:
    spec = importlib.util.spec_from_file_location("fakemem", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def follower(fakemem: Any) -> Any:
    """Follows live storages. Waiting for a collective hands back its tensor, of which the fake one is a copy."""

    class Live(fakemem.Live):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.ops._c10d_functional.wait_tensor.default:
                return args[0]
            return super().__torch_dispatch__(func, types, args, kwargs)

    return Live()


def measure(fakemem: Any, case: dict[str, Any]) -> dict[str, float]:
    """GiB: what stays between steps, the peak of one batch of evaluation, the peak of saving."""
    model = fakemem.build(case)
    if case.get("fsdp"):
        fakemem.mesh(case["fsdp"])
    with FakeTensorMode(allow_non_fake_inputs=True):
        fakemem.materialise(model)
        model.train()
        if case.get("grad_ckpt"):
            if case.get("lora_r"):
                model.enable_input_require_grads()
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        if case.get("fsdp"):
            fakemem.shard(model, case)
        optimizer = fakemem.optimizer(case, [p for p in model.parameters() if p.requires_grad])
        live = follower(fakemem)
        for tensor in (*model.parameters(), *model.buffers()):
            live.track(tensor)
        autocast = case.get("autocast")

        def forward(rows: int) -> Any:
            tokens = torch.randint(0, 100, (rows, case["seq"]))
            context = torch.autocast("cpu", dtype=fakemem.DT[autocast]) if autocast else contextlib.nullcontext()
            with context:
                return model(input_ids=tokens, labels=tokens)

        measured: dict[str, float] = {}
        with live:
            for _ in range(2):
                forward(case["micro_batch"]).loss.backward()
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            measured["resident_gib"] = live.now / GIB
            measured["params_total"] = sum(p.numel() for p in model.parameters())
            measured["params_trainable"] = sum(p.numel() for p in model.parameters() if p.requires_grad)
            model.eval()
            (model.get_base_model() if hasattr(model, "get_base_model") else model).config.use_cache = bool(
                case.get("use_cache")
            )
            live.phase()
            with torch.no_grad():
                out = forward(case["eval_batch"])
            measured["peak_evaluation_gib"] = live.phase() / GIB
            del out
            if case.get("fsdp"):
                model.state_dict()  # what is still gathered since evaluation is given back
                live.phase()
                for parameter in model.state_dict().values():
                    whole = parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter
                    del whole
                measured["peak_save_gib"] = live.phase() / GIB
    return {name: round(value, 4) for name, value in measured.items()}


def main() -> None:
    fakemem = load(sys.argv[1] if len(sys.argv) > 1 else "../shared/oracle/fakemem.py")
    for line in sys.stdin:
        case = json.loads(line)
        try:
            case["measured"] = measure(fakemem, case)
        except Exception as problem:  # combinations that a model refuses are part of what a draw gives
            case["error"] = f"{type(problem).__name__}: {problem}"[:300]
        print(json.dumps(case), flush=True)


if __name__ == "__main__":
    main()
