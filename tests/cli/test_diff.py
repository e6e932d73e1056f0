"""`cfglint diff` over real git repositories and over folders."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cfglint.cli.main import main

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

SFT = """\
# cfglint: gpu=A100-80GB gpus=8
base_model: meta-llama/Llama-3.1-8B
sequence_len: 4096
micro_batch_size: 4
gradient_accumulation_steps: 4
learning_rate: 0.00002
bf16: true
gradient_checkpointing: true
flash_attention: true
deepspeed: ../deepspeed/zero3.json
datasets:
  - path: tatsu-lab/alpaca
    type: alpaca
"""
LORA = """\
# cfglint: gpu=A100-80GB gpus=1
base_model: meta-llama/Llama-3.1-8B
adapter: lora
lora_r: 16
lora_alpha: 32
lora_target_linear: true
sequence_len: 2048
micro_batch_size: 2
gradient_accumulation_steps: 4
bf16: true
gradient_checkpointing: true
flash_attention: true
datasets:
  - path: tatsu-lab/alpaca
    type: alpaca
"""
ZERO3 = '{"zero_optimization": {"stage": 3}, "bf16": {"enabled": "auto"}, "train_micro_batch_size_per_gpu": "auto"}\n'
SERVE = """\
# cfglint: gpu=H100-80GB gpus=4
vllm serve meta-llama/Llama-3.1-70B-Instruct --tensor-parallel-size 4 --max-model-len 65536
"""


def git(*arguments: str, cwd: str | Path = ".") -> str:
    environment = {
        **os.environ,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        **{f"GIT_{who}_{what}": "nobody" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }
    command = ["git", "-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True, env=environment).stdout


def write(path: str | Path, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text, "utf-8")


def edit(path: str, old: str, new: str) -> None:
    text = Path(path).read_text("utf-8")
    assert old in text
    write(path, text.replace(old, new))


def commit(message: str = "change") -> None:
    git("add", "-A")
    git("commit", "-q", "-m", message)


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with three jobs on the branch `main`."""
    root = tmp_path / "repo"
    root.mkdir()
    monkeypatch.chdir(root)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "no-cache"))
    git("init", "-q")
    write("configs/sft.yaml", SFT)
    write("configs/lora.yaml", LORA)
    write("deepspeed/zero3.json", ZERO3)
    write("serve/llama.sh", SERVE)
    write("notes.md", "nothing\n")
    commit("first")
    return root


