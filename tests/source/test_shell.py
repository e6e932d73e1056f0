"""Shell scripts: words, variables, branches, heredocs, lost arguments."""

from __future__ import annotations

import subprocess
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfglint.source.node import SourceFile
from cfglint.source.shell import Command, Script, commands_of, parse_shell
from cfglint.source.shell_arithmetic import evaluate


def script(text: str) -> Script:
    found = parse_shell("x.sh", text).script
    assert found is not None
    return found


def run(text: str, program: str = "run") -> Command:
    (command,) = [c for c in script(text).commands if c.program == program]
    return command


def words(text: str, program: str = "run") -> list[str]:
    """The words of the one ``run`` command, unknown ones marked."""
    return [w.text if w.known else f"?{w.text}" for w in run(text, program).words[1:]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("run a 'b c' \"d e\" f\\ g", ["a", "b c", "d e", "f g"]),
        ("run a\\\n  b \\\r\n c", ["a", "b", "c"]),
        ("run --x='a b'c\"d\"", ["--x=a bcd"]),
        ("run '' \"\" a", ["", "", "a"]),
        ('run $\'a\\tb\' "\\$x \\" \\a"', ["a\tb", '$x " \\a']),
        ("run a # comment", ["a"]),
        ("run a#b", ["a#b"]),
        ("run a > out 2>&1 < in 2>/dev/null b &> all", ["a", "b"]),
        ("run a <<< word b", ["a", "b"]),
        ("true && run a; false", ["a"]),
        ("x | run a |& tee", ["a"]),
        ("run a & wait", ["a"]),
        ("(run a)", ["a"]),
        ("{ run a; }", ["a"]),
        ("if run a; then b; fi", ["a"]),
        ("! run a", ["a"]),
        ("f() { run a; }", ["a"]),
        ("function f { run a\n}", ["a"]),
        ("while x; do run a; done", ["a"]),
        ("case $x in a|b) run a ;; esac", ["a"]),
        ("run {1..3} *.py ~", ["{1..3}", "*.py", "~"]),
        ("run <(echo a) b", ["?<(echo a)", "b"]),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A=1\nrun $A ${A}x \"$A\" '$A' \\$A", ["1", "1x", "1", "$A", "$A"]),
        ("run $A ${A} $1 $@ $? $$", ["?$A", "?${A}", "?$1", "?$@", "?$?", "?$$"]),
        ("run ${A:-8} ${A-9} ${1:-x} ${A:+y} \"${A:+y}\" ${A:?no}", ["8", "9", "x", "", "?${A:?no}"]),
        ("A=\nrun ${A:-8} ${A-9} end", ["8", "end"]),
        ("A=$B\nrun $A ${A:-8}", ["?$B", "?$B"]),
        (": ${A:=5}\nrun $A", ["5"]),
        ("A=2; B=$((A*3+1)); run $B $((A**3)) $((B/2)) $((C+1))", ["7", "8", "3", "?$((C+1))"]),
        ("A='x y'\nrun $A \"$A\" a$A", ["x", "y", "x y", "ax", "y"]),
        ("A=(--a 1 # c\n 'b c')\nrun \"${A[@]}\" ${A[1]} ${#A[@]} $A", ["--a", "1", "b c", "1", "3", "--a"]),
        ("A=(x)\nA+=(y z)\nrun x\"${A[@]}\"y", ["xx", "y", "zy"]),
        ("A=()\nrun \"${A[@]}\" end", ["end"]),
        ("A='--a 1'\nA=\"$A --b 2\"\nA+=' --c'\nrun $A", ["--a", "1", "--b", "2", "--c"]),
        ("A=1\nA=$(date)\nrun $A", ["?$(date)"]),
        ("unset A\nA=1\nunset A\nrun $A", ["?$A"]),
        ("if x; then A=1; else A=2; fi\nrun $A", ["?$A"]),
        ("if x; then A=1; else A=1; fi\nrun $A", ["1"]),
        ("A=1\nif x; then A=2; run $A; fi", ["2"]),
        ("A=1\nif x; then A=2; fi\nrun $A", ["?$A"]),
        ("if [ -z \"$A\" ]; then A=2; fi\nrun $A", ["2"]),
        ("[ -z \"$A\" ] && A=3\nrun $A", ["3"]),
        ("[ x ] && A=3\nrun $A", ["?$A"]),
        ("x || A=3\nrun $A", ["?$A"]),
        ("cd x && A=3 && run $A", ["3"]),
        ("for A in 1 2; do run $A; done", ["?$A"]),
        ("A=1\nfor i in 1 2; do A=$((A+1)); done\nrun $A", ["?$A"]),
        ("A=1\nwhile read A; do x; done\nrun $A", ["?$A"]),
        ("A=1\n(A=2)\nrun $A", ["1"]),
        ("A=1\n{ A=2; }\nrun $A", ["2"]),
        ("A=1\nf() { A=2; B=$1; }\nf x\nrun $A $B", ["2", "?$B"]),
        ("A=1\nf() { A=2; }\nrun $A", ["1"]),
        ("case $x in a) A=1;; *) A=1;; esac\nrun $A", ["1"]),
        ("case $x in a) A=1;; b) A=1;; esac\nrun $A", ["?$A"]),
        ("A=1 other\nrun $A", ["?$A"]),
        ("read -r -d '' A <<'EOF'\n--x 1\n  --y 2\nEOF\nrun $A", ["--x", "1", "--y", "2"]),
        ("N=4\nA=$(cat <<EOF\n--x $N\n--y\nEOF\n)\nrun $A", ["--x", "4", "--y"]),
        ("A=${B:-${C:-7}}\nrun $A", ["7"]),
        ("A='--a 1'\nif x; then A=\"$A --b 2\"; fi\nA+=' --c'\nrun $A end", ["--a", "1", "?${A}", "--c", "end"]),
        ("A='p --a'\nif x; then A=\"$A --b\"; else A=\"$A --c\"; fi\nrun $A", ["p", "--a", "?${A}"]),
        ("A=(--a 1)\nif x; then A+=(--b 2); fi\nrun \"${A[@]}\" end", ["--a", "1", "?${A}", "end"]),
        ("A=1\nif x; then A=${A}0; fi\nrun $A", ["?1${A}"]),
        ("B=3\nif x; then A=\"go -a\"; else A=\"run -b $B\"; fi\neval \"$A\"", ["-b", "3"]),
        ("if x; then A=\"go -a\"; else A=\"run -b\"; fi\n$A -c '1 2'", ["-b", "-c", "1 2"]),
        ("A='--a'\n[ -n \"$B\" ] && A=\"$A --b $B\"\nrun $A", ["--a", "?${A}"]),
        ("A=--a\nfor i in 1 2; do A=\"$A --b $i\"; done\nrun $A", ["--a", "?${A}"]),
        ("A=\"${B:-$(basename \"${C,,}\")-x}\"\nrun $A end", ["?$(basename \"${C,,}\")-x", "end"]),
        ("A=\"${B:-$(f \"${C[0]}\")/../..}\"\nrun \"${D:-$(g \"a b\")}\" end", ["?$(g \"a b\")", "end"]),
        ("run --load <PATH TO CHECKPOINT> --save a/<RUN>/b -n 8", ["--load", "?<PATH TO CHECKPOINT>", "--save", "?a/<RUN>/b", "-n", "8"]),
        ("A='--vocab <PATH TO vocab.json> --save x'\nsh -c \"run $A\"", ["--vocab", "?<PATH TO vocab.json>", "--save", "x"]),
    ],
)  # fmt: skip
def test_variables(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "A='x y'; B=\"$A z\"; printf '%s\\n' $A \"$B\" a$B",
        "A=(1 '2 3'); A+=(4); printf '%s\\n' \"${A[@]}\" ${A[1]} \"x${A[@]}y\"",
        "A=5; printf '%s\\n' $((A*2-7)) $((-7/2)) $((-7%2)) $((2**3**2)) $(((1+2)*3))",
        'printf \'%s\\n\' ${U:-a b} "${U:-a b}" ${U:+x} "${U:+x}" ${U-"q r"}',
        "A='  x  '; printf '%s\\n' $A \"$A\" a${A}b",
        "printf '%s\\n' 'a'\"b\"c\\ d $'e\\tf' \"g\\\"h\\$i\\j\"",
        "A=1; A=2 true; printf '%s\\n' $A; ",
        "A=\"--x 1 \\\n --y 2\"; printf '%s\\n' $A",
        "A=x; A+=y; A+=' z'; printf '%s\\n' $A \"$A\"",
    ],
)
def test_words_are_what_bash_makes_of_them(text: str) -> None:
    bash = subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=True).stdout
    command = run(text, "printf")
    assert all(word.known for word in command.words)
    assert "".join(f"{word.text}\n" for word in command.words[2:]) == bash


