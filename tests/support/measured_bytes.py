"""Whether equal bytes in any batch were measured on this kind of processor."""

from pathlib import Path

CPU_INFO = Path("/proc/cpuinfo")
WORDS = set(CPU_INFO.read_text().split()) if CPU_INFO.exists() else set()
NEWER = ("avx512f", "avx_vnni", "amx_tile")
HAS_AVX2_ALONE = "avx2" in WORDS and WORDS.isdisjoint(NEWER)
IS_ZEN_5 = {"AuthenticAMD", "avx512_vp2intersect"} <= WORDS
ARE_BYTES_MEASURED = HAS_AVX2_ALONE or IS_ZEN_5
"""The libraries have other kernels for processors of other makers and with other instructions."""
