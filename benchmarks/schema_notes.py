"""What the frameworks' sources say about keys in prose or in code paths, for ``build_schemas.py``.

Each note was read in the release it names. ``renamed_to`` is the successor the framework's own warning or migration
text gives; ``deprecated_in`` the first sampled release that warns.
"""

from __future__ import annotations

from typing import Any

TITLES: dict[str, str] = {
    "hf-training-args": "Hugging Face TrainingArguments",
}

READERS: dict[str, dict[str, Any]] = {
    "hf-training-args": {
        "loader": "json.load, yaml.safe_load (HfArgumentParser.parse_json_file, parse_yaml_file)",
        "conversion": "none",
        "unknown_keys": "error",
        "note": "Values go into the dataclass as they are; scripts may add dataclasses of their own.",
    },
}

NOTES: dict[str, dict[str, dict[str, Any]]] = {
    "hf-training-args": {
        "evaluation_strategy": {"renamed_to": "eval_strategy", "deprecated_in": "4.41"},
        "no_cuda": {"renamed_to": "use_cpu", "deprecated_in": "4.32"},
        "per_gpu_train_batch_size": {"renamed_to": "per_device_train_batch_size", "deprecated_in": "4.26"},
        "per_gpu_eval_batch_size": {"renamed_to": "per_device_eval_batch_size", "deprecated_in": "4.26"},
        "gradient_checkpointing": {
            "renamed_to": "activation_checkpointing",
            "deprecated_in": "5.23",
            "note": "An alias from 5.23 on, to be removed in 6.0.",
        },
        "gradient_checkpointing_kwargs": {"renamed_to": "activation_checkpointing_kwargs", "deprecated_in": "5.23"},
        "adafactor": {"renamed_to": "optim", "deprecated_in": "4.26", "note": "optim: adafactor."},
        "fp16_backend": {"renamed_to": "half_precision_backend", "deprecated_in": "4.26"},
        "torchdynamo": {"renamed_to": "torch_compile_backend", "deprecated_in": "4.26"},
        "push_to_hub_model_id": {"renamed_to": "hub_model_id", "deprecated_in": "4.26"},
        "push_to_hub_organization": {"renamed_to": "hub_model_id", "deprecated_in": "4.26"},
        "push_to_hub_token": {"renamed_to": "hub_token", "deprecated_in": "4.26"},
        "tpu_metrics_debug": {"renamed_to": "debug", "deprecated_in": "4.26", "note": "debug: tpu_metrics_debug."},
        "use_mps_device": {"deprecated_in": "4.32", "note": "MPS is used where it is there."},
        "fsdp_min_num_params": {"renamed_to": "fsdp_config", "deprecated_in": "4.27"},
        "fsdp_transformer_layer_cls_to_wrap": {"renamed_to": "fsdp_config", "deprecated_in": "4.27"},
        "include_inputs_for_metrics": {"renamed_to": "include_for_metrics", "deprecated_in": "4.46"},
        "include_tokens_per_second": {"renamed_to": "include_num_input_tokens_seen"},
        "dispatch_batches": {"renamed_to": "accelerator_config", "deprecated_in": "4.38"},
        "split_batches": {"renamed_to": "accelerator_config", "deprecated_in": "4.38"},
        "sharded_ddp": {"renamed_to": "fsdp"},
        "xpu_backend": {"renamed_to": "ddp_backend"},
        "warmup_ratio": {
            "renamed_to": "warmup_steps",
            "deprecated_in": "5.0",
            "note": "From 5.0 on warmup_steps takes a fraction below 1.",
        },
        "warmup_steps": {"note": "From 5.0 on a value below 1 is a fraction of all steps."},
        "logging_dir": {"deprecated_in": "5.0", "note": "Set the environment variable TENSORBOARD_LOGGING_DIR."},
        "group_by_length": {
            "renamed_to": "train_sampling_strategy",
            "note": "train_sampling_strategy: group_by_length.",
        },
        "optim": {"note": "From 4.54 on adamw_torch_fused with torch 2.8 or newer, else adamw_torch."},
        "report_to": {"note": "Before 5.0 null means every integration installed."},
        "include_num_input_tokens_seen": {"choices": ["all", "non_padding", "no"], "type": "bool | str | None"},
        "output_dir": {"note": "Required before 4.53."},
        "fsdp": {"type": "bool | str | list[str] | None"},
        "fsdp_config": {
            "unknown": "ignored",
            "keys": {
                prefix + key: {"type": kind}
                for prefix in ("", "fsdp_")
                for key, kind in {
                    "version": "int",
                    "auto_wrap_policy": "str",
                    "min_num_params": "int | float",
                    "transformer_layer_cls_to_wrap": "str | list[str]",
                    "reshard_after_forward": "bool | str",
                    "sharding_strategy": "int | str",
                    "backward_prefetch": "str",
                    "backward_prefetch_policy": "str",
                    "forward_prefetch": "bool | str",
                    "limit_all_gathers": "bool | str",
                    "use_orig_params": "bool | str",
                    "sync_module_states": "bool | str",
                    "cpu_ram_efficient_loading": "bool | str",
                    "state_dict_type": "str",
                    "activation_checkpointing": "bool | str",
                    "cpu_offload": "bool",
                    "offload_params": "bool | str",
                    "mixed_precision": "any",
                    "mixed_precision_policy": "any",
                    "xla": "bool",
                    "xla_fsdp_v2": "bool",
                    "xla_fsdp_grad_ckpt": "bool",
                    "xla_fsdp_settings": "dict",
                }.items()
            },
        },
        # "deepspeed": {"ref": "deepspeed"},
    },
}