def test_expanded_words_point_into_their_definition() -> None:
    text = 'LR=1e-5\nOPTS="--lr $LR --bs 4"\nrun --x=$LR $OPTS "${LR}"\n'
    command = run(text)
    shown = [
        (w.text, w.raw, w.span.start, None if w.use is None else text[w.use.start : w.use.end]) for w in command.words
    ]
    assert shown == [
        ("run", "run", 31, None),
        ("--x=1e-5", "--x=$LR", 35, None),
        ("--lr", "--lr", 14, "$OPTS"),
        ("1e-5", "1e-5", 3, "$OPTS"),
        ("--bs", "--bs", 23, "$OPTS"),
        ("4", "4", 28, "$OPTS"),
        ("1e-5", "1e-5", 3, '"${LR}"'),
    ]
    assert text[command.span.start : command.span.end] == 'run --x=$LR $OPTS "${LR}"'


def test_environment_holds_exports_and_prefixes() -> None:
    found = script("A=1\nexport B=2 C\nexport A\nD=4 run\nset -a\nE=5\nrun2\nexport F=$X\nrun3\n").commands
    environments = {c.program: {k: (w.text, w.known) for k, w in c.environment.items()} for c in found}
    assert environments["run"] == {"B": ("2", True), "A": ("1", True), "D": ("4", True)}
    assert environments["run2"] == {"B": ("2", True), "A": ("1", True), "E": ("5", True)}
    assert environments["run3"]["F"] == ("$X", False)


