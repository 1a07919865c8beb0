# SPDX-License-Identifier: MIT OR Apache-2.0
# Programs that are killed at any moment; a new one has the card at once. ROUNDS is how often, SEED which ones.
bind_both
RANDOM=$SEED

# A server and a client that go on for longer than they live.
work() {
    case $(($1 % 6)) in
        0) kind=pingpong options="-n 1000000 -c -s 2000" ;;
        1) kind=pingpong options="-n 1000000 -e --transport UD" ;;
        2) kind="bw write" options="-n 1000000 -s 8192 -q 4" ;;
        3) kind="bw send" options="-n 1000000 -s 1024 -b" ;;
        4) kind="bw read" options="-n 1000000 -s 4096" ;;
        5) kind="lat write" options="-n 1000000" ;;
    esac
}

# ends PROCESS WHAT: whose other side is dead. A server that never heard of its client is told to stop.
ends() {
    (sleep 20; kill -TERM $1) 2> /dev/null &
    patience=$!
    wait $1
    ended=$?
    kill $patience 2> /dev/null
    [ $ended = 1 ] || failed "$2 ended with $ended, when the other side was killed"
}

# dead PROCESS CARD: killed, and its card is another's at once.
dead() {
    kill -9 $1 2> /dev/null || { cat /tmp/server /tmp/client; failed "it had ended already"; }
    wait $1 2> /dev/null
    [ $? = 137 ] || failed "it was not killed"
    ferrowire -d $2 info > /tmp/info 2>&1 || { cat /tmp/info; failed "$2 is not free"; }
    grep -q PORT_ACTIVE /tmp/info || failed "$2 is not as it was"
}

round=0
while [ $round -lt $ROUNDS ]; do
    work $((RANDOM + round))
    ferrowire -d $A $kind > /tmp/server 2>&1 &
    server=$!
    listens $server 18515 || { cat /tmp/server; failed "the server of $kind"; }
    ferrowire -d $B $kind 127.0.0.1 $options > /tmp/client 2>&1 &
    client=$!
    moment=$((RANDOM % 3)).$((RANDOM % 10))
    victim=$((RANDOM % 3))
    echo "guest: round $round: $kind, killed after $moment s: victim $victim"
    sleep $moment
    case $victim in
        0) dead $server $A; ends $client "the client of $kind" ;;
        1) dead $client $B; ends $server "the server of $kind" ;;
        2) dead $server $A; kill -9 $client; wait $client 2> /dev/null ;;
    esac
    both pingpong -- -c -n 3
    round=$((round + 1))
done
