"""Accelerate's YAML."""

from collections.abc import Callable

from cfglint.jobs.facts import DefaultOrigin, Reading

Read = Callable[..., Reading]


def test_deepspeed_inside(read: Read) -> None:
    reading = read(
        """
        compute_environment: LOCAL_MACHINE
        distributed_type: DEEPSPEED
        mixed_precision: bf16
        num_machines: 2
        num_processes: 16
        deepspeed_config:
          zero_stage: 3
          offload_optimizer_device: cpu
          offload_param_device: none
          gradient_accumulation_steps: 4
          gradient_clipping: 1.0
        """
    )
    facts = reading.facts
    assert (reading.dialect, reading.role, reading.framework) == ("accelerate", "part", "accelerate")
    assert facts.value("nodes") == 2
    assert facts.value("gpus_per_node") == 8
    per_node = facts.fact("gpus_per_node")
    assert per_node is not None and per_node.describe() == "16 processes / 2 machines"
    for name, value, line in (
        ("compute_dtype", "bf16", 3), ("zero_stage", 3, 7), ("offload_optimizer", "cpu", 8),
        ("offload_parameters", "none", 9), ("gradient_accumulation_steps", 4, 10), ("max_grad_norm", 1.0, 11),
    ):  # fmt: skip
        fact = facts.fact(name)
        assert fact is not None, name
        assert (fact.value, fact.describe()) == (value, f"config.yaml:{line}"), name


def test_a_deepspeed_file_is_a_reference(read: Read) -> None:
    reading = read(
        """
        distributed_type: DEEPSPEED
        num_processes: 8
        deepspeed_config:
          deepspeed_config_file: configs/zero3.json
          zero3_init_flag: true
        """
    )
    (reference,) = reading.references
    assert (reference.role, reference.target, reference.base) == ("deepspeed", "configs/zero3.json", "cwd")
    assert reference.origin.position.line == 4
    assert not reading.facts.stated("zero_stage")


def test_fsdp_1_and_2(read: Read) -> None:
    one = read(
        """
        distributed_type: FSDP
        num_processes: 8
        fsdp_config:
          fsdp_sharding_strategy: 2
          fsdp_offload_params: true
          fsdp_activation_checkpointing: true
        """
    ).facts
    assert one.value("fsdp") == "shard_grad_op"
    assert one.value("offload_parameters") == "cpu"
    assert one.value("offload_optimizer") == "cpu"
    assert one.value("gradient_checkpointing") == "full"
    version = one.fact("fsdp_version")
    assert version is not None and version.value == 1 and isinstance(version.origin, DefaultOrigin)
    two = read(
        """
        distributed_type: FSDP
        num_processes: 8
        fsdp_config:
          fsdp_version: 2
          fsdp_reshard_after_forward: true
        parallelism_config:
          parallelism_config_tp_size: 2
          parallelism_config_cp_size: 4
        """
    ).facts
    assert (two.value("fsdp"), two.value("fsdp_version")) == ("full_shard", 2)
    assert two.value("tensor_parallel_size") == 2
    assert two.value("context_parallel_size") == 4


def test_settings_of_an_engine_that_is_not_chosen_are_not_facts(read: Read) -> None:
    facts = read(
        """
        distributed_type: MULTI_GPU
        num_processes: 4
        mixed_precision: 'no'
        deepspeed_config: {zero_stage: 3}
        fsdp_config: {fsdp_sharding_strategy: FULL_SHARD}
        """
    ).facts
    assert not facts.stated("zero_stage")
    assert not facts.stated("fsdp")
    assert facts.value("compute_dtype") == "none"


def test_an_unquoted_no_is_false_for_yaml_and_no_for_accelerate(read: Read) -> None:
    reading = read("compute_environment: LOCAL_MACHINE\ndistributed_type: NO\nmixed_precision: no\nnum_processes: 1\n")
    assert reading.context["distributed_type"] == "NO"
    assert reading.facts.value("compute_dtype") == "none"
    assert reading.facts.value("gpus_per_node") == 1


def test_no_gpus_on_cpus_and_no_share_where_machines_do_not_divide(read: Read) -> None:
    cpu = read("distributed_type: MULTI_CPU\nnum_processes: 4\nmixed_precision: bf16\n")
    assert not cpu.facts.stated("gpus_per_node")
    uneven = read("distributed_type: MULTI_GPU\nnum_processes: 7\nnum_machines: 2\n")
    assert not uneven.facts.stated("gpus_per_node")
    assert uneven.facts.value("nodes") == 2


def test_placeholders(read: Read) -> None:
    facts = read("distributed_type: MULTI_GPU\nnum_processes: ${N}\nnum_machines: 1\nmixed_precision: auto\n").facts
    assert facts.undecided("gpus_per_node")
    assert facts.undecided("compute_dtype")


def test_odd_values_are_not_facts(read: Read) -> None:
    facts = read(
        """
        distributed_type: [FSDP]
        num_processes: [8]
        mixed_precision: {a: 1}
        fsdp_config: nothing
        deepspeed_config: []
        """
    ).facts
    assert list(facts.names()) == []
