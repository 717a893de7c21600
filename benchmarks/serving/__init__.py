"""Servers of one sentence encoder side by side: throughput, latency, memory, start."""
