# The other services, other sizes, and a shared receive queue of none.
bind_both
for service in uc ud; do
    both pingpong -- -c -n 20 -s 1000 --transport $service
    both pingpong -- -c -e -n 20 -s 1 --transport $service
done
both pingpong -- -c -n 10 -s 65536 -m 4096
both pingpong -- -c -n 10 -s 65536 -m 256