def test_slurm_directives_are_read_until_the_first_command() -> None:
    text = '#!/bin/bash\n#SBATCH --nodes=2 --gres=gpu:a100:8 # note\n##SBATCH --off\n#SBATCH -p "big part"\nA=1\n#SBATCH --late\n'
    directives = script(text).directives
    assert [w.text for w in directives] == ["--nodes=2", "--gres=gpu:a100:8", "-p", "big part"]
    assert [text[w.span.start : w.span.end] for w in directives] == [
        "--nodes=2",
        "--gres=gpu:a100:8",
        "-p",
        '"big part"',
    ]


def test_scripts_inside_commands() -> None:
    text = (
        "N=8\n"
        'srun bash -lc "run1 --n $N --x \\"a b\\" && run2"\n'
        "sh -c 'run3 $N'\n"
        'eval "run4 $N"\n'
        "sbatch --wrap='run5'\n"
        "sbatch <<EOF\n#SBATCH --gres=gpu:4\nrun6 $N \\$M\nEOF\n"
        "ssh host bash <<'EOF'\nrun7\nEOF\n"
        "out=$(run8 a)\n"
    )
    found = {c.program: [w.text for w in c.words[1:]] for c in script(text).commands if c.program.startswith("run")}
    assert found == {
        "run1": ["--n", "8", "--x", "a b"],
        "run2": [],
        "run3": ["8"],
        "run4": ["8"],
        "run5": [],
        "run6": ["8", "$M"],
        "run7": [],
        "run8": ["a"],
    }
    inner = run(text, "run1").words
    assert [text[w.span.start : w.span.end] for w in inner] == ["run1", "--n", "8", "--x", '"a b\\"']
    assert [w.text for w in script(text).directives] == ["--gres=gpu:4"]


