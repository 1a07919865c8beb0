# SPDX-License-Identifier: MIT OR Apache-2.0
# Sites for the block RAMs of a design that nextpnr has placed, so that the wires to them are short: a line for each, its name and its site.
#   awk -v seed=1 -f sites.awk placed.json > sites.txt
# nextpnr puts each of them on a free site near where it wants to be, one after the other, and moves none again; where most sites are taken, the last
# ones get what is left. Here they change sites among each other and with free ones (simulated annealing over half the perimeters of the boxes round
# their nets), while everything else stays where it is.

# Numbers below 1, by Lehmer's generator: the same with any awk.
function random() {
    state = state * 16807 % 2147483647
    return state / 2147483647
}

# e to the power of -`value`, some per cent off up to 12; not every awk has exp(), and some err where it is nearly nothing.
function fall(value,    i) {
    value = 1 - value / 1024
    for (i = 0; i < 10; i++) value *= value
    return value
}

# Half the perimeter of the box round a net.
function perimeter(net,    i, site, left, right, low, high) {
    left = least_x[net]; right = most_x[net]; low = least_y[net]; high = most_y[net]
    for (i = memories_of[net]; i > 0; i--) {
        site = on[memory_of[net, i]]
        if (x[site] < left) left = x[site]
        if (x[site] > right) right = x[site]
        if (y[site] < low) low = y[site]
        if (y[site] > high) high = y[site]
    }
    return right - left + high - low
}

# How much longer the nets of a memory are where it stands now than they were. Those of both that change sites stay as they are.
function longer(memory,    i, net, sum) {
    sum = 0
    for (i = nets_of[memory]; i > 0; i--) {
        net = net_of[memory, i]
        changed[++changes] = net
        now[net] = perimeter(net)
        sum += now[net] - long[net]
    }
    return sum
}

function put(memory, site) {
    held[site] = memory
    if (memory) on[memory] = site
}

# The sites that are used: some of each row stay free, evenly along it, while the others are enough. One in sixteen is to spare.
function use(memories,    rows, row, shares, columns, groups, per_row, r, i, most, free, wanted) {
    rows = split("@ROWS@", row, " ")
    split("@FREE@", shares, " ")
    groups = split("@COLUMNS@", columns, " ")
    per_row = groups * @GROUP@
    for (r = 1; r <= rows; r++) most += shares[r]
    free = rows * per_row - memories - int(memories / 16)
    if (free > most) free = most
    if (free < 0) free = 0
    for (r = 1; r <= rows; r++) {
        wanted = per_row - int(shares[r] * free / most)
        for (i = 0; i < per_row; i++) {
            if (int((i + 1) * wanted / per_row) == int(i * wanted / per_row)) continue
            sites++
            x[sites] = columns[int(i / @GROUP@) + 1] + 2 * (i % @GROUP@)
            y[sites] = row[r]
            name_of[sites] = "X" x[sites] "/Y" y[sites] "/EBR" i % @GROUP@
        }
    }
}

/^      "cells": \{/ { cells = 1; next }
/^      \}/ { cells = 0 }
!cells { next }

/^        "/ {
    name = $0
    sub(/^ *"/, "", name)
    sub(/": *\{$/, "", name)
    memory = placed = 0
    next
}
/^          "type": "DP16KD"/ {
    memory = ++memories
    cell[memory] = name
    next
}
/^            "NEXTPNR_BEL": "X/ {
    split($0, part, "\"")
    split(part[4], at, "/")
    at_x = substr(at[1], 2) + 0
    at_y = substr(at[2], 2) + 0
    placed = 1
    if (memory) { from_x[memory] = at_x; from_y[memory] = at_y }
    next
}
# Pins, but for those of clocks.
/^            "[A-Z]+[0-9]*": \[ [0-9]+ \]/ {
    if (!placed || /"(CLK|WCK|CLKA|CLKB)"/) next
    net = $3
    pins[net]++
    if (memory) {
        if (memory_of[net, memories_of[net] + 0] == memory) next
        memory_of[net, ++memories_of[net]] = memory
    } else if (!(net in least_x)) {
        least_x[net] = most_x[net] = at_x
        least_y[net] = most_y[net] = at_y
    } else {
        if (at_x < least_x[net]) least_x[net] = at_x
        if (at_x > most_x[net]) most_x[net] = at_x
        if (at_y < least_y[net]) least_y[net] = at_y
        if (at_y > most_y[net]) most_y[net] = at_y
    }
}

END {
    if (!memories) exit
    for (memory = 1; memory <= memories; memory++)
        if (!(memory in from_x)) {
            print "block RAM " cell[memory] " has no site" > "/dev/stderr"
            exit 1
        }
    use(memories)
    if (memories > sites) {
        print "there are " memories " block RAMs, and " sites + 0 " sites" > "/dev/stderr"
        exit 1
    }
    # A generator whose first numbers are small for small seeds.
    state = (seed * 69621 + 12345) % 2147483646 + 1
    for (i = 0; i < 9; i++) random()

    for (net in memories_of) {
        # Nets with more pins reach everywhere anyhow.
        if (pins[net] < 2 || pins[net] > @MOST_PINS@) continue
        if (!(net in least_x)) {
            least_x[net] = least_y[net] = 1e9
            most_x[net] = most_y[net] = -1e9
        }
        for (i = 1; i <= memories_of[net]; i++) {
            memory = memory_of[net, i]
            net_of[memory, ++nets_of[memory]] = net
        }
        matters[net] = 1
    }
    for (memory = 1; memory <= memories; memory++) {
        best = 0
        for (site = 1; site <= sites; site++) {
            if (held[site]) continue
            far = x[site] - from_x[memory]
            if (far < 0) far = -far
            down = y[site] - from_y[memory]
            far += down < 0 ? -down : down
            if (!best || far < nearest) { best = site; nearest = far }
        }
        put(memory, best)
    }
    for (net in matters) sum += long[net] = perimeter(net)
    before = sum

    tries = @TRIES@ * memories
    warmth = 0.2 * sum / memories
    # To a thousandth in the end.
    cooling = 1 - 6.9078 / tries
    for (; tries > 0; tries--) {
        warmth *= cooling
        memory = 1 + int(random() * memories)
        to = 1 + int(random() * sites)
        from = on[memory]
        if (from == to) continue
        other = held[to]
        put(memory, to)
        put(other, from)
        changes = 0
        more = longer(memory)
        if (other) more += longer(other)
        if (more > 0 && (more > 12 * warmth || random() >= fall(more / warmth))) {
            put(other, to)
            put(memory, from)
            continue
        }
        sum += more
        for (; changes > 0; changes--) long[changed[changes]] = now[changed[changes]]
    }
    for (memory = 1; memory <= memories; memory++) print cell[memory], name_of[on[memory]]
    print "wires of block RAMs: " before " tiles after placing, " sum " on other sites" > "/dev/stderr"
}
