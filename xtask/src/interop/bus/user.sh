# SPDX-License-Identifier: MIT OR Apache-2.0
# Another user than root, with the groups' files and no other right; and the limit of what may be locked in memory, which root does not have.
bind_both
mkdir -p /etc
echo "root:x:0:0::/:/bin/sh" > /etc/passwd
echo "user:x:1000:1000::/tmp:/bin/sh" >> /etc/passwd
chmod 1777 /tmp
says 1 "permission denied" su user -c "ferrowire -d $A info"
for card in $A $B; do
    chown user /dev/vfio/$(group $card)
done
says 0 "PORT_ACTIVE" su user -c "ferrowire -d $A info"
says 1 "ulimit -l" su user -c "ulimit -l 0; ferrowire -d $A reset"
rm -f /tmp/server /tmp/client /tmp/said
su user -c ". /common.sh; both pingpong -- -c -e -n 20 -s 3000" || failed "as a user"
