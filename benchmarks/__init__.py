"""Speed of this code against peers, in one table: `python -m benchmarks`. In the checkout only; docs/performance.md."""
