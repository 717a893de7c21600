"""A container's limits are found in files of either version, in any group around the process."""

import pytest

from bertsmith.system.cgroups import cpu_limit, memory_left, whole_cores


@pytest.fixture
def write(tmp_path):
    def write(membership, **files):
        for name, content in files.items():
            path = tmp_path / "cgroup" / name.replace("__", "/").replace("_DOT_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content + "\n")
        (tmp_path / "membership").write_text("\n".join(membership) + "\n")
        return tmp_path / "cgroup", tmp_path / "membership"

    return write


V1 = ["5:cpuacct,cpu:/a/b", "4:memory:/a/b"]


@pytest.mark.parametrize(
    ("membership", "files", "cores"),
    [
        (["0::/"], {"cpu_DOT_max": "150000 100000"}, 2),
        (["0::/"], {"cpu_DOT_max": "max 100000"}, None),
        (["0::/"], {"cpu_DOT_max": "20000 100000"}, 1),
        (["0::/a/b"], {"a__b__cpu_DOT_max": "max 100000", "a__cpu_DOT_max": "300000 100000"}, 3),
        (["0::/a/b"], {"a__b__cpu_DOT_max": "200000 100000", "cpu_DOT_max": "50000 100000"}, 1),
        (["0::/../of-the-host"], {"cpu_DOT_max": "400000 100000"}, 4),
        (["1:cpu:/docker/0123"], {"cpu__cpu_DOT_cfs_quota_us": "250000"}, None),
        (
            ["1:cpu:/docker/0123"],
            {"cpu__cpu_DOT_cfs_quota_us": "250000", "cpu__cpu_DOT_cfs_period_us": "100000"},
            3,
        ),
        (
            V1,
            {
                "cpu,cpuacct__a__cpu_DOT_cfs_quota_us": "100000",
                "cpu,cpuacct__a__cpu_DOT_cfs_period_us": "50000",
                "cpu,cpuacct__a__b__cpu_DOT_cfs_quota_us": "-1",
                "cpu,cpuacct__a__b__cpu_DOT_cfs_period_us": "50000",
            },
            2,
        ),
        (V1, {"cpu_DOT_max": "what is this"}, None),
        ([], {}, None),
    ],
)
def test_the_smallest_quota_on_the_way_to_the_root_counts(write, membership, files, cores):
    limit = cpu_limit(*write(membership, **files))
    assert (None if limit is None else whole_cores(limit)) == cores


def test_a_machine_without_groups_has_no_limits(tmp_path):
    assert cpu_limit(tmp_path / "none", tmp_path / "nobody") is None
    assert memory_left(tmp_path / "none", tmp_path / "nobody") is None


def test_a_group_whose_name_is_not_utf8_leaves_the_limits_of_the_root(write):
    root, membership = write(["0::/"], cpu_DOT_max="200000 100000")
    membership.write_bytes(b"0::/\xff\n")
    assert cpu_limit(root, membership) == 2


def test_memory_that_files_take_is_given_up(write):
    version_2 = {
        "a__memory_DOT_max": "1000",
        "a__memory_DOT_current": "700",
        "a__memory_DOT_stat": "anon 500\ninactive_file 200",
        "memory_DOT_max": "max",
        "memory_DOT_current": "9000",
    }
    assert memory_left(*write(["0::/a"], **version_2)) == 500


def test_version_1_writes_no_limit_as_a_large_number(write):
    files = {
        "memory__memory_DOT_limit_in_bytes": str(2**63 - 4096),
        "memory__memory_DOT_usage_in_bytes": "5000",
        "memory__a__memory_DOT_limit_in_bytes": "4000",
        "memory__a__memory_DOT_usage_in_bytes": "3000",
        "memory__a__memory_DOT_stat": "total_inactive_file 100\ninactive_file 7",
    }
    assert memory_left(*write(V1, **files)) == 1100
