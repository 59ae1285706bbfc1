#!/bin/sh
# Makes hwspecs/cost/default.textproto, the profile that everybody gets without calibrating, from tables of measurements:
#   tools/fit/default_profile.sh PROGRAM DATA [DATE]
# Starts from the profile in the program (what no kernel tells, such as power and CPUs, stays) and hwspecs/cost/prior.textproto.
# The same tables, program and date give the same bytes; the tables' hashes stand in the profile.
set -eu
program=$1
data=$2
date=${3:-$(date -u +%F)}
root=$(cd "$(dirname "$0")/../.." && pwd)
# Products on tensor cores are fitted first, by themselves (calibrate/fit/fit_stages.hpp).
"$program" calibrate --from "$data/modern/gemm.csv.gz" --from "$data/modern/vidur_linear.csv" \
  --from "$data/modern/v100_gemm_fp16.csv" --from "$data/modern/fp8_gemm_pipeweave.csv" \
  --from "$data/kernels" --from "$data/kernels_tf" --id default --date "$date" \
  --title "Default profile: nothing measured on this machine" --out "$root/hwspecs/cost/default.textproto"
