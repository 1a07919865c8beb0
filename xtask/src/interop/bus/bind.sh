# SPDX-License-Identifier: MIT OR Apache-2.0
# A card is given to programs, looked at, held by one program at a time, and taken back.
driver $A none
says 1 "ferrowire bind $A" ferrowire -d $A info
says 0 "let vfio-pci alone have it" ferrowire bind --dry-run $A
driver $A none
bind_both
says 0 "nothing is to be done" ferrowire bind --yes $A
for card in $A $B; do
    says 0 "PORT_ACTIVE" ferrowire -d $card info
    grep -q "^hca_id:.*$card" /tmp/said || failed "info is of another card"
done
# Not even to be looked at while another program has it.
ferrowire -d $A pingpong > /tmp/server 2>&1 &
server=$!
listens $server 18515 || failed "the server ended"
says 1 "in use by" ferrowire -d $A info
kill -TERM $server
wait $server
[ $? = 1 ] || failed "the server that was stopped did not end with 1"
says 0 "" ferrowire -d $A reset
says 0 "is with no driver" ferrowire unbind --yes $A
driver $A none
says 0 "is with vfio-pci" ferrowire bind --yes $A
says 0 "PORT_ACTIVE" ferrowire -d $A info
