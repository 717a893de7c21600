"""Whether equal bytes in any batch were measured on this kind of processor."""

from pathlib import Path

CPU_INFO = Path("/proc/cpuinfo")
FLAGS = set(CPU_INFO.read_text().split()) if CPU_INFO.exists() else set()
NEWER = ("avx512f", "avx_vnni", "amx_tile")
ARE_BYTES_MEASURED = "avx2" in FLAGS and FLAGS.isdisjoint(NEWER)
"""True where the newest vectors are those of AVX2; the libraries have other kernels for others."""
