#!/bin/sh
# Makes hwspecs/cost/default.textproto, the profile that everybody gets without calibrating, from tables of measurements:
#   tools/fit/default_profile.sh PROGRAM DATA [DATE] [GEMMs|calls|kernels|all]
# all: every stage, from hwspecs/cost/prior.textproto alone: the same tables, priors, code and date give the same bytes, whatever
# profile the program holds. GEMMs on tensor cores, calls of inference engines, all other kernels, then the power of boards
# by power_fit, which is built beside PROGRAM; GEMMs measured by ourselves (calibrate/measured) are among the tables. Their hashes stand in the profile.
# GEMMs, calls, kernels: that part again, the rest as in the program's profile; for work on one part, not for what ships.
set -eu
program=$1
data=$2
date=${3:-$(date -u +%F)}
part=${4:-all}
root=$(cd "$(dirname "$0")/../.." && pwd)
set --
if [ "$part" = gemms ] || [ "$part" = all ]; then
  for table in gemm.csv.gz vidur_linear.csv v100_gemm_fp16.csv fp8_gemm_pipeweave.csv; do
    set -- "$@" --from "$data/modern/$table"
  done
  for folder in "$root"/calibrate/measured/*/; do
    for table in gemm bmm; do set -- "$@" --from "$folder$table.csv.gz"; done
  done
fi
if [ "$part" = calls ] || [ "$part" = all ]; then
  for table in attention_prefill.csv.gz attention_decode.csv.gz mla_prefill.csv mla_decode.csv moe.csv.gz quantize.csv; do
    set -- "$@" --from "$data/modern/$table"
  done
fi
if [ "$part" = kernels ] || [ "$part" = all ]; then set -- "$@" --from "$data/kernels" --from "$data/kernels_tf"; fi
profile=${PROFILE:-$root/hwspecs/cost/default.textproto}
if [ "$part" = all ]; then set -- "$@" --from-priors; fi
"$program" calibrate "$@" --id default --date "$date" \
  --title "Default profile: nothing measured on this machine" --out "$profile"
if [ "$part" = all ]; then
  "$(dirname "$program")/power_fit" "$data/published/components.csv" "$data/published/e2e.csv" "$profile" "$profile" "$date"
fi
