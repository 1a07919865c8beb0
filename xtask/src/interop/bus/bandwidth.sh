# SPDX-License-Identifier: MIT OR Apache-2.0
# Figures of a simulated card are by its own clock, in a guest as well.
bind_both
both bw write -- -n 50 -s 4096 --json
in_json simulated true
both bw write -- -n 5 -s 65536 -q 4
both bw send -- -n 50 -s 1024 -b
both bw read -- -n 50 -s 4096
both bw atomic -- -n 50
