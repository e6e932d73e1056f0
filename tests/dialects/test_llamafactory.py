"""LLaMA-Factory's YAML."""

from collections.abc import Callable

import pytest

from cfglint.jobs.facts import DefaultOrigin, Reading
from cfglint.testing import lint_files

Read = Callable[..., Reading]

BASE = "model_name_or_path: org/m\nstage: sft\ntemplate: llama3\ndo_train: true\nper_device_train_batch_size: 1\n"


def test_facts_and_their_lines(read: Read) -> None:
    reading = read(
        BASE
        + "finetuning_type: lora\nlora_rank: 16\nlora_target: q_proj,v_proj\ncutoff_len: 4096\nbf16: true\n"
        + "quantization_bit: 4\nflash_attn: fa2\ndeepspeed: examples/deepspeed/ds_z2.json\n"
    )
    assert (reading.dialect, reading.role, reading.framework) == ("llamafactory", "run", "llamafactory")
    expected = {
        "model_id": ("org/m", 1), "micro_batch_size": (1, 5), "method": ("qlora", 6), "lora_rank": (16, 7),
        "lora_targets": (["q_proj", "v_proj"], 8), "sequence_length": (4096, 9), "compute_dtype": ("bf16", 10),
        "quantization": ("nf4-double", 11), "attention": ("flash2", 12),
    }  # fmt: skip
    for name, (value, line) in expected.items():
        fact = reading.facts.fact(name)
        assert fact is not None, name
        assert (fact.value, fact.describe()) == (value, f"config.yaml:{line}"), name
    assert reading.facts.value("lora_alpha") == 32.0
    assert reading.facts.value("weight_dtype") == "bf16"
    assert [(r.role, r.target, r.base) for r in reading.references][-1] == (
        "deepspeed", "examples/deepspeed/ds_z2.json", "cwd",
    )  # fmt: skip


def test_full_tuning_keeps_fp32_weights_unless_pure_bf16(read: Read) -> None:
    full = read(BASE + "finetuning_type: full\nbf16: true\n").facts
    assert (full.value("weight_dtype"), full.value("compute_dtype")) == ("fp32", "bf16")
    pure = read(BASE + "finetuning_type: full\npure_bf16: true\n").facts
    assert (pure.value("weight_dtype"), pure.value("compute_dtype")) == ("bf16", "none")


def test_a_partly_frozen_model_is_not_called_full(read: Read) -> None:
    facts = read(BASE + "finetuning_type: freeze\nbf16: true\n").facts
    assert facts.undecided("method")
    assert facts.value("weight_dtype") == "bf16"


@pytest.mark.parametrize(
    ("stage", "keys", "method"),
    [
        ("pt", "finetuning_type: full\n", "pretrain"),
        ("dpo", "finetuning_type: lora\n", "dpo+lora"),
        ("dpo", "finetuning_type: full\npref_loss: simpo\n", "orpo"),
        ("kto", "finetuning_type: lora\nquantization_bit: 4\n", "kto+qlora"),
        ("rm", "finetuning_type: full\n", "reward"),
        ("sft", "finetuning_type: lora\nuse_dora: true\n", "dora"),
        ("sft", "", "lora"),
    ],
)
def test_the_method(read: Read, stage: str, keys: str, method: str) -> None:
    text = (
        f"model_name_or_path: org/m\nstage: {stage}\ntemplate: llama3\ndo_train: true\nlearning_rate: 1.0e-4\n" + keys
    )
    assert read(text).facts.value("method") == method


def test_defaults(read: Read) -> None:
    facts = read(BASE + "finetuning_type: lora\n").facts
    assert facts.value("gradient_checkpointing") == "full"
    assert [(f.value, f.describe()) for f in facts.statements("sequence_length")] == [
        (2048, "llamafactory >=0.9.1 default"),
        (1024, "llamafactory <0.9.1 default"),
    ]
    assert facts.value("lora_rank") == 8
    assert facts.value("lora_targets") == ["all-linear"]
    off = read(BASE + "disable_gradient_checkpointing: true\n").facts
    assert off.value("gradient_checkpointing") == "none"


def test_files_that_do_not_train(read: Read) -> None:
    chat = read("model_name_or_path: org/m\ntemplate: llama3\ninfer_backend: huggingface\n")
    assert (chat.dialect, chat.role) == ("llamafactory", "part")
    assert not chat.facts.stated("micro_batch_size")
    merge = read("model_name_or_path: org/m\nadapter_name_or_path: saves/x\ntemplate: llama3\nexport_dir: out\n")
    assert merge.role == "part"
    assert ("adapter", "saves/x") in [(r.role, r.target) for r in merge.references]


