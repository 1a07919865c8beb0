# SPDX-License-Identifier: MIT OR Apache-2.0
# Memory that is mapped no more: it is refused, and reported, and all goes on.
bind_both
says 0 "afterwards: all as before" iommu $A $B
both pingpong -- -c -n 3
