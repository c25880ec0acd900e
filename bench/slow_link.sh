#!/bin/sh
# `shoehorn bench parallel` of GPT-2's shape over a link of 1 Gbit/s and 1 ms, eight micro-batches of each rank in a step: how much of
# the messages is hidden, and how well the step is predicted. Operations are calibrated before, for the one process and for a
# rank: the latter by two at a time, since ranks share the memory and the clock. Links are measured, too, for what copies take.
#
#   bench/slow_link.sh [FLAGS of bench parallel, and of train]
set -eu

cd "$(dirname "$0")/.."
build/shoehorn calibrate --max_seconds 120 --num_threads 2 >&2
build/shoehorn calibrate --max_seconds 120 --num_threads 1 >&2 &
build/shoehorn calibrate --max_seconds 120 --num_threads 1 >&2
wait
build/shoehorn launch --nproc_per_node 2 topo >&2
exec bench/parallel_gpt2.sh --modes ddp,zero_3 --nproc_per_node 2 --num_threads 1 --link_bandwidths 1 --link_latency 1000 \
  --gradient_accumulation_steps 8 "$@"
