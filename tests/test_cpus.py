"""How many CPUs and threads a process takes: affinity, quotas of containers, load, and what the environment sets."""

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from offleash.cpus import FEW_CPUS, OMP_VARIABLE, cpu_quota, limit_threads, thread_count, usable_cpus


@pytest.mark.parametrize("cpus", range(1, FEW_CPUS + 1))
def test_on_few_cpus_one_thread_whatever_the_load(cpus: int) -> None:
    assert {thread_count(cpus, load) for load in (0.0, 0.5, 1.0, 9.0)} == {1}


def test_on_many_cpus_half_of_the_idle_ones_and_never_less_than_one() -> None:
    assert [thread_count(64, load) for load in (0.0, 0.25, 0.5, 1.0, 3.0)] == [32, 24, 16, 1, 1]
    counts = [thread_count(cpus) for cpus in range(1, 129)]
    assert counts == sorted(counts)


def test_a_quota_of_version_2_binds_all_groups_below_it(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "cpu.max").write_text("max 100000\n")
    (tmp_path / "a/cpu.max").write_text("250000 100000\n")
    (tmp_path / "a/b/cpu.max").write_text("400000 100000\n")
    assert cpu_quota("0::/a/b\n", tmp_path) == 2.5
    assert cpu_quota("0::/a\n", tmp_path) == 2.5
    assert cpu_quota("0::/\n", tmp_path) == math.inf


def test_a_path_of_the_host_is_looked_up_from_the_root_of_the_container(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    assert cpu_quota("0::/docker/0123\n", tmp_path) == 1.5


def test_a_quota_of_version_1(tmp_path: Path) -> None:
    for name, quota in (("", "-1"), ("slurm", "300000")):
        (tmp_path / "cpu" / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / "cpu" / name / "cpu.cfs_quota_us").write_text(f"{quota}\n")
        (tmp_path / "cpu" / name / "cpu.cfs_period_us").write_text("100000\n")
    groups = "4:memory:/slurm\n3:cpu,cpuacct:/slurm\n2:cpuset:/\n"
    assert cpu_quota(groups, tmp_path) == 3
    assert cpu_quota("1:cpu:/\n", tmp_path) == math.inf


@pytest.mark.parametrize("groups", ["", "\n", "nonsense", "0::", "3:cpu:", "1:2:3:4"])
def test_what_cannot_be_read_limits_nothing(groups: str, tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu/cpu.cfs_quota_us").write_text("many\n")
    assert cpu_quota(groups, tmp_path) == math.inf


def test_what_the_environment_sets_is_never_overridden() -> None:
    environment = {OMP_VARIABLE: "7"}
    limit_threads(environment)
    assert environment == {OMP_VARIABLE: "7"}
    limit_threads(chosen := {"MKL_NUM_THREADS": "3"})
    assert chosen["MKL_NUM_THREADS"] == "3"
    assert 1 <= int(chosen[OMP_VARIABLE]) <= usable_cpus()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this system")
def test_affinity_counts() -> None:
    code = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
    code += "from offleash.cpus import usable_cpus; print(usable_cpus())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "1\n"


def test_the_command_chooses_before_numpy_loads() -> None:
    code = (
        "import os, sys; os.environ.pop('OMP_NUM_THREADS', None); sys.argv = ['offleash', '--version']\n"
        "from offleash.cli.main import main; assert 'numpy' not in sys.modules; main()\n"
        "assert 'OMP_NUM_THREADS' in os.environ"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")