def test_commands_that_run_in_a_terminal_or_on_a_host() -> None:
    text = (
        "N=8\n"
        "tmux new-session -d -s vllm 'run1 $N'\n"
        'tmux send-keys -t vllm -n "a window" "run2 --n $N" C-m\n'
        'ssh -o "StrictHostKeyChecking no" node1 "cd /w && run3 $N"\n'
        "tmux attach -t run4\n"
    )
    found = {
        c.program: [w.text for w in c.words[1:]] for c in script(text).commands if c.program not in ("tmux", "ssh")
    }
    assert found == {"run1": ["8"], "run2": ["--n", "8"], "cd": ["/w"], "run3": ["8"]}


def test_a_script_that_is_written_to_a_file_is_read() -> None:
    text = "N=4\ncat <<EOF > job.sh\n#!/bin/bash\nrun -n $N --tp REPLACE_ENV_TP\nEOF\n"
    assert words(text) == ["-n", "4", "--tp", "?REPLACE_ENV_TP"]
    assert words("cat <<EOF > args\nsource env; \\\nrun a\nvllm serve m\nEOF\n") == ["a"]
    assert not [c for c in script("cat <<EOF > a.yaml\nrun: a\nEOF\n").commands if c.program != "cat"]


def test_heredocs_and_outputs_stay_with_their_command() -> None:
    text = 'cat > ds.json <<EOF\n{"a": 1}\nEOF\ncat <<A <<-B | run\n1\nA\n\t2\n\tB\nend\n'
    first, second, third, last = script(text).commands
    assert (first.heredoc, first.output and first.output.text) == ('{"a": 1}\n', "ds.json")
    assert first.heredoc_span is not None and text[first.heredoc_span.start : first.heredoc_span.end] == '{"a": 1}\n'
    assert (second.heredoc, third.program, last.program) == ("\t2\n", "run", "end")


def lost(text: str) -> list[tuple[int, str, str]]:
    file = parse_shell("x.sh", text)
    return [
        (
            file.position(p.span.start).line,
            text[p.span.start : p.span.end],
            text[p.related[0][0].start : p.related[0][0].end],
        )
        for p in file.problems
        if p.code == "SRC008"
    ]


def test_a_comment_in_a_continued_command_loses_what_follows() -> None:
    text = "run --a 1 \\\n  # --b 2 \\\n  --c 3 \\\n  --d\n"
    assert lost(text) == [(2, "# --b 2 \\", "--c 3")]
    assert words(text) == ["--a", "1"]
    assert lost("run --a 1 # note \\\n  --b 2\n") == [(1, "# note \\", "--b 2")]
    assert lost("run a=1 \\\n  # x\n  trainer.max_steps=3\n") == [(2, "# x", "trainer.max_steps=3")]


def test_blanks_or_an_empty_line_after_the_backslash_lose_what_follows() -> None:
    assert lost("run --a 1 \\  \n  --b 2\n") == [(1, "\\  ", "--b 2")]
    assert lost("run --a 1 \\\n\n  --b 2\n") == [(1, "\\", "--b 2")]
    assert lost("run --a 1\n  --b 2\n") == [(1, "1", "--b 2")]


@pytest.mark.parametrize(
    "text",
    [
        "run --a 1 \\\n  --b 2 # last\n",
        "run --a 1 \\\n  --b 2\n  # --c 3\nnext\n",
        "A=(\n  --a 1\n  # --b 2\n  --c 3\n)\n",
        "run \\\n  --a 'x\n  # y\n  --b'\n",
        "cat <<EOF\nrun --a \\\n # x\n --b\nEOF\n",
        "case $1 in\n  x) run ;;\n  --foo) run2 ;;\nesac\n",
        "case $1 in\n  x) run\n  ;;\n  --foo) run2 ;;\nesac\n",
        "--a 1\n--b 2\n",
        "run --a \\\n",
        "# run \\\n#   --a\n",
    ],
)
def test_nothing_is_lost(text: str) -> None:
    assert lost(text) == []


