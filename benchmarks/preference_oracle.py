"""Measure one step of TRL's preference and RL trainers without a GPU.

    python3 -m venv trl-env && trl-env/bin/pip install torch==2.13.0 transformers==5.24.0 peft==0.21.2 trl==1.16.0
    python benchmarks/preference_cases.py draw > cases.jsonl
    trl-env/bin/python benchmarks/preference_oracle.py < cases.jsonl > measured.jsonl

Reads cases as JSON lines and writes them back with ``measured``, as ``../shared/oracle/fakemem.py`` does, whose ledger of
live storages it uses. The losses are those of the TRL that is installed, on the models of the transformers that is
installed: an environment with ``trl==0.19.1 transformers==4.52.4`` measures that release. A case is a line of
``preference_cases.py``: ``trainer`` names the method, ``reference`` says where the reference's log-probabilities come
from (``model``, ``adapter``: the policy with its adapters off, ``precomputed``, ``none``).

With ``--plain`` the step is taken on real tensors too, for small models without a reference, adapters or GRPO's samples.

What stands in for the device: trainers are made without their constructor, with the settings of their own config class;
batches are as their collators make them, with a mask where the case is ``padded``: rows of unequal length; Triton kernels
become calls that do nothing, and the tiles around them stay; what code asks a tensor's contents for is answered with the
most tokens there can be; accelerate's own wrapper gives autocast and fp32 outputs.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import inspect
import json
import sys
import time
import types
from collections import defaultdict
from pathlib import Path
from typing import Any
from unittest import mock

import accelerate
import torch
import torch._dynamo  # before the stand-in: it looks at Triton too
import transformers.utils
from torch._subclasses.fake_tensor import FakeTensorMode

_ = transformers.Trainer
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "shared" / "oracle"))
from fakemem import Live, build, materialise, optimizer  # noqa: E402


class _Kernel:
    """A Triton kernel, its launch, and Triton's module: whatever is asked of it, it does nothing."""

    def __getitem__(self, grid: object) -> _Kernel:
        return self

    def __call__(self, *args: object, **kwargs: object) -> None:
        return None


