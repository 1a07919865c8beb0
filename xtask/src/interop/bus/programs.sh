# SPDX-License-Identifier: MIT OR Apache-2.0
# Programs of Debian, unmodified, with libibverbs.so.1 and librdmacm.so.1 of this project. What the clients say is read on the host.
bind_both
says 0 "10.7.0.1" ferrowire -d $A gids add 10.7.0.1
says 0 "10.7.0.2" ferrowire -d $B gids add 10.7.0.2

# waits CONDITION...: until it holds, as long as the server is there.
waits() {
    until "$@"; do
        kill -0 $server 2> /dev/null || { cat /tmp/server; failed "the server ended"; }
        sleep 0.1
    done
}

# served PROGRAM...: the client, on the other card. Both must end well.
served() {
    echo "guest: $*"
    timeout $PATIENCE ferrowire run -v -d $B -- "$@" > /tmp/client 2>&1
    client_ended=$?
    [ $client_ended = 0 ] || kill -TERM $server 2> /dev/null
    wait $server
    server_ended=$?
    cat /tmp/client
    [ $client_ended = 0 ] && [ $server_ended = 0 ] && return
    cat /tmp/server
    failed "$* ended with $client_ended, and its server with $server_ended"
}

ferrowire run -v -d $A -- ib_write_bw $PERFTEST > /tmp/server 2>&1 &
server=$!
waits listens $server 18515
served ib_write_bw $PERFTEST 127.0.0.1

ferrowire run -v -d $A -- rping -s -a 10.7.0.1 $RPING > /tmp/server 2>&1 &
server=$!
waits grep -q rdma_listen /tmp/server
served rping -c -a 10.7.0.1 $RPING