@pytest.mark.parametrize("text", ['run "a', "run 'a", "run `a", "run $(a", "run ${a", "A=(a", "run $'a"])
def test_text_that_ends_inside_quotes_is_of_low_importance(text: str) -> None:
    (problem,) = parse_shell("x.sh", "first\n" + text).problems
    assert (problem.code, problem.fatal, problem.accepted_by) == ("SRC010", False, ("shell fragment",))
    assert script("first\n" + text).commands[0].program == "first"


def test_commands_of_text_inside_another_file() -> None:
    file = SourceFile("x.yaml", 'args: ["run a"]', "yaml")
    (command,) = commands_of(file, "run a", list(range(8, 13)))
    assert [(w.text, w.span.start, w.raw) for w in command.words] == [("run", 8, "run"), ("a", 12, "a")]
    assert file.script is None


def test_arithmetic() -> None:
    known = {"A": 3}.get
    cases = {"A*2": 6, "(A+1)*2": 8, "-A": -3, "7/2": 3, "-7/2": -3, "2**10": 1024, "$A+${A}": 6, "1/0": None,
             "B": None, "1+": None, "": None, "08": None, "2**99": None, "1<<3": None}  # fmt: skip
    assert {text: evaluate(text, known) for text in cases} == cases


SHELL_TOKENS = ['"', "'", "`", "$(", "${", "}", ")", "(", "((", "\\", "\\\n", "\n", "\r\n", " ", ";", ";;", "&&", "|", "<", ">", "<<E\n",
                "E\n", "#", "if ", "then ", "fi", "for x in ", "do ", "done", "case x in ", "esac", "{ ", "[[ ", " ]]", "f() {", "A=", "A=(",
                "A+=", "$A", '"${A[@]}"', "${A:-", "export ", "eval ", "bash -c ", "--x", "a", "$'", "é", "1"]  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(SHELL_TOKENS), max_size=40).map("".join) | st.text(max_size=60))
def test_any_text_is_read_and_every_place_holds_its_raw_text(text: str) -> None:
    file = parse_shell("x.sh", text)
    assert file.script is not None
    for command in file.script.commands:
        for word in [*command.words, *command.environment.values(), *command.assignments.values()]:
            assert text[word.span.start : word.span.end] == word.raw
            assert 0 <= word.span.start <= word.span.end <= len(text)
    for problem in file.problems:
        assert 0 <= problem.span.start <= problem.span.end <= len(text)


@pytest.mark.parametrize(
    "text",
    [
        'A="$A$A"\n' * 10_000,
        'A="$A --x $B"\n' * 5_000 + "run $A\n" * 5_000,
        "A=(" + "--k " * 1_500 + ")\n" + 'run "${A[@]}"\n' * 5_000,
        "f() { " + "".join(f"V{i}=$1; " for i in range(1_500)) + "}\n" + "f\n" * 5_000,
        "${A:-" * 20_000 + "}" * 20_000,
        "$(" * 20_000 + ")" * 20_000,
        "(" * 100_000,
        "[[ " * 30_000,
        'A="' + "x " * 30_000 + '"\n' + 'bash -c "$A"\n' * 2_000,
    ],
    ids=["doubling", "growing", "array", "function", "defaults", "substitutions", "parentheses", "tests", "bash -c"],
)
def test_time_stays_linear(text: str) -> None:
    started = time.process_time()
    parse_shell("x.sh", text)
    assert time.process_time() - started < 10


def test_what_is_unknown_in_an_evaluated_text_is_not_looked_up_again() -> None:
    text = (
        'BASE="vllm serve m --config \'{\\"a\\":1}\'"\n'
        'if [ -n "$more" ]; then\n  ALL="$BASE $more"\nelse\n  ALL="$BASE"\nfi\neval "$ALL &"\n'
    )
    served = [[word.text for word in command.words] for command in script(text).commands if command.program == "vllm"]
    assert served == [["vllm", "serve", "m", "--config", '{"a":1}', "${ALL}"]]
