"""How loud the memory rules are where the data decide."""

from __future__ import annotations

from cfglint.lint.finding import Finding
from cfglint.testing import lint_files

SFT = """\
model_name_or_path: Qwen/Qwen2.5-7B
dtype: bfloat16
bf16: true
use_peft: true
per_device_train_batch_size: {micro}
gradient_accumulation_steps: 4
gradient_checkpointing: true
max_length: 4096
dataset_name: our/data
learning_rate: 2.0e-5
"""


def _memory(text: str) -> Finding:
    result = lint_files({"sft.yaml": text}, gpu="A100-80GB", gpus=1)
    (finding,) = [f for f in result.findings if f.code == "MEM001"]
    return finding


def test_a_length_that_samples_need_not_reach_is_information() -> None:
    finding = _memory(SFT.format(micro=40))
    assert (finding.severity, finding.confidence) == ("info", "low")
    assert finding.message.startswith("may need ")
    assert finding.message.endswith("if samples reach the stated length")


def test_packed_samples_reach_it() -> None:
    finding = _memory(SFT.format(micro=40) + "packing: true\n")
    assert finding.severity in ("warning", "error")


def test_what_does_not_fit_at_half_the_length_is_a_warning() -> None:
    finding = _memory(SFT.format(micro=80))
    assert (finding.severity, finding.confidence) == ("warning", "medium")


def test_states_alone_count_the_gradients_of_the_step() -> None:
    """75 GiB of weights and moments fit, 100 with the gradients do not."""
    run = (
        "torchrun --nproc_per_node 1 train.py --model_name_or_path huggyllama/llama-7b --output_dir out --bf16 True "
        "--per_device_train_batch_size 4 --learning_rate 2e-5 --num_train_epochs 3 --fsdp 'full_shard auto_wrap'\n"
    )
    result = lint_files({"run.sh": run}, gpu="A100-80GB", gpus=1)
    (finding,) = [f for f in result.findings if f.code == "MEM001"]
    assert 90 < finding.data["least_gib"] < 101
    result = lint_files({"run.sh": run}, gpu="B200", gpus=1)
    assert not [f for f in result.findings if f.code == "MEM001"]


def test_states_alone_are_too_much_whatever_the_length() -> None:
    files = {
        "train.yaml": "model_name_or_path: meta-llama/Llama-2-70b-hf\nbf16: true\nper_device_train_batch_size: 1\n"
        "deepspeed: ds.json\n",
        "ds.json": '{"train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": "auto"}, '
        '"zero_optimization": {"stage": 3}}',
    }
    result = lint_files(files, gpu="A100-80GB", gpus=8)
    (finding,) = [f for f in result.findings if f.code == "MEM001"]
    assert finding.severity == "warning"  # a script of one's own may bring adapters
    assert finding.data["least_gib"] > finding.data["capacity_gib"] > 79
    assert "without any activations, if all parameters are trained" in finding.message
    # 16 bytes per parameter over 32 ranks fit
    assert not [f for f in lint_files(files, gpu="A100-80GB", gpus=8, nodes=4).findings if f.code == "MEM001"]


def test_adapters_that_axolotl_may_fuse_are_no_error() -> None:
    text = (
        "base_model: NousResearch/Llama-2-7b-hf\nload_in_4bit: true\nadapter: qlora\nsequence_len: 4096\n"
        "sample_packing: true\npad_to_sequence_len: true\nmicro_batch_size: 1\nbf16: auto\n"
        "datasets:\n  - path: our/data\n    type: alpaca\n"
    )
    severities = {}
    for name, extra in (("open", ""), ("off", "lora_mlp_kernel: false\n")):
        result = lint_files({"axolotl.yaml": text + extra}, gpu="RTX4090", gpus=1)
        (finding,) = [f for f in result.findings if f.code == "MEM001"]
        severities[name] = finding.severity
    assert severities == {"open": "warning", "off": "error"}
