# SPDX-License-Identifier: MIT OR Apache-2.0
# What the cases of the suite `bus` have in common: the cards, and steps that must end as they say. One that does not ends the case.
A=0000:00:10.0
B=0000:00:11.0
export HOME=/tmp
# Seconds for a step.
PATIENCE=200

failed() {
    dmesg | tail -20
    echo "guest: FAILED: $*"
    exit 1
}

# says CODE TEXT COMMAND...: it ends with that code, and says that.
says() {
    wanted=$1 text=$2
    shift 2
    echo "guest: $*"
    timeout $PATIENCE "$@" > /tmp/said 2>&1
    ended=$?
    cat /tmp/said
    [ $ended = $wanted ] || failed "$* ended with $ended, not $wanted"
    grep -qF -- "$text" /tmp/said || failed "$* does not say: $text"
}

# driver CARD NAME: the driver that has it, or none.
driver() {
    now=none
    [ -e /sys/bus/pci/devices/$1/driver ] && now=$(basename $(readlink /sys/bus/pci/devices/$1/driver))
    [ $now = $2 ] || failed "$1 is with $now, not $2"
}

# Both cards are for programs.
bind_both() {
    for card in $A $B; do
        says 0 "is with vfio-pci" ferrowire bind --yes $card
        driver $card vfio-pci
    done
}

# group CARD: the number of its IOMMU group.
group() {
    basename $(readlink /sys/bus/pci/devices/$1/iommu_group)
}

# listens PROCESS PORT: waits until that is listened to, as long as the process is there.
listens() {
    until netstat -tln | grep -q ":$2 "; do
        kill -0 $1 2> /dev/null || return 1
        sleep 0.1
    done
}

# both COMMAND -- OPTIONS...: a server with one card, and a client with the other, whose options count. Both must end well.
both() {
    what=
    while [ "$1" != -- ]; do
        what="$what $1"
        shift
    done
    shift
    echo "guest:$what $*"
    ferrowire -d $A $what > /tmp/server 2>&1 &
    server=$!
    listens $server 18515 || { cat /tmp/server; failed "the server of$what ended"; }
    # A guest without a host file knows no names.
    timeout $PATIENCE ferrowire -d $B $what 127.0.0.1 "$@" > /tmp/client 2>&1
    client_ended=$?
    # Its server ends with it, or because it is told to.
    [ $client_ended = 0 ] || kill -TERM $server 2> /dev/null
    wait $server
    server_ended=$?
    echo "-- server"
    cat /tmp/server
    echo "-- client"
    cat /tmp/client
    [ $client_ended = 0 ] || failed "the client of$what ended with $client_ended"
    [ $server_ended = 0 ] || failed "the server of$what ended with $server_ended"
}

# in_json NAME VALUE: the client's JSON has that.
in_json() {
    tr -d ' \n' < /tmp/client | grep -qF "\"$1\":$2" || failed "the client's JSON has no $1 of $2"
}

ip link set lo up
