# SPDX-License-Identifier: MIT OR Apache-2.0
# The other services, and a message of many packets.
bind_both
for service in uc ud; do
    both pingpong -- -c -n 20 -s 1000 --transport $service
    both pingpong -- -c -e -n 20 -s 1 --transport $service
done
both pingpong -- -c -n 3 -s 65536 -m 256
