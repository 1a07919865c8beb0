# SPDX-License-Identifier: MIT OR Apache-2.0
# Messages, every byte compared; then the same by interrupts, which the kernel must have counted for both cards.
bind_both
both pingpong -- -c -n 20 -s 3000 --json
in_json iterations 20
in_json clock '"card"'
while :; do
    grep vfio-msix /proc/interrupts
    sleep 0.2
done > /tmp/interrupts &
watch=$!
both pingpong -- -c -e -n 20 -s 5000 -m 4096
kill $watch
tail -6 /tmp/interrupts
for card in $A $B; do
    grep "($card)" /tmp/interrupts | awk '$2 > 0 { came = 1 } END { exit !came }' || failed "$card raised no interrupt"
done
