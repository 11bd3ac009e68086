"""What a load needs of cores, memory and disks, from measured figures: `python -m benchmarks.sizing --spans 20000`."""
