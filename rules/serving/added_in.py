"""The releases that brought arguments of vLLM, nearer than the sampled releases tell.

Each pair is the last release read without the arguments, and the first with them. Read from vllm/engine/arg_utils.py and
the entrypoints of 35 releases between 0.6.1 and 0.32.0: the last has none of the names anywhere."""

BROUGHT: dict[tuple[str, str], tuple[str, ...]] = {
    ("0.6.1", "0.6.3.post1"): (
        "mm_processor_kwargs", "multi_step_stream_outputs", "scheduling_policy", "speculative_disable_mqa_scorer",
    ),
    ("0.6.3.post1", "0.6.4.post1"): (
        "allowed_local_media_path", "enable_lora_bias", "hf_overrides", "override_pooler_config", "task",
    ),
    ("0.6.4.post1", "0.6.6.post1"): (
        "compilation_config", "disable_mm_preprocessor_cache", "generation_config", "kv_transfer_config",
        "logits_processor_pattern", "worker_cls",
    ),
    ("0.7.0", "0.7.3"): (
        "additional_config", "long_prefill_token_threshold", "max_long_partial_prefills", "max_num_partial_prefills",
        "model_impl", "override_generation_config", "scheduler_cls",
    ),
    ("0.7.3", "0.8.0"): (
        "enable_expert_parallel", "hf_config_path", "show_hidden_metrics_for_version", "use_tqdm_on_load",
        "worker_extension_cls",
    ),
    ("0.8.1", "0.8.2"): (
        "disable_cascade_attn",
    ),
    ("0.8.2", "0.8.3"): (
        "data_parallel_size", "prefix_caching_hash_algo",
    ),
    ("0.8.3", "0.8.4"): (
        "disable_chunked_mm_input", "hf_token",
    ),
    ("0.9.0", "0.9.1"): (
        "data_parallel_backend", "disable_hybrid_kv_cache_manager", "enable_multimodal_encoder_data_parallel",
    ),
    ("0.9.1", "0.9.2"): (
        "data_parallel_rank", "enable_eplb", "eplb_log_balancedness", "eplb_step_interval", "eplb_window_size",
        "media_io_kwargs", "num_redundant_experts", "override_attention_dtype",
    ),
    ("0.9.2", "0.10.0"): (
        "async_scheduling", "data_parallel_hybrid_lb", "data_parallel_start_rank", "default_mm_loras", "headless",
        "interleave_mm_strings", "logprobs_mode",
    ),
    ("0.10.0", "0.10.1"): (
        "convert", "enable_log_requests", "kv_sharing_fast_prefill", "logits_processors", "mamba_cache_dtype",
        "mamba_ssm_cache_dtype", "mm_processor_cache_gb", "runner", "skip_mm_profiling",
    ),
    ("0.10.1", "0.10.2"): (
        "decode_context_parallel_size", "eplb_config", "io_processor_plugin", "kv_cache_memory_bytes",
        "mm_encoder_tp_mode", "safetensors_load_strategy",
    ),
    ("0.11.0", "0.11.1"): (
        "aggregate_engine_logging", "all2all_backend", "cudagraph_capture_sizes", "dcp_kv_cache_interleave_size",
        "disable_nccl_for_dp_synchronization", "ec_transfer_config", "enable_mm_embeds", "kv_offloading_backend",
        "kv_offloading_size", "mamba_block_size", "master_addr", "master_port", "max_cudagraph_capture_size",
        "mm_encoder_attn_backend", "nnodes", "node_rank", "reasoning_parser_plugin", "stream_interval", "tokens_only",
    ),
    ("0.13.0", "0.14.0"): (
        "allow_deprecated_quantization", "enable_logging_iteration_details", "enable_mfu_metrics",
        "enable_return_routed_experts", "enable_tower_connector_lora", "ubatch_size",
    ),
    ("0.14.0", "0.15.0"): (
        "mamba_cache_mode", "mm_encoder_only",
    ),
    ("0.15.1", "0.16.0"): (
        "enable_flashinfer_autotune", "kernel_config", "specialize_active_lora", "weight_transfer_config",
    ),
    ("0.16.0", "0.17.0"): (
        "cpu_offload_params", "enable_elastic_ep", "fail_on_environ_validation", "language_model_only", "moe_backend",
        "offload_backend", "offload_group_size", "offload_num_in_group", "offload_params", "offload_prefetch_step",
        "performance_mode",
    ),
    ("0.17.1", "0.18.0"): (
        "dcp_comm_backend", "distributed_timeout_seconds", "enable_ep_weight_filter", "gdn_prefill_backend",
        "shutdown_timeout",
    ),
    ("0.19.0", "0.20.0"): (
        "enable_mamba_cache_stochastic_rounding", "ir_op_priority", "mamba_backend", "mamba_cache_philox_rounds",
        "numa_bind", "numa_bind_cpus", "numa_bind_nodes", "quantization_config",
    ),
    ("0.20.0", "0.22.0"): (
        "cpu_distributed_timeout_seconds", "data_parallel_multi_port_external_lb", "enable_cumem_allocator",
        "enable_mixed_moe_lora_format", "linear_backend", "mm_encoder_attn_dtype", "mm_encoder_fp8_scale_path",
        "mm_encoder_fp8_scale_save_margin", "mm_encoder_fp8_scale_save_path", "safetensors_prefetch_block_size",
        "safetensors_prefetch_num_threads", "spec_method", "spec_model", "spec_tokens", "use_fp64_gumbel",
    ),
    ("0.22.0", "0.25.1"): (
        "device_ids", "diffusion_config", "jit_monitor_mode", "jit_monitor_verbose", "mm_ipc_gpu_memory_gb",
        "model_class_overrides", "prefill_schedule_interval", "watermark",
    ),
    ("0.26.0", "0.27.1"): (
        "enable_fault_tolerance", "fault_tolerance_config", "kda_prefill_backend", "mamba_ssu_algorithm",
        "mm_hasher_algorithm", "replayssm_buffer_len", "use_replayssm", "video_pruning_method",
    ),
    ("0.27.1", "0.28.0"): (
        "ec_manager_config", "mm_device_do_normalize", "mm_processor_device", "return_sampling_mask",
    ),
    ("0.28.0", "0.29.0"): (
        "dcp_q_replicate", "enable_batch_sharded_sampling", "enable_trace_replay", "max_num_queued_reqs",
        "max_num_queued_tokens", "per_request_spec_decode_metrics", "prefix_cache_retention_interval",
    ),
}  # fmt: skip
ADDED = {name: pair for pair, names in BROUGHT.items() for name in names}
