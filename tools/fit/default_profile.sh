#!/bin/sh
# Makes hwspecs/cost/default.textproto, the profile that everybody gets without calibrating, from tables of measurements:
#   tools/fit/default_profile.sh PROGRAM DATA [DATE] [products|calls|kernels|all]
# Starts from the profile in the program (what no table tells, such as CPUs, stays) and hwspecs/cost/prior.textproto.
# products: those on tensor cores alone, by their own parameters; calls: attention, mixtures of experts and quantisation of
# inference engines; kernels: all others; all: one after the other, then the
# power of boards by power_fit, which is built beside PROGRAM. Five minutes on one core.
# The same tables, program and date give the same bytes; the tables' hashes stand in the profile.
set -eu
program=$1
data=$2
date=${3:-$(date -u +%F)}
part=${4:-all}
root=$(cd "$(dirname "$0")/../.." && pwd)
set --
if [ "$part" = products ] || [ "$part" = all ]; then
  for table in gemm.csv.gz vidur_linear.csv v100_gemm_fp16.csv fp8_gemm_pipeweave.csv; do
    set -- "$@" --from "$data/modern/$table"
  done
fi
if [ "$part" = calls ] || [ "$part" = all ]; then
  for table in attention_prefill.csv.gz attention_decode.csv.gz mla_prefill.csv mla_decode.csv moe.csv.gz quantize.csv; do
    set -- "$@" --from "$data/modern/$table"
  done
fi
if [ "$part" = kernels ] || [ "$part" = all ]; then set -- "$@" --from "$data/kernels" --from "$data/kernels_tf"; fi
profile=$root/hwspecs/cost/default.textproto
"$program" calibrate "$@" --id default --date "$date" \
  --title "Default profile: nothing measured on this machine" --out "$profile"
if [ "$part" = all ]; then
  power=$(dirname "$program")/power_fit
  "$power" "$data/published/components.csv" "$data/published/e2e.csv" "$profile" | grep '^parameter' > "$profile.power"
  # Each line of the fit in the place of the line with its name.
  awk 'NR == FNR { line[$4] = $0; next } $1 == "parameter" && $4 in line { print line[$4]; next } { print }' \
    "$profile.power" "$profile" > "$profile.new"
  rm "$profile.power"
  mv "$profile.new" "$profile"
fi