def stand_in_for_triton() -> None:
    """Let TRL import its kernels on a machine without Triton, and use them."""
    triton, language = types.ModuleType("triton"), types.ModuleType("triton.language")
    triton.__dict__.update(jit=lambda function: _Kernel(), cdiv=lambda a, b: -(-a // b), language=language)
    language.constexpr = object()  # type: ignore[attr-defined]
    stubs = {"triton": triton, "triton.language": language}
    sys.modules.update(stubs)
    with mock.patch.object(transformers.utils, "is_triton_available", lambda: True, create=True):
        import trl.trainer.utils as tools

        for name in ("logprob_entropy", "chunked_logprob", "chunked_divergence"):
            with contextlib.suppress(ImportError):
                kernels = importlib.import_module(f"trl.kernels.{name}")
                kernels.triton = triton
                kernels._use_triton = lambda device: True
                # CUDA multiplies into these
                kernels._addmm_fp32 = lambda acc, a, b: acc.add_(0)
                kernels._project = lambda tile, h, w, bias, start, end, dtype: w[start:end].to(dtype)
    tools._use_triton = lambda device: True
    tools._supports_trl_loss_kernel = lambda logits, index=None, row_mask=None: (
        index is None or (index.shape == logits.shape[:-1])
    )
    for name in stubs:
        del sys.modules[name]


stand_in_for_triton()
with contextlib.suppress(ImportError):
    masks = importlib.import_module("transformers.masking_utils")
    masks.is_tracing = lambda *args: False  # as for real tensors: padding is looked for
import trl  # noqa: E402

aten = torch.ops.aten


class Step(Live):
    """The ledger, with answers where code looks into a tensor: counts are one, of a mask ``scored`` are set."""

    def __init__(self, padded: bool, scored: float, summed: int) -> None:
        super().__init__()
        self.padded = padded
        self.scored = scored
        self.summed = summed
        """Width of gradients that autograd adds up in place: under a dispatch mode it makes a new tensor of every sum."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = None
        if func is aten._local_scalar_dense.default:
            dtype = args[0].dtype
            return not self.padded if dtype is torch.bool else 1.0 if dtype.is_floating_point else 1
        if func is aten.nonzero.default:
            # half of the labels of a batch are desirable
            out = torch.empty(-(-args[0].numel() // 2), args[0].dim(), dtype=torch.int64)
        elif func is aten.index.Tensor and any(i is not None and i.dtype is torch.bool for i in args[1]):
            mask = args[1][0]
            rest = args[0].shape[mask.dim() :]
            out = args[0].new_empty((round(mask.numel() * self.scored), *rest))
        elif func is aten.add.Tensor and not torch.is_grad_enabled() and args[0].dim() == 3:
            if args[0].shape[-1] == self.summed and args[0].shape == getattr(args[1], "shape", None):
                return super().__torch_dispatch__(aten.add_.Tensor, types, args, kwargs)
        elif func is aten.scatter_add.default and not torch.is_grad_enabled():
            # the backward of gather, which scatters in place unless a dispatch mode is there
            return super().__torch_dispatch__(aten.scatter_add_.default, types, args, kwargs)
        if out is not None:
            self.track(out)
            return out
        return super().__torch_dispatch__(func, types, args, kwargs)


TRAINERS = {
    "dpo": ("DPO", ""), "kto": ("KTO", ""), "orpo": ("ORPO", "orpo"), "cpo": ("CPO", "cpo"), "simpo": ("CPO", "cpo"),
    "reward": ("Reward", ""), "grpo": ("GRPO", ""), "rloo": ("RLOO", ""), "gkd": ("GKD", "gkd"),
    "distill": ("Distillation", ""),
}  # fmt: skip
"""Method to the class's name and the experimental package it moved to."""


def classes(method: str) -> tuple[type, type]:
    name, package = TRAINERS[method]
    for module in ("trl", f"trl.experimental.{package}"):
        with contextlib.suppress(AttributeError, ImportError):
            found = importlib.import_module(module)
            return getattr(found, f"{name}Trainer"), getattr(found, f"{name}Config")
    raise SystemExit(f"this TRL has no {method}")


def bare(cls: type, settings: Any, **attributes: Any) -> Any:
    """A trainer that never ran its constructor: what it was not given it reads from its settings."""

    class Bare(cls):  # type: ignore[misc,valid-type]
        def __getattr__(self, name: str) -> Any:
            if name.startswith("__") or name not in vars(settings):
                raise AttributeError(name)
            return getattr(settings, name)

    trainer = object.__new__(Bare)
    trainer.__dict__.update(args=settings, **attributes)
    return trainer


def settings_of(cls: type, case: dict[str, Any]) -> Any:
    known = inspect.signature(cls).parameters
    wanted = {
        "output_dir": "/nowhere", "use_cpu": True, "report_to": [], "bf16": case.get("autocast") == "bf16",
        "per_device_train_batch_size": case["micro_batch"], "gradient_checkpointing": bool(case.get("grad_ckpt")),
        "max_length": case["seq"], "precompute_ref_log_probs": case["reference"] == "precomputed",
        "num_generations": 2, "steps_per_generation": 2, "max_completion_length": completion(case), **case.get("settings", {}),
    }  # fmt: skip
    return cls(**{key: value for key, value in wanted.items() if key in known})


def completion(case: dict[str, Any]) -> int:
    return case.get("completion") or case["seq"] // 2


def model_of(case: dict[str, Any]) -> Any:
    """The policy on the meta device; a reward model has one label."""
    name = "dtype" if tuple(map(int, transformers.__version__.split(".")[:2])) >= (4, 56) else "torch_dtype"
    auto = transformers.AutoModelForCausalLM
    first = auto.from_config
    if case["trainer"] != "reward":
        with mock.patch.object(
            auto, "from_config", lambda config, dtype, **more: first(config, **{name: dtype}, **more)
        ):
            return build(case)
    config = transformers.AutoConfig.for_model(**case["config"], num_labels=1, pad_token_id=0)
    config.use_cache = False
    make = transformers.AutoModelForSequenceClassification.from_config
    with torch.device("meta"), mock.patch.object(auto, "from_config", make):
        return build({**case, "config": {**case["config"], "num_labels": 1, "pad_token_id": 0}})


def inputs_of(case: dict[str, Any]) -> dict[str, Any]:
    """A batch as the trainer's collator gives it."""
    b, s, c = case["micro_batch"], case["seq"], completion(case)

    def ids(rows: int, length: int) -> Any:
        return torch.randint(0, 100, (rows, length))

    def ones(rows: int, length: int) -> Any:
        return torch.ones(rows, length, dtype=torch.int64)

    method = case["trainer"]
    reads = inspect.getsource(classes(method)[0])
    if method == "dpo" and "prompt_input_ids" in reads and 'batch["chosen_labels"]' not in reads:
        batch = {}
        for part, length in (("prompt", s - c), ("chosen", c), ("rejected", c)):
            batch |= {f"{part}_input_ids": ids(b, length), f"{part}_attention_mask": ones(b, length)}
    elif method in ("orpo", "cpo", "simpo", "dpo"):
        batch = {}
        for part in ("chosen", "rejected"):
            batch |= {
                f"{part}_{key}": make(b, s)
                for key, make in (("input_ids", ids), ("attention_mask", ones), ("labels", ids))
            }
        batch |= {"prompt_input_ids": ids(b, s - c), "prompt_attention_mask": ones(b, s - c)}
        if method == "dpo" and "completion_mask" in reads:
            batch = {"input_ids": ids(2 * b, s), "attention_mask": ones(2 * b, s), "completion_mask": ones(2 * b, s)}
    elif method == "kto":
        columns = {"input_ids": ids, "attention_mask": ones, "completion_mask": ones}
        batch = {f"{part}{key}": make(b, s) for part in ("", "KL_") for key, make in columns.items()}
        batch["label"] = torch.ones(b, dtype=torch.bool)
        if "completion_input_ids" in reads:
            columns = {"input_ids": ids, "attention_mask": ones, "labels": ids}
            parts = ("completion_", "KL_completion_")
            batch = {f"{part}{key}": make(b, s) for part in parts for key, make in columns.items()}
            batch["label"] = [i % 2 == 0 for i in range(b)]
    elif method == "reward":
        batch = {"input_ids": ids(2 * b, s), "attention_mask": ones(2 * b, s)}
    elif method == "gkd":
        batch = {"input_ids": ids(b, s), "attention_mask": ones(b, s), "labels": ids(b, s), "prompts": ids(b, s - c)}
    else:
        batch = {
            "prompt_ids": ids(b, s - c),
            "prompt_mask": ones(b, s - c),
            "completion_ids": ids(b, c),
            "completion_mask": ones(b, c),
        }
        batch |= {
            "advantages": torch.ones(b),
            "old_logps": torch.ones(b),
            "num_items_in_batch": torch.tensor(float(b * c)),
        }
    if case["reference"] == "precomputed":
        names = ("logps", "KL_logps") if method == "kto" else ("chosen_logps", "rejected_logps")
        batch |= {f"{word}_{name}": torch.ones(b) for name in names for word in ("ref", "reference")}
    return batch


def assemble(case: dict[str, Any], model: Any, other: Any) -> Any:
    """The trainer with its models prepared as its constructor and ``train`` do."""
    cls, config = classes(case["trainer"])
    module = sys.modules[cls.__module__]
    if hasattr(module, "flush_left"):
        module.flush_left = lambda mask, *tensors: (mask, *tensors)  # type: ignore[attr-defined]  # no padding in front
    settings = settings_of(config, case)
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    accelerator = accelerate.Accelerator(cpu=True, mixed_precision=case.get("autocast") or "no")
    peft = hasattr(model, "peft_config")
    base = model.get_base_model() if peft else model

    def redirected(wrapper: Any, module: Any, function: Any, *given: Any, **named: Any) -> Any:
        with accelerator.autocast():
            return function(*given, **named)

    attributes = {
        "accelerator": accelerator, "ref_model": other if case["reference"] == "model" else None,
        "is_peft_model": peft, "_is_peft_model": peft, "_metrics": {"train": defaultdict(list), "eval": defaultdict(list)},
        "_stored_metrics": defaultdict(lambda: defaultdict(list)), "_total_train_tokens": 0, "_tp_size": 1,
        "aux_loss_enabled": False, "is_encoder_decoder": False, "_peft_has_been_casted_to_bf16": False,
        "precompute_ref_logps": case["reference"] == "precomputed", "ref_adapter_name": None, "model_adapter_name": None,
        "calculate_KL": True, "padding_value": 0, "pad_token_id": 0, "teacher_model": other, "use_liger_kernel": False,
        "epsilon_low": 0.2, "epsilon_high": 0.2, "current_gradient_accumulation_steps": 1, "_entropy_bonus_enabled": False,
        "off_policy_mask_threshold": None, "compute_metrics": None, "use_weighting": False, "is_vision_model": False,
        "state": types.SimpleNamespace(num_input_tokens_seen=0, global_step=0), "_step": 0, "tools": None, "use_vllm": False,
        "model_kwarg_keys": set(inspect.signature(base.forward).parameters), "control": None, "is_fsdp_enabled": False,
        "_forward_redirection": redirected, "_is_vlm": False,
        "use_dpo_data_collator": True, "is_deepspeed_enabled": False, "label_pad_token_id": -100, "reward_funcs": [],
    }  # fmt: skip
    types_ = getattr(settings, "loss_type", None)
    if isinstance(types_, list):
        attributes |= {"loss_types": types_, "loss_weights": [1.0] * len(types_)}
    if hasattr(trl.trainer.utils, "add_fused_lm_head") and case["trainer"] in ("dpo", "kto", "grpo", "rloo"):
        outputs = (
            ("log_probs", "entropy", "mean_logits", "is_top1") if case["trainer"] == "dpo" else ("log_probs", "entropy")
        )
        trl.trainer.utils.add_fused_lm_head(
            base, outputs=outputs + (("mean_logits",) if case["trainer"] == "kto" else ())
        )
        if attributes["ref_model"] is not None:
            trl.trainer.utils.add_fused_lm_head(other)
    model = accelerator.prepare_model(model, device_placement=False)
    if other is not None:
        other = accelerator.prepare_model(other, device_placement=False, evaluation_mode=True)
    return bare(cls, settings, model=model, model_wrapped=model, **attributes)


def rollout(trainer: Any, batch: dict[str, Any], case: dict[str, Any]) -> None:
    """What scoring the completions takes before the step: the old policy's log-probabilities and the reference's."""
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    method = next(n for n in ("_get_per_token_logps_and_entropies", "_get_per_token_logps") if hasattr(trainer, n))
    keep, found = batch["completion_ids"].size(1), []
    with torch.no_grad():
        for model in (trainer.model, trainer.ref_model):
            if model is not None:
                off = getattr(model, "disable_adapter", contextlib.nullcontext)
                with off():
                    out = getattr(trainer, method)(model, ids, mask, keep, case["micro_batch"])
                found.append(out[0] if isinstance(out, tuple) else out)
    if case["trainer"] == "grpo":
        batch["old_per_token_logps"] = found[0]
        if case["reference"] != "none":
            batch["ref_per_token_logps"] = found[-1]


def run(case: dict[str, Any]) -> dict[str, Any]:
    started, gib = time.time(), 2**30
    model = model_of(case)
    needs = case["reference"] == "model" or case["trainer"] in ("gkd", "distill")
    other = model_of({**case, "lora_r": None, "trainer": ""}) if needs else None
    with FakeTensorMode(allow_non_fake_inputs=True):
        materialise(model)
        model.train()
        if other is not None:
            materialise(other)
            other.eval()
        if case.get("grad_ckpt"):
            if case.get("lora_r"):
                model.enable_input_require_grads()
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        trained = [p for p in model.parameters() if p.requires_grad]
        steps = optimizer(case, trained)
        samples = case["trainer"] in ("grpo", "rloo")
        scored = completion(case) / (case["seq"] - 1) if samples else 1.0
        # the logits' gradients come of slices, each its own; those of a divergence are handed on from sum to sum
        live = Step(case.get("padded", False), scored, 0 if case["trainer"] == "gkd" else case["config"]["vocab_size"])
        for held in (model, other):
            for tensor in [] if held is None else [*held.parameters(), *held.buffers()]:
                live.track(tensor)
        found: dict[str, Any] = {
            "params_total": sum(p.numel() for p in model.parameters()),
            "params_trainable": sum(p.numel() for p in trained), "weights_gib": live.now / gib,
        }  # fmt: skip
        trainer = assemble(case, model, other)
        peaks: dict[str, float] = {}

        def phase(name: str) -> None:
            peaks[name] = max(live.phase() / gib, peaks.get(name, 0.0))

        with live:
            for _ in range(2):  # the second has optimizer states
                peaks.clear()
                for _micro in range(2 if case.get("accumulate") else 1):
                    batch = inputs_of(case)
                    live.phase()
                    if samples:
                        rollout(trainer, batch, case)
                        phase("rollout")
                    loss = trainer.compute_loss(trainer.model, batch)
                    found["after_forward_gib"] = live.now / gib
                    phase("forward")
                    loss.backward()
                    phase("backward")
                    loss = batch = None
                found["grads_gib"] = sum(p.grad.untyped_storage().nbytes() for p in trained if p.grad is not None) / gib
                steps.step()
                phase("step")
                steps.zero_grad(set_to_none=True)
                found["resident_gib"] = live.now / gib
    found |= {f"peak_{name}_gib": peak for name, peak in peaks.items()}
    found["peak_gib"] = max(peaks.values())
    found = {k: round(v, 4) if isinstance(v, float) else v for k, v in found.items()}
    found |= {
        "trl": trl.__version__,
        "transformers": transformers.__version__,
        "seconds": round(time.time() - started, 1),
    }
    return found


def plain(case: dict[str, Any]) -> dict[str, Any]:
    """The same step on real tensors, its allocations as torch's profiler saw them: what the oracle is held against."""
    from torch.profiler import ProfilerActivity, profile

    model = model_of(case)
    materialise(model)
    model.train()
    if case.get("grad_ckpt"):
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    held = {id(t): t.untyped_storage().nbytes() for t in [*model.parameters(), *model.buffers()]}
    trained = list({id(p): p for p in model.parameters() if p.requires_grad}.values())
    steps, now, peaks = optimizer(case, trained), sum(held.values()), {}
    trainer = assemble(case, model, None)
    for _ in range(2):
        batch = inputs_of(case)
        for phase in ("forward", "backward", "step"):
            with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
                if phase == "forward":
                    loss = trainer.compute_loss(trainer.model, batch)
                elif phase == "backward":
                    loss.backward()
                else:
                    steps.step()
            events = [e for e in seen.profiler.kineto_results.events() if e.name() == "[memory]"]
            top = now
            for event in sorted(events, key=lambda e: e.start_ns()):
                now += event.nbytes()
                top = max(top, now)
            peaks[f"peak_{phase}_gib"] = round(top / 2**30, 4)
        now -= sum(p.grad.untyped_storage().nbytes() for p in trained if p.grad is not None)
        steps.zero_grad(set_to_none=True)
    return peaks


def main() -> None:
    for line in sys.stdin:
        if not line.strip():
            continue
        case = json.loads(line)
        try:
            case["measured"] = run(case)
            if "--plain" in sys.argv:
                case["plain"] = plain(case)
        except Exception as e:
            case["error"] = f"{type(e).__name__}: {e}"[:300]
            if "--trace" in sys.argv:
                raise
        print(json.dumps(case), flush=True)


if __name__ == "__main__":
    main()
