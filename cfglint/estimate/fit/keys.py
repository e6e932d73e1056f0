"""How each dialect writes a change: a fact, or a fact with a value, to the keys that say it.

``"fact": "key"`` takes the fact's number; ``"fact=value": {key: value}`` says one value. Keys are dotted routes from where
the dialect's settings begin. A fact that is missing here cannot be changed in that framework, as far as is known.

Names: those the dialects of :mod:`cfglint.dialects` read, and for the others torchtune recipes/configs (0.6), torchtitan
config/job_config.py, litgpt/finetune (0.5), verl/trainer/config (0.6), ms-swift/llm/argument (3.x), Megatron-LM training/arguments.py (core 0.1x);
for servers vllm/engine/arg_utils.py, sglang/srt/server_args.py, text-generation-launcher --help, lmdeploy/cli/utils.py,
llama.cpp common/arg.cpp.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Table = Mapping[str, "str | Mapping[str, Any]"]

_ZERO: Final[dict[str, Any]] = {
    f"zero_stage={stage}": {"deepspeed": f"ds_zero{stage}.json", "@deepspeed zero_optimization.stage": stage}
    for stage in (1, 2, 3)
} | {
    "offload_optimizer=cpu": {"@deepspeed zero_optimization.offload_optimizer.device": "cpu"},
    "offload_parameters=cpu": {"@deepspeed zero_optimization.offload_param.device": "cpu"},
}
"""``@dialect key``: a key of another file, which the first one names."""

_TRAINER: Final[dict[str, Any]] = {
    "micro_batch_size": "per_device_train_batch_size",
    "gradient_accumulation_steps": "gradient_accumulation_steps",
    "eval_micro_batch_size": "per_device_eval_batch_size",
    "gradient_checkpointing=full": {"gradient_checkpointing": True},
    "gradient_checkpointing=none": {"gradient_checkpointing": False},
    "optimizer=adamw_torch_fused": {"optim": "adamw_torch_fused"},
    "optimizer=adamw_8bit": {"optim": "adamw_8bit"},
    "optimizer=paged_adamw_8bit": {"optim": "paged_adamw_8bit"},
    "loss_kernel=fused_linear": {"use_liger_kernel": True},
    "attention=sdpa": {"attn_implementation": "sdpa"},
    "fsdp=full_shard": {"fsdp": "full_shard auto_wrap"},
    "fsdp_offload=cpu": {"fsdp": "full_shard auto_wrap offload"},
    "reduces_each_micro_step=True": {"accelerator_config.gradient_accumulation_kwargs.sync_each_batch": True},
    **_ZERO,
}

KEYS: Final[Mapping[str, Table]] = {
    "hf-training-args": {**_TRAINER, "sequence_length": "max_seq_length", "lora_rank": "lora_r"},
    "trl": {
        **_TRAINER,
        "sequence_length": "max_length",
        "lora_rank": "lora_r",
        "quantization=nf4": {"load_in_4bit": True},
        "method=lora": {"use_peft": True, "lora_r": 16, "lora_target_modules": "all-linear"},
        "reference=precomputed": {"precompute_ref_log_probs": True},
        "rollout_gpu_memory_utilization": "vllm_gpu_memory_utilization",
        "rollout_sleeps=True": {"vllm_enable_sleep_mode": True},
    },
    "verl": {
        "micro_batch_size": "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu",
        "gradient_checkpointing=full": {"actor_rollout_ref.model.enable_gradient_checkpointing": True},
        "loss_kernel=fused_linear": {"actor_rollout_ref.model.use_fused_kernels": True},
        "rollout_gpu_memory_utilization": "actor_rollout_ref.rollout.gpu_memory_utilization",
        "rollout_sleeps=True": {"actor_rollout_ref.rollout.free_cache_engine": True},
        "trainer_sleeps=True": {
            "actor_rollout_ref.actor.fsdp_config.param_offload": True,
            "actor_rollout_ref.actor.fsdp_config.optimizer_offload": True,
        },
    },
    "axolotl": {
        "micro_batch_size": "micro_batch_size",
        "gradient_accumulation_steps": "gradient_accumulation_steps",
        "sequence_length": "sequence_len",
        "eval_micro_batch_size": "eval_batch_size",
        "reference=precomputed": {"precompute_ref_log_probs": True},
        "lora_rank": "lora_r",
        "gradient_checkpointing=full": {"gradient_checkpointing": True},
        "gradient_checkpointing=none": {"gradient_checkpointing": False},
        "optimizer=adamw_torch_fused": {"optimizer": "adamw_torch_fused"},
        "optimizer=adamw_8bit": {"optimizer": "adamw_bnb_8bit"},
        "optimizer=paged_adamw_8bit": {"optimizer": "paged_adamw_8bit"},
        "loss_kernel=fused_linear": {
            "plugins": ["axolotl.integrations.liger.LigerPlugin"],
            "liger_fused_linear_cross_entropy": True,
        },
        "attention=sdpa": {"sdp_attention": True},
        "fsdp=full_shard": {"fsdp_version": 2, "fsdp_config.reshard_after_forward": True},
        "fsdp_offload=cpu": {"fsdp_config.offload_params": True},
        "reduces_each_micro_step=True": {"accelerator_config.gradient_accumulation_kwargs.sync_each_batch": True},
        "quantization=nf4": {"adapter": "qlora", "load_in_4bit": True},
        "method=lora": {"adapter": "lora", "lora_r": 16, "lora_alpha": 32, "lora_target_linear": True},
        **{
            f"zero_stage={stage}": {
                "deepspeed": f"deepspeed_configs/zero{stage}.json",
                "@deepspeed zero_optimization.stage": stage,
            }
            for stage in (1, 2, 3)
        },
        "offload_optimizer=cpu": {"@deepspeed zero_optimization.offload_optimizer.device": "cpu"},
        "offload_parameters=cpu": {"@deepspeed zero_optimization.offload_param.device": "cpu"},
    },
    "llamafactory": {
        **_TRAINER,
        "sequence_length": "cutoff_len",
        "lora_rank": "lora_rank",
        "gradient_checkpointing=full": {"disable_gradient_checkpointing": False},
        "gradient_checkpointing=none": {"disable_gradient_checkpointing": True},
        "loss_kernel=fused_linear": {"enable_liger_kernel": True},
        "attention=sdpa": {"flash_attn": "sdpa"},
        "quantization=nf4": {"quantization_bit": 4},
        "method=lora": {"finetuning_type": "lora", "lora_rank": 16, "lora_target": "all"},
    },
    "ms-swift": {
        **_TRAINER,
        "sequence_length": "max_length",
        "lora_rank": "lora_rank",
        "attention=sdpa": {"attn_impl": "sdpa"},
        "quantization=nf4": {"quant_method": "bnb", "quant_bits": 4},
        "method=lora": {"train_type": "lora", "lora_rank": 16, "target_modules": "all-linear"},
        **{f"zero_stage={stage}": {"deepspeed": f"zero{stage}"} for stage in (1, 2, 3)},
        "offload_optimizer=cpu": {"deepspeed": "zero2_offload"},
        "offload_parameters=cpu": {"deepspeed": "zero3_offload"},
    },
    "deepspeed": {
        "micro_batch_size": "train_micro_batch_size_per_gpu",
        "gradient_accumulation_steps": "gradient_accumulation_steps",
        **{f"zero_stage={stage}": {"zero_optimization.stage": stage} for stage in (1, 2, 3)},
        **{f"offload_optimizer={at}": {"zero_optimization.offload_optimizer.device": at} for at in ("cpu", "none")},
        **{f"offload_parameters={at}": {"zero_optimization.offload_param.device": at} for at in ("cpu", "none")},
    },
    "accelerate": {
        **{
            f"zero_stage={stage}": {"distributed_type": "DEEPSPEED", "deepspeed_config.zero_stage": stage}
            for stage in (1, 2, 3)
        },
        **{f"offload_optimizer={at}": {"deepspeed_config.offload_optimizer_device": at} for at in ("cpu", "none")},
        **{f"offload_parameters={at}": {"deepspeed_config.offload_param_device": at} for at in ("cpu", "none")},
        "fsdp=full_shard": {"distributed_type": "FSDP", "fsdp_config.fsdp_sharding_strategy": "FULL_SHARD"},
        "fsdp_offload=cpu": {"fsdp_config.fsdp_offload_params": True},
    },
    "torchtune": {
        "micro_batch_size": "batch_size",
        "gradient_accumulation_steps": "gradient_accumulation_steps",
        "sequence_length": "tokenizer.max_seq_len",
        "eval_micro_batch_size": "batch_size_val",
        "lora_rank": "model.lora_rank",
        "gradient_checkpointing=full": {"enable_activation_checkpointing": True},
        "gradient_checkpointing=none": {"enable_activation_checkpointing": False},
        "optimizer=adamw_torch_fused": {"optimizer._component_": "torch.optim.AdamW", "optimizer.fused": True},
        "optimizer=adamw_8bit": {"optimizer._component_": "bitsandbytes.optim.AdamW8bit"},
        "optimizer=paged_adamw_8bit": {"optimizer._component_": "bitsandbytes.optim.PagedAdamW8bit"},
        "fsdp_offload=cpu": {"fsdp_cpu_offload": True},
    },
    "torchtitan": {
        "micro_batch_size": "training.local_batch_size",
        "sequence_length": "training.seq_len",
        "eval_micro_batch_size": "validation.local_batch_size",
        "gradient_checkpointing=full": {"activation_checkpoint.mode": "full"},
        "fsdp=full_shard": {"parallelism.data_parallel_shard_degree": -1},
    },
    "litgpt": {
        "micro_batch_size": "train.micro_batch_size",
        "sequence_length": "train.max_seq_length",
        "lora_rank": "lora_r",
        "quantization=nf4": {"quantize": "bnb.nf4"},
    },
    "megatron": {
        "micro_batch_size": "micro-batch-size",
        "sequence_length": "seq-length",
        "gradient_checkpointing=full": {
            "recompute-granularity": "full", "recompute-method": "uniform", "recompute-num-layers": 1,
        },
    },
    "vllm": {
        name: name.replace("_", "-")
        for name in (
            "max_model_len", "max_num_seqs", "max_num_batched_tokens", "gpu_memory_utilization", "enforce_eager",
            "kv_cache_dtype", "tensor_parallel_size",
        )
    },
    "sglang": {
        "max_model_len": "context-length", "kv_cache_dtype": "kv-cache-dtype", "tensor_parallel_size": "tp-size",
        "mem_fraction_static": "mem-fraction-static", "enforce_eager": "disable-cuda-graph",
    },
    "tgi": {"max_model_len": "max-total-tokens", "kv_cache_dtype": "kv-cache-dtype", "tensor_parallel_size": "num-shard"},
    "lmdeploy": {"max_model_len": "session-len", "tensor_parallel_size": "tp"},
    "trtllm": {"max_model_len": "max_seq_len", "tensor_parallel_size": "tp_size"},
    "llama.cpp": {"max_model_len": "ctx-size"},
}  # fmt: skip

FRAMEWORKS: Final[Mapping[str, str]] = {
    "transformers": "hf-training-args", "peft": "hf-training-args", "accelerate": "hf-training-args",
    "unsloth": "trl", "nemo": "megatron",
}  # fmt: skip
"""Framework to the table that says what it can do, where the names differ."""

HYDRA: Final = frozenset({"verl"})
"""Dialects whose command lines take ``key=value``, without dashes."""

SHARDING_FACTS: Final = frozenset({"zero_stage", "offload_optimizer", "offload_parameters", "fsdp", "fsdp_offload"})
"""Facts whose keys stand with the engine (DeepSpeed, Accelerate) where a job has such a file."""
