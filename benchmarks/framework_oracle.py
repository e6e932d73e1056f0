"""Measure the live tensors of one real training step of litgpt, torchtune or torchtitan, without a GPU.

usage: PYTHONPATH=FOLDER[:FOLDER] framework-env/bin/python framework_oracle.py < cases.jsonl > measured.jsonl

Runs the framework's own model, loss, checkpointing and torch's own optimizer in the order of its shipped training loop,
under ``FakeTensorMode``: shapes, dtypes and lifetimes are real, storage is not. A case is one JSON line (see
``framework_cases.py``); it comes back with ``measured``, in GiB, of the second step, when optimizer states are there.

The environment, once, and each release of a framework in a folder of its own, which ``PYTHONPATH`` then names:

    python -m venv framework-env
    framework-env/bin/pip install torch==2.13.0 lightning omegaconf tiktoken blobfile sentencepiece datasets tensorboard
    framework-env/bin/pip install kagglehub einops triton torchdata tyro
    framework-env/bin/pip install --no-deps --target litgpt-0.5.13 litgpt==0.5.13
    framework-env/bin/pip install --no-deps --target torchtune-0.6.1 torchtune==0.6.1
    framework-env/bin/pip install --no-deps --target torchao-0.9.0 torchao==0.9.0      # beside torchtune, which takes NF4 from it
    framework-env/bin/pip install --no-deps --target torchtitan-0.2.2 torchtitan==0.2.2

What it is not is said in ``../shared/oracle/README.md``: no allocator, no CUDA context, the CPU's kernels.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import inspect
import json
import sys
import time
import warnings
import weakref
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from torch._subclasses import fake_impls
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

warnings.filterwarnings("ignore")

GIB = 2**30
BLOCK = 512
"""Bytes to which the caching allocator rounds every tensor up."""
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class Live(TorchDispatchMode):
    """Bytes of the storages that are alive, and their peak since :meth:`take` was last called."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: dict[int, int] = {}
        self.now = self.peak = 0

    def track(self, tensor: object) -> None:
        if not isinstance(tensor, torch.Tensor):
            return
        if hasattr(tensor, "__tensor_flatten__"):  # a DTensor holds its shard, a quantized weight its parts
            for name in tensor.__tensor_flatten__()[0]:
                self.track(getattr(tensor, name))
            return
        try:
            storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):
            return  # a wrapper without storage: what it wraps is tracked by itself
        if storage._cdata not in self.sizes:
            self.sizes[storage._cdata] = 0
            weakref.finalize(storage, self._drop, storage._cdata)
            self._set(storage)

    def _set(self, storage: torch.UntypedStorage) -> None:
        size = -(-storage.nbytes() // BLOCK) * BLOCK
        self.now += size - self.sizes[storage._cdata]
        self.sizes[storage._cdata] = size
        self.peak = max(self.peak, self.now)

    def _drop(self, key: int) -> None:
        self.now -= self.sizes.pop(key, 0)

    def take(self) -> float:
        """The peak since the last call, in GiB."""
        peak, self.peak = self.peak, self.now
        return peak / GIB

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(out):
            self.track(leaf)
        return out

    def __enter__(self) -> Live:
        self._resize = resize = torch.UntypedStorage.resize_

        def resized(storage: Any, size: int) -> Any:
            """FSDP frees and fills gathered parameters by resizing their storage."""
            out = resize(storage, size)
            if storage._cdata in self.sizes:
                self._set(storage)
            return out

        torch.UntypedStorage.resize_ = resized  # type: ignore[method-assign]
        return super().__enter__()  # type: ignore[return-value]

    def __exit__(self, *args: Any) -> None:
        torch.UntypedStorage.resize_ = self._resize  # type: ignore[method-assign]
        super().__exit__(*args)


class Record:
    """The peak of each phase, of the last step that passed through it."""

    def __init__(self, live: Live) -> None:
        self.live = live
        self.peaks: dict[str, float] = {}
        self.left: dict[str, float] = {}

    def start(self) -> None:
        self.live.take()
        self.peaks, self.left = {}, {}

    def phase(self, name: str) -> None:
        self.peaks[name] = max(self.peaks.get(name, 0.0), self.live.take())
        self.left[name] = self.live.now / GIB


def optimizer_of(case: dict[str, Any], parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
    """The optimizer by the name of the case."""
    name = case["optimizer"]
    if name in ("adamw_fused", "adamw_foreach", "adamw_loop"):
        return torch.optim.AdamW(parameters, lr=1e-4, fused=name == "adamw_fused", foreach=name == "adamw_foreach")
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=1e-4, foreach=False)
    raise ValueError(f"no optimizer {name} here")


def tokens(case: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    shape = (case["micro_batch"], case["seq"])
    return torch.randint(0, 100, shape), torch.randint(0, 100, shape)


def trained(model: torch.nn.Module) -> list[torch.nn.Parameter]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def world_of(size: int) -> Any:
    """One rank of a pretended world, whose collectives return at once with tensors of the right shapes."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    if not dist.is_initialized():
        dist.init_process_group("fake", rank=0, world_size=size, store=FakeStore())
    if dist.get_world_size() != size:
        raise ValueError("one world size a process")
    return init_device_mesh("cpu", (size,))


# -- litgpt ----------------------------------------------------------------------------------------------------------

LITGPT_SLOTS = {"query", "key", "value", "projection", "mlp", "head"}


def litgpt(case: dict[str, Any], mesh: Any) -> Iterator[Any]:
    """``litgpt/finetune/{full,lora}.py``: Lightning Fabric's precision around the model, the loss in chunks of 128."""
    import lightning
    from litgpt.model import Block
    from litgpt.utils import chunked_cross_entropy
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
        apply_activation_checkpointing,
        checkpoint_wrapper,
    )

    adapters = case["method"] == "lora"
    if adapters:
        from litgpt.lora import GPT, Config, mark_only_lora_as_trainable

        slots = {f"lora_{slot}": slot in case["lora_targets"] for slot in LITGPT_SLOTS}
        extra = {"lora_r": case["lora_r"], "lora_alpha": 16, "lora_dropout": case.get("lora_dropout", 0.05), **slots}
    else:
        from litgpt import GPT, Config

        extra = {}
    config = Config.from_name(case["builder"], n_layer=case["config"]["num_hidden_layers"], **extra)
    precision = {None: "32-true" if case["weights"] == "fp32" else "bf16-true", "bf16": "bf16-mixed"}[case["autocast"]]
    fabric = lightning.Fabric(accelerator="cpu", devices=1, precision=precision)
    with fabric.init_module():
        model = GPT(config)
    if adapters:
        mark_only_lora_as_trainable(model)
    yield model
    model.max_seq_length = case["seq"]
    if (
        case["grad_ckpt"] == "full"
    ):  # as Lightning's FSDPStrategy does with litgpt's ``activation_checkpointing_policy``
        blocks = partial(apply_activation_checkpointing, checkpoint_wrapper_fn=checkpoint_wrapper)
        blocks(model, check_fn=lambda module: isinstance(module, Block))
    model.to = lambda *args, **kwargs: model  # it was made in its place and dtype, and fake parameters cannot be moved
    model = fabric.setup_module(model)
    model.train()
    optimizer = fabric.setup_optimizers(optimizer_of(case, trained(model)))
    micro_steps = 2 if case.get("accumulate") else 1

    def steps(record: Record) -> None:
        for _ in range(2):
            record.start()
            for _ in range(micro_steps):
                inputs, targets = tokens(case)
                if adapters:
                    logits = model(inputs, lm_head_chunk_size=128)
                    logits[-1] = logits[-1][..., :-1, :]
                    loss = chunked_cross_entropy(logits, targets[..., 1:])
                else:
                    logits = model(inputs)
                    loss = chunked_cross_entropy(logits[..., :-1, :], targets[..., 1:])
                record.phase("forward")
                fabric.backward(loss / micro_steps)
                record.phase("backward")
            optimizer.step()
            record.phase("step")
            optimizer.zero_grad()

    yield steps


# -- torchtune -------------------------------------------------------------------------------------------------------


def torchtune(case: dict[str, Any], mesh: Any) -> Iterator[Any]:
    """``recipes/{full,lora}_finetune_single_device.py``: weights in the run's dtype, logits in eight chunks or whole."""
    from torchtune import modules, training
    from torchtune.modules import loss as losses

    config, family = case["config"], case["builder"]
    builder = importlib.import_module(f"torchtune.models.{family}._component_builders")
    rotary = importlib.import_module("torchtune.models.llama3_1._position_embeddings").Llama3ScaledRoPE
    rotary.apply_scaling = lambda self, frequencies, *args: frequencies  # which goes by their values
    sizes = {
        "vocab_size": config["vocab_size"],
        "num_layers": config["num_hidden_layers"],
        "num_heads": config["num_attention_heads"],
        "num_kv_heads": config["num_key_value_heads"],
        "embed_dim": config["hidden_size"],
        "intermediate_dim": config["intermediate_size"],
        "max_seq_len": max(case["seq"], 4096),
        "head_dim": config.get("head_dim"),
        "tie_word_embeddings": config.get("tie_word_embeddings", False),
        "hidden_capping_value": config.get("attn_logit_softcapping"),
        "final_capping_value": config.get("final_logit_softcapping"),
        "sliding_window_size": config.get("sliding_window"),
    }
    name = family
    if case["method"] != "full":
        name = f"lora_{family}"
        on = set(case["lora_targets"])
        attention = [m for m in ("q_proj", "k_proj", "v_proj", "output_proj") if m in on]
        sizes.update(
            lora_attn_modules=attention, apply_lora_to_mlp="mlp" in on, lora_rank=case["lora_r"], lora_alpha=16
        )
        sizes.update(lora_dropout=case.get("lora_dropout", 0.0), quantize_base=case["method"] == "qlora")
    build = getattr(builder, name)
    taken = inspect.signature(build).parameters
    with training.set_default_dtype(DTYPES[case["weights"]]):
        model = build(**{key: value for key, value in sizes.items() if key in taken and value is not None})
    if case["method"] != "full":
        modules.peft.set_trainable_params(model, modules.peft.get_adapter_params(model))
    yield model
    model.train()
    if case["grad_ckpt"] == "full":
        training.set_activation_checkpointing(model, auto_wrap_policy={modules.TransformerSelfAttentionLayer})
    elif case["grad_ckpt"] == "selective":
        training.apply_selective_activation_checkpointing(model, "selective", case["every"])
    if case["loss"] == "chunked":
        loss_of = losses.CEWithChunkedOutputLoss()
        model.set_num_output_chunks(loss_of.num_output_chunks)
    else:
        loss_of = torch.nn.CrossEntropyLoss()
    if mesh is not None:  # ``full_finetune_distributed.py``, with the configs' ``custom_sharded_layers``
        condition = partial(training.get_shard_conditions, names_to_match=case["wraps"])
        training.shard_model(model, [condition], cpu_offload=False, dp_mesh=mesh)
    optimizer = optimizer_of(case, trained(model))
    ignored = torch.full((case["micro_batch"], 1), -100)

    def loss_step() -> torch.Tensor:
        inputs, labels = tokens(case)
        logits = model(tokens=inputs)
        labels = torch.hstack((labels[..., 1:], ignored[: labels.shape[0]]))
        if not isinstance(logits, list):
            labels, logits = labels.reshape(-1), logits.reshape(-1, logits.size(-1))
        loss = loss_of(logits, labels)
        del logits
        return loss

    def steps(record: Record) -> None:
        for _ in range(2):
            record.start()
            running: Any = 0
            for _ in range(2 if case.get("accumulate") else 1):
                current = loss_step() * case["seq"]
                running += current
                record.phase("forward")
                current.backward()
                record.phase("backward")
            optimizer.step()
            record.phase("step")
            optimizer.zero_grad(set_to_none=True)

    yield steps


# -- torchtitan ------------------------------------------------------------------------------------------------------


def count_layers_anew(parallelize: Any) -> None:
    """Layers are counted by a variable of the module, before of a function, which a new process starts at nought."""
    vars(getattr(parallelize, "ptd_checkpoint_wrapper", parallelize)).pop("_count", None)
    counting = sys.modules.get("torchtitan.distributed.activation_checkpoint")
    if counting is not None:
        counting._layer_sac_count = 0  # type: ignore[attr-defined]


class FusedNorm(torch.autograd.Function):
    """CUDA's RMSNorm since torch 2.9 (``_fused_rms_norm``), which the CPU composes of operations in fp32."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, weight, torch.empty(x.shape[:-1], dtype=torch.float32))
        return torch.empty_like(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, weight, _ = ctx.saved_tensors
        return torch.empty_like(x), torch.empty_like(weight)


ON_CPU = "_scaled_dot_product_flash_attention_for_cpu"
"""What stands in for CUDA's flash attention here; lists of operations to keep name CUDA's alone."""


def torchtitan(case: dict[str, Any], mesh: Any) -> Iterator[Any]:
    """``torchtitan/train.py``: parameters in fp32, FSDP2 with bf16 parameters and fp32 reduction, operations checkpointed."""
    config = case["config"]
    sizes = {
        "dim": config["hidden_size"],
        "n_layers": config["num_hidden_layers"],
        "n_heads": config["num_attention_heads"],
        "n_kv_heads": config["num_key_value_heads"],
        "vocab_size": config["vocab_size"],
        "max_seq_len": case["seq"],
        "multiple_of": 1,
        "ffn_dim_multiplier": config["intermediate_size"] / int(8 * config["hidden_size"] / 3),
    }
    try:
        from torchtitan.models.llama3.infra import parallelize
        from torchtitan.models.llama3.model.args import TransformerModelArgs
        from torchtitan.models.llama3.model.model import Transformer
    except ModuleNotFoundError:  # before June 2025
        from torchtitan.models.llama import Transformer, TransformerModelArgs
        from torchtitan.models.llama import parallelize_llama as parallelize
    if not case.get("composed_norms"):
        torch.nn.RMSNorm.forward = lambda self, x: FusedNorm.apply(x, self.weight)
    model = Transformer(TransformerModelArgs(**sizes))
    yield model
    model.train()
    checkpointing = SimpleNamespace(
        mode="full" if case["grad_ckpt"] == "full" else "selective",
        selective_ac_option=str(case.get("every", "op")),
        per_op_sac_force_recompute_mm_shapes_by_fqns=[],
        preserve_rng_state=False,
        determinism_check="default",
        early_stop=False,
        debug=False,
    )
    if case["grad_ckpt"] != "none":
        kept = next(value for name, value in vars(parallelize).items() if name in ("_save_list", "_op_sac_save_list"))
        kept.add(getattr(torch.ops.aten, ON_CPU).default)
        count_layers_anew(parallelize)
        more = (
            {"op_sac_save_list": kept}
            if "op_sac_save_list" in inspect.signature(parallelize.apply_ac).parameters
            else {}
        )
        parallelize.apply_ac(model, checkpointing, **more)
    parallelize.apply_fsdp(model, mesh, param_dtype=torch.bfloat16, reduce_dtype=torch.float32, pp_enabled=False)
    optimizer = optimizer_of(case, trained(model))

    def steps(record: Record) -> None:
        for _ in range(2):
            record.start()
            for _ in range(2 if case.get("accumulate") else 1):
                inputs, labels = tokens(case)
                pred = model(inputs)
                loss = torch.nn.functional.cross_entropy(pred.flatten(0, 1).float(), labels.flatten(0, 1))
                del pred
                record.phase("forward")
                loss.backward()
                record.phase("backward")
            optimizer.step()
            record.phase("step")
            optimizer.zero_grad()

    yield steps


FRAMEWORKS = {"litgpt": litgpt, "torchtune": torchtune, "torchtitan": torchtitan}


def measure(case: dict[str, Any]) -> dict[str, Any]:
    """Peaks of the second step by phase, and what stood before it."""
    began = time.time()
    # a fake tensor has no value to hand out; rotary tables and initialisers ask for some, of which no shape depends
    # CUDA's dropout saves a byte a number, which the operation of that name does here; the CPU's own saves a mask in the dtype
    torch.nn.functional.dropout = lambda x, p=0.5, training=True, inplace=False: (
        torch.native_dropout(x, p, True)[0] if training and p else x
    )
    torch.nn.init.trunc_normal_ = lambda tensor, *args, **kwargs: tensor
    mesh = world_of(case["fsdp"]) if case.get("fsdp") else None
    fake_impls.op_implementations_dict[torch.ops.aten._local_scalar_dense.default] = lambda *args, **kwargs: 1
    with FakeTensorMode(allow_non_fake_inputs=True):
        parts = FRAMEWORKS[case["framework"]](case, mesh)
        model: Any = next(parts)
        steps: Any = next(parts)
        live = Live()
        for tensor in (*model.parameters(), *model.buffers()):
            live.track(tensor)
        record = Record(live)
        weights = live.now / GIB
        with live:
            steps(record)
    found: dict[str, Any] = {
        "release": importlib.metadata.version(case["framework"]),
        "params_total": sum(p.numel() for p in model.parameters()),
        "params_trainable": sum(p.numel() for p in trained(model)),
        "weights_gib": round(weights, 4),
        "peak_gib": round(max(record.peaks.values()), 4),
    }
    found.update({f"peak_{name}_gib": round(value, 4) for name, value in record.peaks.items()})
    found.update({f"after_{name}_gib": round(value, 4) for name, value in record.left.items()})
    found["seconds"] = round(time.time() - began, 1)
    return found


def main() -> None:
    for line in filter(str.strip, sys.stdin):
        case = json.loads(line)
        with contextlib.redirect_stdout(sys.stderr):
            try:
                case["measured"] = measure(case)
            except Exception as error:  # a case that cannot run says why, and the next one is measured
                case["error"] = f"{type(error).__name__}: {error}"[:300]
        print(json.dumps(case), flush=True)


if __name__ == "__main__":
    main()