@pytest.fixture
def diff(capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    def run(*arguments: str, code: int | None = None) -> dict[str, Any]:
        got = main(["diff", *arguments, "--format", "json"])
        captured = capsys.readouterr()
        assert code is None or got == code, captured.err
        content: dict[str, Any] = json.loads(captured.out)
        return content

    return run


Diff = Callable[..., dict[str, Any]]


def jobs(content: dict[str, Any]) -> dict[str, str]:
    return {job["name"]: job["status"] for job in content["jobs"]}


def facts(content: dict[str, Any], name: str) -> dict[str, tuple[Any, Any]]:
    job = next(job for job in content["jobs"] if job["name"] == name)
    return {
        f["fact"]: tuple(None if side is None else side["value"] for side in (f["before"], f["after"]))
        for f in job["facts"]
    }


def codes(findings: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(finding["code"], finding["path"]) for finding in findings]


def test_no_change(repo: Path, diff: Diff, capsys: pytest.CaptureFixture[str]) -> None:
    content = diff("main", code=0)
    assert content["jobs"] == [] and content["findings"] == {"added": [], "removed": [], "reworded": []}
    assert content["summary"]["jobs"]["same"] == 3
    assert content["base"]["commit"] == git("rev-parse", "main").strip() and content["head"]["commit"] is None
    assert main(["diff", "main"]) == 0
    hash = git("rev-parse", "main")[:9]
    expected = f"main ({hash}) → work tree: 3 jobs are as before; no finding is new or gone\n"
    assert capsys.readouterr().out == expected


def test_a_larger_micro_batch(repo: Path, diff: Diff, capsys: pytest.CaptureFixture[str]) -> None:
    edit("configs/sft.yaml", "micro_batch_size: 4", "micro_batch_size: 8")
    content = diff("main")
    assert jobs(content) == {"configs/sft.yaml": "changed"}
    assert facts(content, "configs/sft.yaml") == {"micro_batch_size": (4, 8)}
    job = content["jobs"][0]
    assert job["facts"][0]["after"]["origin"] == "configs/sft.yaml:4"
    assert (job["before"]["batch"]["sequences"], job["after"]["batch"]["sequences"]) == (128, 256)
    assert (job["before"]["batch"]["tokens"], job["after"]["batch"]["tokens"]) == (524288, 1048576)
    before, after = (job[side]["memory"]["used_gib"]["expected"] for side in ("before", "after"))
    assert after > before + 10
    assert job["after"]["compute"]["flops_per_step"] == 2 * job["before"]["compute"]["flops_per_step"]
    assert content["summary"]["jobs"] == {"changed": 1, "added": 0, "removed": 0, "renamed": 0, "same": 2}
    main(["diff", "main"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("→ work tree: 1 job changes, 2 are as before; " + lines[0].rsplit("; ", 1)[1])
    assert lines[2].startswith("configs/sft.yaml  training, axolotl + deepspeed")
    assert lines[3] == "  micro_batch_size  4 → 8  line 4"
    assert lines[4].startswith(f"  memory per GPU  {before:.1f} → {after:.1f} GiB (")
    assert lines[5] == "  batch           128 → 256 sequences, 524,288 → 1,048,576 tokens per step"


def test_from_adapter_to_full_training(repo: Path, diff: Diff) -> None:
    write("configs/lora.yaml", "".join(x for x in LORA.splitlines(True) if not x.startswith(("adapter", "lora"))))
    git("checkout", "-q", "-b", "full")
    commit()
    content = diff("main", "full")
    found = facts(content, "configs/lora.yaml")
    assert found["method"] == ("lora", "full") and found["lora_rank"] == (16, None)
    job = content["jobs"][0]
    assert job["before"]["model"]["trainable_parameters"] == 41943040
    assert job["after"]["model"]["trainable_parameters"] == 8030261248
    assert job["verdict"] == {"before": "fits", "after": "tight"}


def test_fewer_gpus_for_a_server_is_an_error(repo: Path, diff: Diff, capsys: pytest.CaptureFixture[str]) -> None:
    edit("serve/llama.sh", "size 4", "size 2")
    content = diff("main", code=1)
    assert facts(content, "serve/llama.sh") == {"tensor_parallel_size": (4, 2)}
    assert ("MEM102", "serve/llama.sh") in codes(content["findings"]["added"])
    assert content["summary"]["no_longer_fit"] == ["serve/llama.sh"]
    job = content["jobs"][0]
    assert job["before"]["serving"]["kv_tokens"]["expected"] > 20 * job["after"]["serving"]["kv_tokens"]["expected"]
    assert main(["diff", "main", "--fail-on", "never"]) == 0
    assert main(["diff", "main", "--fail-on", "never", "--fail-on-oom"]) == 1
    assert main(["diff", "main", "--ignore", "MEM102"]) == 0
    text = capsys.readouterr().out
    assert "serve/llama.sh  serving, vllm  fits → KV cache too small\n" in text


def test_the_way_back_fails_nothing(repo: Path, diff: Diff) -> None:
    edit("serve/llama.sh", "size 4", "size 2")
    commit()
    content = diff("HEAD", "HEAD~1", code=0)
    assert ("MEM102", "serve/llama.sh") in codes(content["findings"]["removed"])
    assert content["findings"]["added"] == []


def test_jobs_come_and_go(repo: Path, diff: Diff) -> None:
    git("rm", "-q", "serve/llama.sh")
    write(
        "configs/new.yaml", LORA.replace("8B", "8B-Instruct").replace("2048", "1024").replace("lora_r: 16", "lora_r: 8")
    )
    content = diff("main")
    assert jobs(content) == {"configs/new.yaml": "added", "serve/llama.sh": "removed"}
    new = next(job for job in content["jobs"] if job["status"] == "added")
    assert new["before"] is None and new["after"]["batch"]["sequence_length"] == 1024


def test_a_renamed_file_is_the_same_job(repo: Path, diff: Diff, capsys: pytest.CaptureFixture[str]) -> None:
    git("mv", "configs/lora.yaml", "configs/adapter.yaml")
    content = diff("main", code=0)
    assert jobs(content) == {"configs/adapter.yaml": "renamed"}
    assert content["jobs"][0]["old_name"] == "configs/lora.yaml"
    assert content["findings"] == {"added": [], "removed": [], "reworded": []}
    edit("configs/adapter.yaml", "lora_r: 16", "lora_r: 32")
    content = diff("main", code=0)
    assert jobs(content) == {"configs/adapter.yaml": "changed"}
    assert facts(content, "configs/adapter.yaml") == {"lora_rank": (16, 32)}
    main(["diff", "main"])
    assert "configs/lora.yaml → configs/adapter.yaml  training, axolotl" in capsys.readouterr().out


def test_moved_lines_are_not_new(repo: Path, diff: Diff) -> None:
    edit("configs/sft.yaml", "bf16: true\n", "bf16: true\nnot_a_key_of_axolotl: 1\n")
    commit()
    edit("configs/sft.yaml", "base_model", "\n# moved\n\nbase_model")
    content = diff("HEAD", code=0)
    assert content["jobs"] == [] and content["findings"] == {"added": [], "removed": [], "reworded": []}


def test_findings_with_other_numbers_are_still_there(repo: Path, diff: Diff) -> None:
    edit("serve/llama.sh", "size 4", "size 2")
    commit()
    edit("serve/llama.sh", "65536", "131072")
    content = diff("HEAD", code=0)
    assert content["findings"]["added"] == []
    (pair,) = [pair for pair in content["findings"]["reworded"] if pair["after"]["code"] == "MEM102"]
    assert "65,536" in pair["before"]["message"] and "131,072" in pair["after"]["message"]


def test_another_unknown_key_is_new(repo: Path, diff: Diff) -> None:
    edit("deepspeed/zero3.json", '"bf16"', '"gradient_cliping": 1.0, "bf16"')
    commit()
    edit("deepspeed/zero3.json", '"gradient_cliping"', '"gradient_predivide_factr"')
    content = diff("HEAD")
    assert ("SCH002", "deepspeed/zero3.json") in codes(content["findings"]["added"])
    assert ("SCH002", "deepspeed/zero3.json") in codes(content["findings"]["removed"])


def test_what_is_silenced_is_said(repo: Path, diff: Diff, capsys: pytest.CaptureFixture[str]) -> None:
    edit("serve/llama.sh", "size 4", "size 2")
    commit()
    edit("serve/llama.sh", "vllm serve", "# cfglint: ignore[MEM102] requests are short\nvllm serve")
    content = diff("HEAD", code=0)
    (gone,) = [f for f in content["findings"]["removed"] if f["code"] == "MEM102"]
    assert gone["silenced"] == "comment"
    main(["diff", "HEAD"])
    assert "(silenced by a comment: requests are short)" in capsys.readouterr().out


def test_a_shared_file_changes_several_jobs_alike(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write("configs/dpo.yaml", SFT.replace("micro_batch_size: 4", "micro_batch_size: 2"))
    commit()
    edit("deepspeed/zero3.json", '"stage": 3', '"stage": 2')
    main(["diff", "HEAD"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:4] == [
        "2 jobs change alike",
        "  zero_stage      3 → 2  deepspeed/zero3.json:1 stage",
    ]
    assert sum(line.startswith(("  configs/dpo.yaml  ", "  configs/sft.yaml  ")) for line in lines) == 2


def test_versions_and_settings_belong_to_each_side(repo: Path, diff: Diff) -> None:
    write("requirements.txt", "transformers==4.57.1\n")
    write("cfglint.toml", '[[targets]]\npath = "configs/plain.yaml"\ngpu = "A100-80GB"\ngpus = 1\n')
    write("configs/plain.yaml", LORA.replace("# cfglint: gpu=A100-80GB gpus=1\n", ""))
    commit()
    write("requirements.txt", "transformers==5.0.0\n")
    edit("cfglint.toml", "A100-80GB", "T4")
    content = diff("HEAD")
    found = facts(content, "configs/plain.yaml")
    assert found["gpu"] == ("A100-80GB", "T4")
    assert found["transformers version"] == ("==4.57.1", "==5.0.0")


def test_models_on_disk_that_git_ignores_count_on_both_sides(repo: Path, diff: Diff) -> None:
    config = {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 256, "intermediate_size": 512,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 1000,
    }  # fmt: skip
    write(".gitignore", "models/\n")
    write("models/tiny/config.json", json.dumps(config))
    write("tiny.yaml", LORA.replace("meta-llama/Llama-3.1-8B", "models/tiny"))
    commit()
    edit("tiny.yaml", "micro_batch_size: 2", "micro_batch_size: 3")
    content = diff("HEAD")
    assert facts(content, "tiny.yaml") == {"micro_batch_size": (2, 3)}
    (job,) = content["jobs"]
    assert job["before"]["model"]["parameters"] == job["after"]["model"]["parameters"] == 1824000
    assert "no_such" not in json.dumps(content) and str(repo) not in json.dumps(content["findings"])


def test_from_a_folder_inside_the_repository(repo: Path, diff: Diff, monkeypatch: pytest.MonkeyPatch) -> None:
    edit("configs/sft.yaml", "micro_batch_size: 4", "micro_batch_size: 8")
    edit("serve/llama.sh", "size 4", "size 2")
    monkeypatch.chdir(repo / "configs")
    content = diff("main")
    assert jobs(content) == {"sft.yaml": "changed"}
    assert facts(content, "sft.yaml") == {"micro_batch_size": (4, 8)}


def test_ranges(repo: Path, diff: Diff) -> None:
    git("checkout", "-q", "-b", "topic")
    edit("configs/sft.yaml", "micro_batch_size: 4", "micro_batch_size: 8")
    commit()
    git("checkout", "-q", "main")
    edit("configs/lora.yaml", "lora_r: 16", "lora_r: 32")
    commit()
    assert jobs(diff("main..topic")) == {"configs/lora.yaml": "changed", "configs/sft.yaml": "changed"}
    content = diff("main...topic")
    assert jobs(content) == {"configs/sft.yaml": "changed"}
    assert content["base"]["commit"] == git("rev-parse", "main~1").strip()
    assert jobs(diff("topic..")) == {"configs/lora.yaml": "changed", "configs/sft.yaml": "changed"}


def test_two_folders_without_git(tmp_path: Path, diff: Diff, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write("old/configs/lora.yaml", LORA)
    write("new/configs/lora.yaml", LORA.replace("lora_r: 16", "lora_r: 64"))
    content = diff("old", "new", code=0)
    assert facts(content, "configs/lora.yaml") == {"lora_rank": (16, 64)}
    assert content["base"] == {"name": "old", "commit": None}
    assert jobs(diff("old/", str(tmp_path / "old"), code=0)) == {}
    assert Path.cwd() == tmp_path


def test_the_work_tree_and_the_index_are_not_touched(repo: Path, diff: Diff) -> None:
    edit("configs/sft.yaml", "micro_batch_size: 4", "micro_batch_size: 8")
    write("untracked.yaml", LORA.replace("8B", "8B-Instruct"))
    git("add", "configs/sft.yaml")
    before = git("status", "--porcelain"), (repo / ".git" / "index").read_bytes()
    assert "untracked.yaml" in jobs(diff("main"))
    assert (git("status", "--porcelain"), (repo / ".git" / "index").read_bytes()) == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no-such-branch"], "no-such-branch: no such revision, and no such folder"),
        (["main", "no-such-branch"], "no-such-branch: no such revision"),
        (["main..no-such"], "no-such: no such revision"),
        (["notes.md"], "notes.md is a file; name a git revision or a folder"),
        (["./configs"], "with a folder as BASE, HEAD has to be named"),
        (["../nowhere"], "../nowhere: no such revision, and no such folder"),
        ([""], ": no such revision"),
        (["main\x00x"], "no such revision"),
    ],
)
def test_what_cannot_be_compared_is_named(
    repo: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", *arguments]) == 2
    shown = capsys.readouterr()
    assert said in shown.err and "Traceback" not in shown.err and shown.out == ""


def test_a_name_of_both_a_folder_and_a_branch(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    git("branch", "configs")
    assert main(["diff", "configs", "main"]) == 2
    assert "configs is a folder and a git revision; write ./configs for the folder" in capsys.readouterr().err
    assert main(["diff", "./configs", "./configs"]) == 0


def test_outside_a_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert main(["diff", "main"]) == 2
    assert "not a git repository" in capsys.readouterr().err


def test_without_git(repo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PATH", str(repo / "nowhere"))
    assert main(["diff", "main"]) == 2
    assert "git is not installed; two folders can be compared without it" in capsys.readouterr().err


def test_a_shallow_clone_says_so(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    edit("configs/sft.yaml", "micro_batch_size: 4", "micro_batch_size: 8")
    commit()
    git("clone", "-q", "--depth", "1", f"file://{repo}", str(tmp_path / "shallow"))
    monkeypatch.chdir(tmp_path / "shallow")
    assert main(["diff", "HEAD~1"]) == 2
    assert (
        "HEAD~1: no such revision, and no such folder; this clone is shallow: `git fetch --unshallow`"
        in capsys.readouterr().err
    )
    assert main(["diff", "HEAD"]) == 0


def test_a_bare_repository_has_two_revisions(
    repo: Path, tmp_path: Path, diff: Diff, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    edit("configs/sft.yaml", "micro_batch_size: 4", "micro_batch_size: 8")
    commit()
    git("clone", "-q", "--bare", str(repo), str(tmp_path / "bare.git"))
    monkeypatch.chdir(tmp_path / "bare.git")
    assert jobs(diff("HEAD~1", "HEAD")) == {"configs/sft.yaml": "changed"}
    assert main(["diff", "HEAD~1"]) == 2
    assert "a repository without a work tree: name two revisions" in capsys.readouterr().err


def test_submodules_are_not_looked_into(
    repo: Path, tmp_path: Path, diff: Diff, capsys: pytest.CaptureFixture[str]
) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    git("init", "-q", cwd=inner)
    write(inner / "inner.yaml", LORA)
    git("add", "-A", cwd=inner)
    git("commit", "-q", "-m", "inner", cwd=inner)
    git("submodule", "--quiet", "add", str(inner), "shared")
    commit()
    assert main(["diff", "HEAD~1"]) == 0
    shown = capsys.readouterr()
    assert "3 jobs are as before" in shown.out
    assert "shared: a submodule that changes; it is not looked into" in shown.err
    assert diff("HEAD", code=0)["summary"]["jobs"]["same"] == 3


def test_odd_files_do_no_harm(repo: Path, diff: Diff) -> None:
    Path("weights.yaml").write_bytes(b"\0\1\2" * 1000)
    Path("latin.yaml").write_bytes(b"name: caf\xe9\n")
    Path("large.json").write_text("[" + "1," * 700000 + "1]", "utf-8")
    Path(os.fsdecode(b"bad\xff.yaml")).write_text(LORA.replace("8B", "8B-Instruct"), "utf-8")
    Path("link.yaml").symlink_to("configs/lora.yaml")
    Path("out.yaml").symlink_to("/etc/hostname")
    Path("dangling.yaml").symlink_to("nowhere.yaml")
    commit()
    content = diff("HEAD~1", "HEAD", code=0)
    assert "added" in jobs(content).values()
    assert diff("HEAD", code=0)["jobs"] == []


def test_broken_settings_name_their_side(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write("cfglint.toml", "selct = []\n")
    assert main(["diff", "main"]) == 2
    assert "work tree: cfglint.toml:1: unknown key `selct`; did you mean `select`?" in capsys.readouterr().err


def test_markdown(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit("serve/llama.sh", "size 4", "size 2")
    write("configs/a|b`c.yaml", LORA.replace("8B", "8B-Instruct"))
    assert main(["diff", "main", "--format", "markdown"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert (
        lines[0].startswith("**cfglint**, main (") and "1 job changes, 1 is new, 2 are as before; 1 error" in lines[0]
    )
    assert lines[2] == "| job | changes | memory per GPU | verdict | and |"
    assert lines[4].startswith("| `serve/llama.sh` | `tensor_parallel_size` 4 → 2 (line 2) | ")
    assert "| **fits → KV cache too small** |" in lines[4]
    assert lines[5].startswith("| `configs/a\\|b'c.yaml` | new |")
    assert any(line.startswith("| new error | MEM102 | `serve/llama.sh:2` | ") for line in lines)


def test_hardware_flags_count_for_both_sides(repo: Path, diff: Diff) -> None:
    edit("configs/sft.yaml", "micro_batch_size: 4", "micro_batch_size: 8")
    job = diff("main", "--gpu", "H200-SXM", "--gpus", "4")["jobs"][0]
    assert [job[side]["hardware"]["gpu"] for side in ("before", "after")] == ["H200-SXM", "H200-SXM"]
    assert [job[side]["batch"]["sequences"] for side in ("before", "after")] == [64, 128]


def test_help_names_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["diff", "--help"])
    assert stopped.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.startswith("usage: cfglint diff") and "a job that no longer fits" in shown


def test_many_new_jobs_get_a_line_each(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for i in range(9):
        write(f"sweep/{i}.yaml", LORA.replace("lora_r: 16", f"lora_r: {2**i}"))
    assert main(["diff", "main"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == "9 jobs are new"
    assert lines[3].startswith("  sweep/0.yaml  2") and lines[3].endswith(": fits")
    assert sum(line.startswith("  sweep/") for line in lines) == 9
