# SPDX-License-Identifier: MIT OR Apache-2.0
# The key-value store of the driver's examples.
bind_both
place=127.0.0.1:7471
kv_store $A listen $place > /tmp/server 2>&1 &
server=$!
says 0 "colour: green" kv_store $B connect $place put colour green get colour race counter 20
grep -qx "counter: 0*20" /tmp/said || failed "the last of 20 PUTs is not there"
wait $server
[ $? = 0 ] || failed "the store failed"
cat /tmp/server
grep -qx "21 PUTs" /tmp/server || failed "the store did not see 21 PUTs"
