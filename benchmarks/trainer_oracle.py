"""Measure the live tensors of the real ``Trainer`` and ``SFTTrainer`` without a GPU.

usage: PYTHONPATH=FOLDER oracle-env/bin/python trainer_oracle.py [FAKEMEM] < cases.jsonl > measured.jsonl

``../shared/oracle/fakemem.py`` (the default of FAKEMEM) takes the step of a plain loop. Here the trainer itself takes it:
its ``__init__``, ``train``, ``training_step`` and ``compute_loss``, and accelerate's wrapping of the model. A case is a case of
``fakemem.py`` with ``trainer`` (``trainer`` or ``sft``), ``accumulate`` as a number of micro-steps, and ``arguments`` for the
trainer's config beside those that the case says; ``trainer_cases.py`` draws them. It comes back with ``measured``: the peaks of
the last optimizer step in GiB.

    python -m venv oracle-env
    oracle-env/bin/pip install torch==2.13.0 transformers==5.24.0 peft==0.21.2 trl==1.16.0 requests
    oracle-env/bin/pip install --no-deps --target trl-0.24 trl==0.24.0 transformers==4.57.1 tokenizers==0.22.1 \\
        huggingface_hub==0.36.0 accelerate==1.10.1 peft==0.17.1 datasets==3.6.0 fsspec==2024.12.0

and ``PYTHONPATH`` then names the folder of the older releases. What stands in for a device: values that Python asks of a
tensor are those of a full batch, every token of which has a label; Triton kernels, which work in place on what they are given,
do nothing, and the products that they accumulate in fp32 take no memory of their own.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import inspect
import json
import os
import sys
import tempfile
import time
import types
from collections.abc import Iterator
from typing import Any

import torch
import transformers
from torch._subclasses.fake_tensor import FakeTensorMode

GIB = 2**30
ATEN = torch.ops.aten


def load(path: str) -> Any:
    spec = importlib.util.spec_from_file_location("fakemem", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Batches:
    """The same full batch again and again, in place of a data loader."""

    def __init__(self, case: dict[str, Any], number: int) -> None:
        self.case, self.number = case, number
        self.dataset = [None] * number * case["micro_batch"]

    def __len__(self) -> int:
        return self.number

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        rows, length = self.case["micro_batch"], self.case["seq"]
        for _ in range(self.number):
            if self.case.get("flattened"):  # padding-free: one row, with positions in place of a mask
                ids = torch.randint(0, 100, (1, rows * length))
                positions = torch.arange(length).repeat(rows)[None]
                yield {"input_ids": ids, "labels": ids.clone(), "position_ids": positions}
            else:
                ids = torch.randint(0, 100, (rows, length))
                batch = {"input_ids": ids, "labels": ids.clone(), "attention_mask": torch.ones_like(ids)}
                if self.case["config"].get("decoder_start_token_id") is not None:
                    batch["decoder_input_ids"] = ids.clone()  # as the collator of sequence-to-sequence data makes them
                yield batch


class NoKernel:
    """A Triton kernel launched on a grid: it writes over what it is given and allocates nothing."""

    def __getitem__(self, grid: object) -> Any:
        return lambda *args, **kwargs: None


def stand_in_for_triton() -> None:
    """The tiles of TRL's fused head as on CUDA (``trl/kernels/chunked_logprob.py``)."""
    try:
        from trl.kernels import chunked_logprob
    except ImportError:
        return
    chunked_logprob._use_triton = lambda device: True
    chunked_logprob._forward_kernel = chunked_logprob._backward_kernel = NoKernel()
    chunked_logprob.triton = types.SimpleNamespace(cdiv=lambda a, b: -(-a // b))
    chunked_logprob._addmm_fp32 = lambda sum_, a, b: None


def tokenizer() -> Any:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel

    words = Tokenizer(WordLevel({"<pad>": 0, "a": 1}, unk_token="a"))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="a")


def arguments(case: dict[str, Any], kind: type, folder: str) -> Any:
    """The trainer's own config of the case; what a release does not know yet is left out."""
    given = {
        "output_dir": folder,
        "per_device_train_batch_size": case["micro_batch"],
        "gradient_accumulation_steps": case.get("accumulate", 1),
        "max_steps": 2,
        "bf16": case.get("autocast") == "bf16",
        "fp16": False,
        "use_cpu": True,
        "gradient_checkpointing": bool(case.get("grad_ckpt")),
        "gradient_checkpointing_kwargs": {"use_reentrant": case.get("reentrant", False)}
        if case.get("grad_ckpt")
        else None,
        "optim": case.get("optimizer", "adamw_torch_fused"),
        "report_to": "none",
        "save_strategy": "no",
        "logging_strategy": "no",
        "disable_tqdm": True,
        "remove_unused_columns": False,
        "max_length": None,
        "dataset_kwargs": {"skip_prepare_dataset": True},
    } | case.get("arguments", {})
    known = inspect.signature(kind).parameters
    return kind(**{name: value for name, value in given.items() if name in known})


def build(fakemem: Any, case: dict[str, Any]) -> Any:
    """The model on the meta device; adapters are the trainer's to add. Before 4.56 transformers says ``torch_dtype``."""
    auto = transformers.AutoModelForCausalLM
    real = auto.from_config
    if version("transformers") < (4, 56):
        auto.from_config = lambda config, dtype, **kwargs: real(config, torch_dtype=dtype, **kwargs)
    try:
        return fakemem.build({**case, "lora_r": 0})
    finally:
        auto.from_config = real


def version(package: str) -> tuple[int, ...]:
    return tuple(int(part) for part in importlib.metadata.version(package).split(".")[:2])


def trainer_of(case: dict[str, Any], model: Any, folder: str) -> Any:
    """The trainer, made as a script makes it."""
    adapters = None
    if case.get("lora_r"):
        import peft

        targets = case.get("lora_targets") or [f"{part}_proj" for part in ("q", "k", "v", "o", "gate", "up", "down")]
        adapters = peft.LoraConfig(r=case["lora_r"], lora_alpha=16, target_modules=targets, lora_dropout=0.0)
    if case["trainer"] == "trainer":
        if adapters is not None:
            model = peft.get_peft_model(model, adapters)
        if adapters is not None and case.get("grad_ckpt"):
            model.enable_input_require_grads()
        return transformers.Trainer(
            model=model, args=arguments(case, transformers.TrainingArguments, folder), train_dataset=[None] * 64
        )
    import datasets
    import trl

    rows = datasets.Dataset.from_dict({"input_ids": [[1, 1]] * 64, "labels": [[1, 1]] * 64, "text": ["a a"] * 64})
    known = inspect.signature(trl.SFTTrainer.__init__).parameters
    words = {"processing_class" if "processing_class" in known else "tokenizer": tokenizer()}
    return trl.SFTTrainer(
        model=model, args=arguments(case, trl.SFTConfig, folder), train_dataset=rows, peft_config=adapters, **words
    )


def measure(fakemem: Any, case: dict[str, Any]) -> dict[str, Any]:
    began = time.time()
    tokens = case["micro_batch"] * case["seq"]

    class Live(fakemem.Live):  # type: ignore[misc, name-defined]
        """Answers what is asked of a tensor's value, which a fake tensor has not.

        Every position of a mask is taken, what is counted is the number of tokens, and nothing is zero or no number.
        """

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is ATEN._local_scalar_dense.default:
                kind = args[0].dtype
                if kind is torch.bool:
                    return not getattr(args[0], "differs", False)
                return 1.0 if kind.is_floating_point else tokens
            if func is ATEN.masked_select.default:
                func, args = ATEN.clone.default, (args[0].expand(args[1].shape).reshape(-1),)
            elif func is ATEN.index.Tensor and args[1][0].dtype is torch.bool:
                mask = args[1][0]
                where = torch.empty((mask.ndim, mask.numel()), dtype=torch.int64, device=mask.device)
                args = (args[0], list(where.unbind()))
            out = super().__torch_dispatch__(func, types, args, kwargs)
            if func is ATEN.isnan.default or (func is ATEN.eq.Scalar and args[1] == 0):
                out.differs = True
            return out

    transformers.Trainer._move_model_to_device = lambda self, model, device: None
    masks = getattr(transformers, "masking_utils", None)
    if hasattr(masks, "is_tracing"):
        masks.is_tracing = lambda *args: False  # it takes fake tensors for a trace
    os.environ.pop("ACCELERATE_MIXED_PRECISION", None)  # transformers 4 leaves that of the case before
    stand_in_for_triton()
    model = build(fakemem, case)
    peaks: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        trainer = trainer_of(case, model, folder)
        micro_steps = trainer.args.gradient_accumulation_steps
        trainer.get_train_dataloader = lambda: Batches(case, 2 * micro_steps)
        live = Live()
        took = {"steps": 0}
        compute_loss, training_step = trainer.compute_loss, trainer.training_step

        def marked(name: str) -> None:
            peak = live.phase() / GIB
            if took["steps"] >= micro_steps:  # the second optimizer step, when the states are there
                peaks[name] = max(peaks.get(name, 0.0), peak)

        def loss_of(*args: Any, **kwargs: Any) -> Any:
            if took["steps"] == micro_steps:
                peaks["resident"] = live.now / GIB
            live.phase()
            out = compute_loss(*args, **kwargs)
            marked("forward")
            peaks["after_forward"] = live.now / GIB
            return out

        def step_of(*args: Any, **kwargs: Any) -> Any:
            out = training_step(*args, **kwargs)
            marked("backward")
            took["steps"] += 1
            return out

        trainer.compute_loss, trainer.training_step = loss_of, step_of
        with FakeTensorMode(allow_non_fake_inputs=True):
            fakemem.materialise(trainer.model)
            trainer.model.to = lambda *args, **kwargs: trainer.model  # fake parameters cannot be moved
            for tensor in (*trainer.model.parameters(), *trainer.model.buffers()):
                live.track(tensor)
            weights = live.now / GIB
            with live, contextlib.redirect_stdout(sys.stderr):
                trainer.train()
                took["steps"] = micro_steps
                marked("step")
    trained = [p for p in trainer.model.parameters() if p.requires_grad]
    names = ["transformers", "accelerate", "peft"] + (["trl"] if case["trainer"] == "sft" else [])
    found: dict[str, Any] = {
        "releases": {name: importlib.metadata.version(name) for name in names},
        "params_total": sum(p.numel() for p in trainer.model.parameters()),
        "params_trainable": sum(p.numel() for p in trained),
        "trained_in": sorted({str(p.dtype).removeprefix("torch.") for p in trained}),
        "weights_gib": round(weights, 4),
        "peak_gib": round(max(peaks.get(name, 0.0) for name in ("forward", "backward", "step")), 4),
    }
    found.update({f"{name}_gib": round(value, 4) for name, value in peaks.items()})
    found["seconds"] = round(time.time() - began, 1)
    return found


def main() -> None:
    fakemem = load(sys.argv[1] if len(sys.argv) > 1 else "../shared/oracle/fakemem.py")
    for line in filter(str.strip, sys.stdin):
        case = json.loads(line)
        try:
            case["measured"] = measure(fakemem, case)
        except Exception as problem:  # a case that a release refuses says why
            if "-v" in sys.argv:
                raise
            case["error"] = f"{type(problem).__name__}: {problem}"[:300]
        print(json.dumps(case), flush=True)


if __name__ == "__main__":
    main()