def test_the_rewritten_trainer(read: Read) -> None:
    reading = read(
        """
        model: org/m
        model_class: llm
        peft_config: {name: lora, r: 8, target_modules: all}
        dist_config: {name: deepspeed, config_file: ds.json}
        kernel_config: {name: liger_kernel}
        train_dataset: data/x.yaml
        micro_batch_size: 2
        cutoff_len: 1024
        """
    )
    facts = reading.facts
    assert reading.context["layout"] == "v1"
    assert facts.value("method") == "lora"
    assert (facts.value("micro_batch_size"), facts.value("sequence_length")) == (2, 1024)
    assert facts.value("loss_kernel") == "fused_linear"
    assert ("deepspeed", "ds.json") in [(r.role, r.target) for r in reading.references]


def test_odd_values_are_not_facts(read: Read) -> None:
    facts = read(
        """
        model_name_or_path: {a: 1}
        stage: [sft]
        template: 3
        finetuning_type: [full]
        cutoff_len: [1]
        lora_rank: {}
        quantization_bit: four
        per_device_train_batch_size: [1]
        flash_attn: []
        """
    ).facts
    assert not facts.stated("model_id")
    for name in ("sequence_length", "micro_batch_size", "method", "lora_rank"):
        assert all(isinstance(f.origin, DefaultOrigin) for f in facts.statements(name)), name


def test_what_another_engine_holds_gets_no_verdict() -> None:
    run = (
        "model_name_or_path: Qwen/Qwen3-235B-A22B\nstage: sft\ndo_train: true\nfinetuning_type: lora\ntemplate: qwen3\n"
        "dataset: our\ncutoff_len: 2048\nper_device_train_batch_size: 1\nbf16: true\n"
    )
    for more, missing in (
        ("use_kt: true\n", "use_kt"),
        ("tensor_model_parallel_size: 4\n", "tensor_model_parallel_size"),
    ):
        result = lint_files({"sft.yaml": run + more}, gpu="A100-80GB", gpus=1)
        (job,) = result.context.jobs.training
        memory = result.context.estimate(job).memory
        assert memory.verdict == "unknown"
        assert missing in memory.missing
    (job,) = lint_files({"sft.yaml": run + "use_kt: false\n"}, gpu="A100-80GB", gpus=1).context.jobs.training
    from cfglint.estimate import estimate

    assert estimate(job).memory.verdict == "oom"


@pytest.mark.parametrize("script", ["src/train_bash.py", "src/train.py"])
def test_its_scripts_flags(script: str) -> None:
    launch = (
        f"deepspeed --num_gpus 8 {script} --stage sft --model_name_or_path Qwen/Qwen1.5-7B-Chat --do_train --dataset our "
        "--template qwen --finetuning_type lora --lora_target q_proj,v_proj --output_dir out --cutoff_len 1024 "
        "--per_device_train_batch_size 2 --learning_rate 5e-5 --bf16 True\n"
    )
    (job,) = lint_files({"run.sh": launch}).context.jobs.training
    assert job.value("framework") == "llamafactory"
    assert (job.value("method"), job.value("gradient_checkpointing")) == ("lora", "full")
    assert job.value("lora_targets") == ["q_proj", "v_proj"]
    other = launch.replace("--stage sft", "").replace(
        "--template qwen --finetuning_type lora --lora_target q_proj,v_proj", ""
    )
    (job,) = lint_files({"run.sh": other}).context.jobs.training
    assert job.value("framework") == "transformers"


def test_the_engine_of_a_chat_file() -> None:
    chat = "model_name_or_path: Qwen/Qwen2.5-7B-Instruct\ntemplate: qwen\ninfer_backend: vllm\nvllm_maxlen: 8192\n"
    result = lint_files({"chat.yaml": chat + "vllm_enforce_eager: false\n"}, gpu="V100-32GB", gpus=1)
    (job,) = result.context.jobs.serving
    assert (job.value("framework"), job.value("max_model_len")) == ("vllm", 8192)
    assert not result.context.jobs.training
    assert {f.code for f in result.findings if f.severity == "error"} == set()
    assert "HWF101" in {f.code for f in result.findings}
    assert result.context.estimate(job).memory.verdict == "unknown"  # it takes every device there is
    huggingface = lint_files({"chat.yaml": chat.replace("vllm\n", "huggingface\n")})
    assert not huggingface.context.jobs.serving


@pytest.mark.parametrize(
    ("rank", "stated", "found"), [(64, "", True), (32, "", False), (64, "vllm_max_lora_rank: 64\n", False)]
)
def test_the_rank_that_its_engine_takes(rank: int, stated: str, found: bool) -> None:
    chat = "model_name_or_path: Qwen/Qwen2.5-7B-Instruct\nadapter_name_or_path: saves/sft\ntemplate: qwen\n"
    adapter = (
        f'{{"peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": "Qwen/Qwen2.5-7B-Instruct", "r": {rank},'
        ' "lora_alpha": 64, "target_modules": ["q_proj"]}'
    )
    files = {"chat.yaml": chat + "infer_backend: vllm\n" + stated, "saves/sft/adapter_config.json": adapter}
    assert bool(lint_files(files, select=("SRV007",)).findings) is found
